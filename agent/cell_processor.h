// CellProcessor: what an agent does with one claimed lease. Two exist: the host
// (fetch, stage, run along the paths) and the simulation (answer from the
// model). Processors are called from several threads at once, for different
// cells.

#ifndef TWINPATH_AGENT_CELL_PROCESSOR_H_
#define TWINPATH_AGENT_CELL_PROCESSOR_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "agent/journal.h"
#include "agent/lease_book.h"
#include "base/clock.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/release.pb.h"

namespace twinpath::agent {

// What a processor may ask and say while it works on a cell.
class CellControl {
 public:
  virtual ~CellControl() = default;
  // Whether the cell may still start; false: give it up.
  virtual bool MayStart() = 0;
  // Takes the permission to start: the lease's id, or nothing when it is too
  // late. Whatever runs on the host runs behind this.
  virtual std::optional<std::string> Start() = 0;
  // Why MayStart or Start said no.
  virtual v1::Reason WhyNot() = 0;
  // The agent is stopping, or paused at once: end what runs, deliver what there
  // is.
  virtual bool Stopping() = 0;
  // Waits, at most so long; returns early when the agent stops.
  virtual void Wait(absl::Duration duration) = 0;
  // Tells the coordinator. PATH_UNSPECIFIED: files are being fetched.
  virtual void Progress(v1::Path path, absl::string_view text) = 0;
};

// Exactly one of `result` and `refusal` is set.
struct CellOutcome {
  std::optional<v1::CellResult> result;
  // The lease goes back unstarted, for this reason.
  std::optional<v1::Reason> refusal;
  // Closed once the result is in the spool.
  std::unique_ptr<CellJournal> journal;
  // Let go once the result is in the spool and before the GPUs are free for the
  // next cell. May be empty.
  std::shared_ptr<void> hold;
};

class CellProcessor {
 public:
  virtual ~CellProcessor() = default;
  virtual CellOutcome Process(const ClaimedLease& claimed,
                              CellControl& control) = 0;
};

// A reason. `code` stands in base/reason.h.
v1::Reason MakeAgentReason(absl::string_view code, absl::string_view detail);

// A result for `claimed` with ids and finish time, nothing observed yet,
// complete.
v1::CellResult NewResult(const ClaimedLease& claimed, const Clock& clock);

// Adds an observation that says why `path` did not run, beginning with a code:
// "TP405 ...".
void AddNotStarted(const ClaimedLease& claimed, v1::Path path,
                   absl::string_view code, absl::string_view why,
                   const Clock& clock, v1::CellResult* result);

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_CELL_PROCESSOR_H_
