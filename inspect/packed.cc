#include "inspect/packed.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "inspect/file_kind.h"
#include "inspect/little_endian.h"
#include "inspect/report_problem.h"
#include "inspect/zip_directory.h"

namespace twinpath::inspect {
namespace {

constexpr char kUpxMark[] = "UPX!";
constexpr size_t kUpxHeadBytes = 4096;
constexpr uint64_t kTailBytes = 4096;
// PyInstaller's archive, by the cookie near its end, and the section that it is
// in on Linux.
constexpr absl::string_view kPyInstallerCookie = "MEI\014\013\012\013\016";
constexpr absl::string_view kPyInstallerSection = "pydata";
// scripts/sign-file.c of Linux.
constexpr absl::string_view kModuleSignature = "~Module signature appended~\n";
// Behind an ELF file. Less than this is no archive of anything.
constexpr uint64_t kMinUnknown = 4096;

uint64_t End(uint64_t offset, uint64_t size) {
  return size > UINT64_MAX - offset ? UINT64_MAX : offset + size;
}

// What begins with `head` behind an ELF file, for people; "" where it hides
// nothing, or is not known.
std::string NameOfAppended(absl::string_view head, absl::string_view tail) {
  if (absl::StrContains(tail, kPyInstallerCookie)) {
    return "a PyInstaller archive";
  }
  if (FindZipEndRecord(tail)) return "a zip archive";
  const ContentKind content = KindOfContent(head);
  return content.kind == v1::FILE_KIND_ARCHIVE
             ? absl::StrCat("a ", content.archive)
             : "";
}

absl::Status LookForAppended(const ByteSource& source, const ElfView& elf,
                             v1::FileReport& report) {
  const auto packed = [&report](const std::string& what) {
    if (report.fatbins_size() == 0) report.set_kind(v1::FILE_KIND_PACKED);
    AddProblem(
        "TP215",
        absl::StrCat(what, ": unpack it, or run it, to judge what is in it"),
        report);
  };
  const ElfSection* const section = elf.FindSection(kPyInstallerSection);
  if (section != nullptr && section->size > kPyInstallerCookie.size()) {
    packed("a PyInstaller archive in it");
    return absl::OkStatus();
  }
  TWINPATH_ASSIGN_OR_RETURN(uint64_t at, EndOfElf(source, elf));
  std::string head;
  // Over zeros that only fill up.
  while (at < source.size()) {
    at = std::max(at, source.NextData(at));
    TWINPATH_ASSIGN_OR_RETURN(head, ReadUpTo(source, at, kHeadBytes));
    const size_t data = head.find_first_not_of('\0');
    if (data == std::string::npos) {
      at += head.size();
      continue;
    }
    at += data;
    break;
  }
  if (at >= source.size()) return absl::OkStatus();
  TWINPATH_ASSIGN_OR_RETURN(head, ReadUpTo(source, at, kHeadBytes));
  const uint64_t bytes = source.size() - at;
  const uint64_t tail_bytes = std::min(bytes, kZipMaxEndBytes);
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string tail,
      ReadUpTo(source, source.size() - tail_bytes, tail_bytes));
  if (absl::EndsWith(tail, kModuleSignature)) return absl::OkStatus();
  const std::string what = NameOfAppended(head, tail);
  if (!what.empty()) {
    packed(absl::StrCat(what, " behind it, at offset ", at));
  } else if (KindOfContent(head).elf) {
    AddProblem("TP215",
               absl::StrCat("another ELF file behind it, at offset ", at,
                            ": its device code is listed here, its host code "
                            "is not looked at"),
               report);
  } else if (bytes >= kMinUnknown && !LooksLikeText(head) &&
             KindOfContent(head).kind == v1::FILE_KIND_OTHER) {
    AddProblem("TP215",
               absl::StrCat(bytes, " bytes behind it, at offset ", at,
                            ", that are no part of it and of no known format"),
               report);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LookForPacker(const ByteSource& source, const ElfView& elf,
                           absl::string_view head, v1::FileReport& report) {
  if (!elf.sections().empty() || report.fatbins_size() > 0) {
    return LookForAppended(source, elf, report);
  }
  const uint64_t tail_at = source.size() - std::min(source.size(), kTailBytes);
  TWINPATH_ASSIGN_OR_RETURN(const std::string tail,
                            ReadUpTo(source, tail_at, kTailBytes));
  if (absl::StrContains(head.substr(0, kUpxHeadBytes), kUpxMark) ||
      absl::StrContains(tail, kUpxMark)) {
    report.set_kind(v1::FILE_KIND_PACKED);
    AddProblem("TP215", "packed by UPX: unpack it, or run it, to judge it",
               report);
    return absl::OkStatus();
  }
  return LookForAppended(source, elf, report);
}

absl::Status LookForPayload(const ByteSource& source, absl::string_view head,
                            v1::FileReport& report) {
  if (!absl::StartsWith(head, "#!")) return absl::OkStatus();
  const uint64_t tail_at = source.size() - std::min(source.size(), kTailBytes);
  TWINPATH_ASSIGN_OR_RETURN(const std::string tail,
                            ReadUpTo(source, tail_at, kTailBytes));
  if (LooksLikeText(head) && LooksLikeText(tail)) return absl::OkStatus();
  report.set_kind(v1::FILE_KIND_PACKED);
  AddProblem("TP215",
             "a script with binary data behind it: unpack it, or run it, to "
             "judge it",
             report);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> EndOfElf(const ByteSource& source,
                                  const ElfView& elf) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string header,
                            ReadUpTo(source, 0, kElfHeaderBytes));
  if (header.size() < kElfHeaderBytes) return source.size();
  uint64_t end = kElfHeaderBytes;
  const auto table = [&](size_t at, size_t size_at, size_t count_at,
                         size_t count) {
    const uint64_t offset = LoadU64(header.data() + at);
    if (offset == 0) return;
    const uint64_t entries =
        std::max<uint64_t>(LoadU16(header.data() + count_at), count);
    end =
        std::max(end, End(offset, entries * LoadU16(header.data() + size_at)));
  };
  table(32, 54, 56, elf.segments().size());
  table(40, 58, 60, elf.sections().size());
  for (const ElfSection& section : elf.sections()) {
    if (section.type == 0 || section.type == kSectionNoBits) continue;
    end = std::max(end, End(section.offset, section.size));
  }
  for (const ElfSegment& segment : elf.segments()) {
    end = std::max(end, End(segment.offset, segment.file_size));
  }
  return end;
}

absl::StatusOr<std::optional<uint64_t>> FindAppendedZip(
    const ByteSource& source, absl::string_view head) {
  const bool script = absl::StartsWith(head, "#!");
  if (!script && !absl::StartsWith(head, "\177ELF")) return std::nullopt;
  const uint64_t tail_bytes = std::min(source.size(), kZipMaxEndBytes);
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string tail,
      ReadUpTo(source, source.size() - tail_bytes, tail_bytes));
  const std::optional<ZipEndRecord> record = FindZipEndRecord(tail);
  if (!record || record->members == 0) return std::nullopt;
  uint64_t end = 0;
  if (!script) {
    const absl::StatusOr<ElfView> elf = ElfView::Open(source);
    if (!elf.ok()) return std::nullopt;
    TWINPATH_ASSIGN_OR_RETURN(end, EndOfElf(source, *elf));
    // One inside a section is the program's own business.
    if (source.size() - tail_bytes + record->place < end) return std::nullopt;
  }
  // The end record's mark may stand anywhere.
  TWINPATH_ASSIGN_OR_RETURN(const std::optional<ZipDirectory> directory,
                            ReadZipDirectory(source, /*begins=*/false));
  if (!directory || directory->members == 0) return std::nullopt;
  return std::max(end, directory->first_member);
}

}  // namespace twinpath::inspect
