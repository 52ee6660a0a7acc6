// Reads packed cubins from their first bytes: decodes no more of a payload than
// holds what is asked for (cubin_prefix.h), and what it meets again and again
// it decodes once.

#ifndef TWINPATH_INSPECT_PACKED_CUBIN_H_
#define TWINPATH_INSPECT_PACKED_CUBIN_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/buffer.h"
#include "inspect/byte_source.h"
#include "inspect/codec.h"
#include "inspect/cubin.h"
#include "inspect/cubin_prefix.h"
#include "inspect/prefix_cache.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// A payload's place in a source, and how it is packed.
struct PackedPayload {
  uint64_t offset = 0;
  // Stored bytes, or an upper bound of them.
  uint64_t stored = 0;
  // Bytes after decoding, or an upper bound.
  uint64_t expanded = 0;
  v1::Compression compression = v1::COMPRESSION_NONE;
};

// Keeps buffers and decoders from payload to payload. Not thread-safe.
class PackedCubinReader {
 public:
  // The source must outlive it.
  explicit PackedCubinReader(const ByteSource& source) : source_(source) {}

  // Reads the cubin that `payload` is into `cubin`. Returns false where it has
  // to be read whole, or cannot be read.
  bool Read(const PackedPayload& payload, const PrefixOptions& options,
            Cubin& cubin);

  // The same in two steps, for payloads that may be something else: decodes
  // `size` bytes at least, or what there is; valid until the reader is used
  // again. Errors of the codec and of the source.
  absl::StatusOr<absl::string_view> Start(const PackedPayload& payload,
                                          size_t size);
  bool ReadStarted(const PrefixOptions& options, Cubin& cubin);

 private:
  absl::Status ReadStored(const PackedPayload& payload);
  absl::Status StartDecoding();
  // Decodes up to `size` bytes, reading what that takes.
  absl::Status Extend(size_t size);

  const ByteSource& source_;
  Decoder decoder_;
  PackedPayload payload_;
  // Most bytes that are decoded of it, and most stored ones that takes.
  size_t most_ = 0;
  size_t most_stored_ = 0;
  Buffer stored_;
  Buffer decoded_;
  PrefixCache small_;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_PACKED_CUBIN_H_
