// Whether the driver compiled PTX in a run, from what its cache folder held.

#ifndef TWINPATH_VERDICT_COMPILED_H_
#define TWINPATH_VERDICT_COMPILED_H_

#include "twinpath/v1/observation.pb.h"

namespace twinpath::verdict {

// True if the folder holds entries of the driver. NVRTC and nvJitLink keep
// their own results there too, also where nothing is given to the driver to
// compile (docs/gpu-runs.md), so where the driver's stamp was measured only its
// entries count. Where it was not, or no entry's writer was read (an older
// agent, too many writers), every file counts.
bool DriverCompiled(const v1::CacheEvidence& cache);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_COMPILED_H_
