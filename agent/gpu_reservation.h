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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
  // Releases that are owed for one of the GPUs come first; busy where one
  // cannot be made up for now, since it would end what is granted here.
  Outcome Reserve(const std::string& cell_id,
                  const std::vector<std::string>& gpu_uuids,
                  std::function<bool()> cancelled);

  // Makes up for releases that an earlier agent owed, or that failed, but for
  // GPUs that are held now: those wait. Returns how many are still owed, files
  // that cannot be read among them.
  size_t ReleaseOwed();

 private:
  struct Owed {
    std::string path;
    std::string cell_id;
    std::vector<std::string> gpu_uuids;
  };

  // Runs the release and forgets it where it went well.
  bool Release(const Owed& owed);
  // Takes the file and its GPUs, so that no other command runs for them.
  // False: one does, or they are held. `own`: a file whose GPUs may be shared.
  bool Take(const Owed& owed, const std::string& own = "");
  void Drop(const std::string& path);
  // Runs an old release that was taken, and drops it. False: still owed.
  bool MakeUpFor(const Owed& owed);
  // Reads what the file at `path` owes.
  static absl::StatusOr<Owed> Read(const std::string& path);
  // Makes up for what is owed for GPUs of `wanted`, which is taken.
  absl::Status Settle(const Owed& wanted);

  const ReservationCommands commands_;
  const std::string directory_;
  // Not held while a command runs.
  Mutex mutex_;
  // Holds that live, and releases that run.
  std::vector<Owed> live_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_GPU_RESERVATION_H_
