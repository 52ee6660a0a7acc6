// Compares results of different cells and with the reference: mismatches 3
// (hosts of one class) and 4 (classes, recorded reference). Internal to
// verdict/; findings are not grouped yet.

#ifndef TWINPATH_VERDICT_COMPARE_OUTPUTS_H_
#define TWINPATH_VERDICT_COMPARE_OUTPUTS_H_

#include <vector>

#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/sweep.pb.h"
#include "verdict/evaluated.h"

namespace twinpath::verdict {

// Cells of one entry that are expected to agree.
using CellClass = std::vector<const EvaluatedCell*>;

// TP403 for the members of one class whose native results differ from those of
// most. What is usual is found for each part (standard output, a file) by
// itself. An error where most
// agree, or where the entry states how it is compared; else a warning, since a
// program may print something of its host. TP434 where what was kept does not
// suffice. Parts that vary on their own host, and parts a rule of the entry
// judges, are left out unless the entry states how it is compared.
void CompareInClass(const CellClass& cells, std::vector<v1::Finding>& findings);

// TP433 for the classes of one entry whose usual native results differ from
// those of the class with the most cells; of equally large ones from the first,
// classes being in the order of their first cells. A warning; an error where
// the entry states how it is compared. Nothing for an entry with a reference,
// which stands in their place.
void CompareAcrossClasses(const std::vector<CellClass>& classes,
                          std::vector<v1::Finding>& findings);

// TP432, TP434 for one cell: each path's results against the reference. A
// warning where only optional paths differ. Runs that fail by themselves are
// not compared.
std::vector<v1::Finding> CompareWithReferenceOf(const EvaluatedCell& cell,
                                                const v1::Policy& policy);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_COMPARE_OUTPUTS_H_
