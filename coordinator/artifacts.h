// Artifacts: a manifest becomes known when every blob it names is stored; its
// files are then inspected in children and the report kept beside it. Both
// calls that inspect take minutes for large files: they belong on a worker
// thread. Thread-safe.

#ifndef TWINPATH_COORDINATOR_ARTIFACTS_H_
#define TWINPATH_COORDINATOR_ARTIFACTS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/digest.h"
#include "base/mutex.h"
#include "coordinator/blobs.h"
#include "coordinator/cells.h"
#include "coordinator/model.h"
#include "coordinator/store.h"
#include "twinpath/v1/services.pb.h"

namespace twinpath::coordinator {

// A report with what was computed from it.
struct PreparedReport {
  PreparedReport(const Model& model, v1::ArtifactReport report_in)
      : report(std::move(report_in)), cells(model, report) {}
  const v1::ArtifactReport report;
  Mutex mutex;
  CellMaker cells ABSL_GUARDED_BY(mutex);
};

class Artifacts {
 public:
  Artifacts(Store& store, BlobStore& blobs, const Model& model)
      : store_(store), blobs_(blobs), model_(model) {}

  // INVALID_ARGUMENT: the manifest. DATA_LOSS: its digest is not that of its
  // lines. FAILED_PRECONDITION: blobs are missing; the first ones are named.
  absl::StatusOr<v1::RegisterArtifactResponse> Register(
      const v1::RegisterArtifactRequest& request);
  absl::StatusOr<v1::ListArtifactsResponse> List(
      const v1::ListArtifactsRequest& request) const;
  absl::StatusOr<v1::GetArtifactResponse> Get(
      const v1::GetArtifactRequest& request) const;

  // The report of a registered artifact; the last few are kept in memory.
  absl::StatusOr<std::shared_ptr<PreparedReport>> Report(const Sha256& digest);

 private:
  Store& store_;
  BlobStore& blobs_;
  const Model& model_;
  Mutex mutex_;
  std::deque<std::pair<Sha256, std::shared_ptr<PreparedReport>>> reports_
      ABSL_GUARDED_BY(mutex_);
};

// Page size asked for, 1 to 1,000 with 100 as default; INVALID_ARGUMENT else.
absl::StatusOr<int64_t> PageSize(int32_t asked);
// A page ends early behind this many bytes: no client takes an answer without
// bound, and one row may hold a manifest of 2 MiB.
inline constexpr uint64_t kMaxPageBytes = 16 << 20;

// Moves rows into a page by `add`, which returns the row's bytes, until it
// holds `size` of them or kMaxPageBytes; returns the token of the next page,
// empty where fewer rows came.
template <typename Row, typename Add>
std::string FillPage(std::vector<Row>& rows, int64_t size, Add add) {
  uint64_t bytes = 0;
  int64_t taken = 0;
  for (Row& row : rows) {
    bytes += add(row);
    if (++taken == size || bytes > kMaxPageBytes) {
      return absl::StrCat(row.sequence);
    }
  }
  return "";
}

// Parses a page token that is a number; 0 for an empty one.
absl::StatusOr<int64_t> NumberToken(absl::string_view token);

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_ARTIFACTS_H_
