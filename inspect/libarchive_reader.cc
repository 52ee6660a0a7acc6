#include "inspect/libarchive_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <iconv.h>
#include <locale.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kWindow = 256 << 10;
// Of the window before, in front of what was unpacked last: libarchive looks
// further than it takes.
constexpr size_t kKept = 64;
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

}  // namespace

void PrepareArchives() {
  const Utf8Locale locale;
  ::tzset();
  const iconv_t conversion = ::iconv_open("UTF-8", "UTF-8");
  // NOLINTNEXTLINE(performance-no-int-to-ptr): what iconv_open(3) returns.
  if (conversion != reinterpret_cast<iconv_t>(-1)) ::iconv_close(conversion);
}

LibarchiveReader::LibarchiveReader(const ByteSource& source,
                                   std::unique_ptr<Unpacking> unpacking,
                                   std::string format)
    : source_(source),
      unpacking_(std::move(unpacking)),
      format_(std::move(format)),
      window_(kKept + kWindow, 0) {
  if (unpacking_ != nullptr) filters_ = unpacking_->filters();
}

LibarchiveReader::~LibarchiveReader() { ::archive_read_free(handle_); }

uint64_t LibarchiveReader::stored_bytes_read() const {
  return unpacking_ != nullptr ? unpacking_->stored_bytes_read() : taken_;
}

absl::StatusOr<bool> LibarchiveReader::Next(ArchiveMember* member) {
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
    Remark("TP233",
           absl::StrCat(Printable(path_), ": ", std::exchange(complaint_, "")));
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

absl::StatusOr<std::string> LibarchiveReader::Head(size_t max) {
  while (head_.size() < max && pending_gap_ == 0 && done_.ok() && !ended_) {
    Take();
  }
  if (head_.empty() && !done_.ok()) return done_;
  return head_.substr(0, max);
}

absl::Status LibarchiveReader::Read(
    const std::function<absl::Status(absl::string_view)>& sink) {
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

std::unique_ptr<ByteSource> LibarchiveReader::InPlace() {
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

std::vector<ArchiveRemark> LibarchiveReader::TakeRemarks() {
  if (unpacking_ != nullptr) {
    for (PackingRemark& remark : unpacking_->TakeRemarks()) {
      Remark(remark.unread ? "TP232" : "TP233", std::move(remark.detail));
    }
  }
  return std::exchange(remarks_, {});
}

void LibarchiveReader::Remark(std::string code, std::string detail) {
  remarks_.push_back({std::move(code), std::move(detail)});
}

absl::Status LibarchiveReader::Open(Enable enable, uint64_t at) {
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

bool LibarchiveReader::KeepFirst() {
  const Utf8Locale locale;
  first_ = Advance();
  return first_->ok() || ::archive_format(handle_) != 0;
}

LibarchiveReader::Header LibarchiveReader::ReadHeader() {
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

absl::StatusOr<bool> LibarchiveReader::Advance() {
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

uint64_t LibarchiveReader::Position() const {
  return base_ + static_cast<uint64_t>(std::max<la_int64_t>(
                     ::archive_filter_bytes(handle_, 0), 0));
}

uint64_t LibarchiveReader::HeaderPosition() const {
  return base_ + static_cast<uint64_t>(std::max<la_int64_t>(
                     ::archive_read_header_position(handle_), 0));
}

absl::StatusOr<absl::string_view> LibarchiveReader::BytesAt(uint64_t at) {
  if (at < window_at_ || at >= window_at_ + filled_) {
    if (unpacking_ == nullptr) {
      if (at > source_.size()) return absl::string_view();
      const size_t n =
          static_cast<size_t>(std::min<uint64_t>(kWindow, source_.size() - at));
      filled_ = 0;
      TWINPATH_RETURN_IF_ERROR(source_.ReadAt(at, n, window_.data()));
      window_at_ = at;
      filled_ = n;
      taken_ += n;
    } else {
      if (at != window_at_ + filled_) {
        return absl::InternalError("unpacked bytes are not there any more");
      }
      const size_t kept = std::min(filled_, kKept);
      std::memmove(window_.data(), window_.data() + filled_ - kept, kept);
      window_at_ = at - kept;
      filled_ = kept;
      TWINPATH_ASSIGN_OR_RETURN(
          const size_t n,
          unpacking_->content().Read(window_.data() + kept, kWindow));
      if (n == 0) return absl::string_view();
      filled_ += n;
    }
  }
  return absl::string_view(window_.data(), filled_).substr(at - window_at_);
}

bool LibarchiveReader::Pass(uint64_t bytes) {
  if (passed_ > kMaxBehind) return false;
  passed_ += bytes;
  if (passed_ <= kMaxBehind) return true;
  Remark("TP232",
         absl::StrCat("behind the members more than ", HumanBytes(kMaxBehind),
                      " are packed: they are not looked through"));
  return false;
}

la_ssize_t LibarchiveReader::OnRead(struct archive* handle, void* self,
                                    const void** out) {
  return static_cast<LibarchiveReader*>(self)->Fetch(handle, out);
}

la_int64_t LibarchiveReader::OnSkip(struct archive*, void* self,
                                    la_int64_t request) {
  auto& reader = *static_cast<LibarchiveReader*>(self);
  if (request <= 0) return 0;
  const uint64_t n = std::min(static_cast<uint64_t>(request),
                              reader.source_.size() - reader.at_);
  reader.at_ += n;
  return static_cast<la_int64_t>(n);
}

la_int64_t LibarchiveReader::OnSeek(struct archive*, void* self,
                                    la_int64_t offset, int whence) {
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

la_ssize_t LibarchiveReader::Fetch(struct archive* handle, const void** out) {
  const absl::StatusOr<absl::string_view> bytes = BytesAt(at_);
  if (!bytes.ok()) {
    if (absl::IsResourceExhausted(bytes.status())) cap_ = bytes.status();
    ::archive_set_error(handle, EIO, "%s",
                        std::string(bytes.status().message()).c_str());
    return ARCHIVE_FATAL;
  }
  at_ += bytes->size();
  *out = bytes->data();
  return static_cast<la_ssize_t>(bytes->size());
}

absl::Status LibarchiveReader::Damage() const {
  TWINPATH_RETURN_IF_ERROR(cap_);
  const char* const why = ::archive_error_string(handle_);
  return absl::DataLossError(why == nullptr ? "the archive is broken" : why);
}

std::string LibarchiveReader::Complaint() const {
  const char* const text = ::archive_error_string(handle_);
  const absl::string_view why = text == nullptr ? "" : text;
  const bool damage =
      absl::StrContains(why, "alformed") || absl::StrContains(why, "amaged") ||
      absl::StrContains(why, "Inconsistent") ||
      absl::StrContains(why, "bad CRC") || absl::StrContains(why, "wrong size");
  return damage ? std::string(absl::StripTrailingAsciiWhitespace(why)) : "";
}

bool LibarchiveReader::Block(absl::string_view* piece, uint64_t* gap) {
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

void LibarchiveReader::Take() {
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

absl::Status LibarchiveReader::Zeros(
    uint64_t count, const std::function<absl::Status(absl::string_view)>& to) {
  static const std::string* const kZeros = new std::string(kZeroPiece, 0);
  while (count > 0) {
    const size_t n = static_cast<size_t>(std::min<uint64_t>(count, kZeroPiece));
    TWINPATH_RETURN_IF_ERROR(to(absl::string_view(*kZeros).substr(0, n)));
    count -= n;
  }
  return absl::OkStatus();
}

}  // namespace twinpath::inspect
