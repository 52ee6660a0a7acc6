// Dispatch: which cell may start where, and what a result does to its cell.
// Pure rules over one transaction of the store; sessions and gRPC are
// elsewhere.
//
// The rules:
//  - A cell belongs to one host GPU; a lease is permission to start it before
//    its expiry and never moves to another host.
//  - Leases are granted by compare-and-set on the host's session number. One
//    cell at a time on a GPU, a bounded number on a host.
//  - Lease times go by the store's clock. No lease expires before one full
//    lease time has passed since this coordinator started.
//  - The agent's own list of cells it holds keeps their leases alive.
//  - The first complete result decides a cell. A later complete one is kept and
//    compared. An incomplete one puts the cell back until it has been started
//    often enough. Results are not fenced: any session of the host delivers.
//
// Every function that changes a sweep raises its version and adds its id to
// `changed`. Immutable after construction; thread-safe.

#ifndef TWINPATH_COORDINATOR_DISPATCH_H_
#define TWINPATH_COORDINATOR_DISPATCH_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "coordinator/model.h"
#include "coordinator/store.h"

namespace twinpath::coordinator {

struct DispatchOptions {
  // How long a lease permits to start.
  absl::Duration lease_time = absl::Minutes(2);
  // Most cells leased to one host at a time.
  int max_leases_per_host = 2;
  // A cell is given up behind this many starts without a complete result.
  uint32_t max_starts = 3;
  // How long a refused cell waits.
  absl::Duration refusal_pause = absl::Seconds(10);
};

// Ids of sweeps that a transaction changed.
using ChangedSweeps = std::set<std::string>;

// What Grant() found.
struct Granted {
  std::vector<v1::Lease> leases;
  // Cells wait that were made for other facts than the host's newest: they are
  // to be brought up to date before they can be leased.
  bool needs_refresh = false;
};

// What became of a result.
enum class ResultFate {
  // It decided its cell.
  kDecided,
  // Complete, behind the one that decided; kept and compared.
  kLater,
  // Incomplete; kept.
  kIncomplete,
  // Known already.
  kDuplicate,
  // For a cell this host does not have; kept apart, counts for nothing.
  kForeign,
};

class Dispatcher {
 public:
  // `started`: when this coordinator began, by the store's clock.
  Dispatcher(const DispatchOptions& options, const Model& model,
             absl::Time started)
      : options_(options), model_(model), started_(started) {}

  const DispatchOptions& options() const { return options_; }

  // ABORTED unless `session` is the host's newest.
  static absl::Status CheckFence(const StoreView& view,
                                 absl::string_view host_id, uint64_t session);

  // Leases cells to the host's session, oldest sweep first; with `fresh_only`
  // only cells that were never leased. Empty where nothing may start.
  absl::StatusOr<Granted> Grant(StoreTransaction& transaction,
                                absl::string_view host_id, uint64_t session,
                                bool fresh_only, absl::Time now,
                                ChangedSweeps& changed) const;

  // Takes the agent's list of cells it holds: their leases live on, under this
  // session. With `hello`, unstarted or not, a lease that is not in the list is
  // gone and its cell waits again. Returns cells the agent should give up.
  absl::StatusOr<std::vector<std::string>> Held(
      StoreTransaction& transaction, absl::string_view host_id,
      uint64_t session, const std::vector<std::string>& held, bool hello,
      absl::Time now, ChangedSweeps& changed) const;

  // A path of the cell has started, or files are being fetched.
  absl::Status Progressed(StoreTransaction& transaction,
                          absl::string_view host_id,
                          const v1::Progress& progress, absl::Time now,
                          ChangedSweeps& changed) const;

  // The agent gives an unstarted lease back.
  absl::Status Refused(StoreTransaction& transaction, absl::string_view host_id,
                       const v1::LeaseRefusal& refusal, absl::Time now,
                       ChangedSweeps& changed) const;

  // Keeps a result and applies it to its cell. INVALID_ARGUMENT: it has no
  // result id or cell id.
  absl::StatusOr<ResultFate> Accept(StoreTransaction& transaction,
                                    const HostRow& host,
                                    const v1::CellResult& result,
                                    absl::Time now,
                                    ChangedSweeps& changed) const;

  // Puts cells back whose lease ran out unstarted.
  absl::Status Expire(StoreTransaction& transaction, absl::Time now,
                      ChangedSweeps& changed) const;

  // Ends all open cells of a sweep for `reason`. Returns (host id, cell id) of
  // those that were leased.
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> EndOpenCells(
      StoreTransaction& transaction, absl::string_view sweep_id,
      const v1::Reason& reason, ChangedSweeps& changed) const;

 private:
  // Behind a restart leases live on for one full lease time.
  absl::Time LeaseEnd(absl::Time now) const {
    return now + options_.lease_time;
  }

  const DispatchOptions options_;
  const Model& model_;
  const absl::Time started_;
};

// A reason with its detail.
v1::Reason MakeCellReason(absl::string_view code, absl::string_view detail);

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_DISPATCH_H_
