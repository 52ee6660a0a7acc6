// What cuobjdump lists of a file and what it does not: the named rules that
// explain every difference between its listing and a report. A rule is computed
// from the report, so that none can hide an image more:
//
//   outside-sections    fatbins in other sections than .nv_fatbin and
//                       __nv_relfatbin are not listed
//   bare-image          cubins, packed cubins and PTX outside any fatbin are
//   not
//                       listed
//   relocatable-needs-all
//                       without -all only .nv_fatbin is listed where it has
//                       images
//   cuobjdump-refuses   "Invalid ELF" at an image: it ends there, and what
//   comes
//                       behind is not listed
//   family-suffix       -lelf names machine code of sm_120f sm_120
//
// tests/differential holds them against libraries of many projects
// (docs/inspect-survey.md). Pure functions; thread-safe.

#ifndef TWINPATH_RUNNER_WITNESS_RULES_H_
#define TWINPATH_RUNNER_WITNESS_RULES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::runner {

inline constexpr char kRuleOutsideSections[] = "outside-sections";
inline constexpr char kRuleBareImage[] = "bare-image";
inline constexpr char kRuleRelocatableNeedsAll[] = "relocatable-needs-all";
inline constexpr char kRuleRefuses[] = "cuobjdump-refuses";
inline constexpr char kRuleFamilySuffix[] = "family-suffix";

// Where cuobjdump has a fatbin's images.
enum class WitnessPlace {
  // In .nv_fatbin, or in any section of an archive's member, where a report
  // knows none: listed always.
  kListed,
  // In __nv_relfatbin: listed with -all, and without where the file has no
  // images in .nv_fatbin.
  kRelocatable,
  // Not listed, by kRuleOutsideSections.
  kOutsideSections,
  // Not listed, by kRuleBareImage.
  kBare,
};

// `archive`: the file is an archive, read member by member. A .fatbin file is
// listed as it is.
WitnessPlace PlaceOf(const v1::Fatbin& fatbin, bool archive);

// Whether an image is PTX, relocatable or not.
bool IsPtx(const v1::Image& image);
// The kind as cuobjdump names it: "elf", "ptx", "nvvm", "unknown".
absl::string_view WitnessKind(const v1::Image& image);
// The target as cuobjdump names it, which says sm for every kind: "sm_120f".
std::string WitnessTarget(const v1::Image& image);

// Counts of `cuobjdump -lelf` or `-lptx`: its lines "ELF file    1:
// app.1.sm_90a.cubin", by target, ordered by it. `unread` counts lines that
// announce an image and name no target. The name of the file may hold anything.
std::vector<v1::WitnessCount> ParseImageList(absl::string_view text, bool ptx,
                                             uint64_t* unread);

// Compares counts with a report; fills explained and differences (TP431).
// `report`: one file, not a carrier but an archive, whose members' reports are
// among `members`. `machine_code_cut`, `ptx_cut`: cuobjdump ended with an error
// behind the images of that listing.
void CompareWithReport(const v1::FileReport& report,
                       const std::vector<const v1::FileReport*>& members,
                       bool machine_code_cut, bool ptx_cut,
                       v1::Witness& witness);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_WITNESS_RULES_H_
