// Files that hide what they hold: packed executables, scripts that unpack
// themselves, programs with an archive behind them.

#ifndef TWINPATH_INSPECT_PACKED_H_
#define TWINPATH_INSPECT_PACKED_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"
#include "inspect/elf_view.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// `head`: the file's first kHeadBytes. Each sets the report's kind and adds a
// problem where the file is one. Read errors.

// UPX removes the section table and leaves its mark near the start and near the
// end. PyInstaller, AppImage and self-extracting programs are ELF files with an
// archive behind them, or in a section of its own; what else is behind an ELF
// file is named where it is long and no text. Signatures of kernel modules are
// nothing.
absl::Status LookForPacker(const ByteSource& source, const ElfView& elf,
                           absl::string_view head, v1::FileReport& report);

// A script with a binary behind it unpacks itself.
absl::Status LookForPayload(const ByteSource& source, absl::string_view head,
                            v1::FileReport& report);

// Where an ELF file ends: behind its header, tables, sections and segments;
// beyond the file where it is cut, or split from its debug information. Read
// errors.
absl::StatusOr<uint64_t> EndOfElf(const ByteSource& source, const ElfView& elf);

// Where the first member is of the zip that is appended to a program or a
// script, `head` being its first bytes: what is in front of it is the
// program's, which may have other things behind its end. Not less than that
// end. Nothing where no zip is. Read errors.
absl::StatusOr<std::optional<uint64_t>> FindAppendedZip(
    const ByteSource& source, absl::string_view head);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_PACKED_H_
