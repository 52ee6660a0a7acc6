#include "inspect/scratch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {

// Bytes in memory, or a part of the scratch file that is given back.
class ScratchSource final : public ByteSource {
 public:
  explicit ScratchSource(std::string bytes) : bytes_(std::move(bytes)) {}
  ScratchSource(Scratch& scratch, uint64_t begin)
      : scratch_(&scratch), begin_(begin), size_(scratch.end_ - begin) {}
  ScratchSource(const ScratchSource&) = delete;
  ScratchSource& operator=(const ScratchSource&) = delete;
  ~ScratchSource() override {
    if (scratch_ == nullptr) return;
    scratch_->end_ = begin_;
    // Gives the disk's blocks back. Where it fails they are written over.
    (void)!::ftruncate(scratch_->fd_, static_cast<off_t>(begin_));
  }

  uint64_t size() const override {
    return scratch_ == nullptr ? bytes_.size() : size_;
  }
  absl::Status ReadAt(uint64_t offset, size_t size, char* out) const override {
    if (scratch_ == nullptr) {
      return MemorySource(bytes_).ReadAt(offset, size, out);
    }
    if (!Fits(offset, size, size_)) {
      return absl::OutOfRangeError(absl::StrCat("bytes ", offset, "+", size,
                                                " lie outside the ", size_,
                                                " bytes there are"));
    }
    while (size > 0) {
      const ssize_t got = ::pread(scratch_->fd_, out, size,
                                  static_cast<off_t>(begin_ + offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus(errno, "reading the scratch file");
      if (got == 0) return absl::DataLossError("the scratch file was cut");
      out += got;
      size -= static_cast<size_t>(got);
      offset += static_cast<uint64_t>(got);
    }
    return absl::OkStatus();
  }

 private:
  std::string bytes_;
  Scratch* scratch_ = nullptr;
  uint64_t begin_ = 0;
  uint64_t size_ = 0;
};

absl::Status Scratch::Append(absl::string_view piece) {
  if (fd_ < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("it is larger than ", HumanBytes(kScratchMemoryBytes),
                     " and there is no scratch space (see TMPDIR)"));
  }
  if (!Fits(end_, piece.size(), max_bytes_)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the scratch space has reached its cap of ", HumanBytes(max_bytes_)));
  }
  while (!piece.empty()) {
    const ssize_t put =
        ::pwrite(fd_, piece.data(), piece.size(), static_cast<off_t>(end_));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the scratch space cannot take it: ", std::strerror(errno)));
    }
    piece.remove_prefix(static_cast<size_t>(put));
    end_ += static_cast<uint64_t>(put);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ByteSource>> Scratch::Push(
    const std::function<absl::Status(const Sink&)>& fill) {
  const uint64_t begin = end_;
  std::string memory;
  bool in_file = false;
  const absl::Status filled = fill([&](absl::string_view piece) {
    if (!in_file) {
      if (piece.size() <= kScratchMemoryBytes - memory.size()) {
        memory.append(piece.data(), piece.size());
        return absl::OkStatus();
      }
      TWINPATH_RETURN_IF_ERROR(Append(memory));
      in_file = true;
      std::string().swap(memory);
    }
    return Append(piece);
  });
  if (!filled.ok()) {
    if (end_ != begin) ScratchSource give_back(*this, begin);
    return filled;
  }
  if (in_file) {
    return std::unique_ptr<ByteSource>(new ScratchSource(*this, begin));
  }
  return std::unique_ptr<ByteSource>(new ScratchSource(std::move(memory)));
}

absl::StatusOr<UniqueFd> OpenScratchFile() {
  const char* const wanted = ::getenv("TMPDIR");
  absl::Status last = absl::NotFoundError("no folder for scratch space");
  for (const char* const folder : {wanted, "/var/tmp", "/tmp"}) {
    if (folder == nullptr || *folder == '\0') continue;
    UniqueFd fd(::open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (fd.valid()) return fd;
    // A file system without O_TMPFILE.
    std::string name = absl::StrCat(folder, "/twinpath-scratch-XXXXXX");
    fd = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
    if (fd.valid()) {
      ::unlink(name.c_str());
      return fd;
    }
    last = ErrnoStatus(errno, absl::StrCat("scratch space in ", folder));
  }
  return last;
}

}  // namespace twinpath::inspect
