// Unpacking: what a file is packed with is taken off while it is read: gzip,
// xz, zstd, bzip2, LZ4, also inside each other. Checksums and lengths are held
// against the content by whoever reads to the end; what is wrong with them does
// not keep the content back.
//
// gzip is read with zlib, since libarchive does not look at its checksum; the
// others by libarchive. Not thread-safe; the source must outlive it.

#ifndef TWINPATH_INSPECT_UNPACKING_H_
#define TWINPATH_INSPECT_UNPACKING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"

namespace twinpath::inspect {

// What is wrong with a packing although its content was delivered.
struct PackingRemark {
  // Not all of what is behind the content was read; else there is damage.
  bool unread = false;
  std::string detail;
};

// Bytes that come one after the other.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Reads `size` bytes, fewer at the end and in front of damage, 0 at the end.
  // DATA_LOSS where the packing is broken; errors of reading.
  virtual absl::StatusOr<size_t> Read(char* out, size_t size) = 0;
  // So far; a few.
  const std::vector<PackingRemark>& remarks() const { return remarks_; }

 protected:
  std::vector<PackingRemark> remarks_;
};

// A stream whose next bytes can be looked at.
class PeekStream {
 public:
  // `stored`: bytes taken from the source, for what is unpacked. Where that
  // comes to too many times as many, it ends with RESOURCE_EXHAUSTED.
  explicit PeekStream(std::unique_ptr<ByteStream> stream,
                      const uint64_t* stored = nullptr);
  // Returns the next `size` bytes, which stay, or those that there are. An
  // error only where there is not one.
  absl::StatusOr<absl::string_view> Peek(size_t size);
  absl::StatusOr<size_t> Read(char* out, size_t size);
  const std::vector<PackingRemark>& remarks() const {
    return stream_->remarks();
  }

 private:
  absl::StatusOr<size_t> Fill(char* out, size_t size);

  std::unique_ptr<ByteStream> stream_;
  const uint64_t* stored_;
  uint64_t given_ = 0;
  std::string front_;
  // Where an error came behind bytes.
  absl::Status error_;
};

class Unpacking {
 public:
  // DATA_LOSS: packed, and broken from the start.
  static absl::StatusOr<std::unique_ptr<Unpacking>> Open(
      const ByteSource& source);
  Unpacking(const Unpacking&) = delete;
  Unpacking& operator=(const Unpacking&) = delete;

  // Outermost first; empty: it is not packed, and is delivered as it is.
  const std::vector<std::string>& filters() const { return filters_; }
  PeekStream& content() { return *stages_.back(); }
  // What was found wrong so far, once. Only at the end of the content all of it
  // is known.
  std::vector<PackingRemark> TakeRemarks();
  // Bytes taken from the source so far.
  uint64_t stored_bytes_read() const { return taken_; }

 private:
  Unpacking() = default;

  uint64_t taken_ = 0;
  std::vector<std::string> filters_;
  // The source and what is around each other on it.
  std::vector<std::unique_ptr<PeekStream>> stages_;
  // How many remarks of each were taken.
  std::vector<size_t> told_;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_UNPACKING_H_
