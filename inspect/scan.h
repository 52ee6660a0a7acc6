// Finds fatbins in a source: which byte ranges to look at, and the search for
// the magic in windows. Wrappers and section names play no part in it: code
// that nothing names is found too.

#ifndef TWINPATH_INSPECT_SCAN_H_
#define TWINPATH_INSPECT_SCAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"
#include "inspect/elf_view.h"
#include "inspect/fatbin.h"

namespace twinpath::inspect {

// A range of file bytes, half open.
struct ScanRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  // Holds host machine code, or may: the magic occurs there by chance, as an
  // immediate. Only sound fatbins count.
  bool code = false;

  friend bool operator==(const ScanRange&, const ScanRange&) = default;
};

// The ranges of an ELF file to scan: with section headers everything but
// executable sections; without them everything, executable segments marked as
// code (older linkers put read-only data in there). Sorted, not overlapping,
// whatever the tables claim.
std::vector<ScanRange> ScanRanges(const ElfView& elf, uint64_t file_size);

// Most entries walked in one file, damaged and rejected fatbins included.
inline constexpr uint64_t kMaxEntriesWalked = 4'000'000;

// Searches `ranges` in order. `on_fatbin` gets each fatbin found and returns
// whether to go on. `on_window`, if set, sees bytes between fatbins in windows
// that overlap by at least 64 bytes, with their offset; some bytes more than
// once. RESOURCE_EXHAUSTED beyond kMaxEntriesWalked, read errors.
absl::Status ScanForFatbins(
    const ByteSource& source, const std::vector<ScanRange>& ranges,
    const std::function<bool(FatbinWalk)>& on_fatbin,
    const std::function<void(uint64_t offset, absl::string_view)>& on_window);

// Index of the fatbin magic in `bytes`, npos if there is none.
size_t FindFatbinMagic(absl::string_view bytes);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_SCAN_H_
