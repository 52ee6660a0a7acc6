// Diagnose: from what a run left behind (exit, signal, output, driver log) to
// reasons, the decisive one first, each with what to look at next. The driver
// log counts more than the output, and the last decisive error in it more than
// earlier ones; lines that every healthy start writes are ignored.
//
// The order of looking is that of an engineer: could the program be loaded at
// all; does a failure that looks like one of code come from exhausted memory or
// a faulty device; the CUDA error itself (native fails: targets and final link
// first; forced JIT fails: the PTX and the driver's ceiling); errors of
// libraries; the program's own checks; signals and exit code last.
//
// Pure functions; thread-safe.

#ifndef TWINPATH_COMPAT_DIAGNOSE_H_
#define TWINPATH_COMPAT_DIAGNOSE_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "compat/driver_log.h"
#include "compat/tables.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

// What is known besides the run. Everything may be null.
struct DiagnosisContext {
  // What was predicted for the run's path.
  const v1::PathPrediction* prediction = nullptr;
  // The artifact's files: tells which one owns a failing kernel.
  const v1::ArtifactReport* report = nullptr;
};

// Errors named in a program's output by number, name or error text.
std::vector<CudaErrorSeen> ErrorsInOutput(absl::string_view output,
                                          const Tables& tables);

// Reasons of a run, decisive first. Empty for a run that ended with exit code 0
// and no error. An error in the driver log beside exit code 0 is TP308; a
// program that says it ran without the GPU, TP320.
std::vector<v1::Reason> Diagnose(const v1::Observation& observation,
                                 const DiagnosisContext& context = {});
std::vector<v1::Reason> Diagnose(const v1::Observation& observation,
                                 const Tables& tables,
                                 const DiagnosisContext& context = {});

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_DIAGNOSE_H_
