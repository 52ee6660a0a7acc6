#include "compat/reach.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compat/assume.h"
#include "compat/fix.h"
#include "compat/floor.h"
#include "compat/image_rules.h"
#include "compat/reason.h"
#include "compat/target.h"

namespace twinpath::compat {
namespace {

using internal::kNative;
using internal::kPlain;
using internal::kPtxJit;

// Reasons kept for a path of a cell.
constexpr int kMaxReasons = 3;

std::vector<v1::PathPrediction> Ask(const Predictor& predictor,
                                    const v1::HostFacts& facts,
                                    const Tables& tables) {
  PredictOptions options;
  options.max_kernels = 0;
  v1::Prediction prediction =
      predictor.Predict(facts, facts.gpus(0), tables, options);
  std::vector<v1::PathPrediction> paths;
  for (v1::PathPrediction& path : *prediction.mutable_paths()) {
    paths.push_back(std::move(path));
  }
  return paths;
}

v1::ReachCell CellOf(const GpuPoints& gpu, size_t first, size_t last) {
  v1::ReachCell cell;
  *cell.mutable_first() = PointOf(*gpu.points[first].driver, gpu.gpu->tegra());
  *cell.mutable_last() = PointOf(*gpu.points[last].driver, gpu.gpu->tegra());
  for (v1::PathPrediction path : gpu.points[last].paths) {
    if (path.reasons_size() > kMaxReasons) {
      path.mutable_reasons()->DeleteSubrange(kMaxReasons,
                                             path.reasons_size() - kMaxReasons);
    }
    *cell.add_paths() = std::move(path);
  }
  return cell;
}

// What is better for a plain run.
int Rank(v1::Outcome outcome) {
  switch (outcome) {
    case v1::OUTCOME_NATIVE:
      return 4;
    case v1::OUTCOME_JIT:
      return 3;
    case v1::OUTCOME_UNKNOWN:
      return 2;
    case v1::OUTCOME_FAILS:
      return 1;
    default:
      return 0;
  }
}

v1::GpuReach Summarise(const GpuPoints& gpu, const Tables& tables) {
  const GpuRow& row = *gpu.gpu;
  v1::GpuReach out;
  out.mutable_compute_capability()->set_major(row.number / 10);
  out.mutable_compute_capability()->set_minor(row.number % 10);
  out.set_architecture(row.architecture);
  out.mutable_products()->Add(row.products.begin(), row.products.end());
  out.set_platform(row.tegra() ? v1::PLATFORM_TEGRA : v1::PLATFORM_STANDARD);
  out.set_cpu_architecture(gpu.cpu);
  if (row.driver_last && tables.FindDriver(*row.driver_last) != nullptr) {
    *out.mutable_last_driver() =
        PointOf(*tables.FindDriver(*row.driver_last), false);
  }
  out.set_best(v1::OUTCOME_NO_DEVICE_CODE);
  size_t first = 0;
  for (size_t i = 0; i < gpu.points.size(); ++i) {
    const ReachPoint& point = gpu.points[i];
    const v1::Outcome plain = point.paths[kPlain].outcome();
    if (Rank(plain) > Rank(out.best())) out.set_best(plain);
    if (!out.has_oldest_native() &&
        point.paths[kNative].outcome() == v1::OUTCOME_NATIVE) {
      *out.mutable_oldest_native() = PointOf(*point.driver, row.tegra());
    }
    if (!out.has_oldest_jit() &&
        point.paths[kPtxJit].outcome() == v1::OUTCOME_JIT) {
      *out.mutable_oldest_jit() = PointOf(*point.driver, row.tegra());
    }
    if (i + 1 < gpu.points.size() &&
        SameAnswer(point.paths, gpu.points[i + 1].paths)) {
      continue;
    }
    *out.add_cells() = CellOf(gpu, first, i);
    first = i + 1;
  }
  return out;
}

// Number of the newest target that machine code or PTX is for; 0: none.
uint32_t NewestTarget(const v1::ArtifactReport& report, const Tables& tables) {
  uint32_t newest = 0;
  for (const v1::FileReport& file : report.files()) {
    for (const v1::Fatbin& fatbin : file.fatbins()) {
      if (fatbin.registration() == v1::REGISTRATION_LEFT_OVER) continue;
      for (const v1::Image& image : fatbin.images()) {
        const GpuRow* row = tables.FindGpu(image.target().number());
        // PTX of an island serves all later GPUs too, but is nobody's choice.
        if (row != nullptr && !row->tegra()) {
          newest = std::max(newest, row->number);
        }
      }
    }
  }
  return newest;
}

void AddForwardCover(const v1::ArtifactReport& report,
                     const Predictor& predictor, const Tables& tables,
                     v1::Reach* reach) {
  const v1::HostFacts host = HostOfNextMajor(tables, CpuOf(report));
  const std::vector<v1::PathPrediction> paths = Ask(predictor, host, tables);
  const v1::PathPrediction& plain = paths[kPlain];
  const bool fails = plain.outcome() == v1::OUTCOME_FAILS &&
                     plain.reasons(0).cuda_error() >= 200;
  const bool gaps = Loads(plain) && plain.gaps() > 0;
  if (!fails && !gaps) return;
  const uint32_t newest = NewestTarget(report, tables);
  const std::string fix =
      newest == 0 ? ""
                  : absl::StrCat("add ", internal::PtxFlag(newest, tables));
  *reach->add_findings() = MakeReason(
      "TP226",
      fails ? absl::StrCat("the first GPU of a new major will fail with ",
                           plain.reasons(0).cuda_error(),
                           ": no PTX that it could compile")
            : absl::StrCat("the first GPU of a new major has nothing for ",
                           plain.gaps(),
                           " fatbins: they hold no PTX that it could compile"),
      fix);
}

// Whether some image is for the GPU, whatever the driver.
bool HoldsImageFor(const v1::ArtifactReport& report, uint32_t device,
                   const Tables& tables) {
  for (const v1::FileReport& file : report.files()) {
    for (const v1::Fatbin& fatbin : file.fatbins()) {
      if (fatbin.registration() == v1::REGISTRATION_LEFT_OVER) continue;
      for (const v1::Image& image : fatbin.images()) {
        const bool ptx = image.kind() == v1::IMAGE_KIND_PTX ||
                         image.kind() == v1::IMAGE_KIND_RELOCATABLE_PTX;
        const Fit fit = ptx ? PtxFits(image.target(), device, tables)
                            : SassFits(image.target(), device, tables);
        if (fit == Fit::kYes) return true;
      }
    }
  }
  return false;
}

// GPUs that never get the driver this artifact starts on, though it has code
// for them.
void AddCapped(const std::vector<GpuPoints>& gpus,
               const v1::ArtifactReport& report, const Tables& tables,
               v1::Reach* reach) {
  std::vector<std::string> runtime;
  std::vector<std::string> ptx;
  uint32_t last = 0;
  for (const GpuPoints& gpu : gpus) {
    if (gpu.points.empty() || gpu.gpu->tegra()) continue;
    const ReachPoint& newest = gpu.points.back();
    if (newest.driver == &tables.drivers().back()) continue;
    const v1::PathPrediction& plain = newest.paths[kPlain];
    if (plain.outcome() != v1::OUTCOME_FAILS) continue;
    const std::string& code = plain.reasons(0).code();
    if (code != "TP207" && code != "TP204") continue;
    if (!HoldsImageFor(report, gpu.gpu->number, tables)) continue;
    (code == "TP207" ? runtime : ptx)
        .push_back(CapabilityName(gpu.gpu->number));
    last = std::max(last, newest.driver->branch);
  }
  for (const auto& [names, what] :
       {std::pair(&runtime, "CUDA runtime"), std::pair(&ptx, "PTX")}) {
    if (names->empty()) continue;
    *reach->add_findings() = MakeReason(
        "TP250",
        absl::StrCat(absl::StrJoin(*names, ", "), ": no driver after R", last,
                     " drives them, and the ", what, " needs a newer one"));
  }
}

}  // namespace

bool SameAnswer(const std::vector<v1::PathPrediction>& a,
                const std::vector<v1::PathPrediction>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].outcome() != b[i].outcome() || a[i].gaps() != b[i].gaps() ||
        a[i].reasons().empty() != b[i].reasons().empty()) {
      return false;
    }
    if (a[i].reasons().empty()) continue;
    if (a[i].reasons(0).code() != b[i].reasons(0).code() ||
        a[i].reasons(0).cuda_error() != b[i].reasons(0).cuda_error()) {
      return false;
    }
  }
  return true;
}

v1::CpuArchitecture CpuOf(const v1::ArtifactReport& report) {
  bool arm = false;
  for (const v1::FileReport& file : report.files()) {
    if (!file.has_elf() || file.fatbins().empty()) continue;
    if (file.elf().cpu_architecture() == v1::CPU_ARCHITECTURE_X86_64) {
      return v1::CPU_ARCHITECTURE_X86_64;
    }
    arm |= file.elf().cpu_architecture() == v1::CPU_ARCHITECTURE_AARCH64;
  }
  return arm ? v1::CPU_ARCHITECTURE_AARCH64 : v1::CPU_ARCHITECTURE_X86_64;
}

std::vector<GpuPoints> AskEverywhere(const Predictor& predictor,
                                     v1::CpuArchitecture cpu,
                                     const Tables& tables) {
  std::vector<GpuPoints> out;
  for (const GpuRow& gpu : tables.gpus()) {
    if (gpu.products.empty() || gpu.renamed_to != 0) continue;
    GpuPoints points;
    points.gpu = &gpu;
    points.cpu = gpu.platform == GpuPlatform::kDiscrete
                     ? cpu
                     : v1::CPU_ARCHITECTURE_AARCH64;
    for (const DriverRow& driver : tables.drivers()) {
      if (!Drives(driver, gpu)) continue;
      points.points.push_back(
          {&driver, Ask(predictor, HostWith(gpu, driver, points.cpu), tables)});
    }
    out.push_back(std::move(points));
  }
  return out;
}

v1::Reach ReachOf(const v1::ArtifactReport& report, const Predictor& predictor,
                  const Tables& tables) {
  const std::vector<GpuPoints> gpus =
      AskEverywhere(predictor, CpuOf(report), tables);
  v1::Reach reach;
  reach.set_model_version(tables.version());
  for (const GpuPoints& gpu : gpus) {
    if (!gpu.points.empty()) *reach.add_gpus() = Summarise(gpu, tables);
  }
  *reach.mutable_floor() = FloorOf(gpus, report, tables);
  AddForwardCover(report, predictor, tables, &reach);
  AddCapped(gpus, report, tables, &reach);
  return reach;
}

}  // namespace twinpath::compat
