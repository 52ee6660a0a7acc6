#include "agent/blob_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "agent/fault_point.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"

namespace twinpath::agent {
namespace {

constexpr uint64_t kWindow = 1 << 20;

}  // namespace

BlobCache::Pin& BlobCache::Pin::operator=(Pin&& other) noexcept {
  if (this != &other) {
    Release();
    cache_ = std::exchange(other.cache_, nullptr);
    digest_ = other.digest_;
  }
  return *this;
}

void BlobCache::Pin::Release() {
  if (cache_ != nullptr) std::exchange(cache_, nullptr)->Unpin(digest_);
}

absl::StatusOr<std::unique_ptr<BlobCache>> BlobCache::Open(
    const std::string& directory, const CacheLimits& limits) {
  std::unique_ptr<BlobCache> cache(new BlobCache(directory, limits));
  TWINPATH_RETURN_IF_ERROR_CTX(cache->TakeStock(),
                               absl::StrCat("opening cache ", directory));
  return cache;
}

absl::Status BlobCache::TakeStock() {
  const std::string blobs = JoinPath(directory_, "blobs");
  const std::string partial = JoinPath(directory_, "partial");
  TWINPATH_RETURN_IF_ERROR(MakeDirectories(blobs));
  TWINPATH_RETURN_IF_ERROR(MakeDirectories(partial));

  // (time of last use, digest, bytes)
  std::vector<std::tuple<absl::Time, Sha256, uint64_t>> found;
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                            ListDirectory(blobs));
  for (const std::string& folder : folders) {
    const std::string folder_path = JoinPath(blobs, folder);
    TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                              ListDirectory(folder_path));
    for (const std::string& name : names) {
      const std::string path = JoinPath(folder_path, name);
      const absl::StatusOr<Sha256> digest = Sha256::FromHex(name);
      struct stat info;
      if (!digest.ok() || lstat(path.c_str(), &info) != 0 ||
          !S_ISREG(info.st_mode)) {
        TWINPATH_RETURN_IF_ERROR(RemoveTree(path));
        continue;
      }
      found.emplace_back(absl::TimeFromTimespec(info.st_mtim), *digest,
                         static_cast<uint64_t>(info.st_size));
    }
  }
  std::sort(found.begin(), found.end());

  TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> partial_names,
                            ListDirectory(partial));
  MutexLock lock(mutex_);
  for (const auto& [used, digest, bytes] : found) {
    blobs_[digest] = Blob{bytes, ++clock_, 0, false};
    bytes_ += bytes;
  }
  for (const std::string& name : partial_names) {
    const std::string path = JoinPath(partial, name);
    const absl::StatusOr<Sha256> digest = Sha256::FromHex(name);
    struct stat info;
    if (!digest.ok() || lstat(path.c_str(), &info) != 0 ||
        !S_ISREG(info.st_mode) || blobs_.contains(*digest)) {
      TWINPATH_RETURN_IF_ERROR(RemoveTree(path));
      continue;
    }
    partial_[*digest] = static_cast<uint64_t>(info.st_size);
    bytes_ += static_cast<uint64_t>(info.st_size);
  }
  // A cap that was lowered holds from the start.
  return MakeRoom(0);
}

std::string BlobCache::PathOf(const Sha256& digest) const {
  const std::string hex = digest.Hex();
  return absl::StrCat(directory_, "/blobs/", hex.substr(0, 2), "/", hex);
}

std::string BlobCache::PartialOf(const Sha256& digest) const {
  return absl::StrCat(directory_, "/partial/", digest.Hex());
}

bool BlobCache::EvictOne() {
  auto oldest = blobs_.end();
  for (auto it = blobs_.begin(); it != blobs_.end(); ++it) {
    if (it->second.pins == 0 &&
        (oldest == blobs_.end() || it->second.used < oldest->second.used)) {
      oldest = it;
    }
  }
  if (oldest == blobs_.end()) return false;
  unlink(PathOf(oldest->first).c_str());
  bytes_ -= oldest->second.bytes;
  blobs_.erase(oldest);
  return true;
}

absl::Status BlobCache::MakeRoom(uint64_t bytes) {
  if (bytes > limits_.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a blob of ", HumanBytes(bytes), " does not fit into the cache of ",
        HumanBytes(limits_.max_bytes), ": raise --cache-bytes"));
  }
  while (bytes_ > limits_.max_bytes - bytes) {
    if (!partial_.empty()) {
      unlink(PartialOf(partial_.begin()->first).c_str());
      bytes_ -= partial_.begin()->second;
      partial_.erase(partial_.begin());
    } else if (!EvictOne()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the cache of ", HumanBytes(limits_.max_bytes),
          " is taken by blobs that running cells need: raise --cache-bytes"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<BlobCache::Pin> BlobCache::Acquire(
    const Sha256& digest, uint64_t size, BlobSource& source,
    const std::function<bool()>& cancelled) {
  {
    MutexLock lock(mutex_);
    while (fetching_.contains(digest)) {
      if (cancelled && cancelled()) {
        return absl::CancelledError("gave up waiting for a blob");
      }
      fetched_.WaitFor(mutex_, absl::Milliseconds(100));
    }
    const auto found = blobs_.find(digest);
    if (found != blobs_.end() && !found->second.bad &&
        found->second.bytes == size) {
      ++found->second.pins;
      found->second.used = ++clock_;
      // The order of use outlives a restart in the file's time.
      utimensat(AT_FDCWD, PathOf(digest).c_str(), nullptr, 0);
      return Pin(this, digest);
    }
    if (found != blobs_.end() && !found->second.bad) {
      if (found->second.pins > 0) {
        return absl::DataLossError(
            absl::StrCat("blob ", digest.Hex(), " has ", found->second.bytes,
                         " bytes here and ", size, " in the manifest"));
      }
      // A power cut can leave a short file behind.
      unlink(PathOf(digest).c_str());
      bytes_ -= found->second.bytes;
      blobs_.erase(found);
    }
    // This fetch owns the partial file from here on.
    if (const auto part = partial_.find(digest); part != partial_.end()) {
      bytes_ -= part->second;
      partial_.erase(part);
    }
    TWINPATH_RETURN_IF_ERROR(MakeRoom(size));
    bytes_ += size;
    fetching_.insert(digest);
  }

  absl::Status status = FetchOnce(digest, size, source, cancelled);
  if (absl::IsResourceExhausted(status)) {
    // The file system is fuller than the cap knows: give room back and try
    // once more before giving up.
    bool evicted = false;
    {
      MutexLock lock(mutex_);
      while (EvictOne()) evicted = true;
    }
    if (evicted) {
      Log(LogLevel::kWarning, "disk full: cache emptied",
          {{"cache", directory_}});
      status = FetchOnce(digest, size, source, cancelled);
    }
  }

  MutexLock lock(mutex_);
  fetching_.erase(digest);
  fetched_.NotifyAll();
  if (status.ok()) {
    // A bad blob that others still pin keeps their pins.
    Blob& blob = blobs_[digest];
    blob = Blob{size, ++clock_, blob.pins + 1, false};
    return Pin(this, digest);
  }
  bytes_ -= size;
  struct stat info;
  if (stat(PartialOf(digest).c_str(), &info) == 0) {
    partial_[digest] = static_cast<uint64_t>(info.st_size);
    bytes_ += static_cast<uint64_t>(info.st_size);
  }
  return status;
}

absl::Status BlobCache::FetchOnce(const Sha256& digest, uint64_t size,
                                  BlobSource& source,
                                  const std::function<bool()>& cancelled) {
  const std::string partial = PartialOf(digest);
  bool keep_partial = false;
  const absl::Cleanup remove_partial = [&] {
    if (!keep_partial) unlink(partial.c_str());
  };
  UniqueFd fd(
      open(partial.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    return ErrnoStatus(errno, absl::StrCat("making ", partial));
  }

  // What an earlier fetch left is hashed again: the digest decides, not the
  // file's length.
  Sha256Stream stream;
  uint64_t offset = 0;
  for (;;) {
    TWINPATH_ASSIGN_OR_RETURN(const std::string window,
                              PreadUpTo(fd.get(), offset, kWindow));
    if (window.empty()) break;
    stream.Update(window);
    offset += window.size();
  }
  if (offset > size) {
    if (ftruncate(fd.get(), 0) != 0) {
      return ErrnoStatus(errno, absl::StrCat("emptying ", partial));
    }
    stream.Finish();
    offset = 0;
  }
  if (lseek(fd.get(), static_cast<off_t>(offset), SEEK_SET) < 0) {
    return ErrnoStatus(errno, absl::StrCat("seeking in ", partial));
  }

  absl::Status status;
  if (offset < size) {
    status = source.Fetch(
        digest, offset,
        [&](absl::string_view piece) -> absl::Status {
          if (cancelled && cancelled()) {
            return absl::CancelledError("gave up fetching a blob");
          }
          if (piece.size() > size - offset) {
            return absl::DataLossError(absl::StrCat(
                "more than the ", size, " bytes of the manifest came"));
          }
          TWINPATH_RETURN_IF_ERROR(WriteAll(fd.get(), piece));
          stream.Update(piece);
          offset += piece.size();
          FaultPoint("cache.piece-written");
          return absl::OkStatus();
        },
        cancelled);
  }
  if (!status.ok()) {
    keep_partial = !absl::IsDataLoss(status) &&
                   !absl::IsResourceExhausted(status) && offset > 0;
    return WithContext(status, absl::StrCat("fetching blob ", digest.Hex()));
  }
  if (offset < size) {
    keep_partial = offset > 0;
    return absl::UnavailableError(absl::StrCat("blob ", digest.Hex(),
                                               " ended after ", offset, " of ",
                                               size, " bytes"));
  }
  if (const Sha256 actual = stream.Finish(); actual != digest) {
    return absl::DataLossError(
        absl::StrCat("blob ", digest.Hex(), " arrived as ", actual.Hex()));
  }
  if (fdatasync(fd.get()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("syncing ", partial));
  }
  const std::string path = PathOf(digest);
  TWINPATH_RETURN_IF_ERROR(MakeDirectories(DirName(path)));
  FaultPoint("cache.before-rename");
  if (rename(partial.c_str(), path.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("naming ", path));
  }
  keep_partial = true;
  FaultPoint("cache.renamed");
  return absl::OkStatus();
}

absl::Status BlobCache::CopyOut(const Pin& pin, int fd) {
  const std::string path = PathOf(pin.digest());
  const auto copy = [&]() -> absl::Status {
    TWINPATH_ASSIGN_OR_RETURN(const UniqueFd from, OpenRegularFile(path));
    Sha256Stream stream;
    for (uint64_t offset = 0;;) {
      TWINPATH_ASSIGN_OR_RETURN(const std::string window,
                                PreadUpTo(from.get(), offset, kWindow));
      if (window.empty()) break;
      stream.Update(window);
      offset += window.size();
      TWINPATH_RETURN_IF_ERROR(WriteAll(fd, window));
    }
    if (const Sha256 actual = stream.Finish(); actual != pin.digest()) {
      return absl::DataLossError(absl::StrCat(
          "cached blob ", pin.digest().Hex(), " is now ", actual.Hex()));
    }
    return absl::OkStatus();
  };
  absl::Status status = copy();
  if (absl::IsNotFound(status)) {
    status = absl::DataLossError(MessageOf(status));
  }
  if (!absl::IsDataLoss(status)) return status;

  Log(LogLevel::kError, "a cached blob went bad and was dropped",
      {{"blob", pin.digest().Hex()}, {"why", std::string(MessageOf(status))}});
  MutexLock lock(mutex_);
  if (const auto found = blobs_.find(pin.digest());
      found != blobs_.end() && !found->second.bad) {
    unlink(path.c_str());
    // The entry stays for the pins on it; the next Acquire fetches anew.
    bytes_ -= found->second.bytes;
    found->second.bytes = 0;
    found->second.bad = true;
  }
  return status;
}

void BlobCache::Unpin(const Sha256& digest) {
  MutexLock lock(mutex_);
  const auto found = blobs_.find(digest);
  if (found != blobs_.end() && found->second.pins > 0) --found->second.pins;
}

bool BlobCache::Contains(const Sha256& digest) const {
  MutexLock lock(mutex_);
  const auto found = blobs_.find(digest);
  return found != blobs_.end() && !found->second.bad;
}

uint64_t BlobCache::PartialBytes(const Sha256& digest) const {
  MutexLock lock(mutex_);
  const auto found = partial_.find(digest);
  return found == partial_.end() ? 0 : found->second;
}

uint64_t BlobCache::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace twinpath::agent
