#include "inspect/zstd_frame.h"

#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

// The shortest header there is: magic, descriptor, window.
constexpr size_t kShortHeader = 6;

}  // namespace

std::optional<ZstdHeader> ReadZstdHeader(absl::string_view frame) {
  static constexpr size_t kContentBytes[] = {0, 2, 4, 8};
  if (frame.size() < kShortHeader || frame.substr(0, 4) != "\x28\xB5\x2F\xFD") {
    return std::nullopt;
  }
  const unsigned descriptor = static_cast<unsigned char>(frame[4]);
  const bool single = (descriptor & 0x20) != 0;
  if ((descriptor & 0x0b) != 0) return std::nullopt;
  size_t content_bytes = kContentBytes[descriptor >> 6];
  if (single && content_bytes == 0) content_bytes = 1;
  ZstdHeader header;
  header.bytes = 5 + (single ? 0 : 1) + content_bytes;
  if (frame.size() < header.bytes) return std::nullopt;
  if (!single) {
    const unsigned window = static_cast<unsigned char>(frame[5]);
    const uint64_t base = uint64_t{1} << (10 + (window >> 3));
    header.window = base + base / 8 * (window & 7);
    return header;
  }
  const char* const content = frame.data() + 5;
  switch (content_bytes) {
    case 1:
      header.window = static_cast<unsigned char>(*content);
      break;
    case 2:
      header.window = uint64_t{LoadU16(content)} + 256;
      break;
    case 4:
      header.window = LoadU32(content);
      break;
    default:
      header.window = LoadU64(content);
      break;
  }
  return header;
}

ZstdBlock ReadZstdBlock(const char* at) {
  const uint32_t header =
      LoadU16(at) | uint32_t{static_cast<unsigned char>(at[2])} << 16;
  return {static_cast<ZstdBlockType>((header >> 1) & 3), (header & 1) != 0,
          header >> 3};
}

size_t ZstdFirstBlockEnd(absl::string_view frame) {
  const std::optional<ZstdHeader> header = ReadZstdHeader(frame);
  if (!header || !Fits(header->bytes, kZstdBlockHeader, frame.size())) return 0;
  return header->bytes +
         ReadZstdBlock(frame.data() + header->bytes).stored_bytes();
}

}  // namespace twinpath::inspect
