// What a cubin's ELF header and notes say about it: target, toolkit, tool. For
// the two readers of cubins (cubin.h, cubin_prefix.h), which find the notes in
// different ways. Pure.

#ifndef TWINPATH_INSPECT_CUBIN_NOTES_H_
#define TWINPATH_INSPECT_CUBIN_NOTES_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "inspect/cubin.h"

namespace twinpath::inspect {

// Types of notes of owner "NVIDIA Corp".
inline constexpr uint32_t kNoteCuinfo = 1000;
inline constexpr uint32_t kNoteToolkit = 2000;
// Header and owner; the description follows.
inline constexpr size_t kNoteHeaderBytes = 24;

// Attributes of .nv.info and .nv.compat. A record is four bytes, format and
// attribute first; with kFormatSized the other two are the size of what
// follows.
inline constexpr uint8_t kFormatSized = 4;
inline constexpr uint8_t kAttrMaxThreads = 0x05;
inline constexpr uint8_t kAttrParameterBank = 0x0a;
inline constexpr uint8_t kAttrRequiredThreads = 0x10;
inline constexpr uint8_t kAttrRegisterCount = 0x2f;
inline constexpr uint8_t kAttrApiVersion = 0x37;
inline constexpr uint8_t kCompatAcceleratorTarget = 0x09;

// Product of the three dimensions at the front of `xyz`; nothing if one is 0 or
// it is beyond 32 bits.
std::optional<uint32_t> ThreadsOfDimensions(absl::string_view xyz);

// The NUL-terminated string at `at` of a table; "" outside it.
absl::string_view CStringAt(absl::string_view table, uint64_t at);

// Type, target, suffix and, with the older ABI, toolkit from the header's
// fields.
void ApplyCubinHeader(uint16_t type, uint8_t abi_version, uint32_t version,
                      uint32_t flags, Cubin& cubin);

// The description of the note at the front of `bytes`, if it is NVIDIA's of
// that type; "" else.
absl::string_view NoteBody(absl::string_view bytes, uint32_t type);

// .note.nv.cuinfo, or .note.nv.cuver, which states no toolkit.
void ApplyCuinfo(absl::string_view body, bool is_cuver, Cubin& cubin);
// .note.nv.tkinfo.
void ApplyToolkitNote(absl::string_view body, Cubin& cubin);

// Whether the tool's options name the target; then `suffix` is what they say,
// 'a', 'f' or 0.
bool SuffixOfOptions(const Cubin& cubin, char& suffix);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_CUBIN_NOTES_H_
