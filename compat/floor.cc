#include "compat/floor.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "compat/image_rules.h"

namespace twinpath::compat {
namespace {

using internal::kNative;
using internal::kPtxJit;

// Rows are kept in one vector, so pointers compare like branches.
struct FirstDriver {
  const DriverRow* row = nullptr;
  // An older driver drives the GPU and the artifact does not run on it.
  bool imposed = false;
};

std::optional<FirstDriver> FirstOn(const GpuPoints& gpu, size_t path) {
  for (size_t i = 0; i < gpu.points.size(); ++i) {
    if (!Loads(gpu.points[i].paths[path])) continue;
    // A forced compilation that some machine code follows is no proof of PTX.
    if (path == kPtxJit &&
        gpu.points[i].paths[path].outcome() != v1::OUTCOME_JIT) {
      continue;
    }
    return FirstDriver{gpu.points[i].driver, i > 0};
  }
  return std::nullopt;
}

v1::DriverFloor FloorOnPath(const std::vector<GpuPoints>& gpus, size_t path) {
  v1::DriverFloor floor;
  floor.set_path(internal::kPaths[path]);
  for (const bool tegra : {false, true}) {
    const DriverRow* any = nullptr;
    const DriverRow* all = nullptr;
    for (const GpuPoints& gpu : gpus) {
      if (gpu.gpu->tegra() != tegra) continue;
      const auto first = FirstOn(gpu, path);
      if (!first) continue;
      if (any == nullptr || first->row < any) any = first->row;
      if (first->imposed && (all == nullptr || first->row > all)) {
        all = first->row;
      }
    }
    if (any == nullptr) continue;
    *floor.mutable_oldest() = PointOf(all == nullptr ? *any : *all, tegra);
    *floor.mutable_oldest_any() = PointOf(*any, tegra);
    break;
  }
  return floor;
}

// The row behind the newest one on which some path still names `code`; nullptr:
// no row does, or the newest known one does.
const DriverRow* FirstWithout(const std::vector<GpuPoints>& gpus,
                              absl::string_view code, const Tables& tables) {
  const DriverRow* last = nullptr;
  for (const GpuPoints& gpu : gpus) {
    if (gpu.gpu->tegra()) continue;
    for (const ReachPoint& point : gpu.points) {
      const bool names = std::any_of(
          point.paths.begin(), point.paths.end(),
          [&](const v1::PathPrediction& path) { return HasCode(path, code); });
      if (names && (last == nullptr || point.driver > last)) {
        last = point.driver;
      }
    }
  }
  if (last == nullptr || last == &tables.drivers().back()) return nullptr;
  return last + 1;
}

// Newest PTX ISA of images that can be chosen.
TwoPart NewestPtx(const v1::ArtifactReport& report) {
  TwoPart newest;
  for (const v1::FileReport& file : report.files()) {
    for (const v1::Fatbin& fatbin : file.fatbins()) {
      if (fatbin.registration() == v1::REGISTRATION_LEFT_OVER) continue;
      for (const v1::Image& image : fatbin.images()) {
        if (image.kind() != v1::IMAGE_KIND_PTX &&
            image.kind() != v1::IMAGE_KIND_RELOCATABLE_PTX) {
          continue;
        }
        newest = std::max(newest, TwoPart::From(image.ptx_isa()));
      }
    }
  }
  return newest;
}

// Newest toolkit that images name as the one that made them.
TwoPart NewestToolkit(const v1::ArtifactReport& report) {
  TwoPart newest;
  for (const v1::FileReport& file : report.files()) {
    for (const v1::Fatbin& fatbin : file.fatbins()) {
      if (fatbin.registration() == v1::REGISTRATION_LEFT_OVER) continue;
      for (const v1::Image& image : fatbin.images()) {
        newest = std::max(newest, TwoPart::From(image.producer().toolkit()));
      }
    }
  }
  return newest;
}

// Adds the dotted version where the floor is that of the condition.
void Refine(const v1::DriverPoint& condition, v1::DriverPoint* floor) {
  if (floor->branch() == condition.branch()) {
    floor->set_version(std::max(floor->version(), condition.version()));
  }
}

// A dotted version that belongs to the row; empty: none.
std::string DottedIn(const std::string& version, const DriverRow& row) {
  const auto parsed = DriverVersion::Parse(version);
  return parsed && parsed->parts.size() > 1 && parsed->branch() == row.branch
             ? version
             : "";
}

}  // namespace

v1::DriverPoint PointOf(const DriverRow& row, bool tegra) {
  v1::DriverPoint point;
  if (!tegra) point.set_branch(row.branch);
  point.mutable_cuda_version()->set_major(row.cuda.major);
  point.mutable_cuda_version()->set_minor(row.cuda.minor);
  return point;
}

bool Loads(const v1::PathPrediction& path) {
  return path.outcome() == v1::OUTCOME_NATIVE ||
         path.outcome() == v1::OUTCOME_JIT;
}

bool HasCode(const v1::PathPrediction& path, absl::string_view code) {
  return std::any_of(
      path.reasons().begin(), path.reasons().end(),
      [&](const v1::Reason& reason) { return reason.code() == code; });
}

v1::Floor FloorOf(const std::vector<GpuPoints>& gpus,
                  const v1::ArtifactReport& report, const Tables& tables) {
  v1::Floor floor;
  *floor.add_paths() = FloorOnPath(gpus, kNative);
  *floor.add_paths() = FloorOnPath(gpus, kPtxJit);
  if (const DriverRow* row = FirstWithout(gpus, "TP207", tables)) {
    floor.set_runtime_major(row->cuda.major);
    *floor.mutable_runtime() = PointOf(*row, false);
    floor.mutable_runtime()->set_version(
        DottedIn(tables.MinimumDriver(row->cuda.major), *row));
  }
  if (const TwoPart isa = NewestPtx(report); isa != TwoPart()) {
    floor.mutable_ptx_isa()->set_major(isa.major);
    floor.mutable_ptx_isa()->set_minor(isa.minor);
    if (const DriverRow* row = tables.FirstDriverForPtx(isa)) {
      *floor.mutable_ptx() = PointOf(*row, false);
    }
  }
  if (const TwoPart toolkit = NewestToolkit(report); toolkit != TwoPart()) {
    floor.mutable_toolkit()->set_major(toolkit.major);
    floor.mutable_toolkit()->set_minor(toolkit.minor);
    const std::string minimum = tables.MinimumDriver(toolkit.major);
    const auto version = DriverVersion::Parse(minimum);
    const DriverRow* row =
        version ? tables.FindDriver(version->branch()) : nullptr;
    if (row != nullptr) {
      *floor.mutable_promised() = PointOf(*row, false);
      floor.mutable_promised()->set_version(DottedIn(minimum, *row));
    }
  }
  const DriverRow* const zstd = FirstWithout(
      gpus, internal::CodeOf(internal::Cause::kCompression), tables);
  if (zstd != nullptr) {
    *floor.mutable_compression() = PointOf(*zstd, false);
    floor.mutable_compression()->set_version(
        DottedIn(tables.zstd_first_driver(), *zstd));
  }
  for (v1::DriverFloor& path : *floor.mutable_paths()) {
    for (v1::DriverPoint* point :
         {path.has_oldest() ? path.mutable_oldest() : nullptr,
          path.has_oldest_any() ? path.mutable_oldest_any() : nullptr}) {
      if (point == nullptr || point->branch() == 0) continue;
      if (floor.has_runtime()) Refine(floor.runtime(), point);
      if (floor.has_compression()) Refine(floor.compression(), point);
    }
  }
  return floor;
}

}  // namespace twinpath::compat
