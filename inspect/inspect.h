// Reads what device code a file holds. Needs no NVIDIA software and trusts
// nothing the file says: every size is checked against the file and against a
// cap before memory is taken, and reading is by pread in bounded windows, never
// by mapping, so that a file that shrinks meanwhile cannot kill the reader.
//
// Odd content is never an error: it is named in the report, with its place, and
// the rest is still read. Thread-safe; keeps no state between calls.

#ifndef TWINPATH_INSPECT_INSPECT_H_
#define TWINPATH_INSPECT_INSPECT_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "inspect/byte_source.h"
#include "inspect/report_budget.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Most bytes one image may expand to before it is left undecoded.
inline constexpr uint64_t kDefaultMaxImageBytes = uint64_t{1} << 30;
// Most bytes a report may take; what lies behind is counted as a problem.
inline constexpr uint64_t kMaxReportBytes = uint64_t{160} << 20;

// Gets fatbins of a report that will not change any more, in order, on several
// threads but one at a time. They stay in the report and may be read only.
using FatbinSink = std::function<void(absl::Span<v1::Fatbin* const>)>;

struct InspectOptions {
  // Decode payloads and list kernels. Without it images are listed with kind,
  // target, sizes and PTX ISA, and payloads are not touched, apart from the
  // first bytes of images whose container's section does not tell whether they
  // still have to be linked.
  bool kernels = true;
  // Compute the file's SHA-256.
  bool digest = true;
  // Also compute the SHA-256 of each image's decoded bytes.
  bool image_digests = false;
  // Most bytes to inflate for one image. 0: kDefaultMaxImageBytes.
  uint64_t max_image_bytes = kDefaultMaxImageBytes;
  // Read registers, shared memory and threads of kernels in machine code;
  // without it only names are promised.
  bool details = true;
  // Also fill Kernel.demangled.
  bool demangle = false;
  // Look at the members of carriers (carrier.h, child.h). The functions below
  // never do.
  bool members = true;
};

// The cap that `options` says.
inline uint64_t MaxImageBytes(const InspectOptions& options) {
  return options.max_image_bytes != 0 ? options.max_image_bytes
                                      : kDefaultMaxImageBytes;
}

// Inspects the bytes of one file: everything of `report` but its name is set,
// and what it takes is taken from `budget`. Several calls may share a budget;
// `source` must be thread-safe, images are decoded in parallel. Fatbins that
// are complete go to `early`, if it is set, while others are read; with
// options.demangle none do. Returns errors of reading only; never fails for odd
// content.
absl::Status InspectSource(const ByteSource& source,
                           const InspectOptions& options, ReportBudget& budget,
                           v1::FileReport& report,
                           const FatbinSink& early = nullptr);

// Inspects the regular file behind `fd`. `name` goes into the report as it is.
// The file position is neither used nor moved. Returns INVALID_ARGUMENT for a
// folder, device or pipe and ErrnoStatus codes for read errors; never fails for
// odd content.
absl::StatusOr<v1::FileReport> InspectDescriptor(int fd, absl::string_view name,
                                                 const InspectOptions& options);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_INSPECT_H_
