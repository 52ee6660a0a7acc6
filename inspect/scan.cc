#include "inspect/scan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "inspect/codec.h"

namespace twinpath::inspect {
namespace {

// After a fatbin the next one is near, so the first look is small; where
// nothing is found the window doubles up to the size at which reading is
// fastest.
constexpr size_t kFirstWindow = 4 << 10;
constexpr size_t kLargestWindow = 1 << 20;
// What two windows share: the longest text searched for, less one byte.
constexpr size_t kOverlap = 64;

// Sorts and merges; then every range is after the one before it.
std::vector<ScanRange> Union(std::vector<ScanRange> ranges) {
  std::sort(
      ranges.begin(), ranges.end(),
      [](const ScanRange& a, const ScanRange& b) { return a.begin < b.begin; });
  std::vector<ScanRange> merged;
  for (const ScanRange& range : ranges) {
    if (range.begin >= range.end) continue;
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

}  // namespace

std::vector<ScanRange> ScanRanges(const ElfView& elf, uint64_t file_size) {
  std::vector<ScanRange> code;
  const bool by_section = !elf.sections().empty();
  if (by_section) {
    for (const ElfSection& section : elf.sections()) {
      if (section.type == kSectionNoBits || section.type == 0 ||
          (section.flags & kSectionExecutable) == 0 ||
          section.offset >= file_size) {
        continue;
      }
      code.push_back(
          {section.offset,
           section.offset + std::min(section.size, file_size - section.offset),
           true});
    }
  } else {
    for (const ElfSegment& segment : elf.segments()) {
      if (segment.type != kSegmentLoad ||
          (segment.flags & kSegmentExecutable) == 0 ||
          segment.offset >= file_size) {
        continue;
      }
      code.push_back({segment.offset,
                      segment.offset + std::min(segment.file_size,
                                                file_size - segment.offset),
                      true});
    }
  }
  code = Union(std::move(code));

  std::vector<ScanRange> ranges;
  uint64_t at = 0;
  for (const ScanRange& range : code) {
    if (at < range.begin) ranges.push_back({at, range.begin, false});
    if (!by_section) ranges.push_back(range);
    at = range.end;
  }
  if (at < file_size) ranges.push_back({at, file_size, false});
  return ranges;
}

size_t FindFatbinMagic(absl::string_view bytes) {
  if (bytes.size() < 4) return absl::string_view::npos;
  // 16 candidates a step: vectors of bytes compile to SSE2 and to NEON alike.
  using Vector = uint8_t __attribute__((vector_size(16)));
  using Halves = uint64_t __attribute__((vector_size(16)));
  const char* const p = bytes.data();
  const size_t last = bytes.size() - 4;
  size_t i = 0;
  constexpr size_t kStep = 64;
  const auto load = [](const char* at) {
    Vector v;
    std::memcpy(&v, at, sizeof(v));
    return v;
  };
  const auto matches = [&load](const char* at) {
    return reinterpret_cast<Halves>((load(at) == 0x50) &
                                    (load(at + 1) == 0xED));
  };
  for (; i + kStep + 16 <= bytes.size(); i += kStep) {
    const Halves any = matches(p + i) | matches(p + i + 16) |
                       matches(p + i + 32) | matches(p + i + 48);
    if ((any[0] | any[1]) == 0) continue;
    for (size_t j = i; j < i + kStep && j <= last; ++j) {
      if (std::memcmp(p + j, kFatbinMagic, 4) == 0) return j;
    }
  }
  for (; i <= last; ++i) {
    if (std::memcmp(p + i, kFatbinMagic, 4) == 0) return i;
  }
  return absl::string_view::npos;
}

absl::Status ScanForFatbins(
    const ByteSource& source, const std::vector<ScanRange>& ranges,
    const std::function<bool(FatbinWalk)>& on_fatbin,
    const std::function<void(uint64_t, absl::string_view)>& on_window) {
  Buffer buffer;
  uint64_t walked = 0;
  for (const ScanRange& range : ranges) {
    uint64_t at = range.begin;
    size_t window = kFirstWindow;
    while (at < range.end) {
      const size_t n = std::min<uint64_t>(window, range.end - at);
      char* const bytes = buffer.Prepare(n);
      TWINPATH_RETURN_IF_ERROR(source.ReadAt(at, n, bytes));
      const absl::string_view view(bytes, n);
      // Several fatbins may start in one window; those that end in it too are
      // passed without reading again.
      uint64_t next = at + n;
      size_t from = 0;
      bool found = false;
      while (true) {
        const size_t hit = FindFatbinMagic(view.substr(from));
        if (hit == absl::string_view::npos) break;
        const uint64_t place = at + from + hit;
        absl::StatusOr<FatbinWalk> walk =
            WalkFatbin(source, place, range.end, kMaxEntriesWalked - walked);
        TWINPATH_RETURN_IF_ERROR_CTX(walk.status(),
                                     absl::StrCat("fatbin at offset ", place));
        walked += walk->entries.size();
        uint64_t resume = place + 4;
        const bool wanted =
            walk->state == FatbinState::kSound ||
            (walk->state == FatbinState::kDamaged && !range.code);
        if (wanted) {
          found = true;
          resume = walk->state == FatbinState::kSound
                       ? place + walk->size
                       : place + kFatbinHeaderBytes;
          if (!on_fatbin(*std::move(walk))) return absl::OkStatus();
        }
        if (resume >= at + n) {
          next = resume;
          from = n;
          break;
        }
        from = resume - at;
      }
      if (on_window) on_window(at, view);
      if (found) {
        window = kFirstWindow;
      } else {
        window = std::min(window * 2, kLargestWindow);
      }
      // The magic, or another text, may lie across the window's end; but what
      // was found is not found again.
      if (next == at + n && next < range.end && n > kOverlap) {
        next = std::max(next - kOverlap, at + from);
      }
      at = next;
    }
  }
  return absl::OkStatus();
}

}  // namespace twinpath::inspect
