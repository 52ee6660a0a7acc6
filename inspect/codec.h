// The codecs of fatbin entries: none, zlib, LZ4 block, LZ4 frame, zstd. Which
// one an entry uses stands in its flags and nowhere else. Sizes are claims of
// the file: callers check them against a cap before they ask for memory, and
// decoding fails if the claim is wrong.

#ifndef TWINPATH_INSPECT_CODEC_H_
#define TWINPATH_INSPECT_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/buffer.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

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

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_CODEC_H_
