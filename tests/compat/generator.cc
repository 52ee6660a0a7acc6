#include "tests/compat/generator.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/compat/fake_host.h"

namespace twinpath::compat {

uint32_t Generator::Below(uint32_t below) {
  // SplitMix64.
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t value = state_;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return static_cast<uint32_t>((value ^ (value >> 31)) % below);
}

std::string Generator::Target(bool machine_code) {
  const GpuRow& row = Of(TestTables().gpus());
  // A number that nobody knows, now and then.
  if (Once(40)) return absl::StrCat(Of(std::vector<int>{82, 95, 104, 130}));
  std::string name = absl::StrCat(row.number);
  const uint32_t suffix = Below(4);
  if (suffix == 0 && row.has_arch_suffix) name += "a";
  if (suffix == 1 && row.has_family_suffix) name += "f";
  // Suffixes that do not exist, now and then.
  if (machine_code && !row.has_arch_suffix && Once(20)) name += "a";
  return name;
}

std::string Generator::MachineCode() {
  return absl::StrCat(Once(10) ? "rel:" : "", "sm_", Target(true),
                      Once(5) ? "/zstd" : "");
}

std::string Generator::Ptx() {
  const std::vector<DriverRow>& drivers = TestTables().drivers();
  // Mostly ISAs of the last drivers.
  const TwoPart isa = Once(4) ? Of(drivers).ptx_isa
                              : drivers[drivers.size() - 1 - Below(12)].ptx_isa;
  return absl::StrCat(Once(10) ? "rel:" : "", "compute_", Target(false), "@",
                      isa.ToString(), Once(5) ? "/zstd" : "");
}

std::string Generator::Image() {
  const uint32_t kind = Below(24);
  if (kind == 0) return absl::StrCat("lto_", Of(TestTables().gpus()).number);
  if (kind == 1) {
    return absl::StrCat("other", Of(std::vector<int>{16, 32, 128, 256, 512}));
  }
  return kind < 9 ? Ptx() : MachineCode();
}

std::string Generator::Fatbin() {
  std::vector<std::string> kernels;
  for (uint32_t i = 0, count = 1 + Below(3); i < count; ++i) {
    kernels.push_back(absl::StrCat("k", Below(6)));
  }
  std::vector<std::string> images;
  for (uint32_t i = 0, count = 1 + Below(4); i < count; ++i) {
    images.push_back(Image());
  }
  return absl::StrCat(absl::StrJoin(kernels, ","), ": ",
                      absl::StrJoin(images, " "));
}

std::vector<std::string> Generator::Fatbins(uint32_t most) {
  std::vector<std::string> fatbins;
  for (uint32_t i = 0, count = 1 + Below(most); i < count; ++i) {
    fatbins.push_back(Fatbin());
  }
  return fatbins;
}

std::string HostWords::Text() const {
  return absl::StrCat(gpu / 10, ".", gpu % 10, " R", branch);
}

std::vector<HostWords> AllHosts() {
  std::vector<HostWords> hosts;
  for (const GpuRow& gpu : TestTables().gpus()) {
    // A number that is only an old name of another GPU is no device.
    if (gpu.renamed_to != 0) continue;
    for (const DriverRow& driver : TestTables().drivers()) {
      hosts.push_back({gpu.number, driver.branch});
    }
  }
  return hosts;
}

}  // namespace twinpath::compat
