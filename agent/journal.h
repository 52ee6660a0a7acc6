// Journal: what this agent was about to start, synced to disk before it starts.
// After a crash every attempt that was begun and not accounted for becomes an
// observation `interrupted` in an incomplete result, a host fault (TP307).
//
// One file a cell, named by the result's id, which is chosen before anything
// starts: however often recovery itself is interrupted, it makes the same
// result again and delivery stays idempotent. The file goes once the result is
// in the spool. Layout: records (record.h), each one letter and a message:
//   C CellResult   the head: result, cell, lease, staged files, conditions
//   A Observation  an attempt about to start, ending INTERRUPTED
//   O Observation  what it did
//
// Journal is thread-safe; a CellJournal belongs to one thread.

#ifndef TWINPATH_AGENT_JOURNAL_H_
#define TWINPATH_AGENT_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "twinpath/v1/observation.pb.h"

namespace twinpath::agent {

// The journal of one running cell.
class CellJournal {
 public:
  // `length` is that of the file, which ends with a whole record.
  CellJournal(std::string path, UniqueFd fd, uint64_t length)
      : path_(std::move(path)), fd_(std::move(fd)), length_(length) {}

  // Syncs that `attempt` is about to start. Nothing may start unless this
  // returned OK. `attempt` needs attempt_id, path, gpu_uuid and start_time.
  // A record that cannot be written whole is taken back; where even that fails
  // every further call fails, since nothing behind it would be found again.
  absl::Status BeforeAttempt(const v1::Observation& attempt);
  // Records what an attempt did, so that a later crash does not lose it.
  absl::Status AfterAttempt(const v1::Observation& observation);
  // Removes the journal; the result is in the spool.
  absl::Status Close();

 private:
  absl::Status Append(char letter, absl::string_view message);

  std::string path_;
  UniqueFd fd_;
  uint64_t length_;
  bool broken_ = false;
};

class Journal {
 public:
  // Uses an existing folder.
  explicit Journal(std::string directory) : directory_(std::move(directory)) {}

  // Starts a cell's journal with its head, synced. `head` needs result_id,
  // which must be hexadecimal, cell_id and lease_id.
  absl::StatusOr<std::unique_ptr<CellJournal>> Begin(
      const v1::CellResult& head);

  // Returns an incomplete result for each cell that was begun and whose result
  // did not reach the spool. Journals in which no attempt was begun are removed
  // at once: nothing was started. Damaged ones are moved to "damaged/" and
  // logged; what could be read of them is returned all the same. `now` becomes
  // the finish time. Call before the first Begin.
  absl::StatusOr<std::vector<v1::CellResult>> Recover(absl::Time now);

  // Removes the journal of a recovered result, once that is in the spool.
  absl::Status Remove(absl::string_view result_id);

 private:
  std::string PathOf(absl::string_view result_id) const;

  const std::string directory_;
};

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_JOURNAL_H_
