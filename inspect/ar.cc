#include "inspect/ar.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr absl::string_view kMagic = "!<arch>\n";
constexpr absl::string_view kThinMagic = "!<thin>\n";
constexpr uint64_t kHeaderBytes = 60;
constexpr size_t kNameBytes = 16;
constexpr size_t kSizeAt = 48;
constexpr size_t kSizeBytes = 10;
constexpr absl::string_view kHeaderEnd = "`\n";
constexpr uint64_t kMaxPathBytes = 4096;

absl::Status Broken(uint64_t at, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("the ar header at offset ", at, " ", what));
}

bool Number(absl::string_view text, uint64_t* out) {
  return absl::SimpleAtoi(absl::StripAsciiWhitespace(text), out);
}

bool IsSymbolTable(absl::string_view path) {
  return absl::StartsWith(path, "__.SYMDEF");
}

}  // namespace

absl::StatusOr<ArReader> ArReader::Open(const ByteSource& source) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string magic,
                            ReadUpTo(source, 0, kMagic.size()));
  if (magic == kMagic) return ArReader(source, false);
  if (magic == kThinMagic) return ArReader(source, true);
  return absl::InvalidArgumentError("it is no ar archive");
}

absl::StatusOr<std::string> ArReader::LongName(absl::string_view index) const {
  // Behind the number a thin archive may have ":OFFSET", the place in an
  // archive that was put into it.
  index = index.substr(0, index.find(':'));
  uint64_t from = 0;
  if (!Number(index, &from) || from >= names_size_) {
    return absl::DataLossError("names a place outside the table of long names");
  }
  TWINPATH_ASSIGN_OR_RETURN(
      std::string name,
      ReadUpTo(*source_, names_at_ + from,
               std::min(kMaxPathBytes + 2, names_size_ - from)));
  name.resize(std::min(name.find('\n'), name.size()));
  if (absl::EndsWith(name, "/")) name.pop_back();
  name.resize(std::min<uint64_t>(name.size(), kMaxPathBytes));
  return name;
}

absl::StatusOr<bool> ArReader::Next(ArMember* member) {
  while (true) {
    const uint64_t at = at_;
    // Members start at even offsets; some writers pad the last one too.
    if (at >= source_->size()) return false;
    if (!Fits(at, kHeaderBytes, source_->size())) {
      TWINPATH_ASSIGN_OR_RETURN(const std::string rest,
                                ReadUpTo(*source_, at, kHeaderBytes));
      if (absl::StripAsciiWhitespace(rest).empty()) return false;
      return Broken(at, "is cut by the end of the file");
    }
    TWINPATH_ASSIGN_OR_RETURN(
        const std::string header,
        ReadBytes(*source_, at, kHeaderBytes, kHeaderBytes));
    if (!absl::EndsWith(header, kHeaderEnd)) {
      return Broken(at, "does not end as it must");
    }
    uint64_t size = 0;
    if (!Number(absl::string_view(header).substr(kSizeAt, kSizeBytes), &size)) {
      return Broken(at, "has no readable size");
    }
    std::string path(absl::StripTrailingAsciiWhitespace(
        absl::string_view(header).substr(0, kNameBytes)));
    const bool table = path == "/" || path == "//" || path == "/SYM64/";
    const bool external = thin_ && !table;
    uint64_t data = at + kHeaderBytes;
    if (!external && !Fits(data, size, source_->size())) {
      return Broken(at, absl::StrCat("claims ", size, " bytes and only ",
                                     source_->size() - data, " follow"));
    }
    const uint64_t end = external ? data : data + size;
    at_ = end + end % 2;
    if (path == "//") {
      names_at_ = data;
      names_size_ = size;
    }
    if (table) continue;
    if (absl::StartsWith(path, "#1/")) {
      uint64_t length = 0;
      if (external || !Number(absl::string_view(path).substr(3), &length) ||
          length > size) {
        return Broken(at, "has a name that is longer than the member");
      }
      TWINPATH_ASSIGN_OR_RETURN(
          path, ReadUpTo(*source_, data, std::min(length, kMaxPathBytes)));
      // Padded with NUL.
      path.resize(std::min(path.find('\0'), path.size()));
      data += length;
      size -= length;
    } else if (absl::StartsWith(path, "/")) {
      absl::StatusOr<std::string> name =
          LongName(absl::string_view(path).substr(1));
      if (!name.ok()) {
        if (!absl::IsDataLoss(name.status())) return name.status();
        return Broken(at, name.status().message());
      }
      path = *std::move(name);
    } else if (absl::EndsWith(path, "/")) {
      path.pop_back();
    }
    if (IsSymbolTable(path)) continue;
    member->path = std::move(path);
    member->offset = external ? 0 : data;
    member->size = size;
    member->external = external;
    return true;
  }
}

}  // namespace twinpath::inspect
