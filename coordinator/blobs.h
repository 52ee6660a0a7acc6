// Blobs: bytes by their SHA-256, one file each, in a folder.
//
//   <folder>/ab/ab12...      complete and verified
//   <folder>/uploads/ab12... what an interrupted upload left, for its resume
//   <folder>/uploads/*.tmp   private copies of parallel uploads
//
// A blob becomes visible by one rename behind verification and sync, so that
// whatever stands under its digest is right and whole. An upload whose bytes
// have another digest, or for which there is no room, leaves nothing.
// Thread-safe; an Upload is used by one thread at a time.

#ifndef TWINPATH_COORDINATOR_BLOBS_H_
#define TWINPATH_COORDINATOR_BLOBS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/mutex.h"

namespace twinpath::coordinator {

struct BlobOptions {
  // Most bytes of all blobs and uploads together; 0: the disk's own limit.
  uint64_t quota_bytes = 0;
};

struct UploadProgress {
  // Bytes there; the blob's size when complete.
  uint64_t offset = 0;
  bool complete = false;
};

// A stored blob, open for reading at any offset.
struct OpenBlob {
  UniqueFd fd;
  uint64_t size_bytes = 0;
};

class BlobStore {
 public:
  class Upload;

  // Opens or makes the folder; leftovers of parallel uploads, and uploads that
  // nobody resumed for a week, are removed.
  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(
      const std::string& folder, const BlobOptions& options);

  // Whether the blob is complete.
  bool Has(const Sha256& digest) const;
  // Where the bytes of a complete blob lie. NOT_FOUND.
  absl::StatusOr<std::string> PathOf(const Sha256& digest) const;
  // NOT_FOUND.
  absl::StatusOr<OpenBlob> OpenForReading(const Sha256& digest) const;
  // How far an upload got.
  absl::StatusOr<UploadProgress> Progress(const Sha256& digest) const;

  // Starts or resumes the upload of `size_bytes` bytes at `offset`. ABORTED:
  // the bytes already there are not `offset`; the message says how many. An
  // upload from 0 beside a running one of the same digest gets a copy of its
  // own; one that continues where a running one stands takes its place, and the
  // older one is ABORTED at its next write. RESOURCE_EXHAUSTED: quota.
  // INVALID_ARGUMENT: offset above size.
  absl::StatusOr<std::unique_ptr<Upload>> Begin(const Sha256& digest,
                                                uint64_t size_bytes,
                                                uint64_t offset);

  // Bytes of complete blobs and of uploads, reservations included.
  uint64_t UsedBytes() const;

 private:
  friend class Upload;
  // The resumable file of one digest.
  struct Part {
    // Held over each write, so that a takeover sees whole writes only.
    Mutex mutex;
    // The running upload that owns the file; 0: none.
    uint64_t owner ABSL_GUARDED_BY(mutex) = 0;
  };

  BlobStore(std::string folder, const BlobOptions& options)
      : folder_(std::move(folder)), options_(options) {}

  std::string BlobPath(const Sha256& digest) const;
  std::string PartPath(const Sha256& digest) const;
  absl::Status Scan();
  absl::Status Reserve(uint64_t bytes);
  void Release(uint64_t bytes);
  // The part of a digest, made at need; dropped when its last upload ends.
  std::shared_ptr<Part> TakePart(const Sha256& digest);
  void DropPart(const Sha256& digest);

  const std::string folder_;
  const BlobOptions options_;
  mutable Mutex mutex_;
  absl::flat_hash_map<Sha256, std::shared_ptr<Part>> parts_
      ABSL_GUARDED_BY(mutex_);
  uint64_t next_owner_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One upload in progress. Destroyed before Commit it keeps what it wrote for a
// resume, unless it was a private copy or was discarded by an error.
class BlobStore::Upload {
 public:
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // Appends. INVALID_ARGUMENT: more than the stated size (nothing is kept).
  // RESOURCE_EXHAUSTED: no room (nothing is kept). ABORTED: another upload has
  // taken over.
  absl::Status Write(absl::string_view data);
  // Verifies, syncs and shows the blob. DATA_LOSS: digest differs (nothing is
  // kept). ABORTED: bytes are missing (kept for a resume), or taken over.
  absl::Status Commit();

 private:
  friend class BlobStore;
  Upload(BlobStore& store, const Sha256& digest, uint64_t size_bytes)
      : store_(store), digest_(digest), size_bytes_(size_bytes) {}
  // ABORTED unless the file still belongs to this upload.
  absl::Status CheckOwner() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(part_->mutex);
  // Ends the upload: gives the file up, keeping or removing it.
  void End(bool keep);
  // Ends it with nothing left behind; returns `status`.
  absl::Status Fail(const absl::Status& status);

  BlobStore& store_;
  const Sha256 digest_;
  const uint64_t size_bytes_;
  std::shared_ptr<Part> part_;
  // Number of the owner; 0: a private copy.
  uint64_t owner_ = 0;
  std::string path_;
  UniqueFd fd_;
  Sha256Stream hash_;
  // Bytes in the file; those of an earlier upload included.
  uint64_t written_ = 0;
  // Bytes the store counts as used because of this file.
  uint64_t counted_ = 0;
  bool finished_ = false;
};

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_BLOBS_H_
