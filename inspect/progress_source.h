// A source that tells how much has been read through it: what a long inspection
// shows as progress. Thread-safe; so must be the function it calls, which is
// called from the threads that read.

#ifndef TWINPATH_INSPECT_PROGRESS_SOURCE_H_
#define TWINPATH_INSPECT_PROGRESS_SOURCE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "inspect/byte_source.h"

namespace twinpath::inspect {

class ProgressSource final : public ByteSource {
 public:
  // Gets the bytes read so far, each time they are read counted, at most once
  // an interval.
  using OnRead = std::function<void(uint64_t bytes_read)>;
  static constexpr absl::Duration kInterval = absl::Milliseconds(250);

  // `whole` must outlive this.
  ProgressSource(const ByteSource& whole, OnRead on_read)
      : whole_(whole), on_read_(std::move(on_read)) {}

  uint64_t size() const override { return whole_.size(); }
  absl::Status ReadAt(uint64_t offset, size_t size, char* out) const override {
    const uint64_t read = read_.fetch_add(size) + size;
    const int64_t now = absl::GetCurrentTimeNanos();
    int64_t next = next_.load();
    // One thread has the turn.
    if (now >= next &&
        next_.compare_exchange_strong(
            next, now + absl::ToInt64Nanoseconds(kInterval)) &&
        next != 0) {
      on_read_(read);
    }
    return whole_.ReadAt(offset, size, out);
  }
  uint64_t NextData(uint64_t offset) const override {
    return whole_.NextData(offset);
  }

 private:
  const ByteSource& whole_;
  const OnRead on_read_;
  mutable std::atomic<uint64_t> read_{0};
  // When to tell next; 0 before the first read, which tells nothing.
  mutable std::atomic<int64_t> next_{0};
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_PROGRESS_SOURCE_H_
