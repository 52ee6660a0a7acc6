#include "compat/host_answer.h"

#include "compat/host_check.h"

namespace twinpath::compat {

std::vector<const v1::Gpu*> UsableGpus(const v1::HostFacts& facts) {
  std::vector<const v1::Gpu*> usable;
  for (const v1::Gpu& gpu : facts.gpus()) {
    if (!HasInstances(facts, gpu)) usable.push_back(&gpu);
  }
  return usable;
}

int Badness(v1::Outcome outcome) {
  switch (outcome) {
    case v1::OUTCOME_FAILS:
      return 4;
    case v1::OUTCOME_UNKNOWN:
      return 3;
    case v1::OUTCOME_JIT:
      return 2;
    case v1::OUTCOME_NATIVE:
      return 1;
    default:
      return 0;
  }
}

std::vector<v1::HostPath> CombineGpus(
    const google::protobuf::RepeatedPtrField<v1::Prediction>& predictions) {
  std::vector<v1::HostPath> paths;
  if (predictions.empty()) return paths;
  for (int at = 0; at < predictions[0].paths_size(); ++at) {
    const v1::Prediction* worst = nullptr;
    uint32_t gpus = 0;
    uint32_t alike = 0;
    for (const v1::Prediction& prediction : predictions) {
      if (at >= prediction.paths_size()) continue;
      ++gpus;
      const v1::Outcome outcome = prediction.paths(at).outcome();
      if (worst == nullptr ||
          Badness(outcome) > Badness(worst->paths(at).outcome())) {
        worst = &prediction;
        alike = 0;
      }
      if (outcome == worst->paths(at).outcome()) ++alike;
    }
    if (worst == nullptr) continue;
    v1::HostPath& path = paths.emplace_back();
    *path.mutable_prediction() = worst->paths(at);
    path.set_gpu_uuid(worst->gpu_uuid());
    path.set_gpu_name(worst->gpu_name());
    path.set_gpus(gpus);
    path.set_gpus_alike(alike);
  }
  return paths;
}

}  // namespace twinpath::compat
