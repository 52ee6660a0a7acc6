#include "inspect/unpacking.h"

#include <archive.h>
#include <archive_entry.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kWindow = 128 << 10;
// Packings inside each other that are taken off.
constexpr size_t kMaxPackings = 8;
constexpr size_t kMarkBytes = 16;
// Bytes that are looked through behind the end of packed data.
constexpr uint64_t kMaxBehind = uint64_t{1} << 30;
// What a packing gives is a bomb above this many times the stored bytes, and
// above so many. CarrierLimits stop most before; they count what members take,
// and not what is unpacked on the way to them.
constexpr uint64_t kRatio = 1000;
constexpr uint64_t kRatioSlack = uint64_t{128} << 20;

using Enable = int (*)(struct archive*);

// What is behind the last piece of packed data: zeros fill up tapes and blocks.
class Remainder {
 public:
  explicit Remainder(absl::string_view packing) : packing_(packing) {}
  // `at`: place of `bytes` in the packed data. False: nothing more to learn.
  bool Add(absl::string_view bytes, uint64_t at) {
    const size_t data = bytes.find_first_not_of('\0');
    if (data == absl::string_view::npos) {
      passed_ += bytes.size();
      if (passed_ <= kMaxBehind) return true;
      Unread(absl::StrCat("it is more than ", HumanBytes(kMaxBehind)));
      return false;
    }
    found_ = {false, absl::StrCat("behind the end of the ", packing_,
                                  " data there is something else, at offset ",
                                  at + data)};
    return false;
  }
  // Reading it failed. False: not for a reason that is the file's.
  bool Fail(const absl::Status& status) {
    if (absl::IsResourceExhausted(status)) {
      Unread(status.message());
      return true;
    }
    found_ = {false, absl::StrCat("behind the end of the ", packing_,
                                  " data: ", status.message())};
    return absl::IsDataLoss(status);
  }
  void Tell(std::vector<PackingRemark>& remarks) const {
    if (!found_.detail.empty()) remarks.push_back(found_);
  }

 private:
  void Unread(absl::string_view why) {
    found_ = {true, absl::StrCat("what is behind the end of the ", packing_,
                                 " data is not looked through: ", why)};
  }

  std::string packing_;
  uint64_t passed_ = 0;
  PackingRemark found_;
};

class SourceStream final : public ByteStream {
 public:
  SourceStream(const ByteSource& source, uint64_t& taken)
      : source_(source), taken_(taken) {}
  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    const size_t n =
        static_cast<size_t>(std::min<uint64_t>(size, source_.size() - taken_));
    TWINPATH_RETURN_IF_ERROR(source_.ReadAt(taken_, n, out));
    taken_ += n;
    return n;
  }

 private:
  const ByteSource& source_;
  uint64_t& taken_;
};

// RFC 1952.
class GzipStream final : public ByteStream {
 public:
  explicit GzipStream(PeekStream& packed) : packed_(packed), in_(kWindow, 0) {
    // 16: with header and trailer, which are checked.
    open_ = inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK;
  }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;
  ~GzipStream() override {
    if (open_) inflateEnd(&stream_);
  }

  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    if (!open_) return absl::ResourceExhaustedError("no memory for zlib");
    size_t done = 0;
    while (done < size && !ended_) {
      absl::StatusOr<size_t> got = Step(out + done, size - done);
      if (got.ok()) {
        done += *got;
        continue;
      }
      // The next call says so again.
      if (done > 0) break;
      return got.status();
    }
    return done;
  }

 private:
  // Gets more packed bytes where none are left. False: there are none.
  absl::StatusOr<bool> Refill() {
    if (stream_.avail_in > 0) return true;
    TWINPATH_ASSIGN_OR_RETURN(const size_t n,
                              packed_.Read(in_.data(), in_.size()));
    at_ += n;
    stream_.next_in = reinterpret_cast<Bytef*>(in_.data());
    stream_.avail_in = static_cast<uInt>(n);
    return n > 0;
  }
  absl::string_view Left() const {
    return absl::string_view(reinterpret_cast<const char*>(stream_.next_in),
                             stream_.avail_in);
  }

  absl::StatusOr<size_t> Step(char* out, size_t size) {
    TWINPATH_RETURN_IF_ERROR(broken_);
    if (between_) {
      TWINPATH_RETURN_IF_ERROR(NextMember());
      return 0;
    }
    TWINPATH_ASSIGN_OR_RETURN(const bool more, Refill());
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out =
        static_cast<uInt>(std::min<size_t>(size, size_t{1} << 30));
    const uInt room = stream_.avail_out;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    const size_t got = room - stream_.avail_out;
    if (result == Z_STREAM_END) {
      between_ = true;
    } else if (got == 0 && !more) {
      broken_ = absl::DataLossError("the gzip data is cut");
    } else if (result == Z_DATA_ERROR) {
      const absl::string_view why =
          stream_.msg == nullptr ? "" : absl::string_view(stream_.msg);
      if (why == "incorrect data check" || why == "incorrect length check") {
        // All of the content is there by then.
        const bool crc = why == "incorrect data check";
        if (!wrong_) {
          remarks_.push_back(
              {false, absl::StrCat("gzip: ", crc ? "the CRC-32" : "the size",
                                   " of the content is not the one stated")});
        }
        wrong_ = true;
        // The size stands behind the CRC-32, and other members behind that.
        skip_ = crc ? 4 : 0;
        between_ = true;
      } else {
        broken_ = absl::DataLossError(absl::StrCat("gzip: ", why));
      }
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      broken_ = absl::DataLossError("gzip: the data cannot be read");
    }
    if (got == 0) TWINPATH_RETURN_IF_ERROR(broken_);
    return got;
  }

  // Goes to the next member, or to the end.
  absl::Status NextMember() {
    absl::StatusOr<bool> more = Refill();
    if (skip_ > 0 && more.value_or(false)) {
      const uInt n = std::min(skip_, stream_.avail_in);
      stream_.next_in += n;
      stream_.avail_in -= n;
      skip_ -= n;
      return absl::OkStatus();
    }
    if (more.value_or(false) && Left()[0] == '\x1f') {
      // The second byte of the mark may be in the next window.
      const absl::string_view left = Left();
      absl::string_view second = left.substr(1);
      if (second.empty()) {
        TWINPATH_ASSIGN_OR_RETURN(second, packed_.Peek(1));
      }
      if (absl::StartsWith(second, "\x8b")) {
        between_ = false;
        if (inflateReset(&stream_) != Z_OK) {
          return absl::InternalError("inflateReset");
        }
        return absl::OkStatus();
      }
    }
    Remainder rest("gzip");
    while (more.value_or(false) && rest.Add(Left(), at_ - stream_.avail_in)) {
      stream_.avail_in = 0;
      more = Refill();
    }
    if (!more.ok() && !rest.Fail(more.status())) return broken_ = more.status();
    rest.Tell(remarks_);
    ended_ = true;
    return absl::OkStatus();
  }

  PeekStream& packed_;
  std::string in_;
  // Packed bytes that were taken.
  uint64_t at_ = 0;
  z_stream stream_{};
  bool open_ = false;
  // Between two members.
  bool between_ = false;
  // Bytes of a trailer that are left.
  uInt skip_ = 0;
  // A wrong checksum or size was said.
  bool wrong_ = false;
  bool ended_ = false;
  absl::Status broken_;
};

// One packing that libarchive takes off.
class LibarchiveStream final : public ByteStream {
 public:
  LibarchiveStream(PeekStream& packed, absl::string_view name, Enable enable)
      : packed_(packed),
        name_(name),
        enable_(enable),
        handle_(::archive_read_new()),
        window_(kWindow, 0) {}
  LibarchiveStream(const LibarchiveStream&) = delete;
  LibarchiveStream& operator=(const LibarchiveStream&) = delete;
  ~LibarchiveStream() override { ::archive_read_free(handle_); }

  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    if (!started_) {
      started_ = true;
      broken_ = Start();
    }
    size_t done = 0;
    while (done < size && broken_.ok() && !ended_) {
      if (block_.empty()) {
        NextBlock();
        continue;
      }
      const size_t n = std::min(block_.size(), size - done);
      std::memcpy(out + done, block_.data(), n);
      block_.remove_prefix(n);
      done += n;
    }
    if (done == 0) TWINPATH_RETURN_IF_ERROR(broken_);
    return done;
  }

 private:
  static la_ssize_t OnRead(struct archive* handle, void* self,
                           const void** out) {
    return static_cast<LibarchiveStream*>(self)->Fetch(handle, out);
  }
  la_ssize_t Fetch(struct archive* handle, const void** out) {
    const absl::StatusOr<size_t> n =
        packed_.Read(window_.data(), window_.size());
    if (!n.ok()) {
      below_ = n.status();
      ::archive_set_error(handle, EIO, "the packed data cannot be read");
      return ARCHIVE_FATAL;
    }
    if (*n > 0) {
      taken_ += *n;
      filled_ = *n;
    }
    *out = window_.data();
    return static_cast<la_ssize_t>(*n);
  }

  absl::Status Start() {
    if (handle_ == nullptr) {
      return absl::ResourceExhaustedError("no memory for an archive");
    }
    if (enable_(handle_) != ARCHIVE_OK ||
        ::archive_read_support_format_raw(handle_) != ARCHIVE_OK ||
        ::archive_read_support_format_empty(handle_) != ARCHIVE_OK) {
      return absl::FailedPreconditionError(
          "libarchive lacks a packing it is needed for");
    }
    ::archive_read_set_read_callback(handle_, &OnRead);
    ::archive_read_set_callback_data(handle_, this);
    if (::archive_read_open1(handle_) != ARCHIVE_OK) return Damage();
    struct archive_entry* entry = nullptr;
    const int header = ::archive_read_next_header(handle_, &entry);
    if (header == ARCHIVE_EOF) {
      End();
    } else if (header != ARCHIVE_OK && header != ARCHIVE_WARN) {
      return Damage();
    }
    return absl::OkStatus();
  }

  void NextBlock() {
    const void* data = nullptr;
    size_t size = 0;
    la_int64_t offset = 0;
    const int result =
        ::archive_read_data_block(handle_, &data, &size, &offset);
    if (result == ARCHIVE_EOF) {
      End();
    } else if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
      broken_ = Damage();
    } else {
      block_ = absl::string_view(static_cast<const char*>(data), size);
    }
  }

  // Looks at what libarchive left of the packed data.
  void End() {
    ended_ = true;
    const uint64_t consumed = static_cast<uint64_t>(
        std::max<la_int64_t>(::archive_filter_bytes(handle_, -1), 0));
    const uint64_t window_at = taken_ - filled_;
    if (consumed > taken_) return;
    Remainder rest(name_);
    absl::string_view left =
        absl::string_view(window_.data(), filled_)
            .substr(std::max(consumed, window_at) - window_at);
    while (rest.Add(left, taken_ - left.size())) {
      const absl::StatusOr<size_t> n =
          packed_.Read(window_.data(), window_.size());
      if (!n.ok() && !rest.Fail(n.status())) broken_ = n.status();
      if (!n.ok() || *n == 0) break;
      taken_ += *n;
      left = absl::string_view(window_.data(), *n);
    }
    rest.Tell(remarks_);
  }

  absl::Status Damage() const {
    if (!below_.ok()) return below_;
    const char* const why = ::archive_error_string(handle_);
    return absl::DataLossError(
        absl::StrCat(name_, ": ", why == nullptr ? "the data is broken" : why));
  }

  PeekStream& packed_;
  const std::string name_;
  const Enable enable_;
  struct archive* handle_;
  std::string window_;
  // Packed bytes that were taken, and how many of them are in the window.
  uint64_t taken_ = 0;
  size_t filled_ = 0;
  absl::string_view block_;
  bool started_ = false;
  bool ended_ = false;
  absl::Status broken_;
  // Error of what lies below.
  absl::Status below_;
};

struct Packing {
  const char* name;
  absl::string_view mark;
  // Null: gzip.
  Enable enable;
};

const Packing kPackings[] = {
    {"gzip", "\x1f\x8b\x08", nullptr},
    {"xz",
     absl::string_view("\xfd"
                       "7zXZ\0",
                       6),
     &::archive_read_support_filter_xz},
    {"zstd", "\x28\xb5\x2f\xfd", &::archive_read_support_filter_zstd},
    {"bzip2", "BZh", &::archive_read_support_filter_bzip2},
    {"lz4", "\x04\x22\x4d\x18", &::archive_read_support_filter_lz4},
};

const Packing* FindPacking(absl::string_view head) {
  for (const Packing& packing : kPackings) {
    if (!absl::StartsWith(head, packing.mark)) continue;
    // Flags that do not exist.
    if (packing.enable == nullptr &&
        (head.size() < 10 || (static_cast<unsigned char>(head[3]) & 0xe0))) {
      continue;
    }
    // Its level, and the start of a block or of the end.
    if (packing.mark == "BZh" &&
        (head.size() < 10 || head[3] < '1' || head[3] > '9' ||
         (head.substr(4, 6) != "1AY&SY" &&
          head.substr(4, 6) != "\x17\x72\x45\x38\x50\x90"))) {
      continue;
    }
    return &packing;
  }
  return nullptr;
}

}  // namespace

PeekStream::PeekStream(std::unique_ptr<ByteStream> stream,
                       const uint64_t* stored)
    : stream_(std::move(stream)), stored_(stored) {}

absl::StatusOr<size_t> PeekStream::Fill(char* out, size_t size) {
  size_t done = 0;
  while (done < size && error_.ok()) {
    const absl::StatusOr<size_t> n = stream_->Read(out + done, size - done);
    if (!n.ok()) error_ = n.status();
    if (!n.ok() || *n == 0) break;
    done += *n;
    given_ += *n;
    if (stored_ != nullptr && given_ > kRatioSlack &&
        (given_ - kRatioSlack) / kRatio > *stored_) {
      error_ = absl::ResourceExhaustedError(
          absl::StrCat("it unpacks to more than ", kRatio,
                       " times its stored size: a bomb"));
    }
  }
  if (done == 0) TWINPATH_RETURN_IF_ERROR(error_);
  return done;
}

absl::StatusOr<absl::string_view> PeekStream::Peek(size_t size) {
  if (front_.size() < size) {
    const size_t before = front_.size();
    front_.resize(size);
    const absl::StatusOr<size_t> n =
        Fill(front_.data() + before, size - before);
    front_.resize(before + n.value_or(0));
    if (!n.ok() && front_.empty()) return n.status();
  }
  return absl::string_view(front_).substr(0, size);
}

absl::StatusOr<size_t> PeekStream::Read(char* out, size_t size) {
  const size_t first = std::min(front_.size(), size);
  std::memcpy(out, front_.data(), first);
  front_.erase(0, first);
  if (first == size) return first;
  const absl::StatusOr<size_t> n = Fill(out + first, size - first);
  if (!n.ok() && first == 0) return n.status();
  return first + n.value_or(0);
}

absl::StatusOr<std::unique_ptr<Unpacking>> Unpacking::Open(
    const ByteSource& source) {
  auto made = std::unique_ptr<Unpacking>(new Unpacking());
  made->stages_.push_back(std::make_unique<PeekStream>(
      std::make_unique<SourceStream>(source, made->taken_)));
  while (true) {
    PeekStream& top = made->content();
    TWINPATH_ASSIGN_OR_RETURN(const absl::string_view head,
                              top.Peek(kMarkBytes));
    if (made->filters_.size() == kMaxPackings) break;
    const Packing* const packing = FindPacking(head);
    if (packing == nullptr) break;
    std::unique_ptr<ByteStream> stream;
    if (packing->enable == nullptr) {
      stream = std::make_unique<GzipStream>(top);
    } else {
      stream = std::make_unique<LibarchiveStream>(top, packing->name,
                                                  packing->enable);
    }
    made->filters_.push_back(packing->name);
    made->stages_.push_back(
        std::make_unique<PeekStream>(std::move(stream), &made->taken_));
  }
  made->told_.resize(made->stages_.size());
  return made;
}

std::vector<PackingRemark> Unpacking::TakeRemarks() {
  std::vector<PackingRemark> all;
  for (size_t i = 0; i < stages_.size(); ++i) {
    const std::vector<PackingRemark>& remarks = stages_[i]->remarks();
    while (told_[i] < remarks.size()) all.push_back(remarks[told_[i]++]);
  }
  return all;
}

}  // namespace twinpath::inspect
