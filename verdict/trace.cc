#include "verdict/trace.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/text.h"
#include "compat/reason.h"
#include "verdict/cuda_error.h"
#include "verdict/repeats.h"

namespace twinpath::verdict {
namespace {

constexpr size_t kNamedKernels = 3;

std::string Label(const v1::Observation& run) {
  return absl::StrCat(PathName(run.path()), " traced: ");
}

// Whether the repeat ended as the run it repeats.
bool SameEnding(const v1::Observation& a, const v1::Observation& b) {
  return a.ending() == b.ending() && a.exit_code() == b.exit_code() &&
         a.signal() == b.signal();
}

// The whole record of launches is there.
bool IsWhole(const v1::Tracer& tracer) {
  return tracer.started() && tracer.dropped() == 0 && tracer.problem().empty();
}

// The process never came to the driver: no kernel can have been launched.
bool NeverOpenedDriver(const v1::Trace& trace) {
  if (!IsWhole(trace.objects_tracer())) return false;
  for (const v1::TracedObject& object : trace.objects()) {
    if (BaseName(object.path()).substr(0, 10) == "libcuda.so") return false;
  }
  return !trace.objects().empty();
}

bool LaunchedNothing(const v1::Trace& trace) {
  if (trace.launches() > 0 || trace.refused_launches() > 0) return false;
  return IsWhole(trace.device_tracer()) || NeverOpenedDriver(trace);
}

std::string KernelNames(const std::vector<const v1::TracedKernel*>& kernels) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kernels.size(), kNamedKernels); ++i) {
    names.push_back(Printable(kernels[i]->name()));
  }
  std::string text = absl::StrJoin(names, ", ");
  if (kernels.size() > names.size()) {
    absl::StrAppend(&text, " and ", kernels.size() - names.size(), " more");
  }
  return text;
}

void Demote(PathStatus status, v1::Reason reason, PathEvaluation& evaluation) {
  evaluation.status = status;
  evaluation.cuda_error = reason.cuda_error();
  // What was proven is not; what was noted beside it stays.
  std::vector<v1::Reason> kept;
  kept.push_back(std::move(reason));
  for (v1::Reason& old : evaluation.reasons) {
    if (compat::SeverityOf(old) != v1::SEVERITY_NOTE) {
      kept.push_back(std::move(old));
    }
  }
  evaluation.reasons = std::move(kept);
}

// The kernel that the driver refused last, of those with the run's error where
// there are such.
const v1::TracedKernel* RefusedKernel(const v1::Trace& trace, uint32_t error) {
  const v1::TracedKernel* found = nullptr;
  for (const v1::TracedKernel& kernel : trace.kernels()) {
    // Not found, and so never launched.
    const bool missing = kernel.launches() == 0 && kernel.cuda_error() != 0;
    if (kernel.refused() == 0 && !missing) continue;
    if (found == nullptr || kernel.cuda_error() == error) found = &kernel;
  }
  return found;
}

void NameOwner(const v1::Observation& traced, PathEvaluation& evaluation) {
  const v1::Trace& trace = traced.trace();
  const v1::TracedKernel* kernel = RefusedKernel(trace, evaluation.cuda_error);
  if (kernel == nullptr || kernel->file().empty()) return;
  const TracedNames names(trace);
  std::string detail =
      absl::StrCat(Label(traced), "kernel ", Printable(kernel->name()),
                   ", refused with ", kernel->cuda_error(), ", belongs to ",
                   Printable(names.Of(kernel->file())));
  absl::StrAppend(&detail, names.Holds(kernel->file())
                               ? ", a file of the artifact"
                               : ", which is not a file of the artifact");
  evaluation.reasons.push_back(
      compat::MakeReason("TP333", detail, "", kernel->cuda_error()));
}

// Kernels launched on ptx-jit whose module is known to be machine code that was
// in a file.
void CheckCompiled(const v1::Observation& traced, PathEvaluation& evaluation) {
  const v1::Trace& trace = traced.trace();
  std::vector<const v1::TracedKernel*> embedded;
  const TracedNames names(trace);
  std::set<std::string> files;
  size_t others = 0;
  for (const v1::TracedKernel& kernel : trace.kernels()) {
    if (kernel.launches() == 0) continue;
    if (kernel.has_module() &&
        kernel.module() < static_cast<uint32_t>(trace.modules_size()) &&
        trace.modules(static_cast<int>(kernel.module())).origin() ==
            v1::MODULE_ORIGIN_EMBEDDED) {
      embedded.push_back(&kernel);
      files.insert(Printable(names.Of(kernel.file())));
    } else {
      ++others;
    }
  }
  if (embedded.empty()) return;
  const std::string detail = absl::StrCat(
      Label(traced), embedded.size(), " of ", embedded.size() + others,
      " kernels launched came from machine code in ",
      absl::StrJoin(files, ", "), ": ", KernelNames(embedded));
  if (others == 0 && IsWhole(trace.device_tracer())) {
    Demote(PathStatus::kInconclusive, compat::MakeReason("TP309", detail),
           evaluation);
  } else {
    evaluation.reasons.push_back(compat::MakeReason("TP334", detail));
  }
}

// Whose kernels the modules were that plain compiled by surprise (TP314).
void NameSilentJit(const v1::Observation& traced, PathEvaluation& evaluation) {
  const v1::Trace& trace = traced.trace();
  const TracedNames names(trace);
  std::set<std::string> files;
  for (const v1::TracedModule& module : trace.modules()) {
    if (module.origin() == v1::MODULE_ORIGIN_COMPILED &&
        !module.file().empty()) {
      files.insert(Printable(names.Of(module.file())));
    }
  }
  if (files.empty()) return;
  for (v1::Reason& reason : evaluation.reasons) {
    if (reason.code() != "TP314") continue;
    reason.set_detail(absl::StrCat(reason.detail(),
                                   "; traced: modules with kernels of ",
                                   absl::StrJoin(files, ", ")));
  }
}

}  // namespace

bool NeedsTrace(const v1::Entry& entry) {
  return entry.trace() == v1::TRACE_RULE_REQUIRED ||
         entry.must_launch_size() > 0;
}

const v1::Observation* TracedRun(const v1::CellResult& result, v1::Path path) {
  const v1::Observation* found = nullptr;
  for (const v1::Observation& run : result.observations()) {
    if (run.path() != path || !run.traced() || !run.has_trace()) continue;
    if (found == nullptr || !run.jit_proof()) found = &run;
  }
  return found;
}

TracedNames::TracedNames(const v1::Trace& trace) {
  for (const v1::TracedObject& object : trace.objects()) {
    names_.insert(object.artifact_name());
  }
}

bool TracedNames::Holds(absl::string_view file) const {
  return names_.contains(file);
}

std::string TracedNames::Of(const std::string& file) const {
  return Holds(file) ? file : std::string(BaseName(file));
}

void ApplyTrace(const v1::Entry& entry, v1::Path path,
                const v1::CellResult& result,
                const v1::PathPrediction* prediction,
                PathEvaluation& evaluation) {
  const v1::Observation* traced = TracedRun(result, path);
  const v1::Observation* own = MainRun(result, path);
  if (traced == nullptr || own == nullptr || result.simulated() ||
      traced->simulated()) {
    return;
  }
  if (evaluation.status == PathStatus::kFailed) {
    // However it ended: it says only whose kernel was refused.
    NameOwner(*traced, evaluation);
    return;
  }
  if (evaluation.status != PathStatus::kProven) return;
  if (!SameEnding(*traced, *own)) {
    evaluation.reasons.push_back(compat::MakeReason(
        "TP331", absl::StrCat(Label(*traced),
                              "ended in another way than the run itself")));
    return;
  }
  const v1::Trace& trace = traced->trace();
  if (trace.refused_launches() > 0) {
    const v1::TracedKernel* kernel = RefusedKernel(trace, 0);
    const uint32_t error = kernel == nullptr ? 0 : kernel->cuda_error();
    std::string detail =
        absl::StrCat(Label(*traced), "reports success, but the driver refused ",
                     trace.refused_launches(),
                     trace.refused_launches() == 1 ? " launch" : " launches");
    if (kernel != nullptr) {
      absl::StrAppend(&detail, ": CUDA error ", error, " for kernel ",
                      Printable(kernel->name()));
      if (!kernel->file().empty()) {
        absl::StrAppend(&detail, " of ",
                        Printable(TracedNames(trace).Of(kernel->file())));
      }
    }
    Demote(IsTransientError(error) ? PathStatus::kInconclusive
                                   : PathStatus::kFailed,
           compat::MakeReason("TP308", detail, "", error), evaluation);
    return;
  }
  const bool excused = prediction != nullptr &&
                       prediction->outcome() == v1::OUTCOME_NO_DEVICE_CODE &&
                       entry.has_expected_output();
  if (!excused && LaunchedNothing(trace)) {
    Demote(PathStatus::kInconclusive,
           compat::MakeReason(
               "TP308",
               absl::StrCat(Label(*traced), "reports success, and ",
                            trace.device_tracer().started()
                                ? "no kernel was launched"
                                : "it never opened the driver"),
               "Make the entry launch kernels of its files; it proves nothing "
               "about them otherwise."),
           evaluation);
    return;
  }
  if (path == v1::PATH_PTX_JIT) CheckCompiled(*traced, evaluation);
  if (path == v1::PATH_PLAIN) NameSilentJit(*traced, evaluation);
}

std::vector<TraceClaim> JudgeNeededTrace(const v1::Entry& entry,
                                         const v1::CellResult& result) {
  std::vector<TraceClaim> claims;
  if (!NeedsTrace(entry)) return claims;
  const auto unknown = [&](absl::string_view code, absl::string_view detail) {
    claims.push_back({false, compat::MakeReason(code, detail)});
  };
  const v1::Observation* traced = TracedRun(result, v1::PATH_PLAIN);
  if (traced == nullptr) traced = TracedRun(result, v1::PATH_NATIVE);
  if (traced == nullptr) {
    unknown("TP330", entry.kind() == v1::ENTRY_KIND_UNSPECIFIED
                         ? "no traced run was delivered"
                         : "entries of this kind are not traced");
    return claims;
  }
  const v1::Observation* own = MainRun(result, traced->path());
  if (own == nullptr || !SameEnding(*traced, *own)) {
    unknown("TP331", absl::StrCat(Label(*traced),
                                  "ended in another way than the run itself"));
    return claims;
  }
  const v1::Trace& trace = traced->trace();
  // A program that never came to the driver has nothing for it to trace.
  if (!trace.device_tracer().started() && !NeverOpenedDriver(trace)) {
    unknown("TP330", absl::StrCat(Label(*traced), "launches: ",
                                  Printable(trace.device_tracer().problem())));
  }
  if (!trace.objects_tracer().started()) {
    unknown("TP330", absl::StrCat(Label(*traced), "shared objects: ",
                                  Printable(trace.objects_tracer().problem())));
  }
  if (!claims.empty()) return claims;
  std::set<std::string> launched;
  for (const v1::TracedKernel& kernel : trace.kernels()) {
    if (kernel.launches() > 0) launched.insert(kernel.name());
  }
  const bool whole = IsWhole(trace.device_tracer()) || NeverOpenedDriver(trace);
  for (const std::string& name : entry.must_launch()) {
    if (launched.contains(name)) continue;
    if (!whole) {
      unknown("TP330",
              absl::StrCat(Label(*traced), Printable(name),
                           " was not seen to be launched, and the record is "
                           "not complete: ",
                           trace.device_tracer().dropped(), " left out; ",
                           Printable(trace.device_tracer().problem())));
    } else {
      claims.push_back(
          {true, compat::MakeReason(
                     "TP332", absl::StrCat(Label(*traced), Printable(name),
                                           " was not launched"))});
    }
  }
  return claims;
}

}  // namespace twinpath::verdict
