// Carriers: files that hold other files. An archive, a package or a compressed
// file is opened and its members are inspected like files of their own, down to
// a few levels of carriers in carriers. A member has the name
// CARRIER!/PATH-IN-IT; that name is a label and nothing on disk ever has it.
//
// Only members with something to say get a report: ELF files, files with device
// code, damaged ones. The others are counted. All caps are problems (TP232) of
// the carrier, which name the cap and the member; what was read stays.
//
// Thread-safe; keeps no state between calls.

#ifndef TWINPATH_INSPECT_CARRIER_H_
#define TWINPATH_INSPECT_CARRIER_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"
#include "inspect/inspect.h"
#include "inspect/oci.h"
#include "inspect/scratch.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

struct CarrierLimits {
  // Carriers inside each other, the file itself counted.
  int nesting = 4;
  // Members of all carriers of one file.
  uint64_t members = 1'000'000;
  // Unpacked bytes of one member.
  uint64_t member_bytes = uint64_t{16} << 30;
  // Unpacked bytes of all members, on all levels, of one file.
  uint64_t total_bytes = uint64_t{64} << 30;
  // Unpacked bytes above `ratio` times the stored ones, and above this many,
  // are a bomb.
  uint64_t ratio = 1000;
  uint64_t ratio_slack = uint64_t{64} << 20;
};

using OnReport = std::function<absl::Status(v1::FileReport report)>;

// Inspects a file and, where it is a carrier and options.members is set, its
// members. `on_report` gets a carrier's report behind those of its members, so
// the last one is the file's. Ends with the first error of `on_report`, and
// with errors of reading `source`; never fails for odd content. Of a file
// that is no carrier fatbins go to `early` as InspectSource says.
absl::Status InspectFile(const ByteSource& source, absl::string_view name,
                         const InspectOptions& options, Scratch& scratch,
                         const OnReport& on_report,
                         const CarrierLimits& limits = {},
                         const FatbinSink& early = nullptr);

// Inspects an OCI image layout whose files lie in a folder, as one carrier.
// `unopened`: those that are not in `files`.
absl::Status InspectOciLayout(const OciFiles& files,
                              const OciUnopened& unopened,
                              absl::string_view name,
                              const InspectOptions& options, Scratch& scratch,
                              const OnReport& on_report,
                              const CarrierLimits& limits = {});

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_CARRIER_H_
