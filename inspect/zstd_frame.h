// The outer form of a zstd frame (RFC 8878, 3.1.1): its header and its blocks'
// headers. Pure; thread-safe.

#ifndef TWINPATH_INSPECT_ZSTD_FRAME_H_
#define TWINPATH_INSPECT_ZSTD_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace twinpath::inspect {

inline constexpr size_t kZstdBlockHeader = 3;
// Most bytes a block decodes to, and most bytes it stores.
inline constexpr size_t kZstdLargestBlock = 128 << 10;
// The largest window that is decoded; the decoder of streams refuses more, too.
inline constexpr uint64_t kZstdLargestWindow = uint64_t{128} << 20;

struct ZstdHeader {
  // Its length, magic included.
  size_t bytes = 0;
  // How far back a match may reach.
  uint64_t window = 0;
};

// The header at the front of `frame`; nothing if it is not there whole, or if
// it names a dictionary.
std::optional<ZstdHeader> ReadZstdHeader(absl::string_view frame);

enum class ZstdBlockType {
  kRaw = 0,
  kRepeated = 1,
  kPacked = 2,
  kReserved = 3
};

struct ZstdBlock {
  ZstdBlockType type = ZstdBlockType::kReserved;
  bool last = false;
  // Stored bytes behind the header; of a repeated byte, how often it stands.
  uint32_t size = 0;

  // Header included.
  size_t stored_bytes() const {
    return kZstdBlockHeader + (type == ZstdBlockType::kRepeated ? 1 : size);
  }
};

// The block whose header's three bytes stand at `at`.
ZstdBlock ReadZstdBlock(const char* at);

// Where the first block ends of the zstd frame that begins with `frame`; 0 if
// that is not to be seen, or if the frame needs a dictionary.
size_t ZstdFirstBlockEnd(absl::string_view frame);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_ZSTD_FRAME_H_
