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
  for (uint64_t at = 0; at < source.size(); at += window.size()) {
    window.resize(std::min(kDigestWindow, source.size() - at));
    TWINPATH_RETURN_IF_ERROR(source.ReadAt(at, window.size(), window.data()));
    stream.Update(window);
  }
  return stream.Finish();
}

}  // namespace twinpath::inspect
