// The beginning of a zstd frame, decoded block by block straight to where it is
// wanted: the stream interface decodes into a window of its own and copies, and
// a frame that is all there it decodes to its end.

#ifndef TWINPATH_INSPECT_ZSTD_BLOCKS_H_
#define TWINPATH_INSPECT_ZSTD_BLOCKS_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace twinpath::inspect {

// Reused from frame to frame. Not thread-safe.
class ZstdBlocks {
 public:
  ZstdBlocks();
  ~ZstdBlocks();
  ZstdBlocks(const ZstdBlocks&) = delete;
  ZstdBlocks& operator=(const ZstdBlocks&) = delete;

  // Takes a frame, or a beginning of it, that is to be decoded to `out`.
  // Returns false where it has to be decoded in another way, or there is no
  // memory.
  bool Start(absl::string_view frame, char* out, size_t capacity);
  // Decodes whole blocks until `size` bytes are out, or what there is. There
  // has to be room for a block more.
  absl::Status Extend(size_t size);
  // More of the same frame is there.
  void Continue(absl::string_view frame) { frame_ = frame; }
  size_t done() const { return done_; }

 private:
  struct Context;

  absl::Status Feed(absl::string_view bytes);

  const std::unique_ptr<Context> context_;
  absl::string_view frame_;
  // The next block's place in it.
  size_t at_ = 0;
  char* out_ = nullptr;
  size_t capacity_ = 0;
  size_t done_ = 0;
  bool ended_ = false;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_ZSTD_BLOCKS_H_
