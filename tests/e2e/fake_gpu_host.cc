#include "tests/e2e/fake_gpu_host.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "runner/sandbox.h"

namespace twinpath::e2e {
namespace {

constexpr char kDriverFolder[] = "/run/opengl-driver/lib";

}  // namespace

absl::StatusOr<FakeGpuHost> FakeGpuHost::Make(const std::string& words) {
  // Its own sandbox has to work inside of it.
  TWINPATH_RETURN_IF_ERROR(runner::CheckSandbox());
  TWINPATH_ASSIGN_OR_RETURN(TempDirectory folder, TempDirectory::Make());
  FakeGpuHost host(std::move(folder));
  TWINPATH_ASSIGN_OR_RETURN(host.bwrap_, runner::FindBubblewrap());
  const std::string driver = JoinPath(host.folder(), "driver");
  TWINPATH_RETURN_IF_ERROR(MakeDirectories(driver, 0755));
  TWINPATH_RETURN_IF_ERROR(
      WriteFileAtomic(JoinPath(driver, "fake.conf"), words, 0644));
  for (const char* library :
       {"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"}) {
    std::error_code error;
    std::filesystem::copy_file(JoinPath(Program("fake_drivers/full"), library),
                               JoinPath(driver, library), error);
    if (error) return ErrnoStatus(error.value(), library);
  }
  const CliResult tried = host.Start({"/bin/true"});
  if (tried.exit_code != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("bubblewrap in which bubblewrap works: ", tried.err));
  }
  return host;
}

CliResult FakeGpuHost::Start(std::vector<std::string> argv) const {
  ProcessOptions options;
  options.argv = {bwrap_,        "--dev-bind",
                  "/",           "/",
                  "--tmpfs",     "/run",
                  "--ro-bind",   JoinPath(folder(), "driver"),
                  kDriverFolder, "--die-with-parent",
                  "--"};
  for (std::string& word : argv) options.argv.push_back(std::move(word));
  options.environment = MinimalEnvironment();
  options.environment.push_back(absl::StrCat("TMPDIR=", folder()));
  options.environment.push_back("COLUMNS=160");
  options.directory = folder();
  options.head_bytes = 64 << 20;
  options.timeout = absl::Minutes(4);
  CliResult result;
  const absl::StatusOr<ProcessResult> ran = RunProcess(options);
  if (!ran.ok()) {
    result.err = std::string(MessageOf(ran.status()));
    return result;
  }
  result.exit_code =
      ran->ending == ProcessResult::Ending::kExited ? ran->exit_code : -1;
  result.out = ran->out.head;
  result.err = ran->err.head;
  return result;
}

CliResult FakeGpuHost::Run(const std::string& program,
                           const std::vector<std::string>& args) const {
  std::vector<std::string> argv = {Program(program)};
  argv.insert(argv.end(), args.begin(), args.end());
  return Start(std::move(argv));
}

CliResult FakeGpuHost::Script(const std::string& script) const {
  return Start({"/bin/sh", "-c",
                absl::StrCat("PATH=", Program(""), ":$PATH\n", script)});
}

}  // namespace twinpath::e2e
