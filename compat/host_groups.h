// Fleets: thousands of hosts are judged by what can tell them apart. Hosts
// whose facts are equal but for names, identities and times are one class, GPUs
// of a class that are alike are one question, and questions with equal answers
// on hosts that look alike to a reader are one group. Thread-safe.

#ifndef TWINPATH_COMPAT_HOST_GROUPS_H_
#define TWINPATH_COMPAT_HOST_GROUPS_H_

#include <functional>
#include <string>
#include <vector>

#include "compat/assume.h"
#include "compat/predict.h"
#include "compat/tables.h"
#include "twinpath/v1/common.pb.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/reach.pb.h"

namespace twinpath::compat {

// What of a host counts; the caller's own rules, so that every list of GPUs is
// the same one.
struct HostRules {
  // GPUs a program can run on. Pointers into the facts.
  std::function<std::vector<const v1::Gpu*>(const v1::HostFacts&)> gpus;
  // Why there is none; asked where `gpus` gives none.
  std::function<std::vector<v1::Reason>(const v1::HostFacts&)> problems;
};

struct GroupedGpus {
  // For readers: counts, names, paths.
  v1::HostGroup group;
  // A host of the group and, but for groups without a GPU, one of its GPUs.
  const v1::HostFacts* facts = nullptr;
  int gpu = -1;
  // The paths under the assumption; empty without one.
  std::vector<v1::PathPrediction> after;
  // Names of files whose plain run fails or compiles.
  std::vector<std::string> files;
};

struct FleetPrediction {
  std::vector<GroupedGpus> groups;
  // For each host the positions in `groups` of its GPUs, each once.
  std::vector<std::vector<size_t>> groups_of_host;
  // Predictions made.
  size_t asked = 0;
};

// Predicts hosts, whose facts must outlive the result. `assumption` may be
// nullptr. Names of hosts are those of the facts (profile or host name).
FleetPrediction PredictFleet(const Predictor& predictor,
                             const std::vector<v1::HostFacts>& hosts,
                             const HostRules& rules,
                             const Assumption* assumption,
                             const Tables& tables);

// Facts without what tells equal hosts apart: names, identities, times, UUIDs,
// PCI addresses, what is running. UUIDs count where programs inherit a
// CUDA_VISIBLE_DEVICES: two hosts with one copied value are two classes if it
// names a GPU of one of them.
std::string ClassKey(v1::HostFacts facts, const Tables& tables);

// The name of a host for people.
std::string HostName(const v1::HostFacts& facts);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_HOST_GROUPS_H_
