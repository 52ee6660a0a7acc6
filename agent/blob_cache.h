// BlobCache: the artifact bytes this host keeps, named by their SHA-256. A blob
// is fetched into a partial file, resumed where a fetch was cut off, verified,
// and only then renamed to its name; it is verified again whenever it is copied
// out, so a disk that forgets is noticed and the blob fetched anew. The cache
// has a cap; the least recently used blob goes first, and never one that is
// pinned. When the disk is full nothing half-written stays behind.
//
// Layout: "blobs/<first two digits>/<digest>", "partial/<digest>". Use is
// recorded in the files' modification time, so that the order survives a
// restart. Thread-safe; two callers that want one blob share one fetch.

#ifndef TWINPATH_AGENT_BLOB_CACHE_H_
#define TWINPATH_AGENT_BLOB_CACHE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/digest.h"
#include "base/mutex.h"

namespace twinpath::agent {

// Where blobs come from.
class BlobSource {
 public:
  virtual ~BlobSource() = default;
  // Gives the blob's bytes from `offset` on to `sink`, piece by piece, and
  // stops with the sink's error if it has one. NOT_FOUND: the source does not
  // have it. UNAVAILABLE, DEADLINE_EXCEEDED: worth another try from where it
  // ended.
  virtual absl::Status Fetch(
      const Sha256& digest, uint64_t offset,
      const std::function<absl::Status(absl::string_view)>& sink,
      const std::function<bool()>& cancelled) = 0;
};

struct CacheLimits {
  // Bytes of all blobs and partial files together.
  uint64_t max_bytes = uint64_t{32} << 30;
};

class BlobCache {
 public:
  // Keeps a blob from being evicted while it lives. Move-only. Must not outlive
  // the cache.
  class Pin {
   public:
    Pin() = default;
    Pin(Pin&& other) noexcept
        : cache_(std::exchange(other.cache_, nullptr)),
          digest_(other.digest_) {}
    Pin& operator=(Pin&& other) noexcept;
    ~Pin() { Release(); }
    const Sha256& digest() const { return digest_; }

   private:
    friend class BlobCache;
    Pin(BlobCache* cache, const Sha256& digest)
        : cache_(cache), digest_(digest) {}
    void Release();

    BlobCache* cache_ = nullptr;
    Sha256 digest_;
  };

  // Opens an existing folder and takes stock of it.
  static absl::StatusOr<std::unique_ptr<BlobCache>> Open(
      const std::string& directory, const CacheLimits& limits);

  // Returns a pin on the blob, fetching what is missing. DATA_LOSS: what came
  // is not the blob; nothing is kept. RESOURCE_EXHAUSTED: the disk is full or
  // the cap is too small for what is pinned. CANCELLED. Else as the source
  // says; what came so far is kept for the next try.
  absl::StatusOr<Pin> Acquire(const Sha256& digest, uint64_t size,
                              BlobSource& source,
                              const std::function<bool()>& cancelled);

  // Copies a pinned blob to `fd` and checks its digest on the way. DATA_LOSS:
  // the cached bytes went bad; the blob is dropped, and Acquire fetches it
  // anew. What was written to `fd` is then not the blob.
  absl::Status CopyOut(const Pin& pin, int fd);

  // Whether the blob is here (not whether it is still good).
  bool Contains(const Sha256& digest) const;
  // Bytes of a blob whose fetch was cut off. 0: none.
  uint64_t PartialBytes(const Sha256& digest) const;
  uint64_t bytes() const;

 private:
  struct Blob {
    uint64_t bytes = 0;
    // Order of use; larger is later.
    uint64_t used = 0;
    int pins = 0;
    // Its bytes went bad and are gone; only the pins are left.
    bool bad = false;
  };

  BlobCache(std::string directory, const CacheLimits& limits)
      : directory_(std::move(directory)), limits_(limits) {}

  absl::Status TakeStock();
  std::string PathOf(const Sha256& digest) const;
  std::string PartialOf(const Sha256& digest) const;
  // Makes room for `bytes` more. RESOURCE_EXHAUSTED if pins forbid it.
  absl::Status MakeRoom(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the least recently used unpinned blob. False: there is none.
  bool EvictOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fetches into the partial file and renames it.
  absl::Status FetchOnce(const Sha256& digest, uint64_t size,
                         BlobSource& source,
                         const std::function<bool()>& cancelled);
  void Unpin(const Sha256& digest);

  const std::string directory_;
  const CacheLimits limits_;
  mutable Mutex mutex_;
  CondVar fetched_;
  std::map<Sha256, Blob> blobs_ ABSL_GUARDED_BY(mutex_);
  // Partial files that no fetch is using, with their bytes.
  std::map<Sha256, uint64_t> partial_ ABSL_GUARDED_BY(mutex_);
  std::set<Sha256> fetching_ ABSL_GUARDED_BY(mutex_);
  // Bytes of blobs, of idle partial files, and reserved by running fetches.
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t clock_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_BLOB_CACHE_H_
