// twinpath-load: gives images to the driver. It is started like a program of
// the artifact, confined as one, by twinpath-run (load_run.h); itself it starts
// workers, which load the driver and may die with it.
//
//   twinpath-load LIST RESULT    the work (load_list.h); lines as they come
//                                (load_answer.h)
//   twinpath-load --worker [FILE]

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/status.h"
#include "runner/load_images.h"
#include "runner/load_list.h"
#include "runner/load_worker.h"
#include "runner/load_workers.h"

extern char** environ;

namespace twinpath::runner {
namespace {

constexpr uint64_t kMostListBytes = 256 << 20;

int Fail(absl::string_view what, int code) {
  std::fprintf(stderr, "twinpath-load: error: %s\n", std::string(what).c_str());
  return code;
}

// This process's variables, with the switches that loading needs: compiled
// anew, every function at once.
std::vector<std::string> WorkerEnvironment() {
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) {
    const absl::string_view variable = *each;
    bool switches = false;
    for (const absl::string_view name :
         {"CUDA_FORCE_PTX_JIT=", "CUDA_FORCE_JIT=", "CUDA_DISABLE_PTX_JIT=",
          "CUDA_DISABLE_JIT=", "CUDA_CACHE_DISABLE=", "CUDA_CACHE_PATH=",
          "CUDA_CACHE_MAXSIZE=", "CUDA_MODULE_LOADING="}) {
      switches |= absl::StartsWith(variable, name);
    }
    if (!switches) environment.emplace_back(variable);
  }
  environment.push_back("CUDA_CACHE_DISABLE=1");
  environment.push_back("CUDA_MODULE_LOADING=EAGER");
  return environment;
}

int Run(const std::string& list_path, const std::string& result_path) {
  const absl::Time start = absl::Now();
  const absl::StatusOr<std::string> text = ReadFile(list_path, kMostListBytes);
  if (!text.ok()) return Fail(MessageOf(text.status()), kExitUsage);
  const absl::StatusOr<LoadList> list = LoadList::Parse(*text);
  if (!list.ok()) return Fail(MessageOf(list.status()), kExitUsage);
  const UniqueFd out(
      open(result_path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out.valid()) {
    return Fail(absl::StrCat("cannot write ", result_path), kExitInternal);
  }
  const auto say = [&](const std::string& line) {
    // Without room the rest cannot be told either.
    if (!WriteAll(out.get(), line).ok()) std::_Exit(kExitInternal);
  };
  LoadWorkers options;
  // Itself, also where no path leads to it.
  options.program = "/proc/self/exe";
  options.environments = {WorkerEnvironment()};
  options.deadline = start + list->time;
  options.start_limit = std::min(options.start_limit, list->time / 2);
  size_t loaded = 0;
  size_t answers = 0;
  const LoadOutcome outcome =
      LoadImages(*list, options, [&](const LoadAnswer& answer) {
        ++answers;
        if (answer.state == LoadAnswer::State::kLoaded) ++loaded;
        say(answer.Line());
      });
  say(outcome.hello.Line());
  say(LoadEnd{outcome.deaths, outcome.peak_device_bytes}.Line());
  std::printf("%zu images: %zu answered, %zu loaded\n", list->images.size(),
              answers, loaded);
  std::fflush(stdout);
  // Nothing is left to be done, and no sanitizer to look around in a sandbox.
  std::_Exit(outcome.hello.up ? kExitPass : kExitFail);
}

}  // namespace
}  // namespace twinpath::runner

int main(int argc, char** argv) {
  const absl::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--worker" && argc <= 3) {
    return twinpath::runner::RunLoadWorker(argc == 3 ? argv[2] : "");
  }
  if (argc != 3 || absl::StartsWith(first, "-")) {
    std::fprintf(stderr,
                 "twinpath-load: error: it is started by twinpath-run, not by "
                 "hand; see twinpath check --images\n");
    return twinpath::kExitUsage;
  }
  return twinpath::runner::Run(argv[1], argv[2]);
}
