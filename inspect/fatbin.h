// The fatbin container: a 16-byte header and a chain of entries, each with a
// header of 64 bytes or more and a payload. Only headers are read here;
// payloads are not touched. Layout and sources: docs/formats/device-code.md.
// Pure but for the source's state.

#ifndef TWINPATH_INSPECT_FATBIN_H_
#define TWINPATH_INSPECT_FATBIN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"
#include "twinpath/v1/common.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

inline constexpr char kFatbinMagic[] = "\x50\xED\x55\xBA";
inline constexpr size_t kFatbinHeaderBytes = 16;
inline constexpr size_t kFatbinEntryBytes = 64;

// Kind words of entries.
inline constexpr uint16_t kEntryPtx = 0x01;
inline constexpr uint16_t kEntryElf = 0x02;
inline constexpr uint16_t kEntryLtoIr = 0x08;
inline constexpr uint16_t kEntryRelocatablePtx = 0x40;

// Flag bits of entries.
inline constexpr uint64_t kFlagZlib = 0x1000;
inline constexpr uint64_t kFlagLz4Block = 0x2000;
inline constexpr uint64_t kFlagLz4Frame = 0x4000;
inline constexpr uint64_t kFlagZstd = 0x8000;
inline constexpr uint64_t kFlagObfuscated = 0x10000;
inline constexpr uint64_t kFlagArchSpecific = 0x100000;
inline constexpr uint64_t kFlagFamilySpecific = 0x200000;
inline constexpr uint64_t kFlagCompatNote = 0x1000000;
// All bits whose meaning is known.
inline constexpr uint64_t kKnownFlags =
    0x7f | kFlagZlib | kFlagLz4Block | kFlagLz4Frame | kFlagZstd |
    kFlagObfuscated | kFlagArchSpecific | kFlagFamilySpecific | kFlagCompatNote;

// One entry's header.
struct FatbinEntry {
  // Place of the header in the source.
  uint64_t offset = 0;
  uint16_t kind = 0;
  uint32_t header_bytes = 0;
  // Stored bytes, padding included.
  uint64_t payload_bytes = 0;
  // Exact stored bytes where compressed, else 0.
  uint32_t compressed_bytes = 0;
  uint16_t version_major = 0;
  uint16_t version_minor = 0;
  uint32_t arch = 0;
  uint64_t flags = 0;
  // Bytes after decoding, 0 where not compressed.
  uint64_t decompressed_bytes = 0;
  // Name and tool options of the header's extension.
  std::string name;
  std::string options;

  uint64_t payload_offset() const { return offset + header_bytes; }
};

// What stands at a place.
enum class FatbinState {
  // No fatbin header.
  kNone,
  // Header right and the chain of entries ends exactly at its end.
  kSound,
  // Header right, chain broken or cut: `entries` holds those read before.
  kDamaged,
};

struct FatbinWalk {
  FatbinState state = FatbinState::kNone;
  uint64_t offset = 0;
  // Header included, as the header says (also where damaged).
  uint64_t size = 0;
  std::vector<FatbinEntry> entries;
  // What is broken and where; "" if sound.
  std::string problem;
};

// Walks the fatbin at `offset`, which has to end at or before `limit`.
// `max_entries` bounds the walk: RESOURCE_EXHAUSTED beyond it. Else only read
// errors of the source.
absl::StatusOr<FatbinWalk> WalkFatbin(const ByteSource& source, uint64_t offset,
                                      uint64_t limit, uint64_t max_entries);

// The codec that flags name. OPAQUE where obfuscated or where several codecs
// are named at once.
v1::Compression CompressionOfFlags(uint64_t flags);

// The target's suffix that flags name.
v1::TargetSuffix SuffixOfFlags(uint64_t flags);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_FATBIN_H_
