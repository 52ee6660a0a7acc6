#include "inspect/codec.h"

#include <lz4.h>
#include <lz4frame.h>
#include <sys/mman.h>
#include <zlib.h>
// For ZSTD_d_stableOutBuffer, a mere number; no function of that part is used.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

absl::Status Corrupt(absl::string_view codec, absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat("the ", codec, " payload does not decode: ", why));
}

absl::Status WrongLength(uint64_t got, uint64_t expanded) {
  return absl::DataLossError(absl::StrCat(
      "the payload decodes to ", got, " bytes, its header says ", expanded));
}

struct ZstdFree {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
struct Lz4Free {
  void operator()(LZ4F_dctx* context) const {
    LZ4F_freeDecompressionContext(context);
  }
};
using ZstdContext = std::unique_ptr<ZSTD_DCtx, ZstdFree>;
using Lz4Context = std::unique_ptr<LZ4F_dctx, Lz4Free>;

// One stream in progress: takes bytes, gives bytes.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual absl::Status Restart() = 0;
  // Consumes from the front of `in`, fills the front of `out`; returns how many
  // bytes it wrote. Sets `finished` at the end of the stream.
  virtual absl::StatusOr<size_t> Step(absl::string_view& in, char* out,
                                      size_t size, bool& finished) = 0;
};

class ZstdCodec final : public Codec {
 public:
  explicit ZstdCodec(ZSTD_DCtx* context) : context_(context) {}
  absl::Status Restart() override {
    ZSTD_DCtx_reset(context_, ZSTD_reset_session_only);
    return absl::OkStatus();
  }
  absl::StatusOr<size_t> Step(absl::string_view& in, char* out, size_t size,
                              bool& finished) override {
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out, size, 0};
    const size_t left = ZSTD_decompressStream(context_, &output, &input);
    if (ZSTD_isError(left)) return Corrupt("zstd", ZSTD_getErrorName(left));
    in.remove_prefix(input.pos);
    finished = left == 0;
    return output.pos;
  }

 private:
  ZSTD_DCtx* context_;
};

class ZlibCodec final : public Codec {
 public:
  ~ZlibCodec() override {
    if (open_) inflateEnd(&stream_);
  }
  absl::Status Restart() override {
    if (open_) {
      inflateReset(&stream_);
      return absl::OkStatus();
    }
    stream_ = {};
    if (inflateInit(&stream_) != Z_OK) {
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
      return Corrupt("zlib", stream_.msg != nullptr ? stream_.msg : "error");
    }
    finished = result == Z_STREAM_END;
    return out_size - stream_.avail_out;
  }

 private:
  z_stream stream_{};
  bool open_ = false;
};

// The lengths of an LZ4 sequence go on while bytes are 255. False: cut.
bool AddLz4Length(absl::string_view stored, size_t& at, uint64_t& length) {
  for (;;) {
    if (at >= stored.size()) return false;
    const auto byte = static_cast<uint8_t>(stored[at++]);
    length += byte;
    if (byte != 255) return true;
  }
}

// The library copies for a match of offset 0, and so what memory held before.
// The block format calls that offset invalid.
absl::Status CheckLz4Offsets(absl::string_view stored) {
  size_t at = 0;
  while (at < stored.size()) {
    const auto token = static_cast<uint8_t>(stored[at++]);
    uint64_t literals = token >> 4;
    if (literals == 15 && !AddLz4Length(stored, at, literals)) break;
    // The last sequence ends with its literals.
    if (literals >= stored.size() - at) break;
    at += literals;
    if (stored.size() - at < 2) break;
    if (stored[at] == 0 && stored[at + 1] == 0) {
      return Corrupt("LZ4", "a match has offset 0");
    }
    at += 2;
    uint64_t match = token & 15;
    if (match == 15 && !AddLz4Length(stored, at, match)) break;
  }
  return absl::OkStatus();
}

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
    if (LZ4F_isError(left)) return Corrupt("LZ4", LZ4F_getErrorName(left));
    in.remove_prefix(in_size);
    finished = left == 0;
    return out_size;
  }

 private:
  Lz4Context context_;
};

// Sizes of a zstd frame's parts (RFC 8878, 3.1.1).
constexpr size_t kZstdBlockHeader = 3;
constexpr size_t kZstdLargestBlock = 128 << 10;
// The shortest header there is: magic, descriptor, window.
constexpr size_t kZstdShortHeader = 6;

// Length of the header at the front of `frame`, and the window it asks for;
// nothing if it is not there whole, or if it names a dictionary.
struct ZstdHeader {
  size_t bytes = 0;
  uint64_t window = 0;
};
std::optional<ZstdHeader> ReadZstdHeader(absl::string_view frame) {
  static constexpr size_t kContentBytes[] = {0, 2, 4, 8};
  if (frame.size() < kZstdShortHeader ||
      frame.substr(0, 4) != "\x28\xB5\x2F\xFD") {
    return std::nullopt;
  }
  const unsigned descriptor = static_cast<unsigned char>(frame[4]);
  const bool single = (descriptor & 0x20) != 0;
  if ((descriptor & 0x0b) != 0) return std::nullopt;
  size_t content_bytes = kContentBytes[descriptor >> 6];
  if (single && content_bytes == 0) content_bytes = 1;
  ZstdHeader header;
  header.bytes = 5 + (single ? 0 : 1) + content_bytes;
  if (frame.size() < header.bytes) return std::nullopt;
  if (!single) {
    const unsigned window = static_cast<unsigned char>(frame[5]);
    const uint64_t base = uint64_t{1} << (10 + (window >> 3));
    header.window = base + base / 8 * (window & 7);
    return header;
  }
  const char* const content = frame.data() + 5;
  switch (content_bytes) {
    case 1:
      header.window = static_cast<unsigned char>(*content);
      break;
    case 2:
      header.window = uint64_t{LoadU16(content)} + 256;
      break;
    case 4:
      header.window = LoadU32(content);
      break;
    default:
      header.window = LoadU64(content);
      break;
  }
  return header;
}

// Stored bytes of the block whose header stands at `at`.
size_t ZstdBlockBytes(const char* at) {
  const uint32_t header =
      LoadU16(at) | uint32_t{static_cast<unsigned char>(at[2])} << 16;
  // A block of one repeated byte stores that byte.
  return kZstdBlockHeader + (((header >> 1) & 3) == 1 ? 1 : header >> 3);
}

// A frame decoded block by block straight to where it is wanted: the stream
// interface decodes into a window of its own and copies, and a frame that is
// all there it decodes to its end.
class ZstdBlocks {
 public:
  explicit ZstdBlocks(ZSTD_DCtx* context) : context_(context) {
    // Without it the same calls work, with the copy.
    if (context != nullptr) {
      ZSTD_DCtx_setParameter(context, ZSTD_d_stableOutBuffer, 1);
    }
  }

  // Takes a frame, or a beginning of it, that is to be decoded to `out`.
  // Returns false where it has to be decoded in another way.
  bool Start(absl::string_view frame, char* out, size_t capacity) {
    const std::optional<ZstdHeader> header = ReadZstdHeader(frame);
    // What the decoder accepts in streams; beyond it only the whole decodes.
    if (!header || header->window > (uint64_t{128} << 20)) return false;
    frame_ = frame;
    at_ = header->bytes;
    ended_ = false;
    // A header that does not say how long the content is: the decoder would
    // want room for all of it.
    unsigned exponent = 0;
    while ((uint64_t{1024} << exponent) < header->window) ++exponent;
    const char start[kZstdShortHeader] = {
        '\x28', '\xB5', '\x2F', '\xFD', 0, static_cast<char>(exponent << 3)};
    output_ = {out, capacity, 0};
    ZSTD_DCtx_reset(context_, ZSTD_reset_session_only);
    return Feed(absl::string_view(start, sizeof(start))).ok();
  }

  // Decodes whole blocks until `size` bytes are out, or what there is. There
  // has to be room for a block more.
  absl::Status Extend(size_t size) {
    while (output_.pos < size && !ended_ &&
           Fits(at_, kZstdBlockHeader, frame_.size())) {
      const char* const block = frame_.data() + at_;
      const size_t bytes = ZstdBlockBytes(block);
      if (!Fits(at_, bytes, frame_.size())) break;
      ended_ = (block[0] & 1) != 0;
      TWINPATH_RETURN_IF_ERROR(Feed(frame_.substr(at_, bytes)));
      at_ += bytes;
    }
    return absl::OkStatus();
  }
  // More of the same frame is there.
  void Continue(absl::string_view frame) { frame_ = frame; }
  size_t done() const { return output_.pos; }

 private:
  absl::Status Feed(absl::string_view bytes) {
    ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
    while (true) {
      const size_t before = output_.pos;
      const size_t left = ZSTD_decompressStream(context_, &output_, &input);
      if (ZSTD_isError(left)) return Corrupt("zstd", ZSTD_getErrorName(left));
      if (left == 0 || (input.pos == input.size && output_.pos == before)) {
        return absl::OkStatus();
      }
    }
  }

  ZSTD_DCtx* context_;
  absl::string_view frame_;
  // The next block's place in it.
  size_t at_ = 0;
  ZSTD_outBuffer output_{};
  bool ended_ = false;
};

// Steps until `size` bytes are out, the stream ends or `in` is used up.
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

// All expected bytes are out: only the stream's end mark may follow.
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

}  // namespace

size_t ZstdFirstBlockEnd(absl::string_view frame) {
  const std::optional<ZstdHeader> header = ReadZstdHeader(frame);
  if (!header || !Fits(header->bytes, kZstdBlockHeader, frame.size())) return 0;
  return header->bytes + ZstdBlockBytes(frame.data() + header->bytes);
}

char* Buffer::Prepare(size_t size) {
  // What the processors we run on have beside pages of 4 KiB.
  constexpr size_t kLargePage = 2 << 20;
  if (size > capacity_) {
    data_.reset();
    capacity_ = 0;
    if (size < kLargePage) {
      data_.reset(static_cast<char*>(std::malloc(size)));
      capacity_ = size;
    } else {
      capacity_ = (size + kLargePage - 1) / kLargePage * kLargePage;
      data_.reset(
          static_cast<char*>(std::aligned_alloc(kLargePage, capacity_)));
      // A wish: each first touch of a page costs as much as decoding it.
      if (data_ != nullptr) {
        (void)::madvise(data_.get(), capacity_, MADV_HUGEPAGE);
      }
    }
    if (data_ == nullptr) throw std::bad_alloc();
  }
  size_ = size;
  return data_.get();
}

void Buffer::Free() {
  data_.reset();
  size_ = 0;
  capacity_ = 0;
}

struct Decoder::Contexts {
  ZstdContext zstd{ZSTD_createDCtx()};
  ZstdBlocks zstd_blocks{zstd.get()};
  ZlibCodec zlib;
  Lz4FrameCodec lz4_frame;
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
      if (ZSTD_isError(got)) return Corrupt("zstd", ZSTD_getErrorName(got));
      if (got != expanded) return WrongLength(got, expanded);
      return absl::OkStatus();
    }
    case v1::COMPRESSION_LZ4_BLOCK: {
      if (stored.size() > INT_MAX || expanded > INT_MAX) {
        return Corrupt("LZ4", "it is larger than LZ4 allows");
      }
      TWINPATH_RETURN_IF_ERROR(CheckLz4Offsets(stored));
      const int got = LZ4_decompress_safe(stored.data(), to,
                                          static_cast<int>(stored.size()),
                                          static_cast<int>(expanded));
      if (got < 0) {
        return Corrupt("LZ4", "broken, or longer than its header says");
      }
      if (static_cast<uint64_t>(got) != expanded) {
        return WrongLength(static_cast<uint64_t>(got), expanded);
      }
      return absl::OkStatus();
    }
    case v1::COMPRESSION_ZLIB:
    case v1::COMPRESSION_LZ4_FRAME: {
      Codec& codec = compression == v1::COMPRESSION_ZLIB
                         ? static_cast<Codec&>(contexts_->zlib)
                         : static_cast<Codec&>(contexts_->lz4_frame);
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
      if (contexts_->zstd == nullptr) {
        return absl::ResourceExhaustedError("no memory for zstd");
      }
      return contexts_->zstd_blocks.Start(stored, to, room)
                 ? absl::OkStatus()
                 : Corrupt("zstd", "its header cannot be read");
    case v1::COMPRESSION_ZLIB:
      contexts_->stream = &contexts_->zlib;
      break;
    case v1::COMPRESSION_LZ4_FRAME:
      contexts_->stream = &contexts_->lz4_frame;
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
  if (got < 0) return Corrupt("LZ4", "broken");
  out.Resize(static_cast<size_t>(got));
  return absl::OkStatus();
}

// Keeps the last decoded chunk, so that small steps forward inside it and
// re-reads of it cost nothing.
class DecodingSource::Stream {
 public:
  static constexpr size_t kInBytes = 128 << 10;
  static constexpr size_t kOutBytes = 1 << 20;

  Stream(v1::Compression compression, const ByteSource& stored,
         uint64_t expanded)
      : stored_(stored), expanded_(expanded), in_(kInBytes), out_(kOutBytes) {
    switch (compression) {
      case v1::COMPRESSION_ZSTD:
        zstd_.reset(ZSTD_createDCtx());
        if (zstd_ != nullptr) codec_ = std::make_unique<ZstdCodec>(zstd_.get());
        break;
      case v1::COMPRESSION_ZLIB:
        codec_ = std::make_unique<ZlibCodec>();
        break;
      case v1::COMPRESSION_LZ4_FRAME:
        codec_ = std::make_unique<Lz4FrameCodec>();
        break;
      default:
        break;
    }
  }
  bool usable() const { return codec_ != nullptr; }
  uint64_t expanded() const { return expanded_; }

  absl::Status Restart() {
    TWINPATH_RETURN_IF_ERROR(codec_->Restart());
    in_left_ = {};
    in_offset_ = 0;
    chunk_offset_ = 0;
    chunk_size_ = 0;
    finished_ = false;
    return absl::OkStatus();
  }

  absl::Status Read(uint64_t offset, size_t size, char* out) {
    if (!Fits(offset, size, expanded_)) {
      return absl::OutOfRangeError(absl::StrCat("bytes ", offset, "+", size,
                                                " lie outside the ", expanded_,
                                                " bytes there are"));
    }
    if (offset < chunk_offset_) TWINPATH_RETURN_IF_ERROR(Restart());
    while (size > 0) {
      if (offset >= chunk_offset_ + chunk_size_) {
        TWINPATH_RETURN_IF_ERROR(Next());
        continue;
      }
      const size_t at = offset - chunk_offset_;
      const size_t n = std::min(size, chunk_size_ - at);
      std::memcpy(out, out_.data() + at, n);
      out += n;
      offset += n;
      size -= n;
    }
    return absl::OkStatus();
  }

 private:
  // Decodes the next chunk.
  absl::Status Next() {
    chunk_offset_ += chunk_size_;
    chunk_size_ = 0;
    while (chunk_size_ < out_.size() && !finished_) {
      if (in_left_.empty() && in_offset_ < stored_.size()) {
        const size_t n =
            std::min<uint64_t>(in_.size(), stored_.size() - in_offset_);
        TWINPATH_RETURN_IF_ERROR(stored_.ReadAt(in_offset_, n, in_.data()));
        in_offset_ += n;
        in_left_ = absl::string_view(in_.data(), n);
      }
      const size_t before = in_left_.size();
      TWINPATH_ASSIGN_OR_RETURN(
          const size_t got, codec_->Step(in_left_, out_.data() + chunk_size_,
                                         out_.size() - chunk_size_, finished_));
      chunk_size_ += got;
      if (got == 0 && in_left_.size() == before &&
          in_offset_ == stored_.size()) {
        break;
      }
    }
    if (chunk_size_ == 0) return WrongLength(chunk_offset_, expanded_);
    return absl::OkStatus();
  }

  const ByteSource& stored_;
  uint64_t expanded_;
  ZstdContext zstd_;
  std::unique_ptr<Codec> codec_;
  std::vector<char> in_;
  absl::string_view in_left_;
  uint64_t in_offset_ = 0;
  std::vector<char> out_;
  uint64_t chunk_offset_ = 0;
  size_t chunk_size_ = 0;
  bool finished_ = false;
};

DecodingSource::DecodingSource(std::unique_ptr<Stream> stream)
    : stream_(std::move(stream)) {}
DecodingSource::~DecodingSource() = default;

absl::StatusOr<std::unique_ptr<DecodingSource>> DecodingSource::Open(
    v1::Compression compression, const ByteSource& stored, uint64_t expanded) {
  auto stream = std::make_unique<Stream>(compression, stored, expanded);
  if (!stream->usable()) {
    return absl::UnimplementedError(
        "this packing can only be decoded as a whole");
  }
  TWINPATH_RETURN_IF_ERROR(stream->Restart());
  return std::unique_ptr<DecodingSource>(new DecodingSource(std::move(stream)));
}

uint64_t DecodingSource::size() const { return stream_->expanded(); }

absl::Status DecodingSource::ReadAt(uint64_t offset, size_t size,
                                    char* out) const {
  return stream_->Read(offset, size, out);
}

}  // namespace twinpath::inspect
