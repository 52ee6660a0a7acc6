// Files that hide what they hold: packed executables, scripts that unpack
// themselves.

#ifndef TWINPATH_INSPECT_PACKED_H_
#define TWINPATH_INSPECT_PACKED_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"
#include "inspect/elf_view.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// `head`: the file's first kHeadBytes. Each sets the report's kind and adds a
// problem where the file is one. Read errors.

// UPX removes the section table and leaves its mark near the start and near the
// end.
absl::Status LookForPacker(const ByteSource& source, const ElfView& elf,
                           absl::string_view head, v1::FileReport& report);

// A script with a binary behind it unpacks itself.
absl::Status LookForPayload(const ByteSource& source, absl::string_view head,
                            v1::FileReport& report);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_PACKED_H_
