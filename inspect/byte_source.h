// ByteSource: bytes at offsets, wherever they come from: a file (by pread), a
// part of another source, memory, a payload that is decoded while it is read.
// Readers of formats see only this, so that none of them needs the whole.

#ifndef TWINPATH_INSPECT_BYTE_SOURCE_H_
#define TWINPATH_INSPECT_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/digest.h"

namespace twinpath::inspect {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Number of bytes. Fixed while the source lives; a file that shrinks
  // meanwhile gives read errors.
  virtual uint64_t size() const = 0;
  // Reads exactly `size` bytes at `offset`. OUT_OF_RANGE if they do not all lie
  // inside; DATA_LOSS if the bytes cannot be had (file cut meanwhile, payload
  // does not decode); ErrnoStatus codes for read errors.
  virtual absl::Status ReadAt(uint64_t offset, size_t size,
                              char* out) const = 0;
  // The first place from `offset` on at which a byte other than zero may be;
  // size() if there is none. What lies before it need not be read.
  virtual uint64_t NextData(uint64_t offset) const { return offset; }
};

// A regular file. The descriptor is the caller's and must outlive this.
// Thread-safe.
class FileSource final : public ByteSource {
 public:
  // INVALID_ARGUMENT if `fd` is not a regular file.
  static absl::StatusOr<FileSource> Open(int fd);
  uint64_t size() const override { return size_; }
  absl::Status ReadAt(uint64_t offset, size_t size, char* out) const override;
  // Behind a hole of a sparse file. Moves the descriptor's own offset.
  uint64_t NextData(uint64_t offset) const override;

 private:
  FileSource(int fd, uint64_t size) : fd_(fd), size_(size) {}
  int fd_;
  uint64_t size_;
};

// Bytes in memory, not owned. Thread-safe.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(absl::string_view bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  absl::Status ReadAt(uint64_t offset, size_t size, char* out) const override;

 private:
  absl::string_view bytes_;
};

// A part of another source, which must outlive this. As thread-safe as that.
class PartSource final : public ByteSource {
 public:
  // A part that does not lie inside `whole` is cut at its end.
  PartSource(const ByteSource& whole, uint64_t offset, uint64_t size);
  uint64_t size() const override { return size_; }
  absl::Status ReadAt(uint64_t offset, size_t size, char* out) const override;
  uint64_t NextData(uint64_t offset) const override;

 private:
  const ByteSource& whole_;
  uint64_t offset_;
  uint64_t size_;
};

// Whether nothing but zeros is in `bytes`.
bool IsAllZero(absl::string_view bytes);

// Reads `size` bytes at `offset` into a new string, after checking that they
// lie inside the source and are at most `max`. OUT_OF_RANGE,
// RESOURCE_EXHAUSTED.
absl::StatusOr<std::string> ReadBytes(const ByteSource& source, uint64_t offset,
                                      uint64_t size, uint64_t max);

// Reads up to `size` bytes at `offset`, fewer at the end of the source.
absl::StatusOr<std::string> ReadUpTo(const ByteSource& source, uint64_t offset,
                                     uint64_t size);

// Returns the digest of all bytes, read in bounded windows; holes are not read.
absl::StatusOr<Sha256> Sha256OfSource(const ByteSource& source);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_BYTE_SOURCE_H_
