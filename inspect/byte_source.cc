#include "inspect/byte_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "inspect/little_endian.h"

namespace twinpath::inspect {
namespace {

constexpr uint64_t kDigestWindow = 1 << 20;

absl::Status Outside(uint64_t offset, uint64_t size, uint64_t limit) {
  return absl::OutOfRangeError(absl::StrCat("bytes ", offset, "+", size,
                                            " lie outside the ", limit,
                                            " bytes there are"));
}

}  // namespace

bool IsAllZero(absl::string_view bytes) {
  return bytes.empty() ||
         (bytes[0] == 0 &&
          std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

absl::StatusOr<FileSource> FileSource::Open(int fd) {
  struct stat status;
  if (::fstat(fd, &status) != 0) return ErrnoStatus(errno, "fstat");
  if (S_ISDIR(status.st_mode)) {
    return absl::InvalidArgumentError("it is a folder, not a file");
  }
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError("it is not a regular file");
  }
  return FileSource(fd, static_cast<uint64_t>(status.st_size));
}

absl::Status FileSource::ReadAt(uint64_t offset, size_t size, char* out) const {
  if (!Fits(offset, size, size_)) return Outside(offset, size, size_);
  while (size > 0) {
    const ssize_t got = ::pread(fd_, out, size, static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, absl::StrCat("read at offset ", offset));
    }
    if (got == 0) {
      return absl::DataLossError(absl::StrCat("the file was cut at offset ",
                                              offset, " while it was read"));
    }
    const size_t n = static_cast<size_t>(got);
    out += n;
    size -= n;
    offset += n;
  }
  return absl::OkStatus();
}

uint64_t FileSource::NextData(uint64_t offset) const {
  if (offset >= size_) return size_;
  const off_t data = ::lseek(fd_, static_cast<off_t>(offset), SEEK_DATA);
  if (data >= 0) return std::min(static_cast<uint64_t>(data), size_);
  // ENXIO: nothing but a hole up to the end. Else the file system cannot tell.
  return errno == ENXIO ? size_ : offset;
}

absl::Status MemorySource::ReadAt(uint64_t offset, size_t size,
                                  char* out) const {
  if (!Fits(offset, size, bytes_.size())) {
    return Outside(offset, size, bytes_.size());
  }
  if (size > 0) std::memcpy(out, bytes_.data() + offset, size);
  return absl::OkStatus();
}

PartSource::PartSource(const ByteSource& whole, uint64_t offset, uint64_t size)
    : whole_(whole),
      offset_(std::min(offset, whole.size())),
      size_(std::min(size, whole.size() - offset_)) {}

absl::Status PartSource::ReadAt(uint64_t offset, size_t size, char* out) const {
  if (!Fits(offset, size, size_)) return Outside(offset, size, size_);
  return whole_.ReadAt(offset_ + offset, size, out);
}

uint64_t PartSource::NextData(uint64_t offset) const {
  if (offset >= size_) return size_;
  return std::min(whole_.NextData(offset_ + offset) - offset_, size_);
}

absl::StatusOr<std::string> ReadBytes(const ByteSource& source, uint64_t offset,
                                      uint64_t size, uint64_t max) {
  if (!Fits(offset, size, source.size())) {
    return Outside(offset, size, source.size());
  }
  if (size > max) {
    return absl::ResourceExhaustedError(absl::StrCat(
        size, " bytes at offset ", offset, " are above the cap of ", max));
  }
  std::string bytes(size, '\0');
  TWINPATH_RETURN_IF_ERROR(source.ReadAt(offset, size, bytes.data()));
  return bytes;
}

absl::StatusOr<std::string> ReadUpTo(const ByteSource& source, uint64_t offset,
                                     uint64_t size) {
  if (offset >= source.size()) return std::string();
  return ReadBytes(source, offset, std::min(size, source.size() - offset),
                   size);
}

absl::StatusOr<Sha256> Sha256OfSource(const ByteSource& source) {
  Sha256Stream stream;
  std::string window;
  std::string zeros;
  uint64_t hole_end = 0;
  bool after_zeros = false;
  for (uint64_t at = 0; at < source.size();) {
    if (at >= hole_end && after_zeros) hole_end = source.NextData(at);
    if (at < hole_end) {
      zeros.resize(kDigestWindow);
      const uint64_t n = std::min(kDigestWindow, hole_end - at);
      stream.Update(absl::string_view(zeros).substr(0, n));
      at += n;
      after_zeros = false;
      continue;
    }
    window.resize(std::min(kDigestWindow, source.size() - at));
    TWINPATH_RETURN_IF_ERROR(source.ReadAt(at, window.size(), window.data()));
    stream.Update(window);
    at += window.size();
    after_zeros = IsAllZero(window);
  }
  return stream.Finish();
}

}  // namespace twinpath::inspect
