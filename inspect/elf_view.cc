#include "inspect/elf_view.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kSectionHeaderBytes = 64;
constexpr size_t kSegmentHeaderBytes = 56;
// e_phnum of this value: the count is in section 0 (gABI).
constexpr uint16_t kManySegments = 0xffff;
constexpr uint16_t kNameIndexElsewhere = 0xffff;
constexpr uint64_t kMaxSegments = uint64_t{1} << 16;

ElfSection ParseSection(const char* at) {
  ElfSection section;
  section.type = LoadU32(at + 4);
  section.flags = LoadU64(at + 8);
  section.address = LoadU64(at + 16);
  section.offset = LoadU64(at + 24);
  section.size = LoadU64(at + 32);
  section.link = LoadU32(at + 40);
  section.info = LoadU32(at + 44);
  section.entry_size = LoadU64(at + 56);
  return section;
}

}  // namespace

absl::StatusOr<ElfView> ElfView::Open(const ByteSource& source) {
  std::array<char, kElfHeaderBytes> header;
  if (source.size() < 4) return absl::InvalidArgumentError("no ELF magic");
  const size_t available = std::min<uint64_t>(header.size(), source.size());
  TWINPATH_RETURN_IF_ERROR(source.ReadAt(0, available, header.data()));
  if (std::memcmp(header.data(), "\177ELF", 4) != 0) {
    return absl::InvalidArgumentError("no ELF magic");
  }
  if (available < header.size()) {
    return absl::DataLossError(absl::StrCat("the file ends after ", available,
                                            " bytes, inside the ELF header"));
  }
  if (header[4] != 2 || header[5] != 1) {
    return absl::UnimplementedError(header[4] == 1 ? "a 32-bit ELF file"
                                                   : "a big-endian ELF file");
  }
  ElfView view;
  view.os_abi_ = static_cast<uint8_t>(header[7]);
  view.abi_version_ = static_cast<uint8_t>(header[8]);
  view.type_ = LoadU16(header.data() + 16);
  view.machine_ = LoadU16(header.data() + 18);
  view.version_ = LoadU32(header.data() + 20);
  view.flags_ = LoadU32(header.data() + 48);
  TWINPATH_RETURN_IF_ERROR(view.ReadSections(source, header.data()));
  TWINPATH_RETURN_IF_ERROR(view.ReadSegments(source, header.data()));
  return view;
}

absl::Status ElfView::ReadSections(const ByteSource& source,
                                   const char* header) {
  const uint64_t table = LoadU64(header + 40);
  const uint16_t entry_size = LoadU16(header + 58);
  uint64_t count = LoadU16(header + 60);
  uint64_t names_index = LoadU16(header + 62);
  if (table == 0) return absl::OkStatus();
  if (entry_size != kSectionHeaderBytes) {
    section_problem_ =
        absl::StrCat("section headers of ", entry_size, " bytes");
    return absl::OkStatus();
  }
  if (!Fits(table, kSectionHeaderBytes, source.size())) {
    section_problem_ =
        absl::StrCat("the section table at offset ", table,
                     " lies outside the file of ", source.size(), " bytes");
    return absl::OkStatus();
  }
  if (count == 0 || names_index == kNameIndexElsewhere) {
    std::array<char, kSectionHeaderBytes> first;
    TWINPATH_RETURN_IF_ERROR(source.ReadAt(table, first.size(), first.data()));
    const ElfSection zero = ParseSection(first.data());
    if (count == 0) count = zero.size;
    if (names_index == kNameIndexElsewhere) names_index = zero.link;
  }
  if (count == 0) return absl::OkStatus();
  if (count > kMaxSections) {
    section_problem_ =
        absl::StrCat(count, " sections, above the cap of ", kMaxSections);
    return absl::OkStatus();
  }
  if (!Fits(table, count * kSectionHeaderBytes, source.size())) {
    section_problem_ = absl::StrCat(
        "the section table at offset ", table, " with ", count,
        " entries ends outside the file of ", source.size(), " bytes");
    return absl::OkStatus();
  }
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string bytes,
      ReadBytes(source, table, count * kSectionHeaderBytes,
                kMaxSections * kSectionHeaderBytes));
  sections_.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    sections_.push_back(ParseSection(bytes.data() + i * kSectionHeaderBytes));
  }

  if (names_index < count) {
    const ElfSection& names = sections_[names_index];
    if (names.type != kSectionNoBits && names.size <= kMaxSectionNameBytes &&
        Fits(names.offset, names.size, source.size())) {
      names_.resize(names.size);
      TWINPATH_RETURN_IF_ERROR(
          source.ReadAt(names.offset, names_.size(), names_.data()));
      for (uint64_t i = 0; i < count; ++i) {
        const uint32_t at = LoadU32(bytes.data() + i * kSectionHeaderBytes);
        if (at >= names_.size()) continue;
        const char* const start = names_.data() + at;
        sections_[i].name =
            absl::string_view(start, ::strnlen(start, names_.size() - at));
      }
    } else {
      section_problem_ = "the section names lie outside the file";
    }
  }
  for (uint32_t i = 0; i < sections_.size(); ++i) {
    if (sections_[i].type != 0 && sections_[i].type != kSectionNoBits &&
        sections_[i].size > 0) {
      by_offset_.push_back(i);
    }
  }
  std::stable_sort(by_offset_.begin(), by_offset_.end(),
                   [this](uint32_t a, uint32_t b) {
                     return sections_[a].offset < sections_[b].offset;
                   });
  return absl::OkStatus();
}

absl::Status ElfView::ReadSegments(const ByteSource& source,
                                   const char* header) {
  const uint64_t table = LoadU64(header + 32);
  const uint16_t entry_size = LoadU16(header + 54);
  uint64_t count = LoadU16(header + 56);
  if (table == 0 || count == 0) return absl::OkStatus();
  if (count == kManySegments && !sections_.empty()) count = sections_[0].info;
  if (entry_size != kSegmentHeaderBytes || count > kMaxSegments ||
      !Fits(table, count * kSegmentHeaderBytes, source.size())) {
    segment_problem_ =
        absl::StrCat("the program headers at offset ", table, " (", count,
                     " of ", entry_size, " bytes) lie outside the file of ",
                     source.size(), " bytes or are malformed");
    return absl::OkStatus();
  }
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string bytes,
      ReadBytes(source, table, count * kSegmentHeaderBytes,
                kMaxSegments * kSegmentHeaderBytes));
  for (uint64_t i = 0; i < count; ++i) {
    const char* const at = bytes.data() + i * kSegmentHeaderBytes;
    segments_.push_back({.type = LoadU32(at),
                         .flags = LoadU32(at + 4),
                         .offset = LoadU64(at + 8),
                         .address = LoadU64(at + 16),
                         .file_size = LoadU64(at + 32)});
  }
  return absl::OkStatus();
}

const ElfSection* ElfView::FindSection(absl::string_view name) const {
  for (const ElfSection& section : sections_) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

std::optional<uint64_t> ElfView::OffsetOfAddress(uint64_t address) const {
  for (const ElfSegment& segment : segments_) {
    if (segment.type != kSegmentLoad || address < segment.address) continue;
    const uint64_t delta = address - segment.address;
    if (delta < segment.file_size && segment.offset + delta >= delta) {
      return segment.offset + delta;
    }
  }
  return std::nullopt;
}

const ElfSection* ElfView::SectionAtOffset(uint64_t offset) const {
  auto after = std::upper_bound(by_offset_.begin(), by_offset_.end(), offset,
                                [this](uint64_t value, uint32_t index) {
                                  return value < sections_[index].offset;
                                });
  if (after == by_offset_.begin()) return nullptr;
  const ElfSection& section = sections_[*std::prev(after)];
  return offset - section.offset < section.size ? &section : nullptr;
}

std::string ElfView::Damage(uint64_t file_size) const {
  if (!section_problem_.empty()) return section_problem_;
  if (!segment_problem_.empty()) return segment_problem_;
  const auto outside = [file_size](uint64_t offset, uint64_t size) {
    return absl::StrCat(size, " bytes at offset ", offset,
                        ") ends outside the file of ", file_size, " bytes");
  };
  for (const ElfSection& section : sections_) {
    if (section.type != kSectionNoBits && section.type != 0 &&
        !Fits(section.offset, section.size, file_size)) {
      return absl::StrCat("section ", section.name, " (",
                          outside(section.offset, section.size));
    }
  }
  // Debug files keep the segments of the file they were split from.
  if (!sections_.empty()) return "";
  for (const ElfSegment& segment : segments_) {
    if (segment.type == kSegmentLoad &&
        !Fits(segment.offset, segment.file_size, file_size)) {
      return absl::StrCat("a segment (",
                          outside(segment.offset, segment.file_size));
    }
  }
  return "";
}

}  // namespace twinpath::inspect
