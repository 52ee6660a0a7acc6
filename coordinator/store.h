// Store: everything the coordinator must not lose, behind one interface. SQLite
// is the implementation of today (sqlite_store.h); another database passes the
// same conformance suite (tests/coordinator/store_conformance.h).
//
// Rules every implementation keeps:
//  - A write is durable when its status is OK: a power cut behind that loses
//    nothing. No room is RESOURCE_EXHAUSTED, told before anything is confirmed,
//    and leaves what was stored before untouched.
//  - Work given to Submit() or Write() runs as if alone: it sees all earlier
//    commits and none of its own effects remain if it returns an error.
//    Several works may share one commit. Work may be run again when a commit
//    fails, so its only effects are those on the transaction and on captured
//    results that it sets anew each time.
//  - Session fences are raised here and nowhere else; what is fenced compares
//    with the host's number in the same transaction.
//  - Now() is the clock that leases, deadlines and staleness go by.
// Thread-safe. Views and transactions belong to the work they are given to and
// are used on its thread only.

#ifndef TWINPATH_COORDINATOR_STORE_H_
#define TWINPATH_COORDINATOR_STORE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/digest.h"
#include "twinpath/v1/artifact.pb.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/report.pb.h"
#include "twinpath/v1/services.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::coordinator {

// A time that was never set.
inline absl::Time NoTime() { return absl::InfinitePast(); }

struct HostRow {
  std::string id;
  std::string name;
  std::string machine_id;
  // SHA-256 of the secret; the secret itself is never stored.
  Sha256 secret_digest;
  // Fixed at enrolment.
  bool simulated = false;
  std::vector<std::string> labels;
  // Fence: number of the newest session.
  uint64_t session = 0;
  absl::Time enrolled = NoTime();
  absl::Time seen = NoTime();
  // Host clock minus store clock at the last hello.
  absl::Duration skew;
  std::string agent_version;
  std::string boot_id;
  bool has_facts = false;
  v1::HostFacts facts;
  // Raw digest of the facts' conditions; empty without facts.
  std::string conditions;
  absl::Time facts_received = NoTime();
};

// A host in short, for listing a whole fleet.
struct HostName {
  std::string id;
  std::string name;
  // As in HostRow.
  std::string conditions;
};

struct ArtifactRow {
  // Grows with every registration.
  int64_t sequence = 0;
  v1::StoredArtifact stored;
};

struct SweepRow {
  // Grows with every sweep.
  int64_t sequence = 0;
  // Idempotency key of the request; may be empty.
  std::string request_id;
  // Everything but the cells. `version` is the stored one.
  v1::Sweep sweep;
  // State the sweep is going to end in, once chosen (deadline, cancelled).
  v1::SweepState ending = v1::SWEEP_STATE_UNSPECIFIED;
};

struct CellRow {
  // Without `result` and `verdict`; `state` and `leases` are the stored ones.
  v1::Cell cell;
  // Position among the cells of its host: GPU first, then entry.
  int64_t ordinal = 0;
  // Uses several GPUs of the host, so it runs alone there.
  bool exclusive = false;
  // Stands for the cells to be made when the host's facts arrive.
  bool needs_facts = false;
  // The last lease; kept when the cell goes back to WAITING.
  std::string lease_id;
  uint64_t lease_session = 0;
  absl::Time lease_expire = NoTime();
  // A path was reported as started under the lease.
  bool lease_started = false;
  // Not to be leased before this.
  absl::Time not_before = NoTime();
  // The result that decided it, or the last incomplete one of an ENDED cell.
  std::string result_id;
  // A later complete result differed.
  bool unstable = false;
  // Why it ENDED, or what the agent last refused it for.
  std::vector<v1::Reason> reasons;
};

struct ResultRow {
  std::string host_id;
  absl::Time received = NoTime();
  v1::CellResult result;
};

struct OpenSweep {
  std::string id;
  absl::Time deadline = NoTime();
  uint64_t version = 0;
  // Cells WAITING or LEASED.
  int64_t open_cells = 0;
  v1::SweepState ending = v1::SWEEP_STATE_UNSPECIFIED;
};

// Reads of one moment. All: NOT_FOUND names the missing thing; INTERNAL or
// DATA_LOSS for a broken store.
class StoreView {
 public:
  virtual ~StoreView() = default;

  virtual absl::StatusOr<HostRow> GetHost(absl::string_view id) const = 0;
  virtual absl::StatusOr<HostRow> FindHost(absl::string_view name) const = 0;
  // Hosts by name, behind `after_name` ("" from the start), at most `limit`.
  virtual absl::StatusOr<std::vector<HostRow>> ListHosts(
      absl::string_view after_name, int64_t limit) const = 0;
  // All hosts in short, by name.
  virtual absl::StatusOr<std::vector<HostName>> ListHostNames() const = 0;

  virtual absl::StatusOr<ArtifactRow> GetArtifact(
      const Sha256& digest) const = 0;
  virtual absl::StatusOr<v1::ArtifactReport> GetReport(
      const Sha256& digest) const = 0;
  // Newest first, with a sequence below `before` (0: from the newest).
  virtual absl::StatusOr<std::vector<ArtifactRow>> ListArtifacts(
      int64_t before, int64_t limit) const = 0;

  virtual absl::StatusOr<SweepRow> GetSweep(absl::string_view id) const = 0;
  // NOT_FOUND also for an empty request id.
  virtual absl::StatusOr<SweepRow> FindSweepByRequest(
      absl::string_view request_id) const = 0;
  virtual absl::StatusOr<std::vector<SweepRow>> ListSweeps(
      int64_t before, int64_t limit) const = 0;
  // Every sweep in state RUNNING.
  virtual absl::StatusOr<std::vector<OpenSweep>> ListOpenSweeps() const = 0;

  virtual absl::StatusOr<CellRow> GetCell(absl::string_view id) const = 0;
  // Cells of a sweep by host name, GPU, entry.
  virtual absl::StatusOr<std::vector<CellRow>> ListSweepCells(
      absl::string_view sweep_id) const = 0;
  // Cells of a host that are WAITING or LEASED, oldest sweep first, then by
  // ordinal.
  virtual absl::StatusOr<std::vector<CellRow>> ListOpenHostCells(
      absl::string_view host_id) const = 0;
  // Leased, not started, and past their expiry at `now`.
  virtual absl::StatusOr<std::vector<CellRow>> ListExpiredLeases(
      absl::Time now) const = 0;
  // Hosts with a cell that waits and may be leased at `now`.
  virtual absl::StatusOr<std::vector<std::string>> ListWaitingHosts(
      absl::Time now) const = 0;

  virtual absl::StatusOr<ResultRow> GetResult(
      absl::string_view result_id) const = 0;
  // Results of a cell in the order of their commits.
  virtual absl::StatusOr<std::vector<ResultRow>> ListResults(
      absl::string_view cell_id) const = 0;
  // Deciding (or last incomplete) results of all cells of a sweep.
  virtual absl::StatusOr<std::vector<ResultRow>> ListSweepResults(
      absl::string_view sweep_id) const = 0;
};

// Reads and writes of one transaction. Reads see the transaction's own writes.
class StoreTransaction : public StoreView {
 public:
  // Keeps a join token by its digest. uses >= 1.
  virtual absl::Status InsertJoinToken(const Sha256& digest, absl::Time expire,
                                       uint32_t uses) = 0;
  // Takes one use. UNAUTHENTICATED if the token is unknown, used up, or its
  // expiry is not after `now`: one text for all three.
  virtual absl::Status UseJoinToken(const Sha256& digest, absl::Time now) = 0;

  // ALREADY_EXISTS if id or name is taken.
  virtual absl::Status InsertHost(const HostRow& host) = 0;
  // Gives the host a new secret and new labels. The session number stays.
  virtual absl::Status ReplaceHostSecret(
      absl::string_view id, const Sha256& secret_digest,
      const std::vector<std::string>& labels) = 0;
  // Raises the fence and returns the new number.
  virtual absl::StatusOr<uint64_t> RaiseSession(absl::string_view id) = 0;
  // What hello said.
  virtual absl::Status PutHello(absl::string_view id, absl::Time seen,
                                absl::Duration skew,
                                absl::string_view agent_version,
                                absl::string_view boot_id) = 0;
  virtual absl::Status PutFacts(absl::string_view id,
                                const v1::HostFacts& facts,
                                absl::string_view conditions,
                                absl::Time received) = 0;
  // Moves the host's sign of life forward, never back.
  virtual absl::Status PutSeen(absl::string_view id, absl::Time seen) = 0;

  // Returns false, changing nothing, if the digest is registered already.
  virtual absl::StatusOr<bool> InsertArtifact(
      const Sha256& digest, const v1::StoredArtifact& stored,
      const v1::ArtifactReport& report) = 0;

  // ALREADY_EXISTS if the id or a non-empty request id is taken.
  virtual absl::Status InsertSweep(const SweepRow& sweep) = 0;
  // Raises the sweep's version by one and returns it.
  virtual absl::StatusOr<uint64_t> RaiseSweep(absl::string_view id) = 0;
  // Chooses the state a running sweep will end in. Returns false if it is no
  // longer running or one was chosen before.
  virtual absl::StatusOr<bool> ChooseEnding(absl::string_view id,
                                            v1::SweepState ending) = 0;
  // Compare-and-set on the version: stores `sweep` (its cells are left out) as
  // the end of a running sweep, with version + 1. Returns false, changing
  // nothing, if the stored version differs or the sweep has ended.
  virtual absl::StatusOr<bool> FinishSweep(uint64_t expected_version,
                                           const v1::Sweep& sweep) = 0;

  virtual absl::Status InsertCell(const CellRow& cell) = 0;
  // Writes back a row that this transaction has read.
  virtual absl::Status PutCell(const CellRow& cell) = 0;
  virtual absl::Status DeleteCell(absl::string_view id) = 0;
  // Compare-and-set: WAITING -> LEASED if the cell belongs to the host and
  // `session` is the host's newest. Counts the lease. Returns whether it was
  // set.
  virtual absl::StatusOr<bool> LeaseCell(absl::string_view cell_id,
                                         absl::string_view host_id,
                                         uint64_t session,
                                         absl::string_view lease_id,
                                         absl::Time expire) = 0;

  // Returns false, changing nothing, if the result id is known.
  virtual absl::StatusOr<bool> InsertResult(const ResultRow& result) = 0;
};

class Store {
 public:
  using ReadWork = std::function<absl::Status(const StoreView&)>;
  using WriteWork = std::function<absl::Status(StoreTransaction&)>;
  using Done = std::function<void(const absl::Status&)>;

  virtual ~Store() = default;

  // Queues work and returns. `done` gets the work's status, or the commit's, on
  // the store's own thread behind the commit; it must be quick and must not
  // call Write(). RESOURCE_EXHAUSTED when the queue is full, UNAVAILABLE when
  // the store is closing (then `done` may run on the caller's thread).
  virtual void Submit(WriteWork work, Done done) = 0;
  // The same, waiting for the commit.
  virtual absl::Status Write(WriteWork work) = 0;
  // Runs work on the caller's thread over one moment of the store.
  virtual absl::Status Read(const ReadWork& work) const = 0;

  // Works queued and not yet committed.
  virtual int64_t Backlog() const = 0;
  // The store's clock.
  virtual absl::Time Now() const = 0;
};

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_STORE_H_
