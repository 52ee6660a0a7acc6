#include "inspect/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <iconv.h>
#include <locale.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/file_kind.h"
#include "inspect/little_endian.h"
#include "inspect/unpacking.h"
#include "inspect/zip_directory.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kWindow = 256 << 10;
constexpr size_t kZeroPiece = 64 << 10;
// Times libarchive may ask for the same call again.
constexpr int kMaxRetries = 100;
// Bytes that are looked through behind the end of what is packed, where no
// member's size counts them.
constexpr uint64_t kMaxBehind = uint64_t{1} << 30;

// libarchive turns names from and to the locale's character set; in "C" it
// gives up names that are not ASCII. Only for this thread, and only here.
class Utf8Locale {
 public:
  Utf8Locale() : previous_(::uselocale(Shared())) {}
  ~Utf8Locale() { ::uselocale(previous_); }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  // LC_GLOBAL_LOCALE where the system has none.
  static locale_t Shared() {
    static const locale_t kLocale = [] {
      const locale_t made = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
      return made != nullptr ? made : LC_GLOBAL_LOCALE;
    }();
    return kLocale;
  }
  locale_t previous_;
};

std::string Label(const char* text) {
  if (text == nullptr) return "";
  absl::string_view label(text);
  return std::string(label.substr(0, kMaxMemberPathBytes));
}

// What reads a format: libarchive, over the source or what it unpacks to.
class LibarchiveReader : public ArchiveReader {
 public:
  // `unpacking`: null for what lies in the source as it is; then `source` may
  // be a part of what is packed.
  LibarchiveReader(const ByteSource& source,
                   std::unique_ptr<Unpacking> unpacking, std::string format)
      : source_(source),
        unpacking_(std::move(unpacking)),
        format_(std::move(format)),
        window_(kWindow, 0) {
    if (unpacking_ != nullptr) filters_ = unpacking_->filters();
  }
  ~LibarchiveReader() override { ::archive_read_free(handle_); }
  LibarchiveReader(const LibarchiveReader&) = delete;
  LibarchiveReader& operator=(const LibarchiveReader&) = delete;

  const std::string& format() const override { return format_; }
  const std::vector<std::string>& filters() const override { return filters_; }
  uint64_t stored_bytes_read() const override {
    return unpacking_ != nullptr ? unpacking_->stored_bytes_read() : taken_;
  }

  absl::StatusOr<bool> Next(ArchiveMember* member) override {
    const Utf8Locale locale;
    TWINPATH_ASSIGN_OR_RETURN(
        const bool more,
        first_ ? *std::exchange(first_, std::nullopt) : Advance());
    if (!more) return false;
    head_.clear();
    pending_.clear();
    pending_gap_ = 0;
    ended_ = false;
    position_ = 0;
    done_ = absl::OkStatus();
    *member = ArchiveMember();
    const char* const path = ::archive_entry_pathname(entry_);
    member->path =
        Label(path != nullptr ? path : ::archive_entry_pathname_utf8(entry_));
    path_ = member->path;
    if (!complaint_.empty()) {
      Remark("TP233", absl::StrCat(Printable(path_), ": ",
                                   std::exchange(complaint_, "")));
    }
    if (const char* const link = ::archive_entry_hardlink(entry_)) {
      member->hard_link = true;
      member->link_target = Label(link);
    } else if (const char* const soft = ::archive_entry_symlink(entry_)) {
      member->link_target = Label(soft);
    }
    const auto type = ::archive_entry_filetype(entry_);
    member->regular = type == AE_IFREG && !member->hard_link;
    member->directory = type == AE_IFDIR && !member->hard_link;
    member->encrypted = ::archive_entry_is_encrypted(entry_) != 0;
    if (::archive_entry_size_is_set(entry_) != 0) {
      member->size = static_cast<uint64_t>(
          std::max<la_int64_t>(::archive_entry_size(entry_), 0));
    }
    size_ = member->size;
    data_at_ = Position();
    plain_ = format_ == "tar" && unpacking_ == nullptr && member->regular &&
             ::archive_entry_sparse_count(entry_) == 0;
    return true;
  }

  absl::StatusOr<std::string> Head(size_t max) override {
    while (head_.size() < max && pending_gap_ == 0 && done_.ok() && !ended_) {
      Take();
    }
    if (head_.empty() && !done_.ok()) return done_;
    return head_.substr(0, max);
  }

  absl::Status Read(
      const std::function<absl::Status(absl::string_view)>& sink) override {
    if (!head_.empty()) TWINPATH_RETURN_IF_ERROR(sink(head_));
    std::string().swap(head_);
    TWINPATH_RETURN_IF_ERROR(Zeros(std::exchange(pending_gap_, 0), sink));
    if (!pending_.empty()) TWINPATH_RETURN_IF_ERROR(sink(pending_));
    std::string().swap(pending_);
    while (done_.ok() && !ended_) {
      absl::string_view piece;
      uint64_t gap = 0;
      if (!Block(&piece, &gap)) break;
      TWINPATH_RETURN_IF_ERROR(Zeros(gap, sink));
      if (!piece.empty()) TWINPATH_RETURN_IF_ERROR(sink(piece));
    }
    return done_;
  }

  std::unique_ptr<ByteSource> InPlace() override {
    if (!plain_ || head_.empty() || !Fits(data_at_, size_, source_.size()) ||
        head_.size() > size_) {
      return nullptr;
    }
    // What libarchive says of its position is not documented to be this one.
    const absl::StatusOr<std::string> there =
        ReadUpTo(source_, data_at_, head_.size());
    if (!there.ok() || *there != head_) return nullptr;
    return std::make_unique<PartSource>(source_, data_at_, size_);
  }

  std::vector<ArchiveRemark> TakeRemarks() override {
    if (unpacking_ != nullptr) {
      for (std::string& damage : unpacking_->TakeDamage()) {
        Remark("TP233", std::move(damage));
      }
    }
    return std::exchange(remarks_, {});
  }

 protected:
  using Enable = int (*)(struct archive*);

  void Remark(std::string code, std::string detail) {
    remarks_.push_back({std::move(code), std::move(detail)});
  }

  // Starts libarchive at `at`, where the first member is; it is read.
  absl::Status Open(Enable enable, uint64_t at) {
    ::archive_read_free(handle_);
    handle_ = ::archive_read_new();
    if (handle_ == nullptr) {
      return absl::ResourceExhaustedError("no memory for an archive");
    }
    base_ = at;
    at_ = at;
    const Utf8Locale locale;
    if (enable(handle_) != ARCHIVE_OK) {
      return absl::FailedPreconditionError(
          "libarchive lacks a format it is needed for");
    }
    ::archive_read_set_read_callback(handle_, &OnRead);
    // What is unpacked can only be read on.
    if (unpacking_ == nullptr) {
      ::archive_read_set_skip_callback(handle_, &OnSkip);
      ::archive_read_set_seek_callback(handle_, &OnSeek);
    }
    ::archive_read_set_callback_data(handle_, this);
    if (::archive_read_open1(handle_) != ARCHIVE_OK) return Damage();
    return absl::OkStatus();
  }
  // Reads the first header. False: libarchive does not know the format.
  bool KeepFirst() {
    const Utf8Locale locale;
    first_ = Advance();
    return first_->ok() || ::archive_format(handle_) != 0;
  }

  // What one call for the next header says.
  enum class Header { kMember, kEnd, kDamaged, kBroken };
  Header ReadHeader() {
    ::archive_clear_error(handle_);
    switch (::archive_read_next_header(handle_, &entry_)) {
      case ARCHIVE_OK:
        return Header::kMember;
      case ARCHIVE_WARN:
        complaint_ = Complaint();
        return Header::kMember;
      case ARCHIVE_EOF:
        return Header::kEnd;
      case ARCHIVE_RETRY:
        return Header::kDamaged;
      default:
        broken_ = Damage();
        return Header::kBroken;
    }
  }

  // Reads the next header.
  virtual absl::StatusOr<bool> Advance() {
    TWINPATH_RETURN_IF_ERROR(broken_);
    for (int i = 0; i < kMaxRetries; ++i) {
      switch (ReadHeader()) {
        case Header::kMember:
          return true;
        case Header::kEnd:
          return false;
        case Header::kDamaged:
          continue;
        case Header::kBroken:
          return broken_;
      }
    }
    return absl::DataLossError("the archive's headers cannot be read");
  }

  // Where libarchive is, in the source or what it unpacks to.
  uint64_t Position() const {
    return base_ + static_cast<uint64_t>(std::max<la_int64_t>(
                       ::archive_filter_bytes(handle_, 0), 0));
  }
  // Where it began to look for the header that it read last.
  uint64_t HeaderPosition() const {
    return base_ + static_cast<uint64_t>(std::max<la_int64_t>(
                       ::archive_read_header_position(handle_), 0));
  }

  // Returns what is at `at` and behind it, a window's worth at most; empty at
  // the end. What was unpacked can be had again as far back as the window goes.
  absl::StatusOr<absl::string_view> BytesAt(uint64_t at) {
    if (at < window_at_ || at >= window_at_ + filled_) {
      if (unpacking_ == nullptr) {
        if (at > source_.size()) return absl::string_view();
        const size_t n = static_cast<size_t>(
            std::min<uint64_t>(window_.size(), source_.size() - at));
        filled_ = 0;
        TWINPATH_RETURN_IF_ERROR(source_.ReadAt(at, n, window_.data()));
        window_at_ = at;
        filled_ = n;
        taken_ += n;
      } else {
        if (at != window_at_ + filled_) {
          return absl::InternalError("unpacked bytes are not there any more");
        }
        TWINPATH_ASSIGN_OR_RETURN(
            const size_t n,
            unpacking_->content().Read(window_.data(), window_.size()));
        if (n == 0) return absl::string_view();
        window_at_ = at;
        filled_ = n;
      }
    }
    return absl::string_view(window_.data(), filled_).substr(at - window_at_);
  }

  // Takes from the bytes of what is packed that may be passed. False: there are
  // none left, which is said.
  bool Pass(uint64_t bytes) {
    if (passed_ > kMaxBehind) return false;
    passed_ += bytes;
    if (passed_ <= kMaxBehind) return true;
    Remark("TP232",
           absl::StrCat("behind the members more than ", HumanBytes(kMaxBehind),
                        " are packed: they are not looked through"));
    return false;
  }
  bool packed() const { return unpacking_ != nullptr; }
  const ByteSource& source() const { return source_; }

  // Where nothing can be read any more.
  absl::Status broken_;

 private:
  static la_ssize_t OnRead(struct archive* handle, void* self,
                           const void** out) {
    return static_cast<LibarchiveReader*>(self)->Fetch(handle, out);
  }
  static la_int64_t OnSkip(struct archive*, void* self, la_int64_t request) {
    auto& reader = *static_cast<LibarchiveReader*>(self);
    if (request <= 0) return 0;
    const uint64_t n = std::min(static_cast<uint64_t>(request),
                                reader.source_.size() - reader.at_);
    reader.at_ += n;
    return static_cast<la_int64_t>(n);
  }
  static la_int64_t OnSeek(struct archive*, void* self, la_int64_t offset,
                           int whence) {
    auto& reader = *static_cast<LibarchiveReader*>(self);
    const la_int64_t size = static_cast<la_int64_t>(reader.source_.size());
    const la_int64_t base = whence == SEEK_SET ? 0
                            : whence == SEEK_CUR
                                ? static_cast<la_int64_t>(reader.at_)
                                : size;
    // Offsets come from the file: they may be anything.
    la_int64_t to = 0;
    if (__builtin_add_overflow(base, offset, &to) || to < 0 || to > size) {
      return ARCHIVE_FATAL;
    }
    reader.at_ = static_cast<uint64_t>(to);
    return to;
  }

  la_ssize_t Fetch(struct archive* handle, const void** out) {
    const absl::StatusOr<absl::string_view> bytes = BytesAt(at_);
    if (!bytes.ok()) {
      ::archive_set_error(handle, EIO, "%s",
                          std::string(bytes.status().message()).c_str());
      return ARCHIVE_FATAL;
    }
    at_ += bytes->size();
    *out = bytes->data();
    return static_cast<la_ssize_t>(bytes->size());
  }

  absl::Status Damage() const {
    const char* const why = ::archive_error_string(handle_);
    return absl::DataLossError(why == nullptr ? "the archive is broken" : why);
  }

  // What libarchive says beside a result, where that is damage. Most of it is
  // about names in other character sets.
  std::string Complaint() const {
    const char* const text = ::archive_error_string(handle_);
    const absl::string_view why = text == nullptr ? "" : text;
    const bool damage = absl::StrContains(why, "alformed") ||
                        absl::StrContains(why, "amaged") ||
                        absl::StrContains(why, "Inconsistent") ||
                        absl::StrContains(why, "bad CRC") ||
                        absl::StrContains(why, "wrong size");
    return damage ? std::string(absl::StripTrailingAsciiWhitespace(why)) : "";
  }

  // Gets the next piece of the member and the hole before it. Returns false at
  // the end and on damage (then done_ says so).
  bool Block(absl::string_view* piece, uint64_t* gap) {
    for (int i = 0; i < kMaxRetries; ++i) {
      const void* data = nullptr;
      size_t size = 0;
      la_int64_t offset = 0;
      const int result =
          ::archive_read_data_block(handle_, &data, &size, &offset);
      if (result == ARCHIVE_RETRY) continue;
      if (result == ARCHIVE_WARN) {
        if (std::string why = Complaint(); !why.empty()) {
          Remark("TP233", absl::StrCat(Printable(path_), ": ", why));
        }
      }
      if (result == ARCHIVE_EOF) {
        ended_ = true;
        // A hole at the end of a sparse file.
        *gap = size_ > position_ && format_ == "tar" ? size_ - position_ : 0;
        position_ += *gap;
        return *gap > 0;
      }
      if (result == ARCHIVE_FAILED) {
        done_ = absl::UnimplementedError(Damage().message());
        return false;
      }
      if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
        done_ = Damage();
        broken_ = absl::DataLossError("the members behind it are not read");
        return false;
      }
      const uint64_t from = static_cast<uint64_t>(offset);
      if (offset < 0 || from < position_ || size > UINT64_MAX / 2 - from) {
        done_ = absl::DataLossError("a member's pieces overlap");
        return false;
      }
      *gap = from - position_;
      *piece = absl::string_view(static_cast<const char*>(data), size);
      position_ = from + size;
      return true;
    }
    done_ = absl::DataLossError("a member cannot be read");
    return false;
  }

  // Adds the next piece to head_.
  void Take() {
    absl::string_view piece;
    uint64_t gap = 0;
    if (!Block(&piece, &gap)) return;
    // A hole may be larger than memory; the rest of it waits for Read.
    const uint64_t now = std::min<uint64_t>(gap, kZeroPiece);
    head_.append(now, '\0');
    if (now == gap) {
      head_.append(piece.data(), piece.size());
      return;
    }
    pending_gap_ = gap - now;
    pending_ = std::string(piece);
  }

  static absl::Status Zeros(
      uint64_t count,
      const std::function<absl::Status(absl::string_view)>& to) {
    static const std::string* const kZeros = new std::string(kZeroPiece, 0);
    while (count > 0) {
      const size_t n =
          static_cast<size_t>(std::min<uint64_t>(count, kZeroPiece));
      TWINPATH_RETURN_IF_ERROR(to(absl::string_view(*kZeros).substr(0, n)));
      count -= n;
    }
    return absl::OkStatus();
  }

  const ByteSource& source_;
  const std::unique_ptr<Unpacking> unpacking_;
  const std::string format_;
  std::vector<std::string> filters_;
  struct archive* handle_ = nullptr;
  struct archive_entry* entry_ = nullptr;
  // Bytes of the source, or of what it unpacks to, and where they are there.
  std::string window_;
  uint64_t window_at_ = 0;
  size_t filled_ = 0;
  // Where libarchive began, and what it gets next.
  uint64_t base_ = 0;
  uint64_t at_ = 0;
  uint64_t taken_ = 0;
  uint64_t passed_ = 0;
  std::optional<absl::StatusOr<bool>> first_;
  std::vector<ArchiveRemark> remarks_;
  std::string complaint_;
  // Of the member.
  std::string path_;
  std::string head_;
  uint64_t size_ = 0;
  uint64_t data_at_ = 0;
  bool plain_ = false;
  std::string pending_;
  uint64_t pending_gap_ = 0;
  bool ended_ = false;
  uint64_t position_ = 0;
  absl::Status done_;
};

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
  // `limit`: the first bytes of `source`, up to the end of the end record.
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
      if (tail.size() > kZipMaxEndBytes) {
        tail.erase(0, tail.size() - kZipMaxEndBytes);
      }
    }
    const std::optional<ZipEndRecord> end = FindZipEndRecord(tail);
    if (!end) {
      WithoutDirectory("the zip has no directory at its end: it is cut");
    } else if (end->members != (members_ & 0xffff)) {
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
    for (std::string& damage : unpacking_->TakeDamage()) {
      remarks.push_back({"TP233", std::move(damage)});
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
    // Without the comment: it may be longer than libarchive looks back.
    auto reader = std::make_unique<ZipReader>(
        std::make_unique<PartSource>(source, 0,
                                     directory->end_record + kZipEndBytes),
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

void PrepareArchives() {
  const Utf8Locale locale;
  ::tzset();
  const iconv_t conversion = ::iconv_open("UTF-8", "UTF-8");
  // NOLINTNEXTLINE(performance-no-int-to-ptr): what iconv_open(3) returns.
  if (conversion != reinterpret_cast<iconv_t>(-1)) ::iconv_close(conversion);
}

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
