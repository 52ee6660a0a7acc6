// What makes a run a traced one: a folder for the records, the two libraries
// (trace/) and the variables that put them into the run's processes:
//
//   LD_AUDIT               twinpath-audit.so: every shared object opened
//   CUDA_INJECTION64_PATH  twinpath-trace.so: modules and launches, by CUPTI
//   TWINPATH_TRACE_FOLDER  the folder
//   TWINPATH_TRACE_CUPTI   libcupti of this host, the newest first
//
// What is missing is no error: the trace then says so.

#ifndef TWINPATH_RUNNER_TRACE_SETUP_H_
#define TWINPATH_RUNNER_TRACE_SETUP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "twinpath/v1/release.pb.h"

namespace twinpath::runner {

// libcupti files of the host: the one TWINPATH_CUPTI names, alone; else those
// of the toolkits, the loader's cache and Python's packages, the newest major
// version first. `root` is put before every path; `environment` is as
// FindToolkits takes it.
std::vector<std::string> FindCupti(const std::string& root,
                                   const std::vector<std::string>& environment);
// On this host, with this process's environment.
std::vector<std::string> FindCupti();

// Whether the two trace libraries are installed with this program; else why
// not.
absl::Status CheckTraceLibraries();

class TraceSetup {
 public:
  // Makes the folder "trace" in the run's work folder. Errors are those of
  // making it, or FAILED_PRECONDITION where it exists.
  static absl::StatusOr<TraceSetup> Make(const std::string& work_directory);

  // Adds the variables; the list stays sorted by name.
  void AddVariables(std::vector<v1::EnvironmentVariable>& environment) const;

  // Files the process must see and that lie in folders the sandbox hides.
  std::vector<std::string> Shown() const;

  // The folder, opened before the program started, so that it cannot put
  // another one there.
  int folder() const { return folder_fd_.get(); }
  const std::string& folder_path() const { return folder_; }

 private:
  std::string folder_;
  UniqueFd folder_fd_;
  // Empty: not installed.
  std::string audit_;
  std::string trace_;
  std::vector<std::string> cupti_;
};

// Whether `name` is one of the variables that only tracing sets.
bool IsTraceVariable(absl::string_view name);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_TRACE_SETUP_H_
