// The codecs of fatbin entries: none, zlib, LZ4 block, LZ4 frame, zstd. Which
// one an entry uses stands in its flags and nowhere else. Sizes are claims of
// the file: callers check them against a cap before they ask for memory, and
// decoding fails if the claim is wrong.

#ifndef TWINPATH_INSPECT_CODEC_H_
#define TWINPATH_INSPECT_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Bytes that are not set to zero when they are made. Grows, never shrinks but
// by Free; large ones in large pages, where the system has them. Not
// thread-safe.
class Buffer {
 public:
  // Makes room for `size` bytes; what was in it is lost. Returns where they
  // are.
  char* Prepare(size_t size);
  void Free();
  // Makes the view `size` bytes long, or as long as there is room.
  void Resize(size_t size) { size_ = size < capacity_ ? size : capacity_; }
  char* data() { return data_.get(); }
  absl::string_view view() const { return {data_.get(), size_}; }

 private:
  struct Release {
    void operator()(char* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<char[], Release> data_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// Decoder with its contexts, reused from image to image. Not thread-safe.
class Decoder {
 public:
  Decoder();
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Decodes the whole of `stored` into `out`, which holds exactly `expanded`
  // bytes afterwards. DATA_LOSS if the bytes do not decode or decode to another
  // length; UNIMPLEMENTED for OPAQUE. The caller has checked `expanded`.
  absl::Status DecodeAll(v1::Compression compression, absl::string_view stored,
                         uint64_t expanded, Buffer& out);

  // Decodes the first `size` bytes of a payload of which `stored` is a
  // beginning (for zstd ZstdFirstBlockEnd bytes at least), or what there is of
  // them. Valid until the decoder is used again. Errors as DecodeAll.
  absl::StatusOr<absl::string_view> DecodePrefix(v1::Compression compression,
                                                 absl::string_view stored,
                                                 size_t size);

  // The same step by step: StartPrefix, then ExtendPrefix with growing sizes up
  // to `most`, each leaving in `out` what there is up to that size, or to the
  // end of a zstd block. Streams go on where they were; an LZ4 block starts
  // anew. `stored` and `out` are the same and untouched meanwhile, and the
  // decoder does nothing else.
  absl::Status StartPrefix(v1::Compression compression,
                           absl::string_view stored, size_t most, Buffer& out);
  absl::Status ExtendPrefix(size_t size, Buffer& out);
  // More of the payload is there: `stored` begins with the same bytes as
  // before, and may lie elsewhere.
  void ContinuePrefix(absl::string_view stored);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

// Stored bytes that hold a payload's beginning for sure: of zstd the header and
// the largest block.
inline constexpr size_t kPrefixStoredBytes = 132 << 10;

// Where the first block ends of the zstd frame that begins with `frame`; 0 if
// that is not to be seen, or if the frame needs a dictionary.
size_t ZstdFirstBlockEnd(absl::string_view frame);

// A payload decoded while it is read, front to back, in a window: for images
// too large to hold. Going back starts anew, so readers should ask in ascending
// order. zlib, LZ4 frame and zstd only. Not thread-safe.
class DecodingSource final : public ByteSource {
 public:
  // UNIMPLEMENTED for the other codecs; DATA_LOSS if the stream does not start
  // well; RESOURCE_EXHAUSTED if its window is above 128 MiB. `stored` must
  // outlive this.
  static absl::StatusOr<std::unique_ptr<DecodingSource>> Open(
      v1::Compression compression, const ByteSource& stored, uint64_t expanded);
  ~DecodingSource() override;
  uint64_t size() const override;
  absl::Status ReadAt(uint64_t offset, size_t size, char* out) const override;

 private:
  class Stream;
  explicit DecodingSource(std::unique_ptr<Stream> stream);
  std::unique_ptr<Stream> stream_;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_CODEC_H_
