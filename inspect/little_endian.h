// Little-endian loads from bytes of any alignment. Both host architectures
// Twinpath runs on are little-endian; the build says so.

#ifndef TWINPATH_INSPECT_LITTLE_ENDIAN_H_
#define TWINPATH_INSPECT_LITTLE_ENDIAN_H_

#include <bit>
#include <cstdint>
#include <cstring>

namespace twinpath::inspect {

static_assert(std::endian::native == std::endian::little);

template <typename T>
T LoadLittle(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
inline uint16_t LoadU16(const char* at) { return LoadLittle<uint16_t>(at); }
inline uint32_t LoadU32(const char* at) { return LoadLittle<uint32_t>(at); }
inline uint64_t LoadU64(const char* at) { return LoadLittle<uint64_t>(at); }

// Returns whether [offset, offset + size) lies inside [0, limit), without
// overflow.
inline bool Fits(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_LITTLE_ENDIAN_H_
