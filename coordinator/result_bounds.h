// Lists in a result are their host's: a hostile one may send as many as a
// message holds, and each is judged, compared and shown. What no honest agent
// reaches is cut where it comes in.

#ifndef TWINPATH_COORDINATOR_RESULT_BOUNDS_H_
#define TWINPATH_COORDINATOR_RESULT_BOUNDS_H_

#include "twinpath/v1/observation.pb.h"

namespace twinpath::coordinator {

// Cuts lists that are longer than an honest agent's. A result that was cut is
// no longer complete, so that it can decide nothing, and its first problem
// (TP418) names each list. Returns whether anything was cut. Thread-safe for
// different results.
bool CutOversized(v1::CellResult& result);

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_RESULT_BOUNDS_H_
