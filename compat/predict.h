// Predict: what one host GPU will do with each image, kernel, file and the
// whole artifact, on the three paths. Pure functions over a report and facts;
// nothing here touches a device. docs/compat-model.md derives the rules.
//
// How to read a PathPrediction:
//   NATIVE, gaps == 0   every fatbin with kernels has machine code here
//   NATIVE, gaps > 0    some have not; which kernels an entry launches decides,
//                       so neither success nor failure contradicts it
//   JIT on plain        at least half of it runs only by compiling (TP206)
//   TP200 and TP235     both on plain: mixed, some fatbins are native and some
//                       are compiled; whether a run compiles is not known
//   JIT on ptx-jit      PTX is there for every fatbin, or gaps counts the rest
//   FAILS               nothing loads, or a needed kernel has no image;
//                       reasons[0].cuda_error is the error expected (0: the
//                       program does not get as far as CUDA)
//   FAILS, gaps > 0     certain only for the part that gaps counts: the member
//                       named fails once one of its kernels is launched
//   UNKNOWN             reasons[0] says why, settled_by how to find out
//   NO_DEVICE_CODE      the file brings none

#ifndef TWINPATH_COMPAT_PREDICT_H_
#define TWINPATH_COMPAT_PREDICT_H_

#include <memory>
#include <string>
#include <vector>

#include "compat/tables.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

struct PredictOptions {
  // List every kernel, not only those that differ from their file.
  bool all_kernels = false;
  // List every image.
  bool all_images = false;
  // Kernels (mangled names) that must have an image: their absence is `fails`.
  std::vector<std::string> needed_kernels;
  // Most kernels listed a file unless all_kernels. The reasons still count all.
  size_t max_kernels = 1000;
  // The plain path is what programs get that inherit the variables set on the
  // host. False: what Twinpath's own runs get, which start without them.
  bool inherit_environment = true;
};

// Predicts an artifact on one GPU of a host.
v1::Prediction Predict(const v1::ArtifactReport& report,
                       const v1::HostFacts& facts, const v1::Gpu& gpu,
                       const Tables& tables,
                       const PredictOptions& options = {});

// Predicts one entry: its program and the program's DT_NEEDED closure inside
// the artifact, files that `covers` names, and the kernels that must_launch and
// covers name. The whole artifact where the program is not an ELF file of it.
// Returns the three paths, native first.
std::vector<v1::PathPrediction> PredictEntry(const v1::ArtifactReport& report,
                                             const v1::Entry& entry,
                                             const v1::HostFacts& facts,
                                             const v1::Gpu& gpu,
                                             const Tables& tables);

class HostEffects;
namespace internal {
class Prepared;
}  // namespace internal

// The same for many hosts: what depends on the report alone is computed once,
// and an answer is kept for hosts that do not differ in what it depends on.
// Keeps up to 36 MiB of answers, and a pointer to the report. Thread-safe.
class Predictor {
 public:
  explicit Predictor(const v1::ArtifactReport& report);
  ~Predictor();
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  v1::Prediction Predict(const v1::HostFacts& facts, const v1::Gpu& gpu,
                         const Tables& tables,
                         const PredictOptions& options = {}) const;
  std::vector<v1::PathPrediction> PredictEntry(const v1::Entry& entry,
                                               const v1::HostFacts& facts,
                                               const v1::Gpu& gpu,
                                               const Tables& tables) const;

 private:
  struct Caches;
  // What device code, driver and GPU alone make of it, without what the rest of
  // the host adds.
  v1::Prediction PredictCode(const v1::HostFacts& facts, const v1::Gpu& gpu,
                             const Tables& tables,
                             const PredictOptions& options) const;
  std::unique_ptr<internal::Prepared> prepared_;
  std::unique_ptr<HostEffects> effects_;
  std::unique_ptr<Caches> caches_;
};

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_PREDICT_H_
