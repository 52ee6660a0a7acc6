// The members of an ar archive (.a, .deb): where they lie, without copying
// anything. Long names of GNU ("/", "//", "/123") and of BSD ("#1/20"); thin
// archives, whose members are files beside them. Symbol tables are passed over.
// Layout: ar(5) of FreeBSD, and the manual of GNU binutils. Not thread-safe.

#ifndef TWINPATH_INSPECT_AR_H_
#define TWINPATH_INSPECT_AR_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"

namespace twinpath::inspect {

struct ArMember {
  // As the archive says, at most 4096 bytes of it.
  std::string path;
  // Place of the bytes in the archive. 0 where external.
  uint64_t offset = 0;
  uint64_t size = 0;
  // A file beside a thin archive; its bytes are not in here.
  bool external = false;
};

class ArReader {
 public:
  // `source` must outlive this. INVALID_ARGUMENT if it is no ar archive.
  static absl::StatusOr<ArReader> Open(const ByteSource& source);

  bool thin() const { return thin_; }
  // Finds the next member. Returns false at the end. DATA_LOSS naming the place
  // where a header is broken or a member does not lie inside the archive;
  // nothing can be read behind that. Read errors of the source.
  absl::StatusOr<bool> Next(ArMember* member);

 private:
  ArReader(const ByteSource& source, bool thin)
      : source_(&source), thin_(thin) {}
  // Resolves "/123", an index into the table of long names.
  absl::StatusOr<std::string> LongName(absl::string_view index) const;

  const ByteSource* source_;
  bool thin_;
  uint64_t at_ = 8;
  uint64_t names_at_ = 0;
  uint64_t names_size_ = 0;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_AR_H_
