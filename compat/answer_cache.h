// AnswerCache: answers already worked out, by a key that holds all they depend
// on. Bounded by bytes; what was asked for least lately goes first. Two threads
// that miss the same key at once both work it out, and one answer stays.
// Thread-safe.

#ifndef TWINPATH_COMPAT_ANSWER_CACHE_H_
#define TWINPATH_COMPAT_ANSWER_CACHE_H_

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"

namespace twinpath::compat::internal {

template <typename Answer>
class AnswerCache {
 public:
  explicit AnswerCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // The answer for a key; nullptr: none kept.
  std::shared_ptr<const Answer> Find(absl::string_view key) {
    const MutexLock lock(mutex_);
    const auto it = by_key_.find(key);
    if (it == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, it->second);
    return it->second->answer;
  }

  // Keeps an answer that takes `bytes`. Does not keep what is above the bound.
  void Keep(std::string key, std::shared_ptr<const Answer> answer,
            size_t bytes) {
    bytes += key.size() + kOverhead;
    if (bytes > max_bytes_) return;
    const MutexLock lock(mutex_);
    if (by_key_.contains(key)) return;
    entries_.push_front({std::move(key), std::move(answer), bytes});
    // The key lies in the list's node, which does not move.
    by_key_[entries_.front().key] = entries_.begin();
    bytes_ += bytes;
    while (bytes_ > max_bytes_) {
      const Entry& oldest = entries_.back();
      bytes_ -= oldest.bytes;
      by_key_.erase(oldest.key);
      entries_.pop_back();
    }
  }

  size_t bytes() {
    const MutexLock lock(mutex_);
    return bytes_;
  }
  size_t size() {
    const MutexLock lock(mutex_);
    return entries_.size();
  }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Answer> answer;
    size_t bytes = 0;
  };
  // What an entry takes beside key and answer, about.
  static constexpr size_t kOverhead = 160;

  const size_t max_bytes_;
  Mutex mutex_;
  // Latest first.
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<absl::string_view, typename std::list<Entry>::iterator>
      by_key_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace twinpath::compat::internal

#endif  // TWINPATH_COMPAT_ANSWER_CACHE_H_
