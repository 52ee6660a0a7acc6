// One image of a report: from a fatbin entry's header, and from what a cubin or
// a PTX text says.

#ifndef TWINPATH_INSPECT_IMAGE_H_
#define TWINPATH_INSPECT_IMAGE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "inspect/cubin.h"
#include "inspect/fatbin.h"
#include "inspect/ptx.h"
#include "inspect/report_budget.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Fills kind, target, sizes and packing from an entry's header.
// `relocatable_section`: the section's name says that its code still has to be
// linked.
void DescribeEntry(const FatbinEntry& entry, bool relocatable_section,
                   v1::Image& image);

// Whether it is machine code or PTX, for linking or not.
bool IsSass(const v1::Image& image);
bool IsPtx(const v1::Image& image);

// Sets what is wrong with an image, unless something was said before.
void SetProblem(v1::Image& image, absl::string_view problem);
// The same, with what FlagHint says.
void SetStatusProblem(v1::Image& image, const absl::Status& status);

// "(entry flags 0x...: bits 0x... are unknown)" where an undecodable payload
// may be due to a flag this version does not know.
std::string FlagHint(const v1::Image& image);

// Moves what a cubin says into an image: kind, target (a suffix that the entry
// states stays), producer, kernels as far as the budget goes, each without what
// was not read of it.
void ApplyCubin(Cubin cubin, bool kernels, ReportBudget& budget,
                v1::Image& image);

// The same for a PTX text that is one.
void ApplyPtx(const PtxModule& module, bool kernels, ReportBudget& budget,
              v1::Image& image);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_IMAGE_H_
