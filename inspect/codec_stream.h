// Streams of the codecs that have some, taken step by step: zlib, gzip, LZ4
// frame, zstd.

#ifndef TWINPATH_INSPECT_CODEC_STREAM_H_
#define TWINPATH_INSPECT_CODEC_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// What is said of a payload that does not decode, or to another length.
absl::Status CorruptPayload(absl::string_view codec, absl::string_view why);
absl::Status WrongLength(uint64_t got, uint64_t expanded);

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

// A stream of `compression`, which has to be restarted before its first step;
// nullptr for a codec without streams.
std::unique_ptr<Codec> MakeCodec(v1::Compression compression);

// Steps until `size` bytes are out, the stream ends or `in` is used up.
absl::StatusOr<size_t> Pump(Codec& codec, absl::string_view& in, char* out,
                            size_t size, bool& finished);

// All expected bytes are out: only the stream's end mark may follow.
absl::Status ExpectEnd(Codec& codec, absl::string_view in);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_CODEC_STREAM_H_
