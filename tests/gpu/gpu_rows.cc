// Runs the check program's variants on this host's GPU through the runner
// library and says what came out, beside what was measured before on a GPU of
// compute capability 9.0 with driver branch R580 (docs/gpu-runs.md).
//
//   gpu_rows --kernels FOLDER [--json FILE] [--facts FILE] [--rows paths|all]
//
// Rows of kind "path" are the three paths of the product, exactly as agent and
// `twinpath check` run them. Rows of kind "experiment" are what the product
// never does, with an explicit environment: the other spellings of the
// switches, both switches at once, a warm cache. Exit 0: every row came out as
// measured, or the GPU is another one and the three-path rows are consistent;
// 1: a row differs; 3: no GPU.

#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "runner/facts.h"
#include "runner/paths.h"
#include "runner/run.h"
#include "runner/sandbox.h"
#include "runner/sequence.h"
#include "tests/gpu/row_outcome.h"
#include "verdict/compiled.h"

namespace twinpath::runner {
namespace {

struct Row {
  std::string variant;
  std::string program;
  std::string name;      // path or experiment
  std::string expected;  // "PASS", "209", "value 42", ... on 9.0 with R580
  std::string got;
  std::string detail;
  bool equal() const { return expected == got; }
};

// What every variant of the check program does on 9.0: plain, native, ptx-jit.
struct Expected {
  const char* variant;
  const char* program;
  const char* plain;
  const char* native;
  const char* ptx_jit;
};
constexpr Expected kExpected[] = {
    {"sm_90-compute_90", "check", "PASS", "PASS", "PASS"},
    {"sm_90", "check", "PASS", "PASS", "209"},
    {"sm_90a", "check", "PASS", "PASS", "209"},
    {"compute_90", "check", "PASS jit", "223", "PASS"},
    {"compute_90a", "check", "PASS jit", "223", "PASS"},
    {"compute_75", "check", "PASS jit", "223", "PASS"},
    {"sm_75-compute_75", "check", "PASS jit", "223", "PASS"},
    {"sm_80-compute_80", "check", "PASS jit", "223", "PASS"},
    {"sm_80", "check", "209", "209", "209"},
    {"sm_100", "check", "209", "209", "209"},
    {"sm_121-compute_121", "check", "209", "209", "209"},
    {"compute_100", "check", "209", "209", "209"},
    {"guarded-90", "guarded", "value 42", "value 42", "value 0"},
    {"silent-100", "silent", "silent 209", "silent 209", "silent 209"},
    {"full", "check", "PASS", "PASS", "PASS"},
    {"sass-only", "check", "PASS", "PASS", "209"},
    {"ptx-only", "check", "PASS jit", "223", "PASS"},
    {"plain", "check", "PASS jit", "223", "PASS"},
    {"newer-gpu-only", "check", "209", "209", "209"},
    {"coverage", "fp64", "PASS", "PASS", "PASS"},
    {"coverage", "fp32", "PASS", "PASS", "PASS"},
    {"coverage", "tf32", "PASS", "PASS", "PASS"},
    {"coverage", "fp16", "PASS", "PASS", "PASS"},
    {"coverage", "bf16", "PASS", "PASS", "PASS"},
    {"coverage", "fp8", "PASS", "PASS", "PASS"},
    {"coverage", "int8", "PASS", "PASS", "PASS"},
    {"coverage", "tensor_fp16", "PASS", "PASS", "PASS"},
    {"coverage", "tensor_bf16", "PASS", "PASS", "PASS"},
    {"coverage", "tensor_int8", "PASS", "PASS", "PASS"},
    {"coverage", "atomics", "PASS", "PASS", "PASS"},
    {"coverage", "shared_memory", "PASS", "PASS", "PASS"},
    {"coverage", "dynamic_shared", "PASS", "PASS", "PASS"},
    {"coverage", "warp", "PASS", "PASS", "PASS"},
    {"coverage", "cooperative_grid", "PASS", "PASS", "PASS"},
    {"coverage", "async_copy", "PASS", "PASS", "PASS"},
    {"coverage", "constant_memory", "PASS", "PASS", "PASS"},
    {"coverage", "texture", "PASS", "PASS", "PASS"},
    {"coverage", "streams", "PASS", "PASS", "PASS"},
    {"coverage", "graphs", "PASS", "PASS", "PASS"},
    {"coverage", "device_printf", "PASS", "PASS", "PASS"},
    {"coverage", "dynamic_parallelism", "PASS", "PASS", "300"},
    {"coverage", "device_link", "PASS", "PASS", "PASS"},
    {"coverage", "nvrtc_ptx", "PASS jit", "223", "PASS"},
    {"coverage", "nvrtc_cubin", "PASS", "PASS", "PASS"},
    {"coverage", "nvjitlink_lto", "PASS", "PASS", "PASS"},
};

// Exit 0 under forced JIT, and the driver compiled nothing.
bool NeverCompiles(absl::string_view program) {
  return program == "silent" || program == "nvrtc_cubin" ||
         program == "nvjitlink_lto";
}

std::string Detail(const v1::Observation& run) {
  std::string log = run.driver_log().head();
  std::string detail = absl::StrCat(
      run.ending() == v1::ENDING_EXITED
          ? absl::StrCat("exit ", run.exit_code())
          : absl::StrCat(v1::Ending_Name(run.ending()), " ", run.problem()),
      run.cache().observed()
          ? absl::StrCat(", cache files ", run.cache().files())
          : "",
      ", log ", run.driver_log().total_bytes(), " bytes, ",
      run.duration().seconds(), ".",
      absl::StrFormat("%03d", run.duration().nanos() / 1'000'000), " s");
  if (!run.stderr().head().empty()) {
    absl::StrAppend(&detail, "; ",
                    Printable(run.stderr().head().substr(0, 160)));
  }
  return detail;
}

v1::Entry EntryFor(const std::string& program) {
  v1::Entry entry;
  entry.set_name("check");
  entry.add_command(program);
  entry.mutable_timeout()->set_seconds(60);
  entry.mutable_jit_timeout()->set_seconds(120);
  // gpu_trace has traced runs.
  entry.set_trace(v1::TRACE_RULE_OFF);
  return entry;
}

class Suite {
 public:
  Suite(std::string kernels, std::string gpu, std::string jit_cache_built)
      : kernels_(std::move(kernels)), gpu_(std::move(gpu)) {
    hooks_.jit_cache_built = std::move(jit_cache_built);
  }

  void RunPaths(const Expected& expected) {
    const std::string folder = JoinPath(kernels_, expected.variant);
    const v1::CellResult result =
        RunEntry(EntryFor(expected.program),
                 {v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN}, {gpu_},
                 folder, hooks_);
    for (const v1::Observation& run : result.observations()) {
      Row row{expected.variant,
              expected.program,
              std::string(PathName(run.path())),
              "",
              gpu::Outcome(run),
              Detail(run)};
      if (run.traced() && !run.jit_proof()) continue;
      if (run.jit_proof()) {
        // The proof is the files, not the answer.
        row.name = "ptx-jit proof";
        row.expected =
            NeverCompiles(expected.program) ? "not compiled" : "compiled";
        row.got =
            verdict::DriverCompiled(run.cache()) ? "compiled" : "not compiled";
      } else if (run.path() == v1::PATH_NATIVE) {
        row.expected = expected.native;
      } else if (run.path() == v1::PATH_PTX_JIT) {
        row.expected = expected.ptx_jit;
      } else {
        row.expected = expected.plain;
      }
      Add(std::move(row));
    }
  }

  // One run with exactly `variables` beside the common ones, or, when `path` is
  // given, with that path's own variables and `variables` on top.
  void RunExperiment(const std::string& variant, const std::string& name,
                     const std::map<std::string, std::string>& variables,
                     const std::string& work, const std::string& expected,
                     v1::Path path = v1::PATH_UNSPECIFIED) {
    v1::RunRequest request;
    request.set_attempt_id(RandomHex(16));
    request.set_path(path);
    request.set_bare_environment(path == v1::PATH_UNSPECIFIED);
    *request.mutable_entry() = EntryFor("check");
    request.add_gpu_uuids(gpu_);
    request.set_artifact_directory(JoinPath(kernels_, variant));
    request.set_work_directory(work);
    for (const auto& [key, value] : variables) {
      v1::EnvironmentVariable& added = *request.add_experiment_environment();
      added.set_name(key);
      added.set_value(value);
    }
    const v1::Observation run = RunInChild(request, absl::Minutes(3), nullptr);
    Add({variant, "check", name, expected, gpu::Outcome(run), Detail(run)});
  }

  // In a new work folder.
  void RunExperiment(const std::string& variant, const std::string& name,
                     const std::map<std::string, std::string>& variables,
                     const std::string& expected) {
    const auto work = TempDirectory::Make();
    if (!work.ok()) return;
    RunExperiment(variant, name, variables, work->path(), expected);
  }

  const std::vector<Row>& rows() const { return rows_; }

 private:
  void Add(Row row) {
    std::printf("| %s | %s | %s | %s | %s | %s |\n", row.variant.c_str(),
                row.name.c_str(), row.expected.c_str(), row.got.c_str(),
                row.equal() ? "yes" : "NO", row.detail.c_str());
    std::fflush(stdout);
    rows_.push_back(std::move(row));
  }

  const std::string kernels_;
  const std::string gpu_;
  AttemptHooks hooks_;
  std::vector<Row> rows_;
};

void RunExperiments(Suite& suite) {
  // The other spellings behave the same; both at once leaves nothing.
  for (const Expected& row : kExpected) {
    if (absl::string_view(row.program) != "check" ||
        !absl::StrContains(row.variant, "_")) {
      continue;
    }
    suite.RunExperiment(
        row.variant, "CUDA_DISABLE_JIT=1, cache off",
        {{"CUDA_DISABLE_JIT", "1"}, {"CUDA_CACHE_DISABLE", "1"}}, row.native);
    suite.RunExperiment(row.variant, "CUDA_FORCE_JIT=1, cache off",
                        {{"CUDA_FORCE_JIT", "1"}, {"CUDA_CACHE_DISABLE", "1"}},
                        row.ptx_jit);
  }
  suite.RunExperiment("sm_90-compute_90", "DISABLE and FORCE, cache off",
                      {{"CUDA_DISABLE_PTX_JIT", "1"},
                       {"CUDA_FORCE_PTX_JIT", "1"},
                       {"CUDA_CACHE_DISABLE", "1"}},
                      "223");
  // The warm-cache hole, and that the native path is not caught by it.
  for (const char* variant : {"compute_75", "compute_90"}) {
    const auto folder = TempDirectory::Make();
    if (!folder.ok()) return;
    const std::string cache = JoinPath(folder->path(), "warm");
    suite.RunExperiment(variant, "warm the cache", {{"CUDA_CACHE_PATH", cache}},
                        folder->path(), "PASS");
    suite.RunExperiment(
        variant, "CUDA_DISABLE_PTX_JIT=1, cache warm",
        {{"CUDA_CACHE_PATH", cache}, {"CUDA_DISABLE_PTX_JIT", "1"}},
        folder->path(), "PASS");
    suite.RunExperiment(variant, "CUDA_DISABLE_PTX_JIT=1, warm cache off",
                        {{"CUDA_CACHE_PATH", cache},
                         {"CUDA_DISABLE_PTX_JIT", "1"},
                         {"CUDA_CACHE_DISABLE", "1"}},
                        folder->path(), "223");
    // The product's own path with a warm cache within its reach: the folder is
    // the run's, so that the sandbox shows it.
    const auto product = TempDirectory::Make();
    if (!product.ok()) return;
    const std::string warm = JoinPath(product->path(), "home/.nv/ComputeCache");
    suite.RunExperiment(variant, "warm the default cache (HOME)", {},
                        product->path(), "PASS");
    suite.RunExperiment(variant, "DISABLE, default cache warm",
                        {{"CUDA_DISABLE_PTX_JIT", "1"}}, product->path(),
                        "PASS");
    suite.RunExperiment(variant, "native path's variables, default cache warm",
                        {{"CUDA_DISABLE_PTX_JIT", "1"},
                         {"CUDA_CACHE_DISABLE", "1"},
                         {"CUDA_CACHE_PATH", warm}},
                        product->path(), "223");
  }
}

std::string JsonOf(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  return status.ok() ? text : "{}";
}

std::string JsonOf(const std::vector<Row>& rows) {
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    lines.push_back(absl::StrCat(
        "  {\"variant\": ", gpu::JsonQuoted(row.variant),
        ", \"row\": ", gpu::JsonQuoted(row.name), ", \"expected\": ",
        gpu::JsonQuoted(row.expected), ", \"got\": ", gpu::JsonQuoted(row.got),
        ", \"equal\": ", row.equal() ? "true" : "false",
        ", \"detail\": ", gpu::JsonQuoted(row.detail), "}"));
  }
  return absl::StrCat("[\n", absl::StrJoin(lines, ",\n"), "\n]\n");
}

int Main(int argc, char** argv) {
  std::map<std::string, std::string> options = {{"--rows", "all"}};
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  if (options["--kernels"].empty() || argc % 2 == 0) {
    std::fprintf(stderr,
                 "usage: gpu_rows --kernels FOLDER [--json FILE] "
                 "[--facts FILE] [--rows paths|all]\n");
    return 2;
  }
  FactsOptions facts_options;
  facts_options.version = "gpu_rows";
  const v1::HostFacts facts = CollectFacts(facts_options);
  if (!options["--facts"].empty()) {
    const absl::Status status =
        WriteFileAtomic(options["--facts"], JsonOf(facts), 0644);
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  const absl::Status sandbox = CheckSandbox();
  std::printf("sandbox: %s\n", sandbox.ToString().c_str());
  std::printf("driver probe: %s %s\n",
              v1::ProbeState_Name(facts.driver().probe().state()).c_str(),
              facts.driver().probe().error().c_str());
  if (facts.gpu_probe().state() != v1::PROBE_STATE_OK || facts.gpus().empty()) {
    std::printf("no GPU: %s\n", facts.gpu_probe().error().c_str());
    return 3;
  }
  const v1::Gpu& gpu = facts.gpus(0);
  std::printf(
      "gpu: %s %s compute_capability %u.%u, kernel module %s, libcuda %s, CUDA "
      "%u.%u, PTX ISA %u.%u (%s), JIT library %s %s\n\n",
      gpu.name().c_str(), gpu.uuid().c_str(), gpu.compute_capability().major(),
      gpu.compute_capability().minor(),
      facts.driver().kernel_module_version().c_str(),
      facts.driver().libcuda_version().c_str(),
      facts.driver().cuda_version().major(),
      facts.driver().cuda_version().minor(),
      facts.driver().ptx_isa_ceiling().major(),
      facts.driver().ptx_isa_ceiling().minor(),
      facts.driver().ptx_isa_probe().error().c_str(),
      v1::ProbeState_Name(facts.driver().jit_library().state()).c_str(),
      facts.driver().jit_library().error().c_str());

  std::printf(
      "| variant | row | measured on 9.0 | got | equal | detail |\n"
      "|---|---|---|---|---|---|\n");
  Suite suite(options["--kernels"], gpu.uuid(),
              facts.driver().jit_cache_built());
  for (const Expected& row : kExpected) suite.RunPaths(row);
  if (options["--rows"] == "all") RunExperiments(suite);
  size_t differ = 0;
  for (const Row& row : suite.rows()) differ += row.equal() ? 0 : 1;
  std::printf("\nrows %zu, equal %zu, different %zu\n", suite.rows().size(),
              suite.rows().size() - differ, differ);
  if (!options["--json"].empty()) {
    const absl::Status status =
        WriteFileAtomic(options["--json"], JsonOf(suite.rows()), 0644);
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  const bool measured_gpu = gpu.compute_capability().major() == 9 &&
                            gpu.compute_capability().minor() == 0;
  return measured_gpu && differ > 0 ? 1 : 0;
}

}  // namespace
}  // namespace twinpath::runner

int main(int argc, char** argv) { return twinpath::runner::Main(argc, argv); }
