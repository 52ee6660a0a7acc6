// What every kind of run does alike, whatever confines it: the head of an
// observation, what process 1 of the sandbox reported, and how the two become
// an ending. For run.cc and oci_run.cc. No state; thread-safe.

#ifndef TWINPATH_RUNNER_RUN_PARTS_H_
#define TWINPATH_RUNNER_RUN_PARTS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "runner/run_watch.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

// Observation.sandbox.
inline constexpr char kUnitSandbox[] = "systemd";
inline constexpr char kBubblewrapSandbox[] = "bubblewrap";
inline constexpr char kPodmanSandbox[] = "podman";

// Observation.problem where the kernel ended a run in the unit for memory.
inline constexpr absl::string_view kTakenForMemory =
    "memory limit: the kernel ended it, since the unit held more than its "
    "MemoryMax or the host had no memory left";

// Where process 1 of the sandbox reports, and finds its variables
// (inside_main.cc).
inline constexpr int kReportFd = 3;
inline constexpr int kEnvironmentFd = 4;
// Of a container: ends with who holds the other end of this pipe.
inline constexpr int kLifelineFd = 5;

void SetTime(absl::Time time, google::protobuf::Timestamp* out);
void SetDuration(absl::Duration duration, google::protobuf::Duration* out);
void SetCapture(const StreamCapture& stream, v1::CapturedOutput* out);

// What every observation of this request holds, however it ends.
v1::Observation BeginObservation(const v1::RunRequest& request);

// The observation of a run that was not started, and why.
v1::Observation NotStarted(v1::Observation observation,
                           absl::string_view problem);
// The same with TP114 before the reason.
v1::Observation NoSandbox(v1::Observation observation,
                          absl::string_view reason);

// Bytes of each stream's head, and of its tail, that a request keeps.
uint64_t OutputLimit(const v1::RunRequest& request);

// A file in memory that holds `data`.
absl::StatusOr<UniqueFd> MemoryFile(const char* name, absl::string_view data);

// Adds the variables to the observation; returns them as process 1 of the
// sandbox reads them.
std::string EnvironmentBlock(
    const std::vector<v1::EnvironmentVariable>& variables,
    v1::Observation& observation);

// How process 1 of the sandbox said the program ended.
struct InsideReport {
  bool up = false;
  // "exit", "signal", "start", "confine" or "".
  std::string word;
  int number = 0;
  int landlock_abi = 0;
};
InsideReport ReadInsideReport(int fd);

// Fills in how it ended. `program` is for messages.
void SetEnding(const ProcessResult& result, const InsideReport& report,
               const RunWatch& watch, const std::string& program,
               v1::Observation& observation);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_RUN_PARTS_H_
