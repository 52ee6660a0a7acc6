#include "inspect/wrapper.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "inspect/dynamic.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1;
constexpr size_t kWrapperBytes = 24;
constexpr size_t kPointerAt = 8;
constexpr char kWrapperSection[] = ".nvFatBinSegment";
constexpr size_t kRelaBytes = 24;
constexpr size_t kWindow = 1 << 20;
constexpr uint64_t kMaxSectionBytes = kMaxWrappers * kWrapperBytes;
// R_*_RELATIVE of the ABIs: x86-64 and AArch64.
constexpr uint32_t kRelativeX86_64 = 8;
constexpr uint32_t kRelativeAarch64 = 1027;

bool IsWrapper(const char* at) {
  const uint32_t version = LoadU32(at + 4);
  return LoadU32(at) == kWrapperMagic && (version == 1 || version == 2);
}

struct Found {
  WrapperRecord record;
  // Where the pointer is relocated: virtual address, or offset in its section
  // for object files.
  uint64_t pointer_address = 0;
  uint64_t pointer = 0;
};

// Calls `on_rela(offset, info, addend)` for each record of a RELA table.
template <typename F>
absl::Status ForEachRela(const ByteSource& source, uint64_t offset,
                         uint64_t bytes, F on_rela) {
  if (!Fits(offset, bytes, source.size())) return absl::OkStatus();
  constexpr size_t kChunk = kWindow / kRelaBytes * kRelaBytes;
  std::string window;
  while (bytes >= kRelaBytes) {
    const size_t n =
        std::min<uint64_t>(bytes / kRelaBytes * kRelaBytes, kChunk);
    window.resize(n);
    TWINPATH_RETURN_IF_ERROR(source.ReadAt(offset, n, window.data()));
    for (size_t at = 0; at < n; at += kRelaBytes) {
      const char* const p = window.data() + at;
      on_rela(LoadU64(p), LoadU64(p + 8), LoadU64(p + 16));
    }
    offset += n;
    bytes -= n;
  }
  return absl::OkStatus();
}

// Records at every `step` bytes of a section.
absl::Status ReadSection(const ByteSource& source, const ElfView& elf,
                         const ElfSection& section, std::vector<Found>& found) {
  if (section.type == kSectionNoBits ||
      !Fits(section.offset, section.size, source.size())) {
    return absl::OkStatus();
  }
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string bytes,
      ReadBytes(source, section.offset,
                std::min(section.size, kMaxSectionBytes), kMaxSectionBytes));
  const bool object = elf.type() == kElfTypeRel;
  for (size_t at = 0; at + kWrapperBytes <= bytes.size(); at += 8) {
    if (!IsWrapper(bytes.data() + at)) continue;
    Found& wrapper = found.emplace_back();
    wrapper.record.offset = section.offset + at;
    wrapper.record.version = LoadU32(bytes.data() + at + 4);
    wrapper.pointer_address = (object ? 0 : section.address) + at + kPointerAt;
    wrapper.pointer = LoadU64(bytes.data() + at + kPointerAt);
  }
  return absl::OkStatus();
}

// Records in the writable segments, at multiples of 8 bytes.
absl::Status ScanSegments(const ByteSource& source, const ElfView& elf,
                          std::vector<Found>& found) {
  uint64_t scanned = 0;
  for (const ElfSegment& segment : elf.segments()) {
    if (segment.type != kSegmentLoad ||
        (segment.flags & kSegmentWritable) == 0 ||
        segment.offset >= source.size()) {
      continue;
    }
    const uint64_t size =
        std::min(segment.file_size, source.size() - segment.offset);
    // Segments that overlap on purpose are not read again and again.
    scanned += size;
    if (scanned > 2 * source.size()) return absl::OkStatus();
    // Windows start at addresses that are multiples of 8 and overlap by one
    // record.
    uint64_t at = (8 - segment.address % 8) % 8;
    while (at + kWrapperBytes <= size) {
      const size_t n = std::min<uint64_t>(kWindow, size - at);
      TWINPATH_ASSIGN_OR_RETURN(
          const std::string window,
          ReadBytes(source, segment.offset + at, n, kWindow));
      size_t i = 0;
      for (; i + kWrapperBytes <= n; i += 8) {
        if (LoadU32(window.data() + i) != kWrapperMagic ||
            !IsWrapper(window.data() + i) || found.size() >= kMaxWrappers) {
          continue;
        }
        Found& wrapper = found.emplace_back();
        wrapper.record.offset = segment.offset + at + i;
        wrapper.record.version = LoadU32(window.data() + i + 4);
        wrapper.pointer_address = segment.address + at + i + kPointerAt;
        wrapper.pointer = LoadU64(window.data() + i + kPointerAt);
      }
      at += i;
    }
  }
  return absl::OkStatus();
}

// File offsets that relocations give the pointers of a linked file.
absl::Status ResolveLinked(const ByteSource& source, const ElfView& elf,
                           std::vector<Found>& found) {
  absl::flat_hash_map<uint64_t, Found*> by_address;
  uint64_t lowest = std::numeric_limits<uint64_t>::max();
  uint64_t highest = 0;
  for (Found& wrapper : found) {
    by_address[wrapper.pointer_address] = &wrapper;
    lowest = std::min(lowest, wrapper.pointer_address);
    highest = std::max(highest, wrapper.pointer_address);
  }
  const auto on_rela = [&](uint64_t offset, uint64_t info, uint64_t addend) {
    const uint32_t type = static_cast<uint32_t>(info);
    if (offset < lowest || offset > highest ||
        (type != kRelativeX86_64 && type != kRelativeAarch64)) {
      return;
    }
    if (auto wrapper = by_address.find(offset); wrapper != by_address.end()) {
      wrapper->second->pointer = addend;
    }
  };
  TWINPATH_ASSIGN_OR_RETURN(const DynamicTable dynamic,
                            ReadDynamic(source, elf));
  TWINPATH_RETURN_IF_ERROR(
      ForEachRela(source, dynamic.rela_offset, dynamic.rela_bytes, on_rela));
  for (Found& wrapper : found) {
    wrapper.record.target = elf.OffsetOfAddress(wrapper.pointer);
  }
  return absl::OkStatus();
}

// The same for an object file: each pointer is a section symbol plus an addend.
absl::Status ResolveObject(const ByteSource& source, const ElfView& elf,
                           const ElfSection& section,
                           std::vector<Found>& found) {
  constexpr size_t kSymbolBytes = 24;
  const size_t index = static_cast<size_t>(&section - elf.sections().data());
  absl::flat_hash_map<uint64_t, Found*> by_address;
  for (Found& wrapper : found) by_address[wrapper.pointer_address] = &wrapper;
  for (const ElfSection& table : elf.sections()) {
    if (table.type != kSectionRela || table.info != index ||
        table.link >= elf.sections().size()) {
      continue;
    }
    const ElfSection& symbols = elf.sections()[table.link];
    struct Relocation {
      Found* wrapper;
      uint64_t symbol;
      uint64_t addend;
    };
    std::vector<Relocation> relocations;
    TWINPATH_RETURN_IF_ERROR(ForEachRela(
        source, table.offset, table.size,
        [&](uint64_t offset, uint64_t info, uint64_t addend) {
          if (auto w = by_address.find(offset); w != by_address.end()) {
            relocations.push_back({w->second, info >> 32, addend});
          }
        }));
    for (const Relocation& relocation : relocations) {
      const uint64_t at = symbols.offset + relocation.symbol * kSymbolBytes;
      if (!Fits(at, kSymbolBytes, source.size())) continue;
      char symbol[kSymbolBytes];
      TWINPATH_RETURN_IF_ERROR(source.ReadAt(at, kSymbolBytes, symbol));
      const uint16_t in = LoadU16(symbol + 6);
      if (in == 0 || in >= elf.sections().size()) continue;
      relocation.wrapper->record.target =
          elf.sections()[in].offset + LoadU64(symbol + 8) + relocation.addend;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<WrapperRecord>> FindWrappers(
    const ByteSource& source, const ElfView& elf,
    const absl::flat_hash_set<uint64_t>& fatbins) {
  std::vector<Found> found;
  std::vector<WrapperRecord> records;
  const ElfSection* named = nullptr;
  for (const ElfSection& section : elf.sections()) {
    if (section.name != kWrapperSection) continue;
    named = &section;
    std::vector<Found> in_section;
    TWINPATH_RETURN_IF_ERROR(ReadSection(source, elf, section, in_section));
    if (elf.type() == kElfTypeRel) {
      TWINPATH_RETURN_IF_ERROR(ResolveObject(source, elf, section, in_section));
    }
    found.insert(found.end(), in_section.begin(), in_section.end());
    if (found.size() >= kMaxWrappers) break;
  }
  if (elf.type() != kElfTypeRel) {
    // Without fatbins there is nothing a hidden wrapper could register.
    if (named == nullptr && !fatbins.empty()) {
      TWINPATH_RETURN_IF_ERROR(ScanSegments(source, elf, found));
    }
    if (!found.empty()) {
      TWINPATH_RETURN_IF_ERROR(ResolveLinked(source, elf, found));
    }
  }
  for (const Found& wrapper : found) {
    const bool resolves =
        wrapper.record.target && fatbins.contains(*wrapper.record.target);
    // What only looks like a wrapper is none.
    if (named == nullptr && !resolves) continue;
    records.push_back(wrapper.record);
  }
  return records;
}

}  // namespace twinpath::inspect
