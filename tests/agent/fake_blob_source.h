// A source of blobs in memory, with the faults a connection has: it can break
// off after some bytes, lie, or not have the blob. Thread-safe.

#ifndef TWINPATH_TESTS_AGENT_FAKE_BLOB_SOURCE_H_
#define TWINPATH_TESTS_AGENT_FAKE_BLOB_SOURCE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "agent/blob_cache.h"
#include "base/digest.h"
#include "base/mutex.h"

namespace twinpath::agent {

class FakeBlobSource final : public BlobSource {
 public:
  // Adds a blob and returns its digest.
  Sha256 Add(const std::string& content) {
    MutexLock lock(mutex_);
    const Sha256 digest = Sha256Of(content);
    blobs_[digest] = content;
    return digest;
  }
  // Serves `content` under a digest that is not its own.
  void Lie(const Sha256& digest, const std::string& content) {
    MutexLock lock(mutex_);
    blobs_[digest] = content;
  }
  // Each fetch ends UNAVAILABLE after this many bytes. 0: never.
  void BreakAfter(uint64_t bytes) {
    MutexLock lock(mutex_);
    break_after_ = bytes;
  }
  // Each fetch ends UNAVAILABLE at once.
  void GoAway() {
    MutexLock lock(mutex_);
    away_ = true;
  }
  // Offsets fetches began at, in order.
  std::vector<uint64_t> offsets() const {
    MutexLock lock(mutex_);
    return offsets_;
  }

  absl::Status Fetch(const Sha256& digest, uint64_t offset,
                     const std::function<absl::Status(absl::string_view)>& sink,
                     const std::function<bool()>& cancelled) override {
    std::string content;
    uint64_t budget = 0;
    {
      MutexLock lock(mutex_);
      offsets_.push_back(offset);
      if (away_) return absl::UnavailableError("nobody answers");
      const auto found = blobs_.find(digest);
      if (found == blobs_.end()) return absl::NotFoundError("no such blob");
      content = found->second;
      budget = break_after_ == 0 ? content.size() : break_after_;
    }
    constexpr uint64_t kPiece = 1000;
    while (offset < content.size()) {
      if (cancelled && cancelled()) return absl::CancelledError("cancelled");
      if (budget == 0) return absl::UnavailableError("the line went dead");
      const uint64_t size =
          std::min({kPiece, budget, uint64_t{content.size() - offset}});
      const absl::Status status = sink(content.substr(offset, size));
      if (!status.ok()) return status;
      offset += size;
      budget -= size;
    }
    return absl::OkStatus();
  }

 private:
  mutable Mutex mutex_;
  std::map<Sha256, std::string> blobs_ ABSL_GUARDED_BY(mutex_);
  uint64_t break_after_ ABSL_GUARDED_BY(mutex_) = 0;
  bool away_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<uint64_t> offsets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace twinpath::agent

#endif  // TWINPATH_TESTS_AGENT_FAKE_BLOB_SOURCE_H_
