// Options and commands of the command line, for app.cc only; with app_*.cc the
// only place that knows CLI11.

#ifndef TWINPATH_CLI_APP_BUILDER_H_
#define TWINPATH_CLI_APP_BUILDER_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/console.h"

namespace twinpath::cli {

// Everything the options are written into; lives as long as the parse and the
// run.
struct Options {
  std::string format = "table";
  std::string color = "auto";
  bool no_color = false;
  bool quiet = false;
  std::string coordinator;
  int width = 0;

  InspectOptionsCli inspect;
  PredictOptionsCli predict;
  CheckOptions check;
  ReferenceRecordOptions reference;
  std::string reference_file;
  bool check_toolchain = false;
  ToolchainOptionsCli toolchain;
  RecordOptionsCli record;
  HostsOptions hosts;
  std::string host;
  ArtifactPushOptions push;
  size_t limit = 100;
  SweepStartOptions start;
  std::string sweep_id;
  GateOptions gate;
  ReleaseSignOptions release_sign;
  ReleaseVerifyOptions release_verify;
  std::vector<std::string> explain;
  std::string tables_folder;
  std::string table;
  UpOptions up;
};

using Run = std::function<int(Console&)>;

// Adds an option that may be repeated and takes one value each time, so that
// what stands behind a value is not taken for another.
inline CLI::Option* AddRepeated(CLI::App* app, const std::string& name,
                                std::vector<std::string>& to,
                                const std::string& text) {
  return app->add_option(name, to, text)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

// Builds the commands. `run` becomes what the chosen one does. All three must
// live until the command has run: the callbacks refer to them.
class Builder {
 public:
  Builder(CLI::App& app, Options& options, Run& run)
      : app_(app), o_(options), run_(run) {}

  void Build();

 private:
  CLI::App* Command(CLI::App& parent, const std::string& name,
                    const std::string& description);
  void Inspect();
  void Predict();
  void Check();
  void CheckResults(CLI::App* sub);
  void Reference();
  void Record();
  void Doctor();
  void Explain();
  void Tables();
  void Up();
  void Hosts();
  void Artifact();
  void Limit(CLI::App* sub);
  void Sweep();
  void Release();
  void Gate();

  CLI::App& app_;
  Options& o_;
  Run& run_;
};

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_APP_BUILDER_H_
