#include "compat/whole_prediction.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/text.h"
#include "base/unread.h"
#include "compat/host_answer.h"
#include "compat/image_rules.h"
#include "compat/reason.h"

namespace twinpath::compat::internal {
namespace {

// A host program that compiles at run time and brings no code of its own does
// not make files unknown that do.
bool OnlyRunTimeCompiler(const v1::PathPrediction& path) {
  return path.outcome() == v1::OUTCOME_UNKNOWN && path.reasons_size() > 0 &&
         path.reasons(0).code() == "TP214";
}

v1::Reason Named(v1::Reason reason, absl::string_view file, bool name_it) {
  if (name_it) {
    reason.set_detail(absl::StrCat(file, ": ", reason.detail()));
  }
  return reason;
}

bool Loads(const v1::PathPrediction& path) {
  return path.outcome() == v1::OUTCOME_NATIVE ||
         path.outcome() == v1::OUTCOME_JIT;
}

// A file for another CPU.
bool IsForOtherCpu(const v1::PathPrediction& path) {
  return path.outcome() == v1::OUTCOME_FAILS && path.reasons_size() > 0 &&
         path.reasons(0).code() == "TP208";
}

// A failure that shows only once a kernel of the file is launched: no image for
// it. Other failures (CPU, runtime, a needed kernel) are certain.
bool FailsAtLaunch(const v1::PathPrediction& path) {
  return path.outcome() == v1::OUTCOME_FAILS && path.reasons_size() > 0 &&
         path.reasons(0).code() != "TP227" &&
         path.reasons(0).code() != "TP230" &&
         path.reasons(0).cuda_error() >= 200;
}

// One of NVIDIA's libraries that lacks PTX: its forced run ends in an error of
// its own, which says nothing of the files that are the artifact's own.
bool CannotFollow(const v1::FilePrediction& file, size_t path) {
  const v1::PathPrediction& own = file.paths(static_cast<int>(path));
  return path == kPtxJit && own.outcome() == v1::OUTCOME_FAILS &&
         std::any_of(own.reasons().begin(), own.reasons().end(),
                     [](const auto& r) { return r.code() == "TP222"; });
}

}  // namespace

v1::PathPrediction Whole(const std::vector<v1::FilePrediction>& files,
                         const std::vector<size_t>& fatbins, bool first_decides,
                         size_t path) {
  v1::PathPrediction whole;
  whole.set_path(kPaths[path]);
  const int at = static_cast<int>(path);
  // Whether some file brings code for this CPU; a file that could not be read,
  // or is for the other CPU, does not make one that compiles at run time known.
  bool any_code = false;
  for (size_t i = 0; i < files.size(); ++i) {
    any_code |= fatbins[i] > 0 && !IsForOtherCpu(files[i].paths(at)) &&
                !OnlyRunTimeCompiler(files[i].paths(at));
  }
  // An artifact may serve hosts of both CPUs; where some of its device code is
  // for this one, the files for the other one are not looked at here.
  const bool any_here =
      std::any_of(files.begin(), files.end(), [&](const auto& file) {
        const v1::Outcome outcome = file.paths(at).outcome();
        return outcome != v1::OUTCOME_NO_DEVICE_CODE &&
               !IsForOtherCpu(file.paths(at));
      });
  const bool any_own =
      std::any_of(files.begin(), files.end(), [&](const auto& file) {
        const v1::PathPrediction& own = file.paths(at);
        return Badness(own.outcome()) > 0 && !CannotFollow(file, path) &&
               !IsForOtherCpu(own) && !OnlyRunTimeCompiler(own);
      });
  const v1::FilePrediction* worst = nullptr;
  const auto weight = [&](const v1::FilePrediction& file) {
    const bool decides = first_decides && &file == &files.front();
    if (any_code && OnlyRunTimeCompiler(file.paths(at))) return 0;
    if (any_own && CannotFollow(file, path)) return 0;
    if (any_here && !decides && IsForOtherCpu(file.paths(at))) return 0;
    return Badness(file.paths(at).outcome());
  };
  for (const v1::FilePrediction& file : files) {
    whole.set_gaps(whole.gaps() + file.paths(at).gaps());
    if (worst == nullptr || weight(file) > weight(*worst)) worst = &file;
  }
  if (worst == nullptr) {
    whole.set_outcome(v1::OUTCOME_NO_DEVICE_CODE);
    *whole.add_reasons() = MakeReason("TP223", "the artifact holds no file");
    return whole;
  }
  const bool name_it = files.size() > 1;
  const bool any_loads =
      std::any_of(files.begin(), files.end(),
                  [&](const auto& file) { return Loads(file.paths(at)); });
  for (size_t i = 0; i < files.size() && any_loads; ++i) {
    // Part of the whole runs, so all of a member that does not is a gap.
    if (FailsAtLaunch(files[i].paths(at))) {
      whole.set_gaps(whole.gaps() + static_cast<uint32_t>(fatbins[i]));
    }
  }
  whole.set_outcome(worst->paths(at).outcome());
  whole.set_settled_by(worst->paths(at).settled_by());
  for (const v1::Reason& reason : worst->paths(at).reasons()) {
    *whole.add_reasons() = Named(reason, worst->name(), name_it);
  }
  for (const v1::FilePrediction& file : files) {
    if (&file == worst) continue;
    const bool left_behind = any_own && CannotFollow(file, path);
    for (const v1::Reason& reason : file.paths(at).reasons()) {
      if (left_behind && reason.code() != "TP222") continue;
      if (left_behind) {
        *whole.add_reasons() = MakeReason(
            "TP222",
            absl::StrCat(file.name(), " cannot follow: ", reason.detail(),
                         "; the artifact's own images are judged "
                         "without it"));
        continue;
      }
      const v1::Severity severity = SeverityOf(reason);
      // Worth naming though notes: a library that cannot follow forced JIT;
      // native code beside code that is compiled, and the reverse.
      const absl::string_view other =
          whole.outcome() == v1::OUTCOME_JIT ? "TP200" : "TP235";
      const bool mixed = path == kPlain && reason.code() == other;
      if (severity == v1::SEVERITY_NOTE && reason.code() != "TP222" && !mixed) {
        continue;
      }
      *whole.add_reasons() = Named(reason, file.name(), name_it);
    }
  }
  return whole;
}

void AddVendorLibraries(const std::vector<const FileView*>& files,
                        v1::PathPrediction& path) {
  if (path.path() != v1::PATH_PTX_JIT || !Loads(path)) return;
  absl::flat_hash_set<absl::string_view> here;
  for (const FileView* file : files) {
    here.insert(BaseName(file->name()));
    here.insert(file->report->elf().soname());
  }
  std::set<std::string> outside;
  for (const FileView* file : files) {
    for (const std::string& needed : file->report->elf().needed()) {
      if (IsVendorLibrary(needed) && !here.contains(needed)) {
        outside.insert(Printable(needed));
      }
    }
  }
  if (outside.empty()) return;
  *path.add_reasons() = MakeReason(
      "TP222", absl::StrCat(absl::StrJoin(outside, ", "),
                            " of the host is not among the files; whether it "
                            "follows forced compilation is not known"));
}

void AddMissingKernels(const std::vector<const FileView*>& files,
                       const std::vector<std::string>& needed,
                       const absl::flat_hash_set<std::string>& found,
                       v1::PathPrediction& path) {
  for (const std::string& kernel : needed) {
    if (found.contains(kernel)) continue;
    bool complete = true;
    for (const FileView* file : files) {
      complete &= file->kernels_complete &&
                  FirstUnread(file->report->problems()) == nullptr;
    }
    v1::Reason reason =
        MakeReason("TP227", absl::StrCat("no file holds kernel ", kernel), "",
                   complete ? 500 : 0);
    const v1::Outcome outcome =
        complete ? v1::OUTCOME_FAILS : v1::OUTCOME_UNKNOWN;
    if (Badness(outcome) <= Badness(path.outcome())) {
      *path.add_reasons() = std::move(reason);
      continue;
    }
    path.set_outcome(outcome);
    if (!complete) path.set_settled_by("twinpath inspect with kernels");
    path.mutable_reasons()->Add(std::move(reason));
    path.mutable_reasons()->SwapElements(0, path.reasons_size() - 1);
  }
}

}  // namespace twinpath::compat::internal
