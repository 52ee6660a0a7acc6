// Model: everything the coordinator asks of the folders that know about device
// code, in one place, so that its own tests bring answers of their own and no
// file is ever parsed in this process (inspection runs in a child).

#ifndef TWINPATH_COORDINATOR_MODEL_H_
#define TWINPATH_COORDINATOR_MODEL_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/digest.h"
#include "twinpath/v1/artifact.pb.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/report.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::coordinator {

// Predicts one entry on one GPU of a host.
using EntryPredictor = std::function<std::vector<v1::PathPrediction>(
    const v1::Entry&, const v1::HostFacts&, const v1::Gpu&)>;
using BlobPath =
    std::function<absl::StatusOr<std::string>(const v1::ArtifactFile&)>;

// All functions are thread-safe.
struct Model {
  // INVALID_ARGUMENT or DATA_LOSS as inspect::ValidateArtifact.
  std::function<absl::Status(const v1::Artifact&)> validate_artifact;
  std::function<absl::StatusOr<Sha256>(const v1::Artifact&)> artifact_digest;
  // May take minutes.
  std::function<absl::StatusOr<v1::ArtifactReport>(const v1::Artifact&,
                                                   const BlobPath&)>
      inspect;
  // What depends on the report alone is computed once; the report must outlive
  // the result.
  std::function<EntryPredictor(const v1::ArtifactReport&)> predictor;
  std::function<v1::Conditions(const v1::HostFacts&)> conditions;
  // 64 hexadecimal characters.
  std::function<std::string(const v1::HostFacts&)> host_class;
  std::function<void(v1::Sweep&, const v1::ArtifactReport&)> judge;
  // The exact statement of a judged sweep.
  std::function<std::string(const v1::Sweep&)> statement;
  std::function<bool(const v1::CellResult&, const v1::CellResult&,
                     const v1::Entry&)>
      results_equal;
};

// The real one. Fails if the compatibility tables cannot be loaded.
absl::StatusOr<Model> DefaultModel();

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_MODEL_H_
