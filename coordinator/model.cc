#include "coordinator/model.h"

#include <memory>

#include "base/status.h"
#include "compat/conditions.h"
#include "compat/predict.h"
#include "compat/tables.h"
#include "inspect/child.h"
#include "inspect/inspect.h"
#include "inspect/manifest.h"
#include "verdict/judge.h"
#include "verdict/results_equal.h"
#include "verdict/statement.h"

namespace twinpath::coordinator {

absl::StatusOr<Model> DefaultModel() {
  TWINPATH_ASSIGN_OR_RETURN(const compat::Tables* const tables,
                            compat::Tables::Default());
  Model model;
  model.validate_artifact = inspect::ValidateArtifact;
  model.artifact_digest = inspect::ArtifactDigest;
  model.inspect = [](const v1::Artifact& artifact, const BlobPath& path_of) {
    inspect::InspectOptions options;
    options.digest = true;
    return inspect::InspectArtifact(artifact, path_of, options);
  };
  model.predictor = [tables](const v1::ArtifactReport& report) {
    const auto predictor = std::make_shared<compat::Predictor>(report);
    return [predictor, tables](const v1::Entry& entry,
                               const v1::HostFacts& facts, const v1::Gpu& gpu) {
      return predictor->PredictEntry(entry, facts, gpu, *tables);
    };
  };
  model.conditions = compat::ConditionsOf;
  model.host_class = compat::ClassOf;
  model.judge = verdict::JudgeSweep;
  model.statement = verdict::StatementOf;
  model.results_equal = [](const v1::CellResult& a, const v1::CellResult& b,
                           const v1::Entry& entry) {
    return verdict::ResultsEqual(a, b, &entry);
  };
  return model;
}

}  // namespace twinpath::coordinator
