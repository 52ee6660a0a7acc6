#include "coordinator/blobs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "base/text.h"

namespace twinpath::coordinator {
namespace {

constexpr uint64_t kReadWindow = 1 << 20;
// An upload that nobody resumed for so long is dropped at the next start.
constexpr absl::Duration kPartLife = absl::Hours(24 * 7);

absl::Status NoRoom(absl::string_view what) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, "; make room in the blob folder or raise its quota"));
}

// Adds the first `size` bytes of `fd` to `hash`.
absl::Status HashPrefix(int fd, uint64_t size, Sha256Stream& hash) {
  for (uint64_t at = 0; at < size;) {
    TWINPATH_ASSIGN_OR_RETURN(
        const std::string window,
        PreadUpTo(fd, at, std::min(kReadWindow, size - at)));
    if (window.empty()) {
      return absl::AbortedError("the upload's file shrank; start it again");
    }
    hash.Update(window);
    at += window.size();
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> SizeOf(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path);
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlobStore>> BlobStore::Open(
    const std::string& folder, const BlobOptions& options) {
  TWINPATH_RETURN_IF_ERROR(MakeDirectories(JoinPath(folder, "uploads")));
  std::unique_ptr<BlobStore> store(new BlobStore(folder, options));
  TWINPATH_RETURN_IF_ERROR_CTX(store->Scan(), "reading the blob folder");
  return store;
}

absl::Status BlobStore::Scan() {
  uint64_t used = 0;
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                            ListDirectory(folder_));
  for (const std::string& name : folders) {
    const std::string folder = JoinPath(folder_, name);
    const absl::StatusOr<std::vector<std::string>> files =
        ListDirectory(folder);
    // A stray file beside the folders is none of ours.
    if (!files.ok()) continue;
    for (const std::string& file : *files) {
      const std::string path = JoinPath(folder, file);
      if (name == "uploads" && absl::EndsWith(file, ".tmp")) {
        unlink(path.c_str());
        continue;
      }
      struct stat info = {};
      if (stat(path.c_str(), &info) != 0) continue;
      if (name == "uploads" &&
          absl::FromTimeT(info.st_mtime) < absl::Now() - kPartLife) {
        unlink(path.c_str());
        continue;
      }
      used += static_cast<uint64_t>(info.st_size);
    }
  }
  MutexLock lock(mutex_);
  used_bytes_ = used;
  return absl::OkStatus();
}

std::string BlobStore::BlobPath(const Sha256& digest) const {
  const std::string hex = digest.Hex();
  return absl::StrCat(folder_, "/", hex.substr(0, 2), "/", hex);
}

std::string BlobStore::PartPath(const Sha256& digest) const {
  return absl::StrCat(folder_, "/uploads/", digest.Hex());
}

bool BlobStore::Has(const Sha256& digest) const {
  return access(BlobPath(digest).c_str(), F_OK) == 0;
}

absl::StatusOr<std::string> BlobStore::PathOf(const Sha256& digest) const {
  if (Has(digest)) return BlobPath(digest);
  return absl::NotFoundError(
      absl::StrCat("blob ", digest.Hex(), " is not stored; upload it first"));
}

absl::StatusOr<OpenBlob> BlobStore::OpenForReading(const Sha256& digest) const {
  TWINPATH_ASSIGN_OR_RETURN(const std::string path, PathOf(digest));
  OpenBlob blob;
  TWINPATH_ASSIGN_OR_RETURN(blob.fd, OpenRegularFile(path));
  struct stat info = {};
  if (fstat(blob.fd.get(), &info) != 0) return ErrnoStatus(errno, path);
  blob.size_bytes = static_cast<uint64_t>(info.st_size);
  return blob;
}

absl::StatusOr<UploadProgress> BlobStore::Progress(const Sha256& digest) const {
  UploadProgress progress;
  if (const absl::StatusOr<uint64_t> size = SizeOf(BlobPath(digest));
      size.ok()) {
    progress.offset = *size;
    progress.complete = true;
    return progress;
  }
  const absl::StatusOr<uint64_t> size = SizeOf(PartPath(digest));
  if (size.ok()) {
    progress.offset = *size;
  } else if (!absl::IsNotFound(size.status())) {
    return size.status();
  }
  return progress;
}

absl::Status BlobStore::Reserve(uint64_t bytes) {
  MutexLock lock(mutex_);
  if (options_.quota_bytes > 0 &&
      (used_bytes_ > options_.quota_bytes ||
       bytes > options_.quota_bytes - used_bytes_)) {
    return NoRoom(absl::StrCat(
        "no room for ", HumanBytes(bytes), ": ", HumanBytes(used_bytes_),
        " of the quota of ", HumanBytes(options_.quota_bytes), " are in use"));
  }
  used_bytes_ += bytes;
  return absl::OkStatus();
}

void BlobStore::Release(uint64_t bytes) {
  MutexLock lock(mutex_);
  used_bytes_ -= std::min(bytes, used_bytes_);
}

uint64_t BlobStore::UsedBytes() const {
  MutexLock lock(mutex_);
  return used_bytes_;
}

std::shared_ptr<BlobStore::Part> BlobStore::TakePart(const Sha256& digest) {
  MutexLock lock(mutex_);
  std::shared_ptr<Part>& part = parts_[digest];
  if (part == nullptr) part = std::make_shared<Part>();
  return part;
}

void BlobStore::DropPart(const Sha256& digest) {
  MutexLock lock(mutex_);
  const auto it = parts_.find(digest);
  // Copies are made under this lock only: one left means nobody uses it.
  if (it != parts_.end() && it->second.use_count() == 1) parts_.erase(it);
}

absl::StatusOr<std::unique_ptr<BlobStore::Upload>> BlobStore::Begin(
    const Sha256& digest, uint64_t size_bytes, uint64_t offset) {
  if (offset > size_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("upload of ", digest.Hex(), ": offset ", offset,
                     " is above the size ", size_bytes));
  }
  std::unique_ptr<Upload> upload(new Upload(*this, digest, size_bytes));
  upload->part_ = TakePart(digest);
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    number = next_owner_++;
  }
  {
    // Looking at the size and taking over are one step.
    MutexLock lock(upload->part_->mutex);
    const absl::StatusOr<uint64_t> part = SizeOf(PartPath(digest));
    const uint64_t there = part.ok() ? *part : 0;
    const bool private_copy = upload->part_->owner != 0 && offset == 0;
    if (!private_copy && offset != there) {
      return absl::AbortedError(absl::StrCat(
          "upload of ", digest.Hex(), ": ", there, " bytes are there, offset ",
          offset, " was given; ask GetUpload and go on from its answer"));
    }
    upload->path_ = private_copy
                        ? absl::StrCat(PartPath(digest), ".", number, ".tmp")
                        : PartPath(digest);
    upload->fd_ = UniqueFd(open(upload->path_.c_str(),
                                O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!upload->fd_.valid()) {
      const int error = errno;
      if (error == ENOSPC || error == EDQUOT) {
        return NoRoom("no room on the disk");
      }
      return ErrnoStatus(error, upload->path_);
    }
    if (!private_copy) {
      upload->owner_ = number;
      upload->part_->owner = number;
    }
    upload->written_ = offset;
    upload->counted_ = offset;
  }
  TWINPATH_RETURN_IF_ERROR(Reserve(size_bytes - offset));
  upload->counted_ = size_bytes;
  TWINPATH_RETURN_IF_ERROR(
      HashPrefix(upload->fd_.get(), offset, upload->hash_));
  return upload;
}

absl::Status BlobStore::Upload::CheckOwner() const {
  if (part_->owner == owner_ || owner_ == 0) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("upload of ", digest_.Hex(),
                   ": another upload has taken over; ask GetUpload"));
}

void BlobStore::Upload::End(bool keep) {
  if (finished_) return;
  finished_ = true;
  // Not opened: nothing was made and nothing counted.
  if (fd_.valid()) {
    fd_.Close();
    bool owned = owner_ == 0;
    if (owner_ != 0) {
      MutexLock lock(part_->mutex);
      owned = part_->owner == owner_;
      if (owned) part_->owner = 0;
      if (owned && !keep) unlink(path_.c_str());
    } else if (!keep) {
      unlink(path_.c_str());
    }
    // Bytes that stay in the file stay counted, for whoever resumes it.
    const bool stays = keep || !owned;
    store_.Release(counted_ - (stays ? std::min(written_, counted_) : 0));
  }
  part_.reset();
  store_.DropPart(digest_);
}

absl::Status BlobStore::Upload::Fail(const absl::Status& status) {
  End(/*keep=*/false);
  return status;
}

BlobStore::Upload::~Upload() {
  // A resume needs the shared file and something in it.
  End(/*keep=*/owner_ != 0 && written_ > 0);
}

absl::Status BlobStore::Upload::Write(absl::string_view data) {
  if (finished_) return absl::FailedPreconditionError("the upload has ended");
  if (data.size() > size_bytes_ - written_) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("upload of ", digest_.Hex(), ": more than the ",
                     size_bytes_, " bytes announced; nothing was kept")));
  }
  int error = 0;
  {
    MutexLock lock(part_->mutex);
    TWINPATH_RETURN_IF_ERROR(CheckOwner());
    while (!data.empty()) {
      const ssize_t count = write(fd_.get(), data.data(), data.size());
      if (count < 0) {
        if (errno == EINTR) continue;
        error = errno;
        break;
      }
      hash_.Update(data.substr(0, static_cast<size_t>(count)));
      written_ += static_cast<uint64_t>(count);
      data.remove_prefix(static_cast<size_t>(count));
    }
  }
  if (error == 0) return absl::OkStatus();
  // EFBIG: the file limit of the process, a full disk by another name.
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return Fail(
        NoRoom(absl::StrCat("upload of ", digest_.Hex(),
                            ": no room on the disk; nothing was kept")));
  }
  return Fail(ErrnoStatus(error, path_));
}

absl::Status BlobStore::Upload::Commit() {
  if (finished_) return absl::FailedPreconditionError("the upload has ended");
  if (written_ < size_bytes_) {
    return absl::AbortedError(absl::StrCat("upload of ", digest_.Hex(),
                                           " ended at byte ", written_, " of ",
                                           size_bytes_, "; resume it there"));
  }
  const Sha256 actual = hash_.Finish();
  if (actual != digest_) {
    return Fail(absl::DataLossError(absl::StrCat(
        "upload of ", digest_.Hex(), ": the bytes have the digest ",
        actual.Hex(), "; nothing was kept, send the file again")));
  }
  if (fsync(fd_.get()) != 0) {
    const int error = errno;
    if (error == ENOSPC || error == EDQUOT) {
      return Fail(NoRoom("no room on the disk; nothing was kept"));
    }
    return Fail(ErrnoStatus(error, path_));
  }
  const std::string target = store_.BlobPath(digest_);
  const std::string folder = DirName(target);
  if (absl::Status status = MakeDirectories(folder); !status.ok()) {
    return Fail(status);
  }
  bool existed = false;
  {
    MutexLock lock(part_->mutex);
    TWINPATH_RETURN_IF_ERROR(CheckOwner());
    existed = access(target.c_str(), F_OK) == 0;
    if (rename(path_.c_str(), target.c_str()) != 0) {
      return ErrnoStatus(errno, target);
    }
    if (owner_ != 0) part_->owner = 0;
    // What an interrupted upload left is of no more use.
    if (part_->owner == 0) {
      const std::string left = store_.PartPath(digest_);
      if (const absl::StatusOr<uint64_t> size = SizeOf(left); size.ok()) {
        unlink(left.c_str());
        store_.Release(*size);
      }
    }
  }
  finished_ = true;
  fd_.Close();
  // A twin that came first is replaced by equal bytes and counted once.
  if (existed) store_.Release(size_bytes_);
  part_.reset();
  store_.DropPart(digest_);
  TWINPATH_RETURN_IF_ERROR(SyncDirectory(folder));
  return SyncDirectory(store_.folder_);
}

}  // namespace twinpath::coordinator
