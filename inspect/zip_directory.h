// The central directory of a zip: what says which members there are. Nothing
// of a member's content is read here; the directory is held against what
// stands at the places that it names, and what does not fit is said.
//
// Layout: PKWARE's APPNOTE.TXT, 4.3. Pure but for reading; thread-safe as the
// source is.

#ifndef TWINPATH_INSPECT_ZIP_DIRECTORY_H_
#define TWINPATH_INSPECT_ZIP_DIRECTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"

namespace twinpath::inspect {

// The end record without its comment.
inline constexpr uint64_t kZipEndBytes = 22;
// Most bytes from the start of the end record to the end of its comment.
inline constexpr uint64_t kZipMaxEndBytes = kZipEndBytes + 0xffff;
// In front of the end record: what large zips have there.
inline constexpr uint64_t kZipMaxEnd64Bytes = 76;

struct ZipDirectory {
  // Place of the end record.
  uint64_t end_record = 0;
  // Where the zip begins in the source; more than 0 behind something else.
  uint64_t start = 0;
  uint64_t members = 0;
  // Where the first member is that begins where the directory says; where there
  // is none, the directory. More than `start` where something is in front of
  // it that its offsets count in.
  uint64_t first_member = 0;
  // What does not fit, for people, the first few of it. Empty: all does.
  std::vector<std::string> damage;
};

// Returns the directory of the zip that ends with `source`, or nothing where
// there is no end record. `begins`: the source is a zip from its first byte on;
// what is in front of the first member is held against the directory too.
// Errors of reading.
absl::StatusOr<std::optional<ZipDirectory>> ReadZipDirectory(
    const ByteSource& source, bool begins);

// The end record in `tail`, the last bytes of a zip, and the members that it
// counts, or the one of large zips directly in front of it; nothing if there is
// no end record.
struct ZipEndRecord {
  uint64_t place = 0;
  uint64_t members = 0;
  // The bits of their number that are stated.
  uint64_t members_mask = 0xffff;
  // It says that the number is elsewhere, and that is not found.
  bool members_elsewhere = false;
};
std::optional<ZipEndRecord> FindZipEndRecord(absl::string_view tail);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_ZIP_DIRECTORY_H_
