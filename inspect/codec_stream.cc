#include "inspect/codec_stream.h"

#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <climits>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace twinpath::inspect {
namespace {

struct ZstdFree {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
struct Lz4Free {
  void operator()(LZ4F_dctx* context) const {
    LZ4F_freeDecompressionContext(context);
  }
};
using Lz4Context = std::unique_ptr<LZ4F_dctx, Lz4Free>;

class ZstdCodec final : public Codec {
 public:
  absl::Status Restart() override {
    if (context_ == nullptr) context_.reset(ZSTD_createDCtx());
    if (context_ == nullptr) {
      return absl::ResourceExhaustedError("no memory for zstd");
    }
    ZSTD_DCtx_reset(context_.get(), ZSTD_reset_session_only);
    return absl::OkStatus();
  }
  absl::StatusOr<size_t> Step(absl::string_view& in, char* out, size_t size,
                              bool& finished) override {
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out, size, 0};
    const size_t left = ZSTD_decompressStream(context_.get(), &output, &input);
    if (ZSTD_isError(left))
      return CorruptPayload("zstd", ZSTD_getErrorName(left));
    in.remove_prefix(input.pos);
    finished = left == 0;
    return output.pos;
  }

 private:
  std::unique_ptr<ZSTD_DCtx, ZstdFree> context_;
};

// zlib streams and gzip members.
class ZlibCodec final : public Codec {
 public:
  explicit ZlibCodec(bool gzip) : gzip_(gzip) {}
  ~ZlibCodec() override {
    if (open_) inflateEnd(&stream_);
  }
  absl::Status Restart() override {
    if (open_) {
      inflateReset(&stream_);
      return absl::OkStatus();
    }
    stream_ = {};
    // Sixteen more asks for gzip's header and check sum.
    if (inflateInit2(&stream_, MAX_WBITS + (gzip_ ? 16 : 0)) != Z_OK) {
      return absl::ResourceExhaustedError("no memory for zlib");
    }
    open_ = true;
    return absl::OkStatus();
  }
  absl::StatusOr<size_t> Step(absl::string_view& in, char* out, size_t size,
                              bool& finished) override {
    const uInt in_size =
        static_cast<uInt>(std::min<size_t>(in.size(), UINT_MAX));
    const uInt out_size = static_cast<uInt>(std::min<size_t>(size, UINT_MAX));
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = in_size;
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = out_size;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    in.remove_prefix(in_size - stream_.avail_in);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      return CorruptPayload(gzip_ ? "gzip" : "zlib",
                            stream_.msg != nullptr ? stream_.msg : "error");
    }
    finished = result == Z_STREAM_END;
    return out_size - stream_.avail_out;
  }

 private:
  const bool gzip_;
  z_stream stream_{};
  bool open_ = false;
};

class Lz4FrameCodec final : public Codec {
 public:
  absl::Status Restart() override {
    if (context_ == nullptr) {
      LZ4F_dctx* raw = nullptr;
      if (LZ4F_isError(LZ4F_createDecompressionContext(&raw, LZ4F_VERSION))) {
        return absl::ResourceExhaustedError("no memory for LZ4");
      }
      context_.reset(raw);
    }
    LZ4F_resetDecompressionContext(context_.get());
    return absl::OkStatus();
  }
  absl::StatusOr<size_t> Step(absl::string_view& in, char* out, size_t size,
                              bool& finished) override {
    size_t in_size = in.size();
    size_t out_size = size;
    const size_t left = LZ4F_decompress(context_.get(), out, &out_size,
                                        in.data(), &in_size, nullptr);
    if (LZ4F_isError(left))
      return CorruptPayload("LZ4", LZ4F_getErrorName(left));
    in.remove_prefix(in_size);
    finished = left == 0;
    return out_size;
  }

 private:
  Lz4Context context_;
};

}  // namespace

absl::Status CorruptPayload(absl::string_view codec, absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat("the ", codec, " payload does not decode: ", why));
}

absl::Status WrongLength(uint64_t got, uint64_t expanded) {
  return absl::DataLossError(absl::StrCat(
      "the payload decodes to ", got, " bytes, its header says ", expanded));
}

std::unique_ptr<Codec> MakeCodec(v1::Compression compression) {
  switch (compression) {
    case v1::COMPRESSION_ZSTD:
      return std::make_unique<ZstdCodec>();
    case v1::COMPRESSION_ZLIB:
      return std::make_unique<ZlibCodec>(false);
    case v1::COMPRESSION_GZIP:
      return std::make_unique<ZlibCodec>(true);
    case v1::COMPRESSION_LZ4_FRAME:
      return std::make_unique<Lz4FrameCodec>();
    default:
      return nullptr;
  }
}

absl::StatusOr<size_t> Pump(Codec& codec, absl::string_view& in, char* out,
                            size_t size, bool& finished) {
  size_t done = 0;
  finished = false;
  while (done < size && !finished) {
    const size_t before = in.size();
    TWINPATH_ASSIGN_OR_RETURN(
        const size_t got, codec.Step(in, out + done, size - done, finished));
    done += got;
    if (got == 0 && in.size() == before) break;
  }
  return done;
}

absl::Status ExpectEnd(Codec& codec, absl::string_view in) {
  char extra;
  bool finished = false;
  TWINPATH_ASSIGN_OR_RETURN(const size_t got,
                            Pump(codec, in, &extra, 1, finished));
  if (got > 0) {
    return absl::DataLossError(
        "the payload decodes to more bytes than its header says");
  }
  return finished ? absl::OkStatus()
                  : absl::DataLossError("the payload's end is missing");
}

}  // namespace twinpath::inspect
