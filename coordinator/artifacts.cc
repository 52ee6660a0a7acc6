#include "coordinator/artifacts.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "coordinator/proto_time.h"

namespace twinpath::coordinator {
namespace {

constexpr size_t kReportsInMemory = 4;
constexpr int kMissingNamed = 5;
// A lease carries the manifest and one entry in one message of at most 4 MiB.
constexpr size_t kMaxManifestBytes = 2 << 20;

// Where the blobs of the artifact's files are missing or have another size.
absl::Status CheckBlobs(const v1::Artifact& artifact, const BlobStore& blobs) {
  int missing = 0;
  std::string named;
  for (const v1::ArtifactFile& file : artifact.files()) {
    if (file.type() != v1::FILE_TYPE_REGULAR) continue;
    TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest,
                              Sha256::FromRaw(file.digest().sha256()));
    const absl::StatusOr<OpenBlob> blob = blobs.OpenForReading(digest);
    if (blob.ok()) {
      if (blob->size_bytes == file.size_bytes()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "file ", Printable(file.name()), ": the manifest says ",
          file.size_bytes(), " bytes, its blob has ", blob->size_bytes));
    }
    if (!absl::IsNotFound(blob.status())) return blob.status();
    if (++missing <= kMissingNamed) {
      absl::StrAppend(&named, named.empty() ? "" : ", ",
                      Printable(file.name()));
    }
  }
  if (missing == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      missing, " blobs are missing (", named,
      missing > kMissingNamed ? ", ..." : "", "); upload them first"));
}

}  // namespace

absl::StatusOr<int64_t> PageSize(int32_t asked) {
  if (asked == 0) return 100;
  if (asked < 0 || asked > 1000) {
    return absl::InvalidArgumentError("page size: 1 to 1000, or 0 for 100");
  }
  return asked;
}

absl::StatusOr<int64_t> NumberToken(absl::string_view token) {
  int64_t number = 0;
  if (token.empty()) return number;
  if (!absl::SimpleAtoi(token, &number) || number <= 0) {
    return absl::InvalidArgumentError(
        "page token: give the one of the last answer");
  }
  return number;
}

absl::StatusOr<v1::RegisterArtifactResponse> Artifacts::Register(
    const v1::RegisterArtifactRequest& request) {
  v1::RegisterArtifactResponse response;
  v1::StoredArtifact stored;
  *stored.mutable_artifact() = request.artifact();
  TWINPATH_RETURN_IF_ERROR(model_.validate_artifact(stored.artifact()));
  if (stored.artifact().ByteSizeLong() > kMaxManifestBytes) {
    return absl::InvalidArgumentError(
        "the manifest takes more than 2 MiB, which no lease could carry; pack "
        "files that belong together");
  }
  TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest,
                            model_.artifact_digest(stored.artifact()));
  stored.mutable_artifact()->mutable_digest()->set_sha256(digest.Raw());
  *response.mutable_artifact() = stored.artifact();
  const absl::Status known = store_.Read(
      [&](const StoreView& view) { return view.GetArtifact(digest).status(); });
  if (known.ok()) {
    response.set_existed(true);
    return response;
  }
  if (!absl::IsNotFound(known)) return known;
  TWINPATH_RETURN_IF_ERROR(CheckBlobs(stored.artifact(), blobs_));
  TWINPATH_ASSIGN_OR_RETURN_CTX(
      v1::ArtifactReport report,
      model_.inspect(
          stored.artifact(),
          [this](const v1::ArtifactFile& file) -> absl::StatusOr<std::string> {
            TWINPATH_ASSIGN_OR_RETURN(const Sha256 blob,
                                      Sha256::FromRaw(file.digest().sha256()));
            return blobs_.PathOf(blob);
          }),
      "inspecting the artifact");
  report.mutable_artifact_digest()->set_sha256(digest.Raw());
  *stored.mutable_create_time() = ToProto(store_.Now());
  bool inserted = false;
  TWINPATH_RETURN_IF_ERROR(
      store_.Write([&](StoreTransaction& transaction) -> absl::Status {
        TWINPATH_ASSIGN_OR_RETURN(
            inserted, transaction.InsertArtifact(digest, stored, report));
        return absl::OkStatus();
      }));
  response.set_existed(!inserted);
  return response;
}

absl::StatusOr<v1::ListArtifactsResponse> Artifacts::List(
    const v1::ListArtifactsRequest& request) const {
  TWINPATH_ASSIGN_OR_RETURN(const int64_t size, PageSize(request.page_size()));
  TWINPATH_ASSIGN_OR_RETURN(const int64_t before,
                            NumberToken(request.page_token()));
  v1::ListArtifactsResponse response;
  TWINPATH_RETURN_IF_ERROR(
      store_.Read([&](const StoreView& view) -> absl::Status {
        TWINPATH_ASSIGN_OR_RETURN(std::vector<ArtifactRow> rows,
                                  view.ListArtifacts(before, size));
        response.set_next_page_token(
            FillPage(rows, size, [&response](ArtifactRow& row) {
              const uint64_t bytes = row.stored.ByteSizeLong();
              *response.add_artifacts() = std::move(row.stored);
              return bytes;
            }));
        return absl::OkStatus();
      }));
  return response;
}

absl::StatusOr<v1::GetArtifactResponse> Artifacts::Get(
    const v1::GetArtifactRequest& request) const {
  TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest,
                            Sha256::FromRaw(request.digest().sha256()));
  v1::GetArtifactResponse response;
  TWINPATH_RETURN_IF_ERROR(
      store_.Read([&](const StoreView& view) -> absl::Status {
        TWINPATH_ASSIGN_OR_RETURN(ArtifactRow row, view.GetArtifact(digest));
        *response.mutable_artifact() = std::move(row.stored);
        TWINPATH_ASSIGN_OR_RETURN(*response.mutable_report(),
                                  view.GetReport(digest));
        return absl::OkStatus();
      }));
  return response;
}

absl::StatusOr<std::shared_ptr<PreparedReport>> Artifacts::Report(
    const Sha256& digest) {
  {
    MutexLock lock(mutex_);
    for (const auto& [known, report] : reports_) {
      if (known == digest) return report;
    }
  }
  v1::ArtifactReport report;
  TWINPATH_RETURN_IF_ERROR(
      store_.Read([&](const StoreView& view) -> absl::Status {
        TWINPATH_ASSIGN_OR_RETURN(report, view.GetReport(digest));
        return absl::OkStatus();
      }));
  auto prepared = std::make_shared<PreparedReport>(model_, std::move(report));
  MutexLock lock(mutex_);
  reports_.emplace_back(digest, prepared);
  if (reports_.size() > kReportsInMemory) reports_.pop_front();
  return prepared;
}

}  // namespace twinpath::coordinator
