// Proposals: changes that might make an artifact run on groups of hosts, each
// asked of the predictor. advice.h counts and picks among them.
//
// For advice.cc only. Thread-safe.

#ifndef TWINPATH_COMPAT_PROPOSALS_H_
#define TWINPATH_COMPAT_PROPOSALS_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compat/host_groups.h"
#include "compat/predict.h"
#include "compat/tables.h"
#include "twinpath/v1/reach.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat::internal {

// One proposal and the groups it makes work.
struct Proposal {
  v1::FixKind kind = v1::FIX_KIND_UNSPECIFIED;
  std::string text;
  bool other_build = false;
  // Exact target of a group, machine code: what a person would name first.
  bool exact = false;
  uint32_t number = 0;
  std::set<size_t> gained;
  std::set<size_t> native;
  std::set<size_t> improved;
};

// Groups by what is wrong with them on one path, as positions in
// FleetPrediction::groups.
struct TroubledGroups {
  std::set<size_t> failing;
  // Plain runs that compile.
  std::set<size_t> compiling;
};

// `path` is a position in a list of three.
TroubledGroups FindTroubled(const FleetPrediction& fleet, size_t path);

// All changes that gain or improve a group, in no order.
std::vector<Proposal> Propose(const v1::ArtifactReport& report,
                              const Predictor& predictor,
                              const FleetPrediction& fleet,
                              const TroubledGroups& groups, size_t path,
                              const Tables& tables);

}  // namespace twinpath::compat::internal

#endif  // TWINPATH_COMPAT_PROPOSALS_H_
