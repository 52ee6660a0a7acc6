// Predictions for people: a row a host GPU, a column a path, reason and fix
// under every path that is not green. Pure functions; thread-safe.

#ifndef TWINPATH_CLI_PREDICTION_VIEW_H_
#define TWINPATH_CLI_PREDICTION_VIEW_H_

#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/view_options.h"
#include "twinpath/v1/cli.pb.h"
#include "twinpath/v1/prediction.pb.h"

namespace twinpath::cli {

// "native", "jit", "fails 209", "unknown", "no code", with gaps behind it.
std::string OutcomeText(const v1::PathPrediction& prediction);
// Red for fails; yellow for unknown and for a plain run that compiles.
Style OutcomeStyle(const v1::PathPrediction& prediction);

// "580.95.05 (CUDA 13.0)", "none".
std::string DriverText(const v1::HostFacts& facts);

std::string RenderPredictions(const v1::PredictOutput& output,
                              const ViewOptions& options);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_PREDICTION_VIEW_H_
