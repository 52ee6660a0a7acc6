// The rows of the SQLite store: every statement but BEGIN and COMMIT. Internal
// to sqlite_store.cc; one object serves one transaction of one connection.

#ifndef TWINPATH_COORDINATOR_SQLITE_TRANSACTION_H_
#define TWINPATH_COORDINATOR_SQLITE_TRANSACTION_H_

#include <string>
#include <vector>

#include "coordinator/sqlite_db.h"
#include "coordinator/store.h"

namespace twinpath::coordinator {

class SqliteTransaction final : public StoreTransaction {
 public:
  explicit SqliteTransaction(SqliteDb& db) : db_(db) {}

  absl::StatusOr<HostRow> GetHost(absl::string_view id) const override;
  absl::StatusOr<HostRow> FindHost(absl::string_view name) const override;
  absl::StatusOr<std::vector<HostRow>> ListHosts(absl::string_view after_name,
                                                 int64_t limit) const override;
  absl::StatusOr<std::vector<HostName>> ListHostNames() const override;
  absl::StatusOr<ArtifactRow> GetArtifact(const Sha256& digest) const override;
  absl::StatusOr<v1::ArtifactReport> GetReport(
      const Sha256& digest) const override;
  absl::StatusOr<std::vector<ArtifactRow>> ListArtifacts(
      int64_t before, int64_t limit) const override;
  absl::StatusOr<SweepRow> GetSweep(absl::string_view id) const override;
  absl::StatusOr<SweepRow> FindSweepByRequest(
      absl::string_view request_id) const override;
  absl::StatusOr<std::vector<SweepRow>> ListSweeps(
      int64_t before, int64_t limit) const override;
  absl::StatusOr<std::vector<OpenSweep>> ListOpenSweeps() const override;
  absl::StatusOr<CellRow> GetCell(absl::string_view id) const override;
  absl::StatusOr<std::vector<CellRow>> ListSweepCells(
      absl::string_view sweep_id) const override;
  absl::StatusOr<std::vector<CellRow>> ListOpenHostCells(
      absl::string_view host_id) const override;
  absl::StatusOr<std::vector<CellRow>> ListExpiredLeases(
      absl::Time now) const override;
  absl::StatusOr<std::vector<std::string>> ListWaitingHosts(
      absl::Time now) const override;
  absl::StatusOr<ResultRow> GetResult(
      absl::string_view result_id) const override;
  absl::StatusOr<std::vector<ResultRow>> ListResults(
      absl::string_view cell_id) const override;
  absl::StatusOr<std::vector<ResultRow>> ListSweepResults(
      absl::string_view sweep_id) const override;

  absl::Status InsertJoinToken(const Sha256& digest, absl::Time expire,
                               uint32_t uses) override;
  absl::Status UseJoinToken(const Sha256& digest, absl::Time now) override;
  absl::Status InsertHost(const HostRow& host) override;
  absl::Status ReplaceHostSecret(
      absl::string_view id, const Sha256& secret_digest,
      const std::vector<std::string>& labels) override;
  absl::StatusOr<uint64_t> RaiseSession(absl::string_view id) override;
  absl::Status PutHello(absl::string_view id, absl::Time seen,
                        absl::Duration skew, absl::string_view agent_version,
                        absl::string_view boot_id) override;
  absl::Status PutFacts(absl::string_view id, const v1::HostFacts& facts,
                        absl::string_view conditions,
                        absl::Time received) override;
  absl::Status PutSeen(absl::string_view id, absl::Time seen) override;
  absl::StatusOr<bool> InsertArtifact(
      const Sha256& digest, const v1::StoredArtifact& stored,
      const v1::ArtifactReport& report) override;
  absl::Status InsertSweep(const SweepRow& sweep) override;
  absl::StatusOr<uint64_t> RaiseSweep(absl::string_view id) override;
  absl::StatusOr<bool> ChooseEnding(absl::string_view id,
                                    v1::SweepState ending) override;
  absl::StatusOr<bool> FinishSweep(uint64_t expected_version,
                                   const v1::Sweep& sweep) override;
  absl::Status InsertCell(const CellRow& cell) override;
  absl::Status PutCell(const CellRow& cell) override;
  absl::Status DeleteCell(absl::string_view id) override;
  absl::StatusOr<bool> LeaseCell(absl::string_view cell_id,
                                 absl::string_view host_id, uint64_t session,
                                 absl::string_view lease_id,
                                 absl::Time expire) override;
  absl::StatusOr<bool> InsertResult(const ResultRow& result) override;

 private:
  // Runs a statement that must change exactly one row; `what` names it in
  // NOT_FOUND.
  absl::Status ChangeOne(SqliteQuery& query, absl::string_view what);

  SqliteDb& db_;
};

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_SQLITE_TRANSACTION_H_
