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

struct ZipDirectory {
  // Place of the end record.
  uint64_t end_record = 0;
  // Where the zip begins in the source; more than 0 behind something else.
  uint64_t start = 0;
  uint64_t members = 0;
  // What does not fit, for people, the first few of it. Empty: all does.
  std::vector<std::string> damage;
};

// Returns the directory of the zip that ends with `source`, or nothing where
// there is no end record. `begins`: the source is a zip from its first byte on;
// what is in front of the first member is held against the directory too.
// Errors of reading.
absl::StatusOr<std::optional<ZipDirectory>> ReadZipDirectory(
    const ByteSource& source, bool begins);

// Members that the end record in `tail`, the last bytes of a zip, counts;
// nothing if there is no end record, or its number is not the real one.
struct ZipEndRecord {
  uint64_t place = 0;
  uint32_t members = 0;
};
std::optional<ZipEndRecord> FindZipEndRecord(absl::string_view tail);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_ZIP_DIRECTORY_H_
