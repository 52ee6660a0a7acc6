// A packed payload as a source of its decoded bytes.

#ifndef TWINPATH_INSPECT_DECODING_SOURCE_H_
#define TWINPATH_INSPECT_DECODING_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "inspect/byte_source.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

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

#endif  // TWINPATH_INSPECT_DECODING_SOURCE_H_
