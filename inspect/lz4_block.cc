#include "inspect/lz4_block.h"

#include <cstddef>
#include <cstdint>

#include "inspect/codec_stream.h"

namespace twinpath::inspect {
namespace {

// The lengths of an LZ4 sequence go on while bytes are 255. False: cut.
bool AddLz4Length(absl::string_view stored, size_t& at, uint64_t& length) {
  for (;;) {
    if (at >= stored.size()) return false;
    const auto byte = static_cast<uint8_t>(stored[at++]);
    length += byte;
    if (byte != 255) return true;
  }
}

}  // namespace

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
      return CorruptPayload("LZ4", "a match has offset 0");
    }
    at += 2;
    uint64_t match = token & 15;
    if (match == 15 && !AddLz4Length(stored, at, match)) break;
  }
  return absl::OkStatus();
}

}  // namespace twinpath::inspect
