#include "inspect/find_beginning.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "inspect/fatbin.h"
#include "inspect/little_endian.h"
#include "inspect/offload.h"

namespace twinpath::inspect {
namespace {

// Whether one of the eight begins at `at`.
bool Begins(const char* at) {
  const uint32_t word = LoadU32(at);
  return word == LoadU32(kFatbinMagic) || word == LoadU32(kElfBegin) ||
         word == LoadU32(kZstdBegin) || word == LoadU32(kOffloadMagic) ||
         word == LoadU32(kPtxBegin) || word == LoadU32(kCudartBegin) ||
         (word & 0xffffff) == kGzipBegin || (word & 0xffff) == kZlibBegin;
}

constexpr size_t kBlock = 64;

// First block of kBlock bytes, from `begin` on, in which the first two bytes of
// one of the eight stand together; `end` if there is none. One byte behind
// `end` is read. Vectors of bytes compile to what the processor has.
const char* FirstBlockBaseline(const char* begin, const char* end) {
  using Bytes = uint8_t __attribute__((vector_size(16)));
  using Words = uint64_t __attribute__((vector_size(16)));
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
          ((a == 0x2E) & (b == 0x76)) | ((a == 0x2F) & (b == 0x63)) |
          ((a == 0x1F) & (b == 0x8B)) | ((a == 0x78) & (b == 0xDA)));
    }
    if ((any[0] | any[1]) != 0) return begin;
  }
  return end;
}

#if defined(__x86_64__)
// The same by tables: a bit for each of the eight, in the halves of its two
// bytes. A bit that is left in all four is a pair that stands there.
struct HalfByteTables {
  // Index: half of a byte; twice sixteen, as the instruction wants them.
  std::array<char, 32> first_low{};
  std::array<char, 32> first_high{};
  std::array<char, 32> second_low{};
  std::array<char, 32> second_high{};
};

constexpr HalfByteTables MakeTables() {
  constexpr std::array<std::array<uint8_t, 2>, 8> kPairs = {{{0x50, 0xED},
                                                             {0x7F, 0x45},
                                                             {0x28, 0xB5},
                                                             {0x10, 0xFF},
                                                             {0x2E, 0x76},
                                                             {0x2F, 0x63},
                                                             {0x1F, 0x8B},
                                                             {0x78, 0xDA}}};
  HalfByteTables tables;
  const auto mark = [](std::array<char, 32>& table, size_t half, size_t bit) {
    for (const size_t at : {half, half + 16}) {
      table[at] =
          static_cast<char>(static_cast<uint8_t>(table[at]) | (1u << bit));
    }
  };
  for (size_t i = 0; i < kPairs.size(); ++i) {
    mark(tables.first_low, kPairs[i][0] & 15, i);
    mark(tables.first_high, kPairs[i][0] >> 4, i);
    mark(tables.second_low, kPairs[i][1] & 15, i);
    mark(tables.second_high, kPairs[i][1] >> 4, i);
  }
  return tables;
}

[[gnu::target("avx2")]] const char* FirstBlockAvx2(const char* begin,
                                                   const char* end) {
  using Chars = char __attribute__((vector_size(32)));
  using Halves = uint16_t __attribute__((vector_size(32)));
  using Words = uint64_t __attribute__((vector_size(32)));
  static constexpr HalfByteTables kTables = MakeTables();
  Chars first_low;
  Chars first_high;
  Chars second_low;
  Chars second_high;
  std::memcpy(&first_low, kTables.first_low.data(), sizeof(Chars));
  std::memcpy(&first_high, kTables.first_high.data(), sizeof(Chars));
  std::memcpy(&second_low, kTables.second_low.data(), sizeof(Chars));
  std::memcpy(&second_high, kTables.second_high.data(), sizeof(Chars));
  for (; begin < end; begin += kBlock) {
    Words any{};
    for (size_t i = 0; i < kBlock; i += sizeof(Chars)) {
      Chars a;
      Chars b;
      std::memcpy(&a, begin + i, sizeof(a));
      std::memcpy(&b, begin + i + 1, sizeof(b));
      // There is no shift of bytes.
      const auto a_high =
          reinterpret_cast<Chars>(reinterpret_cast<Halves>(a) >> 4) & 15;
      const auto b_high =
          reinterpret_cast<Chars>(reinterpret_cast<Halves>(b) >> 4) & 15;
      any |= reinterpret_cast<Words>(
          __builtin_ia32_pshufb256(first_low, a & 15) &
          __builtin_ia32_pshufb256(first_high, a_high) &
          __builtin_ia32_pshufb256(second_low, b & 15) &
          __builtin_ia32_pshufb256(second_high, b_high));
    }
    if ((any[0] | any[1] | any[2] | any[3]) != 0) return begin;
  }
  return end;
}
#endif

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
