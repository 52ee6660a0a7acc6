// The command that predicts.

#include <string>
#include <vector>

#include "cli/app_builder.h"

namespace twinpath::cli {

void Builder::Predict() {
  CLI::App* sub = Command(
      app_, "predict",
      "What hosts will do with a file, without running it\n"
      "\n"
      "  twinpath predict build/app                      on this host\n"
      "  twinpath predict --host dgx-spark --host h200 build/app\n"
      "  twinpath predict --matrix build/app             on every profile\n"
      "\n"
      "Exit: 0 the plain run works on every host, 1 it fails on one, 3 not\n"
      "known; --require names other paths.");
  sub->add_option("FILE", o_.predict.files, "The program and its libraries")
      ->required();
  // One value each, so that FILE is not taken for a host.
  sub->add_option("--host", o_.predict.hosts,
                  "Profile, or file with facts (.json) or a profile (.yaml)")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  sub->add_flag("--matrix", o_.predict.matrix, "All profiles");
  sub->add_option("--require", o_.predict.require,
                  "Paths that decide the exit code: native, ptx-jit, plain")
      ->delimiter(',')
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::IsMember({"native", "ptx-jit", "plain"}));
  sub->callback([this] {
    run_ = [this](Console& c) { return RunPredict(o_.predict, c); };
  });
}

}  // namespace twinpath::cli
