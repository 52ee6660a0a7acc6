// Prints the listing of the contract as it stands, for proto/released/:
//   proto-listing BUILD/tests/proto/contract.binpb > proto/released/v1.txt

#include <cstdio>
#include <string>

#include "base/exit_code.h"
#include "base/status.h"
#include "tests/proto/contract.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DESCRIPTOR-SET\n", argv[0]);
    return twinpath::kExitUsage;
  }
  const auto contract = twinpath::Contract::Load(argv[1]);
  if (!contract.ok()) {
    const std::string message(twinpath::MessageOf(contract.status()));
    std::fprintf(stderr, "error: %s\n", message.c_str());
    return twinpath::kExitUsage;
  }
  std::puts(
      "# Released fields, enum values and methods of twinpath.v1. A line here\n"
      "# never changes and never goes; tests/proto compares. Written by\n"
      "# proto-listing (tests/proto/helpers).");
  for (const std::string& line : twinpath::ListContract(**contract)) {
    std::puts(line.c_str());
  }
  return twinpath::kExitPass;
}
