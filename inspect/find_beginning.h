// The search for the first bytes of what ScanForCode finds. Vectors of bytes
// compile to what the processor has. Pure; thread-safe.

#ifndef TWINPATH_INSPECT_FIND_BEGINNING_H_
#define TWINPATH_INSPECT_FIND_BEGINNING_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "inspect/runtime.h"

namespace twinpath::inspect {

// First bytes of what is searched for, four where nothing else is said.
inline constexpr char kElfBegin[] = "\177ELF";
inline constexpr char kZstdBegin[] = "\x28\xB5\x2F\xFD";
inline constexpr char kPtxBegin[] = ".ver";
// gzip members that are deflated: three bytes, and any fourth. zlib streams
// that were packed as well as it goes: two bytes.
inline constexpr uint32_t kGzipBegin = 0x088b1f;
inline constexpr uint32_t kZlibBegin = 0xda78;
inline constexpr char kCudartBegin[] = "/cud";
static_assert(kCudartText[0] == '/' && kCudartText[1] == 'c' &&
              kCudartText[2] == 'u' && kCudartText[3] == 'd');

// Index of the fatbin magic in `bytes`, npos if there is none.
size_t FindFatbinMagic(absl::string_view bytes);

// Index of the first place in `bytes` that may begin something ScanForCode
// looks for, npos if there is none.
size_t FindBeginning(absl::string_view bytes);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_FIND_BEGINNING_H_
