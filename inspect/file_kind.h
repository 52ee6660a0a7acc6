// What a file is, by its first bytes; never by its name. Pure; thread-safe.

#ifndef TWINPATH_INSPECT_FILE_KIND_H_
#define TWINPATH_INSPECT_FILE_KIND_H_

#include <string>

#include "absl/strings/string_view.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// First bytes that are looked at; a PTX file may start with a long comment.
inline constexpr size_t kHeadBytes = 64 << 10;

// Tars are made of blocks of this size.
inline constexpr size_t kTarBlockBytes = 512;

// What opens a carrier of other files.
enum class CarrierReader {
  // Nothing does.
  kNone,
  // ar.h
  kAr,
  // archive.h
  kArchive,
};

struct ContentKind {
  // UNSPECIFIED for ELF: what kind of ELF file is for the ELF reader to say.
  v1::FileKind kind = v1::FILE_KIND_OTHER;
  bool elf = false;
  // Name of an archive's format, "zip".
  std::string archive;
  // Members of the archive lie in it as they are, so that the bytes of the
  // archive can be scanned for fatbins.
  bool plain_members = false;
  // What opens it, where it is an archive.
  CarrierReader reader = CarrierReader::kNone;
};

// `head`: the first kHeadBytes of the file, or all of it.
ContentKind KindOfContent(absl::string_view head);

// Whether the 512 bytes at the start of `block` are the header of a tar member:
// the sum over them that stands in it is right.
bool IsTarHeader(absl::string_view block);

// Whether a tar may start with these bytes: a header, or one by its mark alone,
// which is damaged.
bool StartsTar(absl::string_view head);

// Whether bytes look like text: no NUL, few control characters.
bool LooksLikeText(absl::string_view bytes);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_FILE_KIND_H_
