// Scratch: where members of carriers are put while they are looked at. Small
// ones stay in memory, larger ones go into one unnamed file, used as a stack:
// a member inside a member lies behind it and is given up before it. No member
// ever gets a name on disk. Not thread-safe; the sources it returns are.

#ifndef TWINPATH_INSPECT_SCRATCH_H_
#define TWINPATH_INSPECT_SCRATCH_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "inspect/byte_source.h"

namespace twinpath::inspect {

// Members up to this size are kept in memory.
inline constexpr uint64_t kScratchMemoryBytes = uint64_t{8} << 20;
// Most bytes of the file.
inline constexpr uint64_t kScratchFileBytes = uint64_t{8} << 30;

class Scratch {
 public:
  using Sink = std::function<absl::Status(absl::string_view)>;

  // `fd`: an empty file that nobody else uses, the caller's; -1: there is none,
  // and larger members cannot be looked at.
  Scratch(int fd, uint64_t max_bytes) : fd_(fd), max_bytes_(max_bytes) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Takes what `fill` delivers. The source must be destroyed before those made
  // earlier, and before this; its place in the file is free then.
  // RESOURCE_EXHAUSTED where there is no room; else the error of `fill`.
  absl::StatusOr<std::unique_ptr<ByteSource>> Push(
      const std::function<absl::Status(const Sink&)>& fill);

 private:
  friend class ScratchSource;
  absl::Status Append(absl::string_view piece);

  int fd_;
  uint64_t max_bytes_;
  uint64_t end_ = 0;
};

// Returns a file for a Scratch, without a name, in TMPDIR or /var/tmp or /tmp,
// the first of them that lets one be made. An error means there is none.
absl::StatusOr<UniqueFd> OpenScratchFile();

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_SCRATCH_H_
