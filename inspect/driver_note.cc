#include "inspect/driver_note.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/json.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr absl::string_view kOwner = "NVIDIA Corporation";
constexpr size_t kNoteHeaderBytes = 12;
// Notes seen have some hundred bytes.
constexpr uint64_t kMaxNoteBytes = 64 << 10;
constexpr size_t kMaxNumbers = 256;
constexpr uint32_t kMaxVersionPart = 9999;

// "13.1" or "13.1.0".
bool ParseCudaVersion(absl::string_view text, v1::Version& version) {
  absl::ConsumePrefix(&text, "v");
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  uint32_t major = 0;
  uint32_t minor = 0;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &major) ||
      !absl::SimpleAtoi(parts[1], &minor) || major == 0 ||
      major > kMaxVersionPart || minor > kMaxVersionPart) {
    return false;
  }
  version.set_major(major);
  version.set_minor(minor);
  return true;
}

// Numbers of an array field; false where it holds anything else.
template <typename Numbers>
bool ReadNumbers(const Json& json, const char* name, Numbers* numbers) {
  const Json* const field = Field(json, name);
  if (field == nullptr || field->is_null()) return true;
  if (!field->is_array() || field->size() > kMaxNumbers) return false;
  for (const Json& value : *field) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX) {
      return false;
    }
    numbers->Add(static_cast<uint32_t>(value.get<uint64_t>()));
  }
  return true;
}

size_t AlignedTo(uint64_t alignment, size_t size) {
  return (size + alignment - 1) & ~(alignment - 1);
}

v1::ForwardCompatNote Broken(absl::string_view problem) {
  v1::ForwardCompatNote note;
  note.set_problem(std::string(problem));
  return note;
}

}  // namespace

v1::ForwardCompatNote ParseForwardCompat(absl::string_view json) {
  const std::optional<Json> parsed = ParseJson(json);
  if (!parsed || !parsed->is_object()) {
    return Broken("the note's description is no JSON object");
  }
  v1::ForwardCompatNote note;
  const std::string version = TextField(*parsed, "CUDA Version");
  if (!ParseCudaVersion(version, *note.mutable_cuda_version())) {
    return Broken(absl::StrCat("\"CUDA Version\" is \"", Printable(version),
                               "\", no version"));
  }
  if (!ReadNumbers(*parsed, "Driver", note.mutable_driver_branches()) ||
      !ReadNumbers(*parsed, "Device", note.mutable_device_classes())) {
    return Broken("\"Driver\" or \"Device\" is no list of numbers");
  }
  return note;
}

absl::StatusOr<std::optional<v1::ForwardCompatNote>> ReadForwardCompat(
    const ByteSource& source, const ElfView& elf) {
  const ElfSection* const section = elf.FindSection(kForwardCompatSection);
  if (section == nullptr || section->type != kSectionNote) return std::nullopt;
  if (section->size < kNoteHeaderBytes || section->size > kMaxNoteBytes ||
      !Fits(section->offset, section->size, source.size())) {
    return Broken(absl::StrCat("the note has ", section->size, " bytes"));
  }
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string bytes,
      ReadBytes(source, section->offset, section->size, kMaxNoteBytes));
  const size_t owner_bytes = LoadU32(bytes.data());
  const size_t json_bytes = LoadU32(bytes.data() + 4);
  const absl::string_view rest =
      absl::string_view(bytes).substr(kNoteHeaderBytes);
  if (owner_bytes == 0 || owner_bytes > rest.size()) {
    return Broken("the note's owner ends outside the section");
  }
  absl::string_view owner = rest.substr(0, owner_bytes);
  owner = owner.substr(0, std::min(owner.size(), owner.find('\0')));
  if (owner != kOwner) return std::nullopt;
  // The ELF manual aligns to four bytes, some of these notes to the section's
  // alignment; where both are possible, the text tells them apart.
  for (const uint64_t alignment : {uint64_t{4}, uint64_t{8}}) {
    const size_t at = AlignedTo(alignment, owner_bytes);
    if (at >= rest.size()) continue;
    // The last byte of a note's padding may be missing.
    absl::string_view json = rest.substr(at, json_bytes);
    while (!json.empty() && json.back() == '\0') json.remove_suffix(1);
    if (!json.empty() && json.front() == '{') return ParseForwardCompat(json);
  }
  return Broken("the note has no description");
}

absl::StatusOr<std::optional<v1::ForwardCompatNote>> ReadForwardCompatOf(
    const ByteSource& source) {
  const absl::StatusOr<ElfView> elf = ElfView::Open(source);
  if (!elf.ok()) {
    if (absl::IsInvalidArgument(elf.status()) ||
        absl::IsUnimplemented(elf.status()) || absl::IsDataLoss(elf.status())) {
      return std::nullopt;
    }
    return elf.status();
  }
  return ReadForwardCompat(source, *elf);
}

}  // namespace twinpath::inspect
