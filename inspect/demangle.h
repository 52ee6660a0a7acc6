// Kernel names as they stand in the source. Names are foreign: a short one can
// stand for gigabytes (each substitution may double what it refers to) and
// others take exponential time to parse, so input, output and time are capped
// and the demangler is left at a cap.

#ifndef TWINPATH_INSPECT_DEMANGLE_H_
#define TWINPATH_INSPECT_DEMANGLE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "inspect/report_budget.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

inline constexpr size_t kMaxMangledBytes = 4 << 10;
inline constexpr size_t kMaxDemangledBytes = 16 << 10;
// Processor time for one name; real ones take microseconds.
inline constexpr long kMaxDemangleMicroseconds = 200'000;
// Processor time for all names of a file, about; later ones stay mangled.
inline constexpr int kMaxSlowNames = 20;

// Whether this build can demangle: it needs the compiler's static C++ runtime,
// whose demangler can be stopped.
bool CanDemangle();

// Returns the name in the source; "" where `mangled` is no mangled name or a
// cap is reached. `timed_out`, if set, says whether it was the time. Uses
// SIGVTALRM and the virtual interval timer of the process: one thread at a
// time.
std::string Demangle(absl::string_view mangled, bool* timed_out = nullptr);

// Fills Kernel.demangled of all kernels, as far as the budget goes.
void DemangleKernels(ReportBudget& budget, v1::FileReport& report);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_DEMANGLE_H_
