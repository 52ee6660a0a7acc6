// Kernel names as they stand in the source. Names are foreign: a short one can
// stand for gigabytes (each substitution may double what it refers to), so
// input and output are capped and printing is ended at the cap.

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

// Whether this build can demangle: it needs the compiler's static C++ runtime,
// whose demangler can be stopped.
bool CanDemangle();

// Returns the name in the source; "" where `mangled` is no mangled name or a
// cap is reached. Thread-safe.
std::string Demangle(absl::string_view mangled);

// Fills Kernel.demangled of all kernels, as far as the budget goes.
void DemangleKernels(ReportBudget& budget, v1::FileReport& report);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_DEMANGLE_H_
