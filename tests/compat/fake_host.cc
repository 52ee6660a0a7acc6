#include "tests/compat/fake_host.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace twinpath::compat {
namespace {

[[noreturn]] void Die(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::abort();
}

void SetVersion(v1::Version& version, const TwoPart& value) {
  version.set_major(value.major);
  version.set_minor(value.minor);
}

}  // namespace

const Tables& TestTables() {
  static const Tables& tables = *[] {
    const char* source = std::getenv("TWINPATH_SOURCE_DIR");
    if (source == nullptr) Die("TWINPATH_SOURCE_DIR is not set");
    auto loaded = Tables::Load(absl::StrCat(source, "/compat/tables"));
    if (!loaded.ok()) Die(std::string(loaded.status().message()));
    return new Tables(*std::move(loaded));
  }();
  return tables;
}

v1::HostFacts FakeHost(const std::string& words) {
  v1::HostFacts facts;
  facts.set_cpu_architecture(v1::CPU_ARCHITECTURE_X86_64);
  facts.set_platform(v1::PLATFORM_STANDARD);
  v1::Driver& driver = *facts.mutable_driver();
  driver.mutable_probe()->set_state(v1::PROBE_STATE_OK);
  driver.mutable_jit_library()->set_state(v1::PROBE_STATE_OK);
  facts.mutable_gpu_probe()->set_state(v1::PROBE_STATE_OK);
  v1::Gpu& gpu = *facts.add_gpus();
  gpu.set_uuid("GPU-00000000-0000-0000-0000-000000000001");
  gpu.set_name("GPU");
  gpu.mutable_capability_probe()->set_state(v1::PROBE_STATE_OK);
  for (absl::string_view word : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
    if (word == "aarch64") {
      facts.set_cpu_architecture(v1::CPU_ARCHITECTURE_AARCH64);
    } else if (word == "x86-64") {
      facts.set_cpu_architecture(v1::CPU_ARCHITECTURE_X86_64);
    } else if (word == "tegra") {
      facts.set_platform(v1::PLATFORM_TEGRA);
    } else if (word == "no-jit-library") {
      driver.mutable_jit_library()->set_state(v1::PROBE_STATE_ABSENT);
    } else if (absl::ConsumePrefix(&word, "CUDA")) {
      SetVersion(*driver.mutable_cuda_version(), TwoPart::Parse(word).value());
    } else if (absl::ConsumePrefix(&word, "R")) {
      uint32_t branch = 0;
      const DriverRow* row = absl::SimpleAtoi(word, &branch)
                                 ? TestTables().FindDriver(branch)
                                 : nullptr;
      if (row == nullptr) Die(absl::StrCat("no such driver: R", word));
      // A late version of the branch, so that floors inside it are met.
      driver.set_kernel_module_version(absl::StrCat(branch, ".200.01"));
      driver.set_branch(absl::StrCat("R", branch));
      SetVersion(*driver.mutable_cuda_version(), row->cuda);
    } else if (const auto capability = TwoPart::Parse(word)) {
      SetVersion(*gpu.mutable_compute_capability(), *capability);
      gpu.set_name(absl::StrCat("GPU ", word));
    } else {
      Die(absl::StrCat("a host word that is not known: ", word));
    }
  }
  return facts;
}

v1::EnvironmentLeak& Leak(v1::HostFacts& facts, const std::string& name,
                          const std::string& value, const std::string& origin) {
  v1::EnvironmentLeak& leak = *facts.add_leaks();
  leak.set_variable(name);
  leak.set_value(value);
  leak.set_origin(origin);
  leak.set_line(3);
  return leak;
}

}  // namespace twinpath::compat
