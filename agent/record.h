// Record: a length and a SHA-256 before bytes on disk, so that a torn write, a
// flipped bit or a foreign file is seen and never taken for data. Layout:
// magic "TPR1", length (4 bytes, little endian), SHA-256 of the payload (32
// bytes), payload. Pure functions.

#ifndef TWINPATH_AGENT_RECORD_H_
#define TWINPATH_AGENT_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace twinpath::agent {

// Bytes before the payload.
inline constexpr uint64_t kRecordHeaderBytes = 4 + 4 + 32;
// A payload is never larger; a claim above it is damage.
inline constexpr uint64_t kMaxRecordBytes = 64 << 20;

// Returns `payload` with its header before it. The payload must not be larger
// than kMaxRecordBytes.
std::string EncodeRecord(absl::string_view payload);

// Takes one record off the front of `bytes` and returns its payload, which
// lives as long as the bytes do. OUT_OF_RANGE: the bytes end inside the record
// (a write that was cut off). DATA_LOSS: they are no record, or damaged.
absl::StatusOr<absl::string_view> TakeRecord(absl::string_view* bytes);

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_RECORD_H_
