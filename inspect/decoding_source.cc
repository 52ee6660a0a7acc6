#include "inspect/decoding_source.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "inspect/codec_stream.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {

// Keeps the last decoded chunk, so that small steps forward inside it and
// re-reads of it cost nothing.
class DecodingSource::Stream {
 public:
  static constexpr size_t kInBytes = 128 << 10;
  static constexpr size_t kOutBytes = 1 << 20;

  Stream(v1::Compression compression, const ByteSource& stored,
         uint64_t expanded)
      : stored_(stored),
        expanded_(expanded),
        codec_(MakeCodec(compression)),
        in_(kInBytes),
        out_(kOutBytes) {}
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
  const std::unique_ptr<Codec> codec_;
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
