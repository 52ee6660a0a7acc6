// Spool: results that wait for the coordinator's acknowledgement. A result is
// on disk, synced, before it is sent, and leaves only when it is acknowledged.
// The spool is bounded: when it is full the agent takes no more leases, and
// drops nothing. What was started before is always written, so the bound can be
// exceeded by as many results as cells run at once.
//
// One file a result: "<sequence>-<result id>.result" with one record
// (record.h). A file that cannot be read as that is moved to "damaged/" and
// logged, never removed. Thread-safe.

#ifndef TWINPATH_AGENT_SPOOL_H_
#define TWINPATH_AGENT_SPOOL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "twinpath/v1/observation.pb.h"

namespace twinpath::agent {

// Hello and heartbeats list the cells of all results that wait, and the
// coordinator takes lists of at most 10,000: a spool that is allowed to grow
// beyond would shut its own agent out.
inline constexpr uint32_t kMostSpoolResults = 9000;

struct SpoolLimits {
  uint32_t max_results = 1000;
  uint64_t max_bytes = 256 << 20;
};

// A result is never larger on the wire: control messages are capped at 4 MiB.
inline constexpr uint64_t kMaxResultBytes = (4 << 20) - (64 << 10);

// Shortens kept output (not its counts and digests) until `result` fits into
// kMaxResultBytes. A result that does not fit even then loses its list of
// staged files and becomes incomplete, since that list is evidence.
void FitResult(v1::CellResult* result);

class Spool {
 public:
  struct Entry {
    std::string result_id;
    std::string cell_id;
  };

  // Opens an existing folder: reads every result once, sets damaged files
  // aside, removes remains of writes that were cut off.
  static absl::StatusOr<std::unique_ptr<Spool>> Open(
      const std::string& directory, const SpoolLimits& limits);

  // Whether the results of `running` more cells fit into the bounds.
  bool HasRoomFor(uint32_t running) const;

  // Writes `result` and syncs it. OK without doing anything if a result of that
  // id is there already. Bounds are not looked at: see HasRoomFor.
  // RESOURCE_EXHAUSTED: the disk is full; nothing half-written stays.
  absl::Status Add(v1::CellResult result);

  // Reads one result. NOT_FOUND: not there (acknowledged). DATA_LOSS: the file
  // is damaged; it has been set aside and is pending no more.
  absl::StatusOr<v1::CellResult> Read(absl::string_view result_id);

  // Removes an acknowledged result. OK if it is not there: acknowledgements may
  // repeat.
  absl::Status Acknowledge(absl::string_view result_id);

  // What waits, oldest first.
  std::vector<Entry> Pending() const;
  uint32_t size() const;
  // Files set aside since the spool was opened.
  uint32_t set_aside() const;

 private:
  struct Stored {
    std::string result_id;
    std::string cell_id;
    std::string name;
    uint64_t bytes = 0;
  };

  Spool(std::string directory, const SpoolLimits& limits)
      : directory_(std::move(directory)), limits_(limits) {}
  absl::Status Load();
  absl::StatusOr<v1::CellResult> ReadFileOf(const std::string& name) const;
  absl::Status SetAside(const std::string& name, absl::string_view why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string directory_;
  const SpoolLimits limits_;
  mutable Mutex mutex_;
  // By sequence number.
  std::map<uint64_t, Stored> stored_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t set_aside_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_SPOOL_H_
