#include "inspect/zip_directory.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr absl::string_view kEndMark = "PK\x05\x06";
constexpr absl::string_view kEnd64Mark = "PK\x06\x06";
constexpr absl::string_view kLocator64Mark = "PK\x06\x07";
constexpr absl::string_view kEntryMark = "PK\x01\x02";
constexpr absl::string_view kMemberMark = "PK\x03\x04";
constexpr uint64_t kEntryBytes = 46;
constexpr uint64_t kMemberBytes = 30;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kLocator64Bytes = 20;
// Entries that are held against their members; more are not opened anyway. And
// memory for their names.
constexpr uint64_t kMaxEntries = 1'000'000;
constexpr uint64_t kMaxNameBytes = uint64_t{64} << 20;
constexpr size_t kMaxDamage = 8;
constexpr size_t kWindow = 256 << 10;
constexpr uint32_t kFull = 0xffffffff;
// Bit 3 of the flags: sizes stand behind the data too.
constexpr uint16_t kSizesBehind = 0x8;

// Reads forward through a part of a source in windows.
class Window {
 public:
  Window(const ByteSource& source, uint64_t begin, uint64_t end)
      : source_(source), at_(begin), end_(end) {}
  // The next `size` bytes, fewer at the end.
  absl::StatusOr<absl::string_view> Next(uint64_t size) {
    size = std::min(size, end_ - at_);
    if (!Fits(at_ - window_at_, size, window_.size())) {
      TWINPATH_ASSIGN_OR_RETURN(
          window_,
          ReadUpTo(source_, at_,
                   std::min(std::max<uint64_t>(size, kWindow), end_ - at_)));
      window_at_ = at_;
    }
    const absl::string_view bytes =
        absl::string_view(window_).substr(at_ - window_at_, size);
    at_ += bytes.size();
    return bytes;
  }
  uint64_t at() const { return at_; }

 private:
  const ByteSource& source_;
  uint64_t at_;
  uint64_t end_;
  std::string window_;
  uint64_t window_at_ = 0;
};

// What the directory says of a member.
struct Entry {
  // From the zip's start.
  uint64_t offset = 0;
  uint64_t stored = 0;
  uint16_t flags = 0;
  std::string name;
};

class Reader {
 public:
  Reader(const ByteSource& source, bool begins)
      : source_(source), begins_(begins) {}

  absl::StatusOr<std::optional<ZipDirectory>> Read() {
    const uint64_t tail_bytes = std::min(source_.size(), kZipMaxEndBytes);
    const uint64_t tail_at = source_.size() - tail_bytes;
    TWINPATH_ASSIGN_OR_RETURN(const std::string tail,
                              ReadUpTo(source_, tail_at, tail_bytes));
    const std::optional<ZipEndRecord> end = FindZipEndRecord(tail);
    if (!end) return std::nullopt;
    out_.end_record = tail_at + end->place;
    const char* const record = tail.data() + end->place;
    out_.first_member = out_.end_record;
    out_.members = end->members;
    count_mask_ = 0xffff;
    size_ = LoadU32(record + 12);
    offset_ = LoadU32(record + 16);
    directory_end_ = out_.end_record;
    if (LoadU16(record + 4) != 0 || LoadU16(record + 6) != 0) {
      Damage("it is one of several volumes");
      return out_;
    }
    CheckTail(absl::string_view(tail).substr(end->place));
    TWINPATH_RETURN_IF_ERROR(ReadEnd64());
    TWINPATH_ASSIGN_OR_RETURN(const bool found, Locate());
    if (!found) return out_;
    out_.first_member = begin_;
    TWINPATH_RETURN_IF_ERROR(ReadEntries());
    TWINPATH_RETURN_IF_ERROR(CheckMembers());
    return out_;
  }

 private:
  void Damage(std::string what) {
    if (out_.damage.size() < kMaxDamage) out_.damage.push_back(std::move(what));
  }

  // What is behind the end record; `tail` starts with it.
  void CheckTail(absl::string_view tail) {
    const uint64_t whole = kZipEndBytes + LoadU16(tail.data() + 20);
    if (whole > tail.size()) {
      Damage("it is cut in the comment at its end");
      return;
    }
    const size_t data = tail.find_first_not_of('\0', whole);
    if (data != absl::string_view::npos) {
      Damage(absl::StrCat("behind its end there is something else, at offset ",
                          out_.end_record + data));
    }
  }

  // The end record of large zips.
  absl::Status ReadEnd64() {
    if (out_.end_record < kLocator64Bytes) return absl::OkStatus();
    TWINPATH_ASSIGN_OR_RETURN(
        const std::string locator,
        ReadUpTo(source_, out_.end_record - kLocator64Bytes, kLocator64Bytes));
    if (!absl::StartsWith(locator, kLocator64Mark)) return absl::OkStatus();
    // Where it says, or directly before it where the zip is behind something.
    const uint64_t before = out_.end_record - kLocator64Bytes;
    for (const uint64_t at : {LoadU64(locator.data() + 8),
                              before - std::min(before, kEnd64Bytes)}) {
      if (!Fits(at, kEnd64Bytes, before)) continue;
      TWINPATH_ASSIGN_OR_RETURN(const std::string end64,
                                ReadUpTo(source_, at, kEnd64Bytes));
      if (!absl::StartsWith(end64, kEnd64Mark)) continue;
      out_.members = LoadU64(end64.data() + 32);
      count_mask_ = UINT64_MAX;
      size_ = LoadU64(end64.data() + 40);
      offset_ = LoadU64(end64.data() + 48);
      directory_end_ = at;
      return absl::OkStatus();
    }
    Damage("its end record for large zips is missing");
    return absl::OkStatus();
  }

  // Finds where the directory begins. False: there is none.
  absl::StatusOr<bool> Locate() {
    if (out_.members == 0 && size_ == 0) {
      begin_ = directory_end_;
      out_.start = begin_ - std::min(begin_, offset_);
      return true;
    }
    // Behind something else all offsets are too small by the same number.
    const uint64_t touching =
        size_ <= directory_end_ ? directory_end_ - size_ : UINT64_MAX;
    for (const uint64_t at : {touching, offset_}) {
      if (at < offset_ || !Fits(at, kEntryBytes, directory_end_)) continue;
      TWINPATH_ASSIGN_OR_RETURN(const std::string mark,
                                ReadUpTo(source_, at, kEntryMark.size()));
      if (mark != kEntryMark) continue;
      begin_ = at;
      out_.start = at - offset_;
      return true;
    }
    Damage(absl::StrCat("its directory is not at offset ", offset_,
                        ", where its end record says"));
    return false;
  }

  absl::Status ReadEntries() {
    Window window(source_, begin_, directory_end_);
    uint64_t read = 0;
    while (window.at() < directory_end_) {
      const uint64_t at = window.at();
      TWINPATH_ASSIGN_OR_RETURN(absl::string_view bytes,
                                window.Next(kEntryBytes));
      if (!absl::StartsWith(bytes, kEntryMark)) {
        // A signature of the directory may follow.
        if (!absl::StartsWith(bytes, "PK\x05\x05")) {
          Damage(absl::StrCat("its directory is broken at offset ", at));
        }
        break;
      }
      if (bytes.size() < kEntryBytes) {
        Damage("its directory is cut");
        break;
      }
      Entry entry;
      entry.flags = LoadU16(bytes.data() + 8);
      entry.stored = LoadU32(bytes.data() + 20);
      const uint32_t expanded = LoadU32(bytes.data() + 24);
      const uint16_t name_bytes = LoadU16(bytes.data() + 28);
      const uint16_t extra_bytes = LoadU16(bytes.data() + 30);
      const uint16_t comment_bytes = LoadU16(bytes.data() + 32);
      entry.offset = LoadU32(bytes.data() + 42);
      const uint64_t rest = uint64_t{name_bytes} + extra_bytes + comment_bytes;
      TWINPATH_ASSIGN_OR_RETURN(bytes, window.Next(rest));
      if (bytes.size() < rest) {
        Damage("its directory is cut");
        break;
      }
      entry.name = std::string(bytes.substr(0, name_bytes));
      Extra(bytes.substr(name_bytes, extra_bytes), expanded, entry);
      ++read;
      first_offset_ = std::min(first_offset_, entry.offset);
      name_bytes_ += entry.name.size();
      if (read > kMaxEntries || name_bytes_ > kMaxNameBytes) {
        entries_.clear();
        unchecked_ = true;
      }
      if (!unchecked_) entries_.push_back(std::move(entry));
    }
    if ((read & count_mask_) != (out_.members & count_mask_)) {
      Damage(absl::StrCat("its directory has ", read,
                          " members and its end record says ", out_.members));
    }
    out_.members = read;
    return absl::OkStatus();
  }

  // Sizes and places of large members (4.5.3).
  static void Extra(absl::string_view extra, uint32_t expanded, Entry& entry) {
    while (extra.size() >= 4) {
      const uint16_t id = LoadU16(extra.data());
      const size_t size = LoadU16(extra.data() + 2);
      extra.remove_prefix(4);
      if (size > extra.size()) return;
      absl::string_view field = extra.substr(0, size);
      extra.remove_prefix(size);
      if (id != 1) continue;
      const auto take = [&field](uint64_t& to) {
        if (field.size() < 8) return;
        to = LoadU64(field.data());
        field.remove_prefix(8);
      };
      uint64_t ignored = 0;
      if (expanded == kFull) take(ignored);
      if (entry.stored == kFull) take(entry.stored);
      if (entry.offset == kFull) take(entry.offset);
      return;
    }
  }

  // Whether a member that the directory does not name begins at `at`.
  absl::StatusOr<bool> MemberAt(uint64_t at, uint64_t limit) {
    if (!Fits(at, kMemberBytes, limit)) return false;
    TWINPATH_ASSIGN_OR_RETURN(const std::string mark,
                              ReadUpTo(source_, at, kMemberMark.size()));
    return mark == kMemberMark;
  }

  // Holds the directory against the members.
  absl::Status CheckMembers() {
    if (unchecked_) {
      uint64_t at = 0;
      if (!__builtin_add_overflow(out_.start, first_offset_, &at)) {
        out_.first_member = std::min(begin_, at);
      }
      return absl::OkStatus();
    }
    std::sort(
        entries_.begin(), entries_.end(),
        [](const Entry& a, const Entry& b) { return a.offset < b.offset; });
    // In front of a zip in a program there is the program.
    uint64_t last = begins_ ? 0 : out_.start;
    uint16_t last_flags = 0;
    for (const Entry& entry : entries_) {
      if (out_.damage.size() >= kMaxDamage) return absl::OkStatus();
      uint64_t at = 0;
      const bool fits =
          !__builtin_add_overflow(out_.start, entry.offset, &at) &&
          Fits(at, kMemberBytes + entry.name.size(), begin_);
      std::string header;
      if (fits) {
        TWINPATH_ASSIGN_OR_RETURN(
            header, ReadUpTo(source_, at, kMemberBytes + entry.name.size()));
      }
      if (!absl::StartsWith(header, kMemberMark)) {
        Damage(absl::StrCat(Printable(entry.name),
                            ": no member begins at offset ", at,
                            ", where the directory says"));
        continue;
      }
      out_.first_member = std::min(out_.first_member, at);
      const uint64_t name_bytes = LoadU16(header.data() + 26);
      if (name_bytes != entry.name.size() ||
          header.compare(kMemberBytes, name_bytes, entry.name) != 0) {
        Damage(absl::StrCat(Printable(entry.name),
                            ": the member at its place, offset ", at,
                            ", has another name"));
      }
      const uint64_t data_at =
          at + kMemberBytes + name_bytes + LoadU16(header.data() + 28);
      if (!Fits(data_at, entry.stored, begin_)) {
        Damage(
            absl::StrCat(Printable(entry.name), ": it is longer than the zip"));
        continue;
      }
      if (at < last) {
        Damage(absl::StrCat(Printable(entry.name),
                            ": it lies in the member before it, at offset ",
                            at));
      }
      TWINPATH_RETURN_IF_ERROR(CheckGap(last, last_flags, at));
      last = data_at + entry.stored;
      last_flags = entry.flags;
    }
    return CheckGap(last, last_flags, begin_);
  }

  // Looks for a member between two that the directory names.
  absl::Status CheckGap(uint64_t from, uint16_t flags, uint64_t to) {
    if (from >= to) return absl::OkStatus();
    // Sizes behind a member's data: with a mark or not, of 4 or 8 bytes each.
    for (const uint64_t behind : {0, 12, 16, 20, 24}) {
      if (behind != 0 && (flags & kSizesBehind) == 0) break;
      TWINPATH_ASSIGN_OR_RETURN(const bool member, MemberAt(from + behind, to));
      if (!member) continue;
      Damage(absl::StrCat("at offset ", from + behind,
                          " there is a member that its directory does not "
                          "name"));
      break;
    }
    return absl::OkStatus();
  }

  const ByteSource& source_;
  const bool begins_;
  ZipDirectory out_;
  uint64_t count_mask_ = 0;
  // As stated.
  uint64_t size_ = 0;
  uint64_t offset_ = 0;
  // In the source.
  uint64_t begin_ = 0;
  uint64_t directory_end_ = 0;
  std::vector<Entry> entries_;
  uint64_t name_bytes_ = 0;
  uint64_t first_offset_ = UINT64_MAX;
  // There are too many to keep them.
  bool unchecked_ = false;
};

}  // namespace

std::optional<ZipEndRecord> FindZipEndRecord(absl::string_view tail) {
  for (size_t at = tail.rfind(kEndMark); at != absl::string_view::npos;
       at = at == 0 ? absl::string_view::npos : tail.rfind(kEndMark, at - 1)) {
    if (tail.size() - at < kZipEndBytes) continue;
    ZipEndRecord found = {.place = at,
                          .members = LoadU16(tail.data() + at + 10)};
    if (found.members != 0xffff || at < kLocator64Bytes ||
        !absl::StartsWith(tail.substr(at - kLocator64Bytes), kLocator64Mark)) {
      return found;
    }
    found.members_elsewhere = true;
    const size_t before = at - kLocator64Bytes;
    if (before >= kEnd64Bytes &&
        absl::StartsWith(tail.substr(before - kEnd64Bytes), kEnd64Mark)) {
      found.members = LoadU64(tail.data() + before - kEnd64Bytes + 32);
      found.members_mask = UINT64_MAX;
      found.members_elsewhere = false;
    }
    return found;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<ZipDirectory>> ReadZipDirectory(
    const ByteSource& source, bool begins) {
  return Reader(source, begins).Read();
}

}  // namespace twinpath::inspect
