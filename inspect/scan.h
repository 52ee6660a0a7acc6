// Finds device code in a source: which byte ranges to look at, and the search
// for what marks its beginning: fatbins, bare cubins, PTX text, what packs
// them, offload bundles. Wrappers and section names play no part in it: code
// that nothing names is found too. One pass; what was found is passed over
// whole.

#ifndef TWINPATH_INSPECT_SCAN_H_
#define TWINPATH_INSPECT_SCAN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "inspect/bare.h"
#include "inspect/byte_source.h"
#include "inspect/cubin_prefix.h"
#include "inspect/elf_view.h"
#include "inspect/fatbin.h"
#include "inspect/offload.h"

namespace twinpath::inspect {

// A range of file bytes, half open.
struct ScanRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  // Holds host machine code, or may: the magics occur there by chance, as
  // immediates. Only what is sound counts.
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

// What was found at a place; one of the three is set.
struct Finding {
  std::optional<FatbinWalk> fatbin;
  std::optional<BareImage> bare;
  std::optional<OffloadBundle> bundle;
  uint64_t offset = 0;
  // Where the search goes on, and from where bare images count again: those in
  // the entries of a damaged fatbin are its images.
  uint64_t resume = 0;
  uint64_t bare_from = 0;
};

// Gets what is found, in ascending order; returns whether to go on.
using FindingSink = std::function<bool(Finding)>;
// Called where kCudartText (runtime.h) stands outside of what is found; perhaps
// more than once for a place, and on several threads at once.
using CudartSink = std::function<void()>;

// Searches `ranges` in order; large ones on several threads, with the same
// result. `on_cudart` may be empty. `wanted` is read of packed cubins that
// stand alone, while they are decoded anyway. RESOURCE_EXHAUSTED beyond
// kMaxEntriesWalked or when too much was looked at in vain; read errors.
absl::Status ScanForCode(
    const ByteSource& source, const std::vector<ScanRange>& ranges,
    const FindingSink& on_finding, const CudartSink& on_cudart,
    const PrefixOptions& wanted = {.kernels = false, .target = true});

// The same for fatbins alone.
absl::Status ScanForFatbins(const ByteSource& source,
                            const std::vector<ScanRange>& ranges,
                            const std::function<bool(FatbinWalk)>& on_fatbin);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_SCAN_H_
