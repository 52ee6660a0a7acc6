// Gives every image of CUDA libraries to this host's driver, through the
// product's own image loader, and compares each answer with the prediction.
//
//   gpu_images [--facts FILE] [--json FILE] [--seconds N] [--workers N]
//              [--ptx N] LIBRARY...
//
// Beyond what `twinpath check --images` does, each image is loaded in four
// ways: its entry as it lies in the file, in a fatbin of its own, with
// CUDA_DISABLE_PTX_JIT=1 (native), with CUDA_FORCE_PTX_JIT=1 (ptx-jit) and with
// neither (plain); and its decoded payload without a fatbin (plain). Each whole
// fatbin is loaded on the three paths too: the driver's choice. Relocatable
// pieces for this GPU are linked by the driver and what comes of it loaded.
//
// Machine code, and PTX that is predicted not to compile, is tried whole. Of
// what is predicted to compile --ptx N (default 24) are tried of each library,
// path and way: every k-th in order of decoded size, the smallest first. What
// takes above 60 s, or is left at --seconds (default 380), is counted as not
// tried.
//
// Not compared: images nothing is predicted for (unknown), and pieces that the
// driver's linker does not complete (their other halves lie elsewhere).
//
// Exit 0: all equal; 1: a difference, listed; 2: usage, or nothing could be
// tried; 3: no GPU.

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "compat/image_rules.h"
#include "compat/tables.h"
#include "runner/facts.h"
#include "runner/load_images.h"
#include "runner/loader.h"
#include "tests/gpu/image_plan.h"
#include "tests/gpu/image_table.h"

extern char** environ;

namespace twinpath::gpu {
namespace {

struct Options {
  std::string facts;
  std::string json;
  absl::Duration seconds = absl::Seconds(380);
  int workers = 8;
  size_t ptx = 24;
  std::vector<std::string> libraries;
};

std::vector<std::string> EnvironmentOf(size_t path, const std::string& gpu) {
  // Where no loader cache lists the driver.
  const std::string driver = runner::DriverFolder();
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) {
    // The JIT switches, the cache's and the loading mode are ours to set.
    if (!absl::StartsWith(*each, "CUDA_") &&
        (driver.empty() || !absl::StartsWith(*each, "LD_LIBRARY_PATH="))) {
      environment.emplace_back(*each);
    }
  }
  if (!driver.empty()) {
    environment.push_back(absl::StrCat("LD_LIBRARY_PATH=", driver));
  }
  environment.push_back("CUDA_CACHE_DISABLE=1");
  environment.push_back("CUDA_MODULE_LOADING=EAGER");
  environment.push_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");
  environment.push_back(absl::StrCat("CUDA_VISIBLE_DEVICES=", gpu));
  if (path == compat::internal::kNative) {
    environment.push_back("CUDA_DISABLE_PTX_JIT=1");
  } else if (path == compat::internal::kPtxJit) {
    environment.push_back("CUDA_FORCE_PTX_JIT=1");
  }
  return environment;
}

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!absl::StartsWith(word, "--")) {
      options.libraries.push_back(word);
      continue;
    }
    if (++i == argc) return false;
    int number = 0;
    if (word == "--facts") {
      options.facts = argv[i];
    } else if (word == "--json") {
      options.json = argv[i];
    } else if (!absl::SimpleAtoi(argv[i], &number) || number < 1) {
      return false;
    } else if (word == "--seconds") {
      options.seconds = absl::Seconds(number);
    } else if (word == "--workers") {
      options.workers = std::min(number, 64);
    } else if (word == "--ptx") {
      options.ptx = static_cast<size_t>(number);
    } else {
      return false;
    }
  }
  return !options.libraries.empty();
}

absl::StatusOr<v1::HostFacts> FactsOf(const Options& options) {
  if (options.facts.empty()) {
    runner::FactsOptions asked;
    asked.version = "gpu_images";
    asked.toolkits = false;
    asked.libraries = false;
    return runner::CollectFacts(asked);
  }
  auto text = ReadFile(options.facts, 16 << 20);
  if (!text.ok()) return text.status();
  v1::HostFacts facts;
  google::protobuf::util::JsonParseOptions lenient;
  lenient.ignore_unknown_fields = true;
  const auto status =
      google::protobuf::util::JsonStringToMessage(*text, &facts, lenient);
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.facts, " holds no host facts"));
  }
  return facts;
}

int Fail(absl::string_view what) {
  std::fprintf(stderr, "gpu_images: error: %s\n", std::string(what).c_str());
  return 2;
}

// Runs everything; returns what stopped it, "" if nothing did.
std::string RunAll(const Options& options, const std::string& program,
                   const std::string& gpu, absl::Time deadline,
                   std::vector<std::unique_ptr<Library>>& libraries) {
  runner::LoadWorkers workers;
  workers.program = program;
  workers.workers = options.workers;
  workers.deadline = deadline;
  workers.compile_limit = absl::Seconds(60);
  workers.compiles_of_a_worker = 2;
  for (size_t path = 0; path < 3; ++path) {
    workers.environments.push_back(EnvironmentOf(path, gpu));
  }
  std::vector<runner::LoadTask*> tasks;
  for (const auto& library : libraries) {
    for (Try& each : library->tries) {
      if (!each.sampled_out) tasks.push_back(&each.task);
    }
  }
  // Links first: few, and what they take is known by them alone.
  for (const auto& library : libraries) {
    library->linked.resize(library->pieces.images.size());
    if (library->pieces.images.empty()) continue;
    library->pieces.workers = options.workers;
    runner::LoadWorkers plain = workers;
    plain.environments = {EnvironmentOf(compat::internal::kPlain, gpu)};
    const runner::LoadOutcome outcome = runner::LoadImages(
        library->pieces, plain, [&](const runner::LoadAnswer& answer) {
          library->linked[answer.id] = answer;
        });
    if (!outcome.hello.up) return outcome.hello.text;
  }
  const runner::LoadOutcome outcome = runner::RunLoadTasks(workers, tasks);
  if (!tasks.empty() && !outcome.hello.up) return outcome.hello.text;
  return "";
}

int Main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: gpu_images [--facts FILE] [--json FILE] [--seconds N] "
                 "[--workers N] [--ptx N] LIBRARY...\n");
    return 2;
  }
  const absl::Time start = absl::Now();
  const absl::StatusOr<v1::HostFacts> facts = FactsOf(options);
  if (!facts.ok()) return Fail(facts.status().message());
  if (facts->gpu_probe().state() != v1::PROBE_STATE_OK ||
      facts->gpus().empty()) {
    std::printf("no GPU: %s\n", facts->gpu_probe().error().c_str());
    return 3;
  }
  const auto tables = compat::Tables::Default();
  if (!tables.ok()) return Fail(tables.status().message());
  const auto program = FindCompanion("twinpath-load");
  if (!program.ok()) return Fail(program.status().message());
  const v1::Gpu& gpu = facts->gpus(0);

  std::vector<std::unique_ptr<Library>> libraries;
  for (const std::string& path : options.libraries) {
    auto library = ReadLibrary(path);
    if (!library.ok()) return Fail(library.status().message());
    Plan(*facts, gpu, **tables, **library);
    Sample(options.ptx, **library);
    libraries.push_back(*std::move(library));
  }
  const std::string stopped =
      RunAll(options, *program, gpu.uuid(), start + options.seconds, libraries);
  if (!stopped.empty()) {
    return Fail(absl::StrCat("the driver does not start: ", stopped));
  }
  std::printf(
      "%s, compute capability %u.%u, driver %s, PTX ISA %u.%u; tables %s\n\n",
      gpu.name().c_str(), gpu.compute_capability().major(),
      gpu.compute_capability().minor(),
      facts->driver().kernel_module_version().c_str(),
      facts->driver().ptx_isa_ceiling().major(),
      facts->driver().ptx_isa_ceiling().minor(), (*tables)->version().c_str());
  const ImageTable table = Tabulate(libraries);
  std::printf("%s\n%.0f s\n%s", table.text.c_str(),
              absl::ToDoubleSeconds(absl::Now() - start),
              table.differences.c_str());
  if (!options.json.empty()) {
    const absl::Status status = WriteFileAtomic(options.json, table.json, 0644);
    if (!status.ok()) return Fail(status.message());
  }
  return table.different > 0 ? 1 : 0;
}

}  // namespace
}  // namespace twinpath::gpu

int main(int argc, char** argv) { return twinpath::gpu::Main(argc, argv); }
