// ArchiveReader: the members of an archive, one after the other, without
// unpacking it anywhere. zip, tar (ustar, GNU, pax) and single compressed
// files; around them gzip, xz, zstd, bzip2 and LZ4. Everything else is refused
// before any of it is parsed. Names are labels: nothing here opens or makes a
// file.
//
// The parsing of formats is libarchive's. That nothing was left out is checked
// here: the members of a zip are those of its central directory, and a tar is
// read to the end of its file, whatever stands in it. Not thread-safe; the
// source must outlive it.

#ifndef TWINPATH_INSPECT_ARCHIVE_H_
#define TWINPATH_INSPECT_ARCHIVE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"

namespace twinpath::inspect {

struct ArchiveMember {
  // As the archive says, at most kMaxMemberPathBytes of it; may be absolute or
  // contain "..". Empty for a single compressed file.
  std::string path;
  // A file with bytes of its own; not a folder, link or device.
  bool regular = false;
  bool directory = false;
  // A second name of an earlier member (tar); it has no bytes of its own.
  bool hard_link = false;
  // Its bytes cannot be read without a password.
  bool encrypted = false;
  // What a symbolic or hard link points at.
  std::string link_target;
  // As claimed; 0 where the archive does not say.
  uint64_t size = 0;
};

inline constexpr size_t kMaxMemberPathBytes = 4096;

// Something about an archive that its members do not show.
struct ArchiveRemark {
  // TP233: it is damaged, or a member is; TP232: members may be missing; TP215:
  // more is in the file than those who unpack it get.
  std::string code;
  std::string detail;
};

// Loads what reading takes from the system: character set, conversions, time
// zone. Without it the first reader does so; a process that will not be able to
// open files then calls it before. Thread-safe.
void PrepareArchives();

class ArchiveReader {
 public:
  // Starts reading. INVALID_ARGUMENT: no format or packing of the list above;
  // DATA_LOSS: one of them, and broken from the start.
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(
      const ByteSource& source);
  // The zip at the end of a source that begins as something else, by its
  // directory. INVALID_ARGUMENT: there is none, or none that can be used.
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> OpenAppendedZip(
      const ByteSource& source);
  virtual ~ArchiveReader() = default;

  // "zip", "tar", or "" for a single compressed file.
  virtual const std::string& format() const = 0;
  // Packing around the format, outermost first: "gzip", "xz", ...
  virtual const std::vector<std::string>& filters() const = 0;

  // Goes to the next member, whatever was read of the one before. Returns false
  // at the end, DATA_LOSS where the archive is broken; nothing can be read
  // behind that.
  virtual absl::StatusOr<bool> Next(ArchiveMember* member) = 0;
  // Returns the first bytes of the member, at most `max`; Read delivers them
  // again. DATA_LOSS where they cannot be had, UNIMPLEMENTED where they are
  // packed or encrypted in a way that is not read.
  virtual absl::StatusOr<std::string> Head(size_t max) = 0;
  // Delivers the whole member in pieces. Ends with the first error of `sink`,
  // with DATA_LOSS where it is damaged, or UNIMPLEMENTED; the members behind
  // may still be readable then.
  virtual absl::Status Read(
      const std::function<absl::Status(absl::string_view)>& sink) = 0;
  // The member's bytes where they lie in the source as they are (plain tar, and
  // Head was called); null where they have to be read.
  virtual std::unique_ptr<ByteSource> InPlace() = 0;
  // What was found meanwhile, each remark once; to be called after every Next
  // and in the end. A wrong checksum of a member is one, and does not keep its
  // bytes back.
  virtual std::vector<ArchiveRemark> TakeRemarks() = 0;
  // Bytes taken from the source so far.
  virtual uint64_t stored_bytes_read() const = 0;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_ARCHIVE_H_
