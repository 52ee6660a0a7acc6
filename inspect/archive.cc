#include "inspect/archive.h"

#include <archive.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "inspect/file_kind.h"
#include "inspect/libarchive_reader.h"
#include "inspect/unpacking.h"
#include "inspect/zip_directory.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kWindow = 256 << 10;

// A tar ends with two blocks of zeros; zeros behind them fill up a tape's
// block. libarchive goes no further than the first, and over what it cannot
// read: whatever else is there is found here, and read where it has members.
class TarReader final : public LibarchiveReader {
 public:
  TarReader(const ByteSource& source, std::unique_ptr<Unpacking> unpacking)
      : LibarchiveReader(source, std::move(unpacking), "tar") {}

  absl::Status Start() {
    TWINPATH_ASSIGN_OR_RETURN(const absl::string_view head, BytesAt(0));
    Found first;
    if (!IsTarHeader(head)) {
      // libarchive does not begin with a header that is damaged.
      BadHeader(0);
      TWINPATH_ASSIGN_OR_RETURN(first, Look(0));
      if (!first.member) {
        return absl::DataLossError(
            "the first header is damaged, and none follows");
      }
    }
    TWINPATH_RETURN_IF_ERROR(
        Open(&::archive_read_support_format_tar, first.at));
    KeepFirst();
    return absl::OkStatus();
  }

 private:
  // Where members go on.
  struct Found {
    bool member = false;
    uint64_t at = 0;
    // Blocks of zeros before it or the end.
    uint64_t zeros = 0;
    // The first block that is neither zeros nor a header.
    std::optional<uint64_t> other;
  };

  void BadHeader(uint64_t at) {
    Remark("TP233",
           absl::StrCat("the header of a member at offset ", at,
                        " is damaged: its checksum is wrong, and what belongs "
                        "to it is not known"));
  }

  absl::StatusOr<bool> Advance() override {
    TWINPATH_RETURN_IF_ERROR(broken_);
    // Whether what comes next lies behind a damaged header.
    bool damaged = false;
    while (true) {
      switch (ReadHeader()) {
        case Header::kMember:
          return true;
        case Header::kBroken:
          return broken_;
        case Header::kDamaged:
          if (!damaged) BadHeader(HeaderPosition());
          damaged = true;
          if (packed() && !Pass(kTarBlockBytes)) {
            return broken_ = absl::DataLossError(
                       "no member is found in what follows");
          }
          continue;
        case Header::kEnd:
          break;
      }
      const absl::StatusOr<bool> more = Behind(damaged);
      if (!more.ok()) broken_ = more.status();
      if (!more.ok() || !*more) return more;
    }
  }

  // Looks at what is behind the end that libarchive sees; goes on where there
  // are members.
  absl::StatusOr<bool> Behind(bool& damaged) {
    const uint64_t from = HeaderPosition();
    const uint64_t zeros = (Position() - from) / kTarBlockBytes;
    TWINPATH_ASSIGN_OR_RETURN(Found found, Look(Position()));
    found.zeros += zeros;
    if (!damaged) {
      if (found.other) {
        Remark("TP233",
               absl::StrCat("behind the end of the tar there is something "
                            "else, at offset ",
                            *found.other));
        damaged = true;
      } else if (found.member && found.zeros == 1) {
        Remark("TP233", absl::StrCat("a block of zeros stands between members "
                                     "at offset ",
                                     from,
                                     ": readers take it for the end, and miss "
                                     "what is behind it"));
      } else if (found.member) {
        if (!another_) {
          Remark("TP215",
                 absl::StrCat("another tar begins behind the end of this one, "
                              "at offset ",
                              found.at,
                              ": its members are listed too, and unpacked by "
                              "`tar --ignore-zeros` only"));
        }
        another_ = true;
      } else if (found.zeros == 0 && !packed()) {
        Remark("TP232",
               "the tar ends without its end mark of two blocks of zeros: if "
               "it was cut, members are missing");
      }
    }
    if (!found.member) return false;
    damaged = false;
    TWINPATH_RETURN_IF_ERROR(
        Open(&::archive_read_support_format_tar, found.at));
    return true;
  }

  // Looks for the next header from `at` on.
  absl::StatusOr<Found> Look(uint64_t at) {
    Found found;
    while (true) {
      if (!packed() && at < source().size()) {
        // Over holes, by whole blocks.
        const uint64_t data = source().NextData(at);
        const uint64_t blocks = (data - at) / kTarBlockBytes;
        found.zeros += blocks;
        at += blocks * kTarBlockBytes;
      }
      TWINPATH_ASSIGN_OR_RETURN(absl::string_view bytes, BytesAt(at));
      if (bytes.empty()) return found;
      if (packed() && !Pass(bytes.size())) return found;
      while (!bytes.empty()) {
        const absl::string_view block = bytes.substr(0, kTarBlockBytes);
        if (IsAllZero(block)) {
          ++found.zeros;
        } else if (IsTarHeader(block)) {
          found.member = true;
          found.at = at;
          return found;
        } else if (!found.other) {
          found.other = at;
        }
        bytes.remove_prefix(block.size());
        at += block.size();
      }
    }
  }

  bool another_ = false;
};

// The members that a zip's directory names; where it has none, those that are
// found one after the other.
class ZipReader final : public LibarchiveReader {
 public:
  // `limit`: the zip, up to the end of its end record.
  ZipReader(std::unique_ptr<ByteSource> limit, const ZipDirectory& directory)
      : LibarchiveReader(*limit, nullptr, "zip"),
        limit_(std::move(limit)),
        empty_(directory.members == 0) {
    for (const std::string& damage : directory.damage) Remark("TP233", damage);
  }
  ZipReader(const ByteSource& source, std::unique_ptr<Unpacking> unpacking)
      : LibarchiveReader(source, std::move(unpacking), "zip"),
        one_by_one_(true) {}

  absl::Status Start() {
    if (empty_) return absl::OkStatus();
    TWINPATH_RETURN_IF_ERROR(
        Open(one_by_one_ ? &::archive_read_support_format_zip_streamable
                         : &::archive_read_support_format_zip_seekable,
             0));
    return KeepFirst() ? absl::OkStatus()
                       : absl::DataLossError("no member can be read");
  }
  void WithoutDirectory(const std::string& why) {
    Remark("TP233",
           absl::StrCat(why,
                        ": its members are taken as they are found, and "
                        "some may be missing"));
  }

 private:
  absl::StatusOr<bool> Advance() override {
    if (empty_) return false;
    TWINPATH_ASSIGN_OR_RETURN(const bool more, LibarchiveReader::Advance());
    members_ += more ? 1 : 0;
    if (!more && packed()) broken_ = ReadEnd();
    TWINPATH_RETURN_IF_ERROR(broken_);
    return more;
  }

  // Holds what was found against the directory behind it, which cannot be
  // gone to before.
  absl::Status ReadEnd() {
    std::string tail;
    uint64_t at = Position();
    while (true) {
      TWINPATH_ASSIGN_OR_RETURN(const absl::string_view bytes, BytesAt(at));
      if (bytes.empty()) break;
      if (!Pass(bytes.size())) return absl::OkStatus();
      at += bytes.size();
      tail.append(bytes.data(), bytes.size());
      if (tail.size() > kZipMaxEndBytes + kZipMaxEnd64Bytes) {
        tail.erase(0, tail.size() - kZipMaxEndBytes - kZipMaxEnd64Bytes);
      }
    }
    const std::optional<ZipEndRecord> end = FindZipEndRecord(tail);
    if (!end) {
      WithoutDirectory("the zip has no directory at its end: it is cut");
    } else if (!end->members_elsewhere &&
               end->members != (members_ & end->members_mask)) {
      Remark("TP233",
             absl::StrCat("the zip has ", members_,
                          " members and its end record says ", end->members));
    }
    return absl::OkStatus();
  }

  std::unique_ptr<ByteSource> limit_;
  // libarchive knows no zip without members.
  const bool empty_ = false;
  const bool one_by_one_ = false;
  uint64_t members_ = 0;
};

// What a single file is packed to.
class PackedReader final : public ArchiveReader {
 public:
  explicit PackedReader(std::unique_ptr<Unpacking> unpacking)
      : unpacking_(std::move(unpacking)), window_(kWindow, 0) {}

  const std::string& format() const override { return format_; }
  const std::vector<std::string>& filters() const override {
    return unpacking_->filters();
  }
  uint64_t stored_bytes_read() const override {
    return unpacking_->stored_bytes_read();
  }
  absl::StatusOr<bool> Next(ArchiveMember* member) override {
    if (std::exchange(passed_, true)) return false;
    *member = ArchiveMember();
    member->regular = true;
    return true;
  }
  absl::StatusOr<std::string> Head(size_t max) override {
    TWINPATH_ASSIGN_OR_RETURN(const absl::string_view head,
                              unpacking_->content().Peek(max));
    return std::string(head);
  }
  absl::Status Read(
      const std::function<absl::Status(absl::string_view)>& sink) override {
    while (true) {
      TWINPATH_ASSIGN_OR_RETURN(
          const size_t n,
          unpacking_->content().Read(window_.data(), window_.size()));
      if (n == 0) return absl::OkStatus();
      TWINPATH_RETURN_IF_ERROR(sink(absl::string_view(window_).substr(0, n)));
    }
  }
  std::unique_ptr<ByteSource> InPlace() override { return nullptr; }
  std::vector<ArchiveRemark> TakeRemarks() override {
    std::vector<ArchiveRemark> remarks;
    for (PackingRemark& remark : unpacking_->TakeRemarks()) {
      remarks.push_back(
          {remark.unread ? "TP232" : "TP233", std::move(remark.detail)});
    }
    return remarks;
  }

 private:
  const std::unique_ptr<Unpacking> unpacking_;
  const std::string format_;
  std::string window_;
  bool passed_ = false;
};

absl::Status NoArchive() {
  return absl::InvalidArgumentError("it is no archive this reader opens");
}

bool StartsZip(absl::string_view head) {
  return absl::StartsWith(head, "PK\x03\x04") ||
         absl::StartsWith(head, "PK\x05\x06") ||
         absl::StartsWith(head, "PK00PK\x03\x04") ||
         absl::StartsWith(head, "PK\x07\x08PK\x03\x04");
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenZip(const ByteSource& source,
                                                       bool begins) {
  TWINPATH_ASSIGN_OR_RETURN(const std::optional<ZipDirectory> directory,
                            ReadZipDirectory(source, begins));
  std::string why = "the zip has no directory at its end: it is cut";
  if (directory) {
    // Without what is in front of it: libarchive finds the end record of large
    // zips where the offsets say. Without the comment: it may be longer than
    // libarchive looks back.
    auto reader = std::make_unique<ZipReader>(
        std::make_unique<PartSource>(
            source, directory->start,
            directory->end_record + kZipEndBytes - directory->start),
        *directory);
    if (reader->Start().ok()) return reader;
    why = "the zip's directory cannot be used";
    if (!directory->damage.empty()) {
      absl::StrAppend(&why, " (", directory->damage.front(), ")");
    }
  }
  if (!begins) return NoArchive();
  auto reader = std::make_unique<ZipReader>(source, nullptr);
  reader->WithoutDirectory(why);
  TWINPATH_RETURN_IF_ERROR(reader->Start());
  return reader;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArchiveReader>> ArchiveReader::OpenAppendedZip(
    const ByteSource& source) {
  return OpenZip(source, /*begins=*/false);
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> ArchiveReader::Open(
    const ByteSource& source) {
  TWINPATH_ASSIGN_OR_RETURN(std::unique_ptr<Unpacking> unpacking,
                            Unpacking::Open(source));
  TWINPATH_ASSIGN_OR_RETURN(const absl::string_view head,
                            unpacking->content().Peek(kTarBlockBytes));
  const bool tar = StartsTar(head);
  const bool zip = StartsZip(head);
  if (unpacking->filters().empty()) {
    if (zip) return OpenZip(source, /*begins=*/true);
    if (!tar) return NoArchive();
    unpacking.reset();
  }
  if (tar) {
    auto reader = std::make_unique<TarReader>(source, std::move(unpacking));
    TWINPATH_RETURN_IF_ERROR(reader->Start());
    return reader;
  }
  if (zip) {
    auto reader = std::make_unique<ZipReader>(source, std::move(unpacking));
    TWINPATH_RETURN_IF_ERROR(reader->Start());
    return reader;
  }
  return std::make_unique<PackedReader>(std::move(unpacking));
}

}  // namespace twinpath::inspect
