// NVIDIA's cuobjdump as a second witness of what a file holds: run confined,
// its listing counted and compared with our report through named rules
// (witness_rules.h). A witness decides nothing by itself; a difference that no
// rule explains is TP431.

#ifndef TWINPATH_RUNNER_WITNESS_H_
#define TWINPATH_RUNNER_WITNESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runner/program_runner.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::runner {

struct WitnessOptions {
  ProgramRunner run;
  // cuobjdump, an absolute path.
  std::string program;
  // For each of its runs.
  absl::Duration timeout = absl::Minutes(4);
  // Folder in which work folders are made. Empty: $TMPDIR or /tmp.
  std::string work_parent;
  // Also gets each run as it was, in order: --version, -lelf, -lptx. May be
  // empty.
  std::function<void(const std::vector<std::string>& argv,
                     const v1::Observation&)>
      after;
};

// cuobjdump of this host: TWINPATH_CUOBJDUMP if set, then bin/cuobjdump of each
// of `toolkits`, then PATH of `environment` ("NAME=value"). NOT_FOUND saying
// where it comes from.
absl::StatusOr<std::string> FindCuobjdump(
    const std::vector<std::string>& toolkits,
    const std::vector<std::string>& environment);

// Asks cuobjdump about the file at `path` and compares with `report` and the
// reports of its members. Whatever keeps it from answering is
// Witness.problem. Files cuobjdump does not read as they are (packages, PTX
// text) are not shown to it, and the problem says so.
v1::Witness AskWitness(const std::string& path, const v1::FileReport& report,
                       const std::vector<const v1::FileReport*>& members,
                       const WitnessOptions& options);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_WITNESS_H_
