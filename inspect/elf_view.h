// A bounds-checked view of a 64-bit little-endian ELF file, host file or cubin.
// Only the header has to be sound; tables that lie outside the file are left
// out and said so, because a stripped or damaged file still holds what its
// other table describes. Section names are labels, never a reason to skip
// bytes. Not thread-safe while it is opened, thread-safe afterwards.

#ifndef TWINPATH_INSPECT_ELF_VIEW_H_
#define TWINPATH_INSPECT_ELF_VIEW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"

namespace twinpath::inspect {

// Constants of the System V gABI that are used here (elf.h has them too, but
// not on every system).
inline constexpr uint16_t kElfTypeRel = 1;
inline constexpr uint16_t kElfTypeExec = 2;
inline constexpr uint16_t kElfTypeDyn = 3;
inline constexpr uint16_t kElfTypeCore = 4;
inline constexpr uint16_t kElfMachineX86_64 = 62;
inline constexpr uint16_t kElfMachineAarch64 = 183;
// EM_CUDA.
inline constexpr uint16_t kElfMachineCuda = 190;
inline constexpr uint32_t kSectionNoBits = 8;
inline constexpr uint32_t kSectionSymbols = 2;
inline constexpr uint32_t kSectionStrings = 3;
inline constexpr uint32_t kSectionRela = 4;
inline constexpr uint32_t kSectionNote = 7;
inline constexpr uint64_t kSectionExecutable = 0x4;
inline constexpr uint64_t kSectionWritable = 0x1;
inline constexpr uint32_t kSegmentLoad = 1;
inline constexpr uint32_t kSegmentDynamic = 2;
inline constexpr uint32_t kSegmentInterpreter = 3;
inline constexpr uint32_t kSegmentExecutable = 0x1;
inline constexpr uint32_t kSegmentWritable = 0x2;
inline constexpr size_t kElfHeaderBytes = 64;

struct ElfSection {
  absl::string_view name;
  uint32_t type = 0;
  uint64_t flags = 0;
  uint64_t address = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t link = 0;
  uint32_t info = 0;
  uint64_t entry_size = 0;
};

struct ElfSegment {
  uint32_t type = 0;
  uint32_t flags = 0;
  uint64_t offset = 0;
  uint64_t address = 0;
  uint64_t file_size = 0;
};

class ElfView {
 public:
  // More sections than this are not read (0: index 0 is the null section).
  static constexpr uint64_t kMaxSections = uint64_t{1} << 18;
  static constexpr uint64_t kMaxSectionNameBytes = uint64_t{32} << 20;

  // INVALID_ARGUMENT if there is no ELF magic, UNIMPLEMENTED for a 32-bit or
  // big-endian file, DATA_LOSS if the file ends inside the ELF header, read
  // errors as they are. `source` must outlive the view.
  static absl::StatusOr<ElfView> Open(const ByteSource& source);

  ElfView(ElfView&&) = default;
  ElfView& operator=(ElfView&&) = default;

  uint16_t type() const { return type_; }
  uint16_t machine() const { return machine_; }
  uint8_t os_abi() const { return os_abi_; }
  uint8_t abi_version() const { return abi_version_; }
  uint32_t version() const { return version_; }
  uint32_t flags() const { return flags_; }

  // Sections with index 0 included; empty without a usable table.
  const std::vector<ElfSection>& sections() const { return sections_; }
  const std::vector<ElfSegment>& segments() const { return segments_; }
  // What is wrong with a table ("" if nothing): it lies outside the file, or
  // its entry size is wrong, or it is too large.
  const std::string& section_problem() const { return section_problem_; }
  const std::string& segment_problem() const { return segment_problem_; }

  // What shows that the file was cut or its tables are broken: a table, a
  // section or, without sections, a segment outside it. "" if nothing.
  std::string Damage(uint64_t file_size) const;

  // First section of that name; nullptr if there is none.
  const ElfSection* FindSection(absl::string_view name) const;

  // File offset of a virtual address, by the PT_LOAD segments; nothing if no
  // segment holds it in the file.
  std::optional<uint64_t> OffsetOfAddress(uint64_t address) const;

  // Section whose file bytes hold `offset`; nullptr if there is none.
  const ElfSection* SectionAtOffset(uint64_t offset) const;

 private:
  ElfView() = default;
  absl::Status ReadSections(const ByteSource& source, const char* header);
  absl::Status ReadSegments(const ByteSource& source, const char* header);

  uint16_t type_ = 0;
  uint16_t machine_ = 0;
  uint8_t os_abi_ = 0;
  uint8_t abi_version_ = 0;
  uint32_t version_ = 0;
  uint32_t flags_ = 0;
  std::vector<ElfSection> sections_;
  std::vector<ElfSegment> segments_;
  // Sections' names point into it; on the heap so that moving keeps it.
  std::vector<char> names_;
  // Indices of sections with file bytes, by offset.
  std::vector<uint32_t> by_offset_;
  std::string section_problem_;
  std::string segment_problem_;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_ELF_VIEW_H_
