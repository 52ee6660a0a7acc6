// This host as if it had GPUs: the programs of the build tree run where a CUDA
// driver and an NVML that are none (tests/runner/fake_cuda/settings.h) lie at a
// place where drivers are looked for, and only there: bubblewrap puts a /run of
// its own around them. Everything else is real: probe, sandbox, inspector,
// loader, daemons. What such a driver compiles or loads runs nowhere, so this
// is for what comes before a kernel.

#ifndef TWINPATH_TESTS_E2E_FAKE_GPU_HOST_H_
#define TWINPATH_TESTS_E2E_FAKE_GPU_HOST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file.h"
#include "tests/e2e/fleet.h"

namespace twinpath::e2e {

class FakeGpuHost {
 public:
  // `words` as fake.conf. FAILED_PRECONDITION where this machine cannot do it
  // (no bubblewrap, no user namespaces), saying why.
  static absl::StatusOr<FakeGpuHost> Make(const std::string& words);

  // Runs a program of the build tree there, in folder().
  CliResult Run(const std::string& program,
                const std::vector<std::string>& args) const;
  // Runs a shell script there; the build's programs are in its PATH.
  CliResult Script(const std::string& script) const;

  const std::string& folder() const { return folder_.path(); }

 private:
  explicit FakeGpuHost(TempDirectory folder) : folder_(std::move(folder)) {}
  CliResult Start(std::vector<std::string> argv) const;

  TempDirectory folder_;
  std::string bwrap_;
};

}  // namespace twinpath::e2e

#endif  // TWINPATH_TESTS_E2E_FAKE_GPU_HOST_H_
