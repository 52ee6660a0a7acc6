// The host's own word on who uses a GPU: two commands of its configuration, for
// Slurm and others. One is asked before a cell, the other ends what the first
// granted. That a release is owed is on disk before the first command starts,
// so that it is made up for after a crash. Thread-safe.

#ifndef TWINPATH_AGENT_GPU_RESERVATION_H_
#define TWINPATH_AGENT_GPU_RESERVATION_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace twinpath::agent {

struct ReservationCommands {
  // Arguments as they are, no shell. Exit code 0: the GPUs are granted; 75
  // (EX_TEMPFAIL): not now.
  std::vector<std::string> reserve;
  // Runs after each cell that was granted, and where it is not known whether it
  // was. It may be called for GPUs that are not reserved.
  std::vector<std::string> release;
  // Limit of each.
  absl::Duration timeout = absl::Minutes(1);
};

class GpuReservations {
 public:
  enum class Answer { kGranted, kBusy, kFailed };
  // Releases when the last copy dies.
  using Hold = std::shared_ptr<void>;
  struct Outcome {
    Answer answer = Answer::kFailed;
    // Why it was not granted.
    std::string detail;
    // Set where it was.
    Hold hold;
  };

  // `directory` exists and keeps one file for each release that is owed.
  GpuReservations(ReservationCommands commands, std::string directory)
      : commands_(std::move(commands)), directory_(std::move(directory)) {}

  // Asks for the GPUs. Both commands see TWINPATH_GPU_UUIDS (separated by
  // commas) and TWINPATH_CELL. `cancelled` is polled; true ends the command.
  Outcome Reserve(const std::string& cell_id,
                  const std::vector<std::string>& gpu_uuids,
                  std::function<bool()> cancelled);

  // Makes up for releases that an earlier agent owed, or that failed. Returns
  // how many are still owed.
  size_t ReleaseOwed();

 private:
  struct Owed {
    std::string path;
    std::string cell_id;
    std::vector<std::string> gpu_uuids;
  };

  // Runs the release and forgets it where it went well.
  bool Release(const Owed& owed);

  const ReservationCommands commands_;
  const std::string directory_;
  // Held while ReleaseOwed works; not while a command of a cell runs.
  Mutex mutex_;
  // Files of holds that live.
  std::vector<std::string> live_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_GPU_RESERVATION_H_
