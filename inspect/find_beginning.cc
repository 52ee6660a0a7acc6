#include "inspect/find_beginning.h"

#include <cstdint>
#include <cstring>

#include "inspect/fatbin.h"
#include "inspect/little_endian.h"
#include "inspect/offload.h"

namespace twinpath::inspect {
namespace {

// Whether one of the six begins at `at`.
bool Begins(const char* at) {
  const uint32_t word = LoadU32(at);
  return word == LoadU32(kFatbinMagic) || word == LoadU32(kElfBegin) ||
         word == LoadU32(kZstdBegin) || word == LoadU32(kOffloadMagic) ||
         word == LoadU32(kPtxBegin) || word == LoadU32(kCudartBegin);
}

constexpr size_t kBlock = 64;

// First block of kBlock bytes, from `begin` on, in which the first two bytes of
// one of the six stand together; `end` if there is none. One byte behind
// `end` is read. Vectors of bytes compile to what the processor has.
using Bytes16 = uint8_t __attribute__((vector_size(16)));
using Words16 = uint64_t __attribute__((vector_size(16)));
using Bytes32 = uint8_t __attribute__((vector_size(32)));
using Words32 = uint64_t __attribute__((vector_size(32)));

template <typename Bytes, typename Words>
[[gnu::always_inline]] inline const char* FirstBlock(const char* begin,
                                                     const char* end) {
  constexpr size_t kWidth = sizeof(Bytes);
  for (; begin < end; begin += kBlock) {
    Words any{};
    for (size_t i = 0; i < kBlock; i += kWidth) {
      Bytes a;
      Bytes b;
      std::memcpy(&a, begin + i, kWidth);
      std::memcpy(&b, begin + i + 1, kWidth);
      any |= reinterpret_cast<Words>(
          ((a == 0x50) & (b == 0xED)) | ((a == 0x7F) & (b == 0x45)) |
          ((a == 0x28) & (b == 0xB5)) | ((a == 0x10) & (b == 0xFF)) |
          ((a == 0x2E) & (b == 0x76)) | ((a == 0x2F) & (b == 0x63)));
    }
    uint64_t joined = 0;
    for (size_t i = 0; i < kWidth / sizeof(uint64_t); ++i) joined |= any[i];
    if (joined != 0) return begin;
  }
  return end;
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] const char* FirstBlockAvx2(const char* begin,
                                                   const char* end) {
  return FirstBlock<Bytes32, Words32>(begin, end);
}
#endif

const char* FirstBlockBaseline(const char* begin, const char* end) {
  return FirstBlock<Bytes16, Words16>(begin, end);
}

using BlockFinder = const char* (*)(const char*, const char*);
BlockFinder ChooseBlockFinder() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return FirstBlockAvx2;
#endif
  return FirstBlockBaseline;
}

}  // namespace

size_t FindBeginning(absl::string_view bytes) {
  static const BlockFinder find_block = ChooseBlockFinder();
  if (bytes.size() < 4) return absl::string_view::npos;
  const char* const begin = bytes.data();
  // The last place at which four bytes stand.
  const char* const last = begin + bytes.size() - 4;
  const char* at = begin;
  if (bytes.size() > kBlock) {
    // Whole blocks with one byte behind them.
    const char* const blocks = begin + (bytes.size() - 1) / kBlock * kBlock;
    while (at < blocks) {
      at = find_block(at, blocks);
      for (size_t i = 0; i < kBlock && at < blocks && at + i <= last; ++i) {
        if (Begins(at + i)) return static_cast<size_t>(at + i - begin);
      }
      if (at < blocks) at += kBlock;
    }
  }
  for (; at <= last; ++at) {
    if (Begins(at)) return static_cast<size_t>(at - begin);
  }
  return absl::string_view::npos;
}

size_t FindFatbinMagic(absl::string_view bytes) {
  size_t from = 0;
  while (true) {
    const size_t hit = FindBeginning(bytes.substr(from));
    if (hit == absl::string_view::npos) return hit;
    if (LoadU32(bytes.data() + from + hit) == LoadU32(kFatbinMagic)) {
      return from + hit;
    }
    from += hit + 1;
  }
}

}  // namespace twinpath::inspect
