#include "agent/image_predictions.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "compat/tables.h"
#include "inspect/child.h"
#include "verdict/image_loads.h"

namespace twinpath::agent {
namespace {

void AddProblem(const absl::Status& status, v1::ImageLoadReport& loads) {
  v1::Reason& reason = *loads.add_problems();
  reason.set_code("TP336");
  reason.set_detail(absl::StrCat("nothing was predicted: ", MessageOf(status)));
}

}  // namespace

void PredictImageLoads(const v1::Artifact& artifact, const std::string& folder,
                       const v1::HostFacts& facts, v1::ImageLoadReport& loads) {
  v1::Gpu gpu;
  for (const v1::Gpu& each : facts.gpus()) {
    if (each.uuid() == loads.gpu_uuid()) gpu = each;
  }
  inspect::InspectOptions options;
  options.digest = options.details = options.members = false;
  absl::StatusOr<v1::ArtifactReport> report = inspect::InspectArtifact(
      artifact,
      [&](const v1::ArtifactFile& file) -> absl::StatusOr<std::string> {
        return JoinPath(folder, file.name());
      },
      options);
  if (!report.ok()) {
    AddProblem(report.status(), loads);
    report = v1::ArtifactReport();
  }
  const absl::StatusOr<const compat::Tables*> tables =
      compat::Tables::Default();
  if (!tables.ok()) {
    AddProblem(tables.status(), loads);
    // Not even grouped; the problem keeps the verdict open.
    loads.clear_images();
    return;
  }
  verdict::AddImagePredictions(*report, facts, gpu, **tables,
                               /*keep_all=*/false, loads);
}

}  // namespace twinpath::agent
