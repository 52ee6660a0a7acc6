// Reach: what an artifact does on every GPU the tables know, under every driver
// branch that drives it. There are no rules here: a host is made for each pair
// (assume.h), the predictor is asked, and equal answers of neighbouring
// branches become one run. Thread-safe.

#ifndef TWINPATH_COMPAT_REACH_H_
#define TWINPATH_COMPAT_REACH_H_

#include <vector>

#include "compat/predict.h"
#include "compat/tables.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/reach.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

// One answer.
struct ReachPoint {
  const DriverRow* driver = nullptr;
  // Native, ptx-jit, plain.
  std::vector<v1::PathPrediction> paths;
};

struct GpuPoints {
  const GpuRow* gpu = nullptr;
  v1::CpuArchitecture cpu = v1::CPU_ARCHITECTURE_UNSPECIFIED;
  // Oldest driver first; only branches that drive the GPU.
  std::vector<ReachPoint> points;
};

// CPU to ask for: AArch64 where a file with device code is for AArch64 and none
// for x86-64, else x86-64. GPUs that go with one CPU only ignore it.
v1::CpuArchitecture CpuOf(const v1::ArtifactReport& report);

// Asks for all pairs. GPUs without a product and old numbers of renamed ones
// are passed over.
std::vector<GpuPoints> AskEverywhere(const Predictor& predictor,
                                     v1::CpuArchitecture cpu,
                                     const Tables& tables);

// The whole: GPUs, floor, findings TP226 (nothing for the next major) and TP250
// (a GPU whose drivers end before this artifact starts).
v1::Reach ReachOf(const v1::ArtifactReport& report, const Predictor& predictor,
                  const Tables& tables);

// Whether two answers are the same to a reader: outcome, error, decisive reason
// code and gaps of every path.
bool SameAnswer(const std::vector<v1::PathPrediction>& a,
                const std::vector<v1::PathPrediction>& b);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_REACH_H_
