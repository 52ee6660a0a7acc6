#include "inspect/zstd_blocks.h"

// For ZSTD_d_stableOutBuffer, a mere number; no function of that part is used.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "inspect/codec_stream.h"
#include "inspect/little_endian.h"
#include "inspect/zstd_frame.h"

namespace twinpath::inspect {

struct ZstdBlocks::Context {
  Context() : zstd(ZSTD_createDCtx()) {
    // Without it the same calls work, with the copy.
    if (zstd != nullptr) {
      ZSTD_DCtx_setParameter(zstd, ZSTD_d_stableOutBuffer, 1);
    }
  }
  ~Context() { ZSTD_freeDCtx(zstd); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ZSTD_DCtx* const zstd;
};

ZstdBlocks::ZstdBlocks() : context_(std::make_unique<Context>()) {}
ZstdBlocks::~ZstdBlocks() = default;

bool ZstdBlocks::Start(absl::string_view frame, char* out, size_t capacity) {
  const std::optional<ZstdHeader> header = ReadZstdHeader(frame);
  // What the decoder accepts in streams; beyond it only the whole decodes.
  if (!header || header->window > kZstdLargestWindow ||
      context_->zstd == nullptr) {
    return false;
  }
  frame_ = frame;
  at_ = header->bytes;
  ended_ = false;
  // A header that does not say how long the content is: the decoder would want
  // room for all of it.
  unsigned exponent = 0;
  while ((uint64_t{1024} << exponent) < header->window) ++exponent;
  const char start[] = {'\x28', '\xB5', '\x2F',
                        '\xFD', 0,      static_cast<char>(exponent << 3)};
  out_ = out;
  capacity_ = capacity;
  done_ = 0;
  ZSTD_DCtx_reset(context_->zstd, ZSTD_reset_session_only);
  return Feed(absl::string_view(start, sizeof(start))).ok();
}

absl::Status ZstdBlocks::Extend(size_t size) {
  while (done_ < size && !ended_ &&
         Fits(at_, kZstdBlockHeader, frame_.size())) {
    const ZstdBlock block = ReadZstdBlock(frame_.data() + at_);
    const size_t bytes = block.stored_bytes();
    if (!Fits(at_, bytes, frame_.size())) break;
    ended_ = block.last;
    TWINPATH_RETURN_IF_ERROR(Feed(frame_.substr(at_, bytes)));
    at_ += bytes;
  }
  return absl::OkStatus();
}

absl::Status ZstdBlocks::Feed(absl::string_view bytes) {
  ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
  // The same all the time, as the decoder was promised.
  ZSTD_outBuffer output{out_, capacity_, done_};
  while (true) {
    const size_t left = ZSTD_decompressStream(context_->zstd, &output, &input);
    const bool more = output.pos > done_;
    done_ = output.pos;
    if (ZSTD_isError(left)) {
      return CorruptPayload("zstd", ZSTD_getErrorName(left));
    }
    if (left == 0 || (input.pos == input.size && !more)) {
      return absl::OkStatus();
    }
  }
}

}  // namespace twinpath::inspect
