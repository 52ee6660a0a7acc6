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

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kWindow = 256 << 10;
constexpr size_t kZeroPiece = 64 << 10;
// Times libarchive may ask for the same call again.
constexpr int kMaxRetries = 100;

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

class LibarchiveReader final : public ArchiveReader {
 public:
  explicit LibarchiveReader(const ByteSource& source)
      : source_(source), handle_(::archive_read_new()), window_(kWindow, 0) {}
  ~LibarchiveReader() override { ::archive_read_free(handle_); }
  LibarchiveReader(const LibarchiveReader&) = delete;
  LibarchiveReader& operator=(const LibarchiveReader&) = delete;

  // `packing_only`: what is inside the packing is one member, whatever it is.
  absl::Status Start(bool packing_only) {
    if (handle_ == nullptr) {
      return absl::ResourceExhaustedError("no memory for an archive");
    }
    const Utf8Locale locale;
    // The list of what is read at all. A filter that this libarchive lacks
    // makes it say so, and is not run as a program.
    using Enable = int (*)(struct archive*);
    for (const Enable enable : {&::archive_read_support_filter_gzip,
                                &::archive_read_support_filter_xz,
                                &::archive_read_support_filter_zstd,
                                &::archive_read_support_filter_bzip2,
                                &::archive_read_support_filter_lz4,
                                &::archive_read_support_format_zip,
                                &::archive_read_support_format_tar,
                                &::archive_read_support_format_raw}) {
      if (packing_only && (enable == &::archive_read_support_format_zip ||
                           enable == &::archive_read_support_format_tar)) {
        continue;
      }
      if (enable(handle_) != ARCHIVE_OK) {
        return absl::FailedPreconditionError(
            "libarchive lacks a format it is needed for");
      }
    }
    ::archive_read_set_read_callback(handle_, &OnRead);
    ::archive_read_set_skip_callback(handle_, &OnSkip);
    ::archive_read_set_seek_callback(handle_, &OnSeek);
    ::archive_read_set_callback_data(handle_, this);
    if (::archive_read_open1(handle_) != ARCHIVE_OK) {
      return source_.size() == 0 ? NoArchive() : Damage();
    }
    // The format is known behind the first header only.
    first_ = Advance();
    const int format = ::archive_format(handle_) & ARCHIVE_FORMAT_BASE_MASK;
    // The last filter is the source itself.
    const int filters = ::archive_filter_count(handle_) - 1;
    for (int i = filters - 1; i >= 0; --i) {
      const char* const name = ::archive_filter_name(handle_, i);
      filters_.push_back(name == nullptr ? "?" : name);
    }
    switch (format) {
      case ARCHIVE_FORMAT_ZIP:
        format_ = "zip";
        break;
      case ARCHIVE_FORMAT_TAR:
        format_ = "tar";
        break;
      case ARCHIVE_FORMAT_RAW:
        if (!filters_.empty()) break;
        [[fallthrough]];
      default:
        if (!first_->ok() && !filters_.empty()) return first_->status();
        return NoArchive();
    }
    // Zeros are an empty tar for libarchive; they may be the start of anything.
    empty_tar_ = format_ == "tar" && first_->ok() && !**first_;
    if (empty_tar_ && filters_.empty()) return NoArchive();
    return absl::OkStatus();
  }
  bool empty_tar() const { return empty_tar_; }

  const std::string& format() const override { return format_; }
  const std::vector<std::string>& filters() const override { return filters_; }
  uint64_t stored_bytes_read() const override { return taken_; }

  absl::StatusOr<bool> Next(ArchiveMember* member) override {
    const Utf8Locale locale;
    absl::StatusOr<bool> more =
        first_ ? *std::exchange(first_, std::nullopt) : Advance();
    if (!more.ok() || !*more) return more;
    head_.clear();
    pending_.clear();
    pending_gap_ = 0;
    ended_ = false;
    position_ = 0;
    done_ = absl::OkStatus();
    *member = ArchiveMember();
    const bool raw = format_.empty();
    if (!raw) {
      const char* const path = ::archive_entry_pathname(entry_);
      member->path =
          Label(path != nullptr ? path : ::archive_entry_pathname_utf8(entry_));
    }
    if (const char* const link = ::archive_entry_hardlink(entry_)) {
      member->hard_link = true;
      member->link_target = Label(link);
    } else if (const char* const soft = ::archive_entry_symlink(entry_)) {
      member->link_target = Label(soft);
    }
    const auto type = ::archive_entry_filetype(entry_);
    member->regular = raw || (type == AE_IFREG && !member->hard_link);
    member->directory = !raw && type == AE_IFDIR && !member->hard_link;
    member->encrypted = ::archive_entry_is_encrypted(entry_) != 0;
    if (::archive_entry_size_is_set(entry_) != 0) {
      member->size = static_cast<uint64_t>(
          std::max<la_int64_t>(::archive_entry_size(entry_), 0));
    }
    size_ = member->size;
    data_at_ = static_cast<uint64_t>(
        std::max<la_int64_t>(::archive_filter_bytes(handle_, 0), 0));
    plain_ = format_ == "tar" && filters_.empty() && member->regular &&
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
    const size_t n = static_cast<size_t>(
        std::min<uint64_t>(window_.size(), source_.size() - at_));
    const absl::Status read = source_.ReadAt(at_, n, window_.data());
    if (!read.ok()) {
      ::archive_set_error(handle, EIO, "%s",
                          std::string(read.message()).c_str());
      return ARCHIVE_FATAL;
    }
    at_ += n;
    taken_ += n;
    *out = window_.data();
    return static_cast<la_ssize_t>(n);
  }

  static absl::Status NoArchive() {
    return absl::InvalidArgumentError("it is no archive this reader opens");
  }

  absl::Status Damage() const {
    const char* const why = ::archive_error_string(handle_);
    return absl::DataLossError(why == nullptr ? "the archive is broken" : why);
  }

  // Reads the next header.
  absl::StatusOr<bool> Advance() {
    if (broken_) return Damage();
    for (int i = 0; i < kMaxRetries; ++i) {
      switch (::archive_read_next_header(handle_, &entry_)) {
        case ARCHIVE_OK:
        case ARCHIVE_WARN:
          return true;
        case ARCHIVE_EOF:
          return false;
        case ARCHIVE_RETRY:
          continue;
        default:
          broken_ = true;
          return Damage();
      }
    }
    return absl::DataLossError("the archive's headers cannot be read");
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
      if (result == ARCHIVE_EOF) {
        ended_ = true;
        // A hole at the end of a sparse file.
        *gap = size_ > position_ && format_ == "tar" ? size_ - position_ : 0;
        position_ += *gap;
        return *gap > 0;
      }
      if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
        done_ = Damage();
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
  struct archive* handle_;
  struct archive_entry* entry_ = nullptr;
  std::string window_;
  uint64_t at_ = 0;
  uint64_t taken_ = 0;
  std::string format_;
  std::vector<std::string> filters_;
  std::optional<absl::StatusOr<bool>> first_;
  bool broken_ = false;
  bool empty_tar_ = false;
  // Of the member.
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

}  // namespace

void PrepareArchives() {
  const Utf8Locale locale;
  ::tzset();
  const iconv_t conversion = ::iconv_open("UTF-8", "UTF-8");
  // NOLINTNEXTLINE(performance-no-int-to-ptr): what iconv_open(3) returns.
  if (conversion != reinterpret_cast<iconv_t>(-1)) ::iconv_close(conversion);
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> ArchiveReader::Open(
    const ByteSource& source) {
  auto reader = std::make_unique<LibarchiveReader>(source);
  TWINPATH_RETURN_IF_ERROR(reader->Start(/*packing_only=*/false));
  if (reader->empty_tar()) {
    reader = std::make_unique<LibarchiveReader>(source);
    TWINPATH_RETURN_IF_ERROR(reader->Start(/*packing_only=*/true));
  }
  return reader;
}

}  // namespace twinpath::inspect
