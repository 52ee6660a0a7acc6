#include "inspect/codec.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "inspect/codec_stream.h"
#include "inspect/lz4_block.h"
#include "inspect/zstd_blocks.h"
#include "inspect/zstd_frame.h"

namespace twinpath::inspect {
namespace {

struct ZstdFree {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

struct Decoder::Contexts {
  // Of one of the codecs that have streams, made when it is needed.
  Codec* StreamOf(v1::Compression which) {
    std::unique_ptr<Codec>& codec = which == v1::COMPRESSION_ZLIB   ? zlib
                                    : which == v1::COMPRESSION_GZIP ? gzip
                                                                    : lz4_frame;
    if (codec == nullptr) codec = MakeCodec(which);
    return codec.get();
  }

  std::unique_ptr<ZSTD_DCtx, ZstdFree> zstd{ZSTD_createDCtx()};
  ZstdBlocks zstd_blocks;
  std::unique_ptr<Codec> zlib;
  std::unique_ptr<Codec> gzip;
  std::unique_ptr<Codec> lz4_frame;
  // The prefix in progress: what is left of the stored bytes, and what is done.
  v1::Compression compression = v1::COMPRESSION_NONE;
  absl::string_view stored = {};
  size_t given = 0;
  size_t done = 0;
  size_t most = 0;
  Codec* stream = nullptr;
  Buffer prefix = {};
};

Decoder::Decoder() : contexts_(std::make_unique<Contexts>()) {}
Decoder::~Decoder() = default;

absl::Status Decoder::DecodeAll(v1::Compression compression,
                                absl::string_view stored, uint64_t expanded,
                                Buffer& out) {
  char* const to = out.Prepare(expanded);
  switch (compression) {
    case v1::COMPRESSION_NONE:
      if (stored.size() != expanded)
        return WrongLength(stored.size(), expanded);
      if (expanded > 0) std::memcpy(to, stored.data(), expanded);
      return absl::OkStatus();
    case v1::COMPRESSION_ZSTD: {
      if (contexts_->zstd == nullptr) {
        return absl::ResourceExhaustedError("no memory for zstd");
      }
      const size_t got = ZSTD_decompressDCtx(
          contexts_->zstd.get(), to, expanded, stored.data(), stored.size());
      if (ZSTD_isError(got))
        return CorruptPayload("zstd", ZSTD_getErrorName(got));
      if (got != expanded) return WrongLength(got, expanded);
      return absl::OkStatus();
    }
    case v1::COMPRESSION_LZ4_BLOCK: {
      if (stored.size() > INT_MAX || expanded > INT_MAX) {
        return CorruptPayload("LZ4", "it is larger than LZ4 allows");
      }
      TWINPATH_RETURN_IF_ERROR(CheckLz4Offsets(stored));
      const int got = LZ4_decompress_safe(stored.data(), to,
                                          static_cast<int>(stored.size()),
                                          static_cast<int>(expanded));
      if (got < 0) {
        return CorruptPayload("LZ4", "broken, or longer than its header says");
      }
      if (static_cast<uint64_t>(got) != expanded) {
        return WrongLength(static_cast<uint64_t>(got), expanded);
      }
      return absl::OkStatus();
    }
    case v1::COMPRESSION_ZLIB:
    case v1::COMPRESSION_GZIP:
    case v1::COMPRESSION_LZ4_FRAME: {
      Codec& codec = *contexts_->StreamOf(compression);
      TWINPATH_RETURN_IF_ERROR(codec.Restart());
      bool finished = false;
      absl::string_view rest = stored;
      TWINPATH_ASSIGN_OR_RETURN(const size_t got,
                                Pump(codec, rest, to, expanded, finished));
      if (got != expanded) return WrongLength(got, expanded);
      return finished ? absl::OkStatus() : ExpectEnd(codec, rest);
    }
    default:
      return absl::UnimplementedError("the payload's packing is not known");
  }
}

absl::StatusOr<absl::string_view> Decoder::DecodePrefix(
    v1::Compression compression, absl::string_view stored, size_t size) {
  Buffer& out = contexts_->prefix;
  TWINPATH_RETURN_IF_ERROR(StartPrefix(compression, stored, size, out));
  TWINPATH_RETURN_IF_ERROR(ExtendPrefix(size, out));
  return out.view().substr(0, size);
}

absl::Status Decoder::StartPrefix(v1::Compression compression,
                                  absl::string_view stored, size_t most,
                                  Buffer& out) {
  contexts_->compression = compression;
  contexts_->stored = stored;
  contexts_->given = stored.size();
  contexts_->done = 0;
  contexts_->most = most;
  contexts_->stream = nullptr;
  const size_t room =
      most + (compression == v1::COMPRESSION_ZSTD ? kZstdLargestBlock : 0);
  char* const to = out.Prepare(room);
  out.Resize(0);
  switch (compression) {
    case v1::COMPRESSION_NONE:
      return absl::OkStatus();
    case v1::COMPRESSION_LZ4_BLOCK:
      return CheckLz4Offsets(stored);
    case v1::COMPRESSION_ZSTD:
      return contexts_->zstd_blocks.Start(stored, to, room)
                 ? absl::OkStatus()
                 : CorruptPayload("zstd", "its header cannot be read");
    case v1::COMPRESSION_ZLIB:
    case v1::COMPRESSION_GZIP:
    case v1::COMPRESSION_LZ4_FRAME:
      contexts_->stream = contexts_->StreamOf(compression);
      break;
    default:
      return absl::UnimplementedError("the payload's packing is not known");
  }
  return contexts_->stream->Restart();
}

void Decoder::ContinuePrefix(absl::string_view stored) {
  Contexts& now = *contexts_;
  now.zstd_blocks.Continue(stored);
  const size_t used = now.given - now.stored.size();
  now.given = stored.size();
  now.stored = stored.substr(used);
}

absl::Status Decoder::ExtendPrefix(size_t size, Buffer& out) {
  Contexts& now = *contexts_;
  size = std::min(size, now.most);
  if (now.compression == v1::COMPRESSION_ZSTD) {
    TWINPATH_RETURN_IF_ERROR(now.zstd_blocks.Extend(size));
    out.Resize(now.zstd_blocks.done());
    return absl::OkStatus();
  }
  out.Resize(size);
  size = out.view().size();
  if (now.stream != nullptr) {
    if (now.done < size) {
      bool finished = false;
      TWINPATH_ASSIGN_OR_RETURN(
          const size_t got, Pump(*now.stream, now.stored, out.data() + now.done,
                                 size - now.done, finished));
      now.done += got;
    }
    out.Resize(std::min(size, now.done));
    return absl::OkStatus();
  }
  if (now.compression == v1::COMPRESSION_NONE) {
    out.Resize(std::min(size, now.stored.size()));
    if (!out.view().empty()) {
      std::memcpy(out.data(), now.stored.data(), out.view().size());
    }
    return absl::OkStatus();
  }
  const int in_size =
      static_cast<int>(std::min<size_t>(now.stored.size(), INT_MAX));
  const int want = static_cast<int>(std::min<size_t>(size, INT_MAX));
  const int got = LZ4_decompress_safe_partial(now.stored.data(), out.data(),
                                              in_size, want, want);
  if (got < 0) return CorruptPayload("LZ4", "broken");
  out.Resize(static_cast<size_t>(got));
  return absl::OkStatus();
}

}  // namespace twinpath::inspect
