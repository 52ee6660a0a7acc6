// Advice: what would make an artifact run on the hosts where it does not, or
// give them machine code where they compile: targets to add, drivers, other
// libraries, another CPU; which hosts each gains, and the smallest set for all.
//
// Every proposal is checked by the predictor: a target as a file of the same
// host half that holds this one image, a driver as the host under that
// assumption. So a target is never proposed to a driver that does not take it,
// nor a driver to a GPU that it no longer drives. Thread-safe.

#ifndef TWINPATH_COMPAT_ADVICE_H_
#define TWINPATH_COMPAT_ADVICE_H_

#include <vector>

#include "compat/host_groups.h"
#include "compat/predict.h"
#include "compat/tables.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/reach.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

// Advises for hosts predicted by `predictor` (PredictFleet). `path`: what is to
// work: NATIVE, PTX_JIT, or PLAIN, where machine code and PTX both will do.
v1::Advice Advise(const v1::ArtifactReport& report, const Predictor& predictor,
                  const FleetPrediction& fleet,
                  const std::vector<v1::HostFacts>& hosts, v1::Path path,
                  const Tables& tables);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_ADVICE_H_
