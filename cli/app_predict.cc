// The command that predicts.

#include <sys/stat.h>

#include <string>
#include <vector>

#include "cli/app_builder.h"

namespace twinpath::cli {
namespace {

bool IsFolder(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

void Builder::Predict() {
  CLI::App* sub = Command(
      app_, "predict",
      "What hosts will do with a file, without running it\n"
      "\n"
      "  twinpath predict build/app                 on this host\n"
      "  twinpath predict --host dgx-spark --host h200 build/app\n"
      "  twinpath predict build/app --matrix        known GPUs and drivers\n"
      "  twinpath predict build/app --fleet         the coordinator's hosts\n"
      "  twinpath predict build/app --fleet facts/  a folder of facts files\n"
      "  twinpath predict build/app --fleet --assume driver=R595\n"
      "\n"
      "Exit: 0 the plain run works on every host (with --matrix: on any\n"
      "GPU), 1 it fails on one, 3 not known; --require names other paths.\n"
      "With --assume: as the hosts would be.");
  sub->add_option("FILE", o_.predict.files, "The program and its libraries");
  AddRepeated(sub, "--host", o_.predict.hosts,
              "Profile, or file with facts (.json) or a profile (.yaml)");
  sub->add_flag("--profiles", o_.predict.profiles, "All profiles as hosts");
  sub->add_flag("--matrix", o_.predict.matrix,
                "All known GPUs under all driver branches");
  sub->add_option("--fleet", o_.predict.fleet_folder,
                  "The coordinator's hosts, or a FOLDER of facts files")
      ->expected(0, 1);
  AddRepeated(sub, "--assume", o_.predict.assume,
              "driver=R595, cuda=13.2, libcuda=R595 or gpu=12.1: what changes");
  sub->add_flag("--fix", o_.predict.fix,
                "What would fix it, and which hosts that gains (always with "
                "several hosts)");
  sub->add_flag("--details", o_.predict.details, "Every reason");
  sub->add_flag("--kernels", o_.predict.kernels,
                "JSON: kernels that differ from their files");
  AddRepeated(sub, "--require", o_.predict.require,
              "Paths that decide the exit code: native, ptx-jit, plain")
      ->delimiter(',')
      ->check(CLI::IsMember({"native", "ptx-jit", "plain"}));
  sub->callback([this, sub] {
    PredictOptionsCli& options = o_.predict;
    options.fleet = sub->count("--fleet") > 0;
    options.coordinator = o_.coordinator;
    // "--fleet app": the word behind it is FILE where it is no folder.
    if (!options.fleet_folder.empty() && !IsFolder(options.fleet_folder)) {
      options.files.insert(options.files.begin(), options.fleet_folder);
      options.fleet_folder.clear();
    }
    if (options.files.empty()) throw CLI::RequiredError("FILE");
    run_ = [this](Console& c) { return RunPredict(o_.predict, c); };
  });
}

}  // namespace twinpath::cli
