// Judges a sweep of whole entries (kernels/entries, run_gpu_suite --stage
// entries) against what must come out on a GPU with code in them:
//
//   gpu_entries SWEEP.json
//
// One row an entry and path: what was seen, what had to be seen. Entries that
// the sweep lacks (a machine without PyTorch, with one GPU) are left out. Exit
// 0: all as they must be; 1: a row differs, or there is none; 2: the file
// cannot be read.

#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "tests/gpu/row_outcome.h"
#include "twinpath/v1/sweep.pb.h"
#include "verdict/path_status.h"

namespace twinpath::gpu {
namespace {

struct Row {
  std::string entry;
  std::string what;
  std::string seen;
  bool holds = false;
};

// "proven", or "failed: TP222 vendor-library-cannot-follow ...".
std::string Text(const verdict::PathEvaluation& evaluation) {
  std::vector<std::string> reasons;
  for (const v1::Reason& reason : evaluation.reasons) {
    reasons.push_back(absl::StrCat(reason.code(), " ", reason.detail()));
  }
  return absl::StrCat(verdict::StatusName(evaluation.status), ": ",
                      absl::StrJoin(reasons, "; "));
}

class Judge {
 public:
  Judge(const v1::Cell& cell, const v1::Entry& entry, std::vector<Row>& rows)
      : cell_(cell), entry_(entry), rows_(rows) {}

  void Run() {
    const std::string& name = entry_.name();
    if (name == "cublas" || absl::StartsWith(name, "cufft")) {
      const bool cublas = name == "cublas";
      Proven(v1::PATH_NATIVE);
      Proven(v1::PATH_PLAIN);
      if (cublas || name == "cufft-1048576") {
        BlamesLibrary(cublas ? "cublas" : "cufft");
      } else {
        // Plans that cuFFT 12.0 compiles at run time, where it may.
        Proven(v1::PATH_PTX_JIT);
        NamesCompiler("libcufft");
      }
      LaunchedOwnKernel(cublas ? "FillForCublas" : "FillForCufft");
    } else if (name == "endless") {
      for (const v1::Path path : {v1::PATH_NATIVE, v1::PATH_PLAIN}) Ended(path);
    } else if (name == "one-gpu" || name == "all-gpus") {
      for (const v1::Path path :
           {v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN}) {
        Proven(path);
      }
    } else if (name == "torch") {
      Proven(v1::PATH_NATIVE);
      Proven(v1::PATH_PLAIN);
      Covers();
    } else if (name == "own-images") {
      ImagesLoad();
    } else if (name == "toolchain") {
      ToolchainHolds();
    }
  }

 private:
  void Add(absl::string_view what, std::string seen, bool holds) {
    rows_.push_back({cell_.entry(), std::string(what), std::move(seen), holds});
  }

  verdict::PathEvaluation Evaluate(v1::Path path) const {
    return verdict::EvaluatePath(
        entry_, path, cell_.result(),
        verdict::PredictionFor(cell_.predictions(), path));
  }

  void Proven(v1::Path path) {
    const verdict::PathEvaluation evaluation = Evaluate(path);
    Add(absl::StrCat(verdict::PathName(path), " is proven"), Text(evaluation),
        evaluation.status == verdict::PathStatus::kProven);
  }

  // Forced JIT fails, and the reasons name the vendor's library.
  void BlamesLibrary(absl::string_view library) {
    const verdict::PathEvaluation evaluation = Evaluate(v1::PATH_PTX_JIT);
    const std::string text = Text(evaluation);
    Add(absl::StrCat("forced JIT fails in ", library), text,
        evaluation.status == verdict::PathStatus::kFailed &&
            absl::StrContains(absl::AsciiStrToLower(text), library));
  }

  // A plain run compiled, and the trace says whose code.
  void NamesCompiler(absl::string_view library) {
    const std::string text = Text(Evaluate(v1::PATH_PLAIN));
    Add(absl::StrCat("plain compiles for ", library), text,
        absl::StrContains(text, "TP314") && absl::StrContains(text, library));
  }

  // A traced run saw the program's own kernel, compiled under forced JIT.
  void LaunchedOwnKernel(absl::string_view kernel) {
    std::vector<std::string> seen;
    bool holds = false;
    for (const v1::Observation& run : cell_.result().observations()) {
      if (!run.has_trace()) continue;
      for (const v1::TracedKernel& traced : run.trace().kernels()) {
        if (!absl::StrContains(traced.name(), kernel)) continue;
        seen.push_back(absl::StrCat(verdict::PathName(run.path()), " ",
                                    traced.launches(), " launches, ",
                                    traced.refused(), " refused"));
        holds = holds || traced.launches() > 0;
      }
    }
    Add(absl::StrCat("a trace shows ", kernel), absl::StrJoin(seen, "; "),
        holds);
  }

  void Ended(v1::Path path) {
    for (const v1::Observation& run : cell_.result().observations()) {
      if (run.path() != path || run.jit_proof() || run.traced()) continue;
      Add(absl::StrCat(verdict::PathName(path), " is ended at its limit"),
          absl::StrCat(v1::Ending_Name(run.ending()), " after ",
                       run.duration().seconds(), " s, ", run.problem()),
          run.ending() == v1::ENDING_TIMED_OUT &&
              !absl::StrContains(run.problem(), "hung"));
    }
  }

  // Kernel coverage of the files that were opened.
  void Covers() {
    std::vector<std::string> seen;
    uint64_t launched = 0;
    for (const v1::Observation& run : cell_.result().observations()) {
      if (!run.has_trace()) continue;
      seen.push_back(absl::StrCat(verdict::PathName(run.path()), ": ",
                                  run.trace().objects_size(), " objects, ",
                                  run.trace().modules_size(), " modules, ",
                                  run.trace().kernels_size(), " kernels"));
      for (const v1::KernelCoverage& file : run.trace().coverage()) {
        launched += file.launched();
        seen.push_back(absl::StrCat(file.file(), " ", file.launched(), "/",
                                    file.kernels()));
      }
    }
    Add("kernel coverage is counted", absl::StrJoin(seen, "; "), launched > 0);
  }

  void ImagesLoad() {
    const v1::ImageLoadReport& loads = cell_.result().image_loads();
    uint64_t sass = 0;
    uint64_t ptx = 0;
    for (const v1::ImageLoadGroup& group : loads.groups()) {
      if (group.state() != v1::LOAD_STATE_LOADED) continue;
      (group.kind() == v1::IMAGE_KIND_SASS ? sass : ptx) += group.images();
    }
    Add("every image as predicted, machine code and PTX",
        absl::StrCat(loads.tried(), " tried, ", loads.loaded(), " loaded (",
                     sass, " machine code, ", ptx, " PTX), ",
                     loads.contradicted(), " not as predicted, ",
                     loads.left_out(), " left out"),
        loads.tried() > 0 && loads.contradicted() == 0 && sass > 0 && ptx > 0 &&
            loads.left_out() == 0);
  }

  void ToolchainHolds() {
    std::vector<std::string> seen;
    bool holds = false;
    for (const v1::ToolchainCheck& check : cell_.result().toolchain()) {
      std::vector<std::string> steps;
      for (const v1::ToolchainStep& step : check.steps()) {
        std::string text = step.name();
        for (const v1::Reason& reason : step.reasons()) {
          absl::StrAppend(&text, " (", reason.code(), " ", reason.detail(),
                          ")");
        }
        steps.push_back(std::move(text));
      }
      seen.push_back(absl::StrCat(
          "nvcc ", check.toolkit().nvcc_version(),
          check.holds() ? " holds: " : " fails: ", absl::StrJoin(steps, ", ")));
      holds = holds || check.holds();
    }
    holds = holds && cell_.verdict().kind() == v1::VERDICT_KIND_PASS;
    seen.push_back(v1::VerdictKind_Name(cell_.verdict().kind()));
    Add("a toolkit's check holds", absl::StrJoin(seen, "; "), holds);
  }

  const v1::Cell& cell_;
  const v1::Entry& entry_;
  std::vector<Row>& rows_;
};

int Main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gpu_entries SWEEP.json\n");
    return 2;
  }
  const auto text = ReadFile(argv[1], uint64_t{256} << 20);
  v1::Sweep sweep;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (!text.ok() ||
      !google::protobuf::util::JsonStringToMessage(*text, &sweep, options)
           .ok()) {
    std::fprintf(stderr, "gpu_entries: error: %s cannot be read\n", argv[1]);
    return 2;
  }
  std::vector<Row> rows;
  for (const v1::Cell& cell : sweep.cells()) {
    for (const v1::Entry& entry : sweep.spec().release().entries()) {
      if (entry.name() == cell.entry()) Judge(cell, entry, rows).Run();
    }
  }
  std::printf(
      "| entry | must hold | seen | holds |\n"
      "|---|---|---|---|\n");
  bool all = !rows.empty();
  for (const Row& row : rows) {
    all = all && row.holds;
    const std::string seen = JsonQuoted(row.seen);
    std::printf("| %s | %s | %s | %s |\n", row.entry.c_str(), row.what.c_str(),
                seen.substr(1, seen.size() - 2).c_str(),
                row.holds ? "yes" : "NO");
  }
  return all ? 0 : 1;
}

}  // namespace
}  // namespace twinpath::gpu

int main(int argc, char** argv) { return twinpath::gpu::Main(argc, argv); }
