// Builds clang's offload bundles in memory, for tests.

#ifndef TWINPATH_TESTS_INSPECT_OFFLOAD_BUILDER_H_
#define TWINPATH_TESTS_INSPECT_OFFLOAD_BUILDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "inspect/offload.h"
#include "tests/inspect/fatbin_builder.h"

namespace twinpath::inspect {

struct OffloadMember {
  uint16_t image;
  uint16_t user;
  std::string triple;
  std::string arch;
  std::string bytes;
};

// As llvm/lib/Object/OffloadBinary.cpp writes version 2 with all entries in one
// table, or version 1 with a single one.
inline std::string BuildOffloadBundle(const std::vector<OffloadMember>& members,
                                      uint32_t version = 2) {
  std::string out;
  out.append(kOffloadMagic, 4);
  Append<uint32_t>(out, version);
  Append<uint64_t>(out, 0);
  Append<uint64_t>(out, 32);
  Append<uint64_t>(out, version == 1 ? 40 : members.size());
  const size_t table = out.size();
  out.append(40 * members.size(), '\0');
  for (size_t i = 0; i < members.size(); ++i) {
    const OffloadMember& member = members[i];
    std::string pairs;
    std::string text;
    const uint64_t strings_at = out.size();
    const uint64_t text_at = strings_at + 32;
    for (const auto& [key, value] :
         {std::pair("triple", member.triple), std::pair("arch", member.arch)}) {
      Append<uint64_t>(pairs, text_at + AppendName(text, key));
      Append<uint64_t>(pairs, text_at + AppendName(text, value));
    }
    out += pairs + text;
    Align(out, 8);
    const size_t at = table + 40 * i;
    Patch<uint16_t>(out, at, member.image);
    Patch<uint16_t>(out, at + 2, member.user);
    Patch<uint64_t>(out, at + 8, strings_at);
    Patch<uint64_t>(out, at + 16, 2);
    Patch<uint64_t>(out, at + 24, out.size());
    Patch<uint64_t>(out, at + 32, member.bytes.size());
    out += member.bytes;
    Align(out, 8);
  }
  Patch<uint64_t>(out, 8, out.size());
  return out;
}

}  // namespace twinpath::inspect

#endif  // TWINPATH_TESTS_INSPECT_OFFLOAD_BUILDER_H_
