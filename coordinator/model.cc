#include "coordinator/model.h"

#include <atomic>
#include <memory>

#include "base/log.h"
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

namespace {

// Says once how uploaded files are read.
void LogConfinement(const v1::Confinement& confinement) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  const bool whole = confinement.missing().empty();
  Log(whole ? LogLevel::kInfo : LogLevel::kWarning,
      whole ? "files are read by a confined process"
            : "TP244: files are read by a process without a layer of "
              "confinement",
      {{"confinement", inspect::DescribeConfinement(confinement)}});
}

}  // namespace

absl::StatusOr<Model> DefaultModel() {
  TWINPATH_ASSIGN_OR_RETURN(const compat::Tables* const tables,
                            compat::Tables::Default());
  Model model;
  model.validate_artifact = inspect::ValidateArtifact;
  model.artifact_digest = inspect::ArtifactDigest;
  model.inspect = [](const v1::Artifact& artifact, const BlobPath& path_of) {
    inspect::InspectOptions options;
    options.digest = true;
    absl::StatusOr<v1::ArtifactReport> report =
        inspect::InspectArtifact(artifact, path_of, options);
    if (report.ok() && report->has_confinement()) {
      LogConfinement(report->confinement());
    }
    return report;
  };
  model.predictor = [tables](const v1::ArtifactReport& report) {
    const auto predictor = std::make_shared<compat::Predictor>(report);
    return [predictor, tables](const v1::Entry& entry,
                               const v1::HostFacts& facts, const v1::Gpu& gpu) {
      return predictor->PredictEntry(entry, facts, gpu, *tables);
    };
  };
  model.conditions = [](const v1::HostFacts& facts) {
    return compat::ConditionsOf(facts);
  };
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
