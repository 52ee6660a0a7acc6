// A whole host from the predictions of its GPUs: it does what the worst GPU
// that programs can use does. Pure functions; thread-safe.

#ifndef TWINPATH_COMPAT_HOST_ANSWER_H_
#define TWINPATH_COMPAT_HOST_ANSWER_H_

#include <vector>

#include "google/protobuf/repeated_field.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/prediction.pb.h"

namespace twinpath::compat {

// GPUs that programs can use: MIG instances instead of their parent. A parent
// in MIG mode without an instance is listed, for it is a GPU that fails.
std::vector<const v1::Gpu*> UsableGpus(const v1::HostFacts& facts);

// How bad an outcome is for who rolls out: 4 fails, 3 unknown, 2 jit, 1 native,
// 0 no device code.
int Badness(v1::Outcome outcome);

// The three paths of the host, native first; empty without predictions. Of
// several GPUs that are equally bad the first is named.
std::vector<v1::HostPath> CombineGpus(
    const google::protobuf::RepeatedPtrField<v1::Prediction>& predictions);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_HOST_ANSWER_H_
