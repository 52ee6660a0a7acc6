#include "inspect/dynamic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kEntryBytes = 16;
constexpr uint64_t kMaxTableBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxStringBytes = 4096;
constexpr size_t kMaxNeeded = 4096;
constexpr uint32_t kSectionDynamic = 6;
// Tags of the gABI and of GNU (elf.h).
constexpr uint64_t kNull = 0;
constexpr uint64_t kNeeded = 1;
constexpr uint64_t kStringTable = 5;
constexpr uint64_t kRela = 7;
constexpr uint64_t kRelaBytes = 8;
constexpr uint64_t kSoname = 14;
constexpr uint64_t kRpath = 15;
constexpr uint64_t kRunpath = 29;
constexpr uint64_t kFlags1 = 0x6ffffffb;
constexpr uint64_t kFlag1Pie = 0x08000000;

struct Place {
  uint64_t offset = 0;
  uint64_t size = 0;
};

Place FindTable(const ElfView& elf) {
  for (const ElfSegment& segment : elf.segments()) {
    if (segment.type == kSegmentDynamic) {
      return {segment.offset, segment.file_size};
    }
  }
  for (const ElfSection& section : elf.sections()) {
    if (section.type == kSectionDynamic) {
      return {section.offset, section.size};
    }
  }
  return {};
}

// A string up to its NUL; "" where it lies outside the source.
absl::StatusOr<std::string> StringAt(const ByteSource& source,
                                     uint64_t offset) {
  TWINPATH_ASSIGN_OR_RETURN(std::string bytes,
                            ReadUpTo(source, offset, kMaxStringBytes));
  const size_t nul = bytes.find('\0');
  if (nul == std::string::npos) return std::string();
  bytes.resize(nul);
  return bytes;
}

}  // namespace

absl::StatusOr<DynamicTable> ReadDynamic(const ByteSource& source,
                                         const ElfView& elf) {
  DynamicTable table;
  const Place place = FindTable(elf);
  if (place.size == 0) return table;
  table.present = true;
  if (!Fits(place.offset, place.size, source.size()) ||
      place.size > kMaxTableBytes) {
    table.problem =
        absl::StrCat("the dynamic section (", place.size, " bytes at ",
                     place.offset, ") lies outside the file or is too large");
    return table;
  }
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string bytes,
      ReadBytes(source, place.offset, place.size, kMaxTableBytes));
  uint64_t strings_address = 0;
  uint64_t rela_address = 0;
  std::vector<uint64_t> needed;
  uint64_t soname = 0;
  uint64_t rpath = 0;
  uint64_t runpath = 0;
  for (size_t at = 0; at + kEntryBytes <= bytes.size(); at += kEntryBytes) {
    const uint64_t tag = LoadU64(bytes.data() + at);
    const uint64_t value = LoadU64(bytes.data() + at + 8);
    if (tag == kNull) break;
    switch (tag) {
      case kNeeded:
        if (needed.size() < kMaxNeeded) needed.push_back(value);
        break;
      case kStringTable:
        strings_address = value;
        break;
      case kRela:
        rela_address = value;
        break;
      case kRelaBytes:
        table.rela_bytes = value;
        break;
      case kSoname:
        soname = value;
        break;
      case kRpath:
        rpath = value;
        break;
      case kRunpath:
        runpath = value;
        break;
      case kFlags1:
        table.pie = (value & kFlag1Pie) != 0;
        break;
      default:
        break;
    }
  }
  const std::optional<uint64_t> rela =
      rela_address != 0 ? elf.OffsetOfAddress(rela_address) : std::nullopt;
  if (rela && Fits(*rela, table.rela_bytes, source.size())) {
    table.rela_offset = *rela;
  } else {
    table.rela_bytes = 0;
  }
  const std::optional<uint64_t> strings = elf.OffsetOfAddress(strings_address);
  if (!strings) {
    if (!needed.empty() || soname != 0) {
      table.problem = "the dynamic string table lies outside the file";
    }
    return table;
  }
  const auto read = [&](uint64_t at) -> absl::StatusOr<std::string> {
    if (at > source.size()) return std::string();
    return StringAt(source, *strings + at);
  };
  for (const uint64_t at : needed) {
    TWINPATH_ASSIGN_OR_RETURN(std::string name, read(at));
    if (!name.empty()) table.needed.push_back(std::move(name));
  }
  if (soname != 0) {
    TWINPATH_ASSIGN_OR_RETURN(table.soname, read(soname));
  }
  if (rpath != 0) {
    TWINPATH_ASSIGN_OR_RETURN(table.rpath, read(rpath));
  }
  if (runpath != 0) {
    TWINPATH_ASSIGN_OR_RETURN(table.runpath, read(runpath));
  }
  return table;
}

absl::StatusOr<std::string> ReadInterpreter(const ByteSource& source,
                                            const ElfView& elf) {
  for (const ElfSegment& segment : elf.segments()) {
    if (segment.type != kSegmentInterpreter) continue;
    TWINPATH_ASSIGN_OR_RETURN(
        std::string bytes,
        ReadUpTo(source, segment.offset,
                 std::min(segment.file_size, kMaxStringBytes)));
    bytes.resize(std::min(bytes.size(), bytes.find('\0')));
    return bytes;
  }
  return std::string();
}

}  // namespace twinpath::inspect
