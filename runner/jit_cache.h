// Who wrote an entry of the driver's JIT cache folder. The driver keeps there
// what it compiled; NVRTC and nvJitLink keep their own results in the same
// folder and format, with JIT compilation disabled too. Each entry states when
// its writer was built, so entries with the driver's own stamp prove that the
// driver compiled, and others do not (measured, docs/gpu-runs.md).
//
// Pure functions over foreign bytes; thread-safe.

#ifndef TWINPATH_RUNNER_JIT_CACHE_H_
#define TWINPATH_RUNNER_JIT_CACHE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "twinpath/v1/observation.pb.h"

namespace twinpath::runner {

// Bytes of an entry that are looked at; the stamp lies in the first hundred.
inline constexpr size_t kCacheHeadBytes = 512;
// Distinct writers kept of one folder.
inline constexpr int kMaxCacheWriters = 16;
// The file that lists the entries.
inline constexpr absl::string_view kCacheIndex = "index";

// "Apr 29 2026 17:12:06": when the writer of the entry that starts with `head`
// was built. Empty: no such stamp.
std::string CacheWriterOf(absl::string_view head);

// Counts an entry of `writer` (may be empty) in `evidence`.
void CountCacheEntry(absl::string_view writer, v1::CacheEvidence& evidence);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_JIT_CACHE_H_
