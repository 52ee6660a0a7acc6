// Reports and hosts by seed, for tests of properties. The same seed gives the
// same on every machine: nothing here uses the standard library's
// distributions.

#ifndef TWINPATH_TESTS_COMPAT_GENERATOR_H_
#define TWINPATH_TESTS_COMPAT_GENERATOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compat/tables.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed) {}

  // 0 .. below - 1.
  uint32_t Below(uint32_t below);
  bool Once(uint32_t in) { return Below(in) == 0; }
  template <typename T>
  const T& Of(const std::vector<T>& values) {
    return values[Below(static_cast<uint32_t>(values.size()))];
  }

  // Words of report_builder.h. Mostly final machine code and PTX of the targets
  // of the tables with suffixes that exist, some relocatable, LTO-IR, Tile IR
  // and kinds nobody knows.
  std::string Image();
  std::string Ptx();
  std::string MachineCode();
  // One to four images with one to three kernels of a small pool.
  std::string Fatbin();
  std::vector<std::string> Fatbins(uint32_t most);

 private:
  std::string Target(bool machine_code);
  uint64_t state_;
};

// A GPU of the tables with a driver branch of the tables, by the words of
// fake_host.h. Also GPUs that a branch dropped or came before.
struct HostWords {
  uint32_t gpu = 0;
  uint32_t branch = 0;
  std::string Text() const;
};

// All of them: every GPU of the tables with every branch.
std::vector<HostWords> AllHosts();

}  // namespace twinpath::compat

#endif  // TWINPATH_TESTS_COMPAT_GENERATOR_H_
