#include "agent/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "agent/blob_cache.h"
#include "agent/fault_point.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/manifest.h"

namespace twinpath::agent {
namespace {

// A source that breaks off is asked again as long as it makes progress; this
// many times without any ends it.
constexpr int kFetchTries = 4;

absl::StatusOr<BlobCache::Pin> AcquireWithRetries(
    BlobCache& cache, const Sha256& digest, uint64_t size, BlobSource& source,
    const std::function<bool()>& cancelled) {
  uint64_t had = 0;
  for (int failures = 0;;) {
    absl::StatusOr<BlobCache::Pin> pin =
        cache.Acquire(digest, size, source, cancelled);
    if (pin.ok() || (!absl::IsUnavailable(pin.status()) &&
                     !absl::IsDeadlineExceeded(pin.status()))) {
      return pin;
    }
    const uint64_t has = cache.PartialBytes(digest);
    failures = has > had ? 0 : failures + 1;
    had = has;
    if (failures >= kFetchTries || (cancelled && cancelled())) return pin;
  }
}

absl::Status WriteStagedFile(const std::string& path,
                             const v1::ArtifactFile& file, const Sha256& digest,
                             BlobCache& cache, BlobSource& source,
                             const std::function<bool()>& cancelled) {
  for (bool first_try = true;; first_try = false) {
    TWINPATH_ASSIGN_OR_RETURN(
        const BlobCache::Pin pin,
        AcquireWithRetries(cache, digest, file.size_bytes(), source,
                           cancelled));
    UniqueFd fd(open(path.c_str(),
                     O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                     0600));
    if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("making ", path));
    const absl::Status status = cache.CopyOut(pin, fd.get());
    if (status.ok()) {
      // Readable to its owner whatever the manifest says: it is read again
      // before the run.
      if (fchmod(fd.get(), (file.mode() & 0777) | 0400) != 0) {
        return ErrnoStatus(errno, absl::StrCat("setting the mode of ", path));
      }
      return absl::OkStatus();
    }
    if (!first_try || !absl::IsDataLoss(status)) return status;
    // The cached bytes had gone bad; fetch them once more.
    unlink(path.c_str());
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<StagedArtifact>> StagedArtifact::Stage(
    const v1::Artifact& artifact, BlobCache& cache, BlobSource& source,
    const std::string& directory, const std::function<bool()>& cancelled) {
  TWINPATH_RETURN_IF_ERROR_CTX(inspect::ValidateArtifact(artifact),
                               "the lease's artifact");
  if (mkdir(directory.c_str(), 0755) != 0) {
    return ErrnoStatus(errno, absl::StrCat("making ", directory));
  }
  // Removes the folder on every way out but the last.
  std::unique_ptr<StagedArtifact> staged(new StagedArtifact(directory));
  TWINPATH_RETURN_IF_ERROR(staged->Fill(artifact, cache, source, cancelled));
  FaultPoint("staging.staged");
  return staged;
}

StagedArtifact::~StagedArtifact() {
  const absl::Status status = RemoveTree(directory_);
  if (!status.ok()) {
    Log(LogLevel::kWarning, "a cell's folder cannot be removed",
        {{"folder", directory_}, {"why", std::string(MessageOf(status))}});
  }
}

absl::Status StagedArtifact::Fill(const v1::Artifact& artifact,
                                  BlobCache& cache, BlobSource& source,
                                  const std::function<bool()>& cancelled) {
  for (const v1::ArtifactFile& file : artifact.files()) {
    if (file.type() != v1::FILE_TYPE_REGULAR) continue;
    if (cancelled && cancelled()) {
      return absl::CancelledError("gave up staging the artifact");
    }
    const std::string path = JoinPath(directory_, file.name());
    TWINPATH_RETURN_IF_ERROR(MakeDirectories(DirName(path), 0755));
    TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest,
                              Sha256::FromRaw(file.digest().sha256()));
    TWINPATH_RETURN_IF_ERROR_CTX(
        WriteStagedFile(path, file, digest, cache, source, cancelled),
        absl::StrCat("staging ", Printable(file.name())));
    files_.push_back({file.name(), digest, {}});
  }
  // Links last: no file is ever written through one.
  for (const v1::ArtifactFile& file : artifact.files()) {
    if (file.type() != v1::FILE_TYPE_SYMLINK) continue;
    const std::string path = JoinPath(directory_, file.name());
    TWINPATH_RETURN_IF_ERROR(MakeDirectories(DirName(path), 0755));
    if (symlink(file.link_target().c_str(), path.c_str()) != 0) {
      return ErrnoStatus(errno, absl::StrCat("making link ", path));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<StagedArtifact::Fingerprint> StagedArtifact::FingerprintOf(
    const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("looking at ", path));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::DataLossError(absl::StrCat(path, " is no regular file now"));
  }
  const auto nanoseconds = [](const timespec& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return Fingerprint{info.st_dev, info.st_ino, info.st_size,
                     nanoseconds(info.st_mtim), nanoseconds(info.st_ctim)};
}

absl::Status StagedArtifact::Verify() {
  const bool first = staged_.empty();
  if (first) staged_.resize(files_.size());
  absl::Status verdict;
  for (size_t i = 0; i < files_.size(); ++i) {
    File& file = files_[i];
    v1::StagedFile& staged = staged_[i];
    staged.set_name(file.name);
    const std::string path = JoinPath(directory_, file.name);
    const absl::StatusOr<Fingerprint> fingerprint = FingerprintOf(path);
    if (fingerprint.ok() && !first && *fingerprint == file.fingerprint &&
        staged.digest().sha256() == file.expected.Raw()) {
      continue;
    }
    staged.clear_digest();
    absl::Status status = fingerprint.status();
    if (status.ok()) {
      // The fingerprint is older than the reading: a change meanwhile shows at
      // the next look.
      file.fingerprint = *fingerprint;
      const absl::StatusOr<Sha256> actual = Sha256OfFile(path);
      status = actual.status();
      if (actual.ok()) {
        staged.mutable_digest()->set_sha256(actual->Raw());
        if (*actual != file.expected) {
          status = absl::DataLossError(absl::StrCat(
              "it is ", actual->Hex(), ", not ", file.expected.Hex()));
        }
      }
    }
    if (!status.ok() && verdict.ok()) {
      verdict = absl::DataLossError(absl::StrCat(
          "staged file ", Printable(file.name), ": ", MessageOf(status)));
    }
  }
  return verdict;
}

}  // namespace twinpath::agent
