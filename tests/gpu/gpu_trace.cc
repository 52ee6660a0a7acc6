// Traced runs on this host's GPU with the real driver and the real CUPTI,
// beside what was measured on a GPU of compute capability 9.0
// (docs/gpu-runs.md): the bytes of loaded modules equal the images embedded in
// the files, forced JIT loads modules that equal none, refused launches are
// seen although the program is silent, kernels of graphs count when the graph
// is launched.
//
//   gpu_trace --kernels FOLDER [--json FILE] [--python PROGRAM]
//
// Exit 0: everything as stated; 1: something differs; 2: tracing cannot work
// here; 3: no GPU.

#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "runner/facts.h"
#include "runner/paths.h"
#include "runner/sandbox.h"
#include "runner/sequence.h"
#include "runner/trace_setup.h"
#include "twinpath/v1/sweep.pb.h"
#include "verdict/path_status.h"

namespace twinpath::runner {
namespace {

const v1::Observation* TracedRun(const v1::CellResult& result, v1::Path path) {
  for (const v1::Observation& run : result.observations()) {
    if (run.path() == path && run.traced()) return &run;
  }
  return nullptr;
}

const v1::Observation* OwnRun(const v1::CellResult& result, v1::Path path) {
  for (const v1::Observation& run : result.observations()) {
    if (run.path() == path && !run.traced() && !run.jit_proof()) return &run;
  }
  return nullptr;
}

double Seconds(const v1::Observation* run) {
  return run == nullptr
             ? 0
             : static_cast<double>(run->duration().seconds()) +
                   static_cast<double>(run->duration().nanos()) * 1e-9;
}

// What one program's traces show, in numbers.
struct Shown {
  uint64_t embedded = 0;
  uint64_t compiled = 0;
  uint64_t unknown = 0;
  // Of these: whose file is one of the artifact.
  uint64_t own_embedded = 0;
  uint64_t own_compiled = 0;
  std::set<std::string> owners;
  std::set<std::string> refused_owners;
};

Shown Count(const v1::Trace& trace) {
  Shown shown;
  std::set<std::string> own;
  for (const v1::TracedObject& object : trace.objects()) {
    if (!object.artifact_name().empty()) own.insert(object.artifact_name());
  }
  for (const v1::TracedModule& module : trace.modules()) {
    const bool is_own = own.contains(module.file());
    switch (module.origin()) {
      case v1::MODULE_ORIGIN_EMBEDDED:
        ++shown.embedded;
        shown.own_embedded += is_own ? 1 : 0;
        break;
      case v1::MODULE_ORIGIN_COMPILED:
        ++shown.compiled;
        shown.own_compiled += is_own ? 1 : 0;
        break;
      default:
        ++shown.unknown;
    }
  }
  for (const v1::TracedKernel& kernel : trace.kernels()) {
    if (kernel.launches() > 0) {
      shown.owners.insert(std::string(BaseName(kernel.file())));
    }
    if (kernel.refused() > 0) {
      shown.refused_owners.insert(std::string(BaseName(kernel.file())));
    }
  }
  return shown;
}

class Suite {
 public:
  Suite(std::string kernels, std::string gpu)
      : kernels_(std::move(kernels)), gpu_(std::move(gpu)) {}

  v1::CellResult Run(const std::string& folder, const std::string& program,
                     const std::vector<std::string>& arguments,
                     const std::vector<v1::Path>& paths) {
    v1::Entry entry;
    entry.set_name(program);
    entry.add_command(program);
    for (const std::string& argument : arguments) entry.add_command(argument);
    entry.mutable_timeout()->set_seconds(120);
    entry.mutable_jit_timeout()->set_seconds(240);
    entry.set_trace(v1::TRACE_RULE_REQUIRED);
    entry_ = entry;
    name_ = folder.empty() ? program : absl::StrCat(folder, "/", program);
    AttemptHooks hooks;
    v1::CellResult result =
        RunEntry(entry, paths, {gpu_},
                 folder.empty() ? "" : JoinPath(kernels_, folder), hooks);
    v1::Cell& cell = *sweep_.add_cells();
    cell.set_entry(name_);
    *cell.mutable_result() = result;
    for (const v1::Observation& run : result.observations()) {
      if (run.traced()) Print(run, result);
    }
    return result;
  }

  void Expect(bool holds, const std::string& what) {
    std::printf("  %s %s\n", holds ? "ok  " : "FAIL", what.c_str());
    std::fflush(stdout);
    failures_ += holds ? 0 : 1;
    ++checks_;
  }

  const v1::Entry& entry() const { return entry_; }
  const v1::Sweep& sweep() const { return sweep_; }
  int failures() const { return failures_; }
  int checks() const { return checks_; }

 private:
  void Print(const v1::Observation& run, const v1::CellResult& result) const {
    const v1::Trace& trace = run.trace();
    const Shown shown = Count(trace);
    std::printf(
        "%s, %s%s: exit %d; %d objects; modules %llu embedded, %llu compiled, "
        "%llu unknown; %d kernels, %llu launches, %llu refused; %.2f s (own "
        "run %.2f s); tracers: %s%s / %s%s\n",
        name_.c_str(), std::string(PathName(run.path())).c_str(),
        run.jit_proof() ? " proof" : "", run.exit_code(), trace.objects_size(),
        static_cast<unsigned long long>(shown.embedded),
        static_cast<unsigned long long>(shown.compiled),
        static_cast<unsigned long long>(shown.unknown), trace.kernels_size(),
        static_cast<unsigned long long>(trace.launches()),
        static_cast<unsigned long long>(trace.refused_launches()),
        Seconds(&run), Seconds(OwnRun(result, run.path())),
        trace.objects_tracer().version().c_str(),
        Printable(trace.objects_tracer().problem()).c_str(),
        trace.device_tracer().version().c_str(),
        Printable(trace.device_tracer().problem()).c_str());
    for (const v1::KernelCoverage& file : trace.coverage()) {
      if (!file.artifact_file() && file.launched() == 0) continue;
      std::printf("    %s%s: %llu of %llu kernels launched\n",
                  Printable(file.file()).c_str(),
                  file.artifact_file() ? "" : " (host)",
                  static_cast<unsigned long long>(file.launched()),
                  static_cast<unsigned long long>(file.kernels()));
    }
    for (const v1::TracedObject& object : trace.objects()) {
      if (!object.problem().empty()) {
        std::printf("    %s: %s\n", Printable(object.path()).c_str(),
                    Printable(object.problem()).c_str());
      }
    }
    int listed = 0;
    for (const v1::TracedKernel& kernel : trace.kernels()) {
      if (++listed > 6) break;
      std::printf("    kernel %s of %s: %llu launches, %llu refused (%u)\n",
                  Printable(kernel.name()).substr(0, 80).c_str(),
                  Printable(kernel.file()).c_str(),
                  static_cast<unsigned long long>(kernel.launches()),
                  static_cast<unsigned long long>(kernel.refused()),
                  kernel.cuda_error());
    }
    std::fflush(stdout);
  }

  const std::string kernels_;
  const std::string gpu_;
  std::string name_;
  v1::Entry entry_;
  v1::Sweep sweep_;
  int failures_ = 0;
  int checks_ = 0;
};

const std::vector<v1::Path>& AllPaths() {
  static const auto* const paths = new std::vector<v1::Path>{
      v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN};
  return *paths;
}

v1::Trace TraceOf(const v1::CellResult& result, v1::Path path) {
  const v1::Observation* run = TracedRun(result, path);
  return run == nullptr ? v1::Trace() : run->trace();
}

// Machine code and PTX of one kernel: the embedded cubin on plain, a compiled
// module under forced JIT.
void CheckPrograms(Suite& suite) {
  v1::CellResult result =
      suite.Run("sm_90-compute_90", "check", {}, AllPaths());
  v1::Trace plain = TraceOf(result, v1::PATH_PLAIN);
  Shown shown = Count(plain);
  suite.Expect(plain.objects_tracer().started() &&
                   plain.device_tracer().started() &&
                   plain.device_tracer().problem().empty(),
               "both tracers started");
  suite.Expect(shown.own_embedded >= 1 && shown.own_compiled == 0,
               "plain: every module of the program equals an embedded image");
  suite.Expect(plain.launches() == 1 && plain.refused_launches() == 0 &&
                   shown.owners == std::set<std::string>{"check"},
               "plain: its one kernel was launched once");
  suite.Expect(
      plain.coverage_size() >= 1 && plain.coverage(0).file() == "check" &&
          plain.coverage(0).kernels() == 1 && plain.coverage(0).launched() == 1,
      "plain: coverage 1 of 1");
  shown = Count(TraceOf(result, v1::PATH_PTX_JIT));
  suite.Expect(shown.own_compiled >= 1 && shown.own_embedded == 0,
               "ptx-jit: the program's module equals no image: compiled");
  const v1::Observation* proof = TracedRun(result, v1::PATH_PTX_JIT);
  suite.Expect(proof != nullptr && proof->jit_proof() &&
                   proof->exit_code() == 0 && proof->cache().files() > 0,
               "ptx-jit: the traced run is the proof, and filled the cache");

  result = suite.Run("compute_90", "check", {}, {v1::PATH_PLAIN});
  shown = Count(TraceOf(result, v1::PATH_PLAIN));
  suite.Expect(shown.own_compiled >= 1 && shown.own_embedded == 0,
               "PTX only: plain compiles");

  result = suite.Run("silent-100", "silent", {}, {v1::PATH_PLAIN});
  const v1::Trace silent = TraceOf(result, v1::PATH_PLAIN);
  suite.Expect(silent.launches() == 0, "silent: nothing was launched");
  suite.Expect(silent.refused_launches() >= 1,
               "silent: the refused launch was seen");
}

void CheckCoverageSuite(Suite& suite) {
  v1::CellResult result = suite.Run("coverage", "device_link", {}, AllPaths());
  Shown shown = Count(TraceOf(result, v1::PATH_PLAIN));
  suite.Expect(shown.own_embedded >= 1 && shown.own_compiled == 0,
               "rdc, linked: modules equal embedded images");
  shown = Count(TraceOf(result, v1::PATH_PTX_JIT));
  suite.Expect(shown.own_compiled >= 1, "rdc, forced JIT: compiled");

  result = suite.Run("coverage", "dynamic_parallelism", {}, {v1::PATH_PLAIN});
  suite.Expect(TraceOf(result, v1::PATH_PLAIN).launches() >= 1,
               "dynamic parallelism: the host's launches are seen");

  result = suite.Run("coverage", "graphs", {}, {v1::PATH_PLAIN});
  const v1::Trace graphs = TraceOf(result, v1::PATH_PLAIN);
  suite.Expect(
      graphs.launches() >= 1 && graphs.device_tracer().problem().empty(),
      "graphs: kernels of launched graphs count");
  result = suite.Run("coverage", "cooperative_grid", {}, {v1::PATH_PLAIN});
  suite.Expect(TraceOf(result, v1::PATH_PLAIN).launches() >= 1,
               "cooperative launches are seen");
}

void CheckVendor(Suite& suite) {
  const v1::CellResult result = suite.Run("entries", "cublas", {}, AllPaths());
  const v1::Observation* own = OwnRun(result, v1::PATH_PLAIN);
  if (own == nullptr || own->exit_code() != 0) {
    std::printf("  --   cublas: does not run here; not checked\n");
    return;
  }
  const auto has = [](const std::set<std::string>& owners,
                      absl::string_view name) {
    for (const std::string& owner : owners) {
      if (absl::StartsWith(owner, name)) return true;
    }
    return false;
  };
  Shown shown = Count(TraceOf(result, v1::PATH_PLAIN));
  suite.Expect(shown.owners.contains("cublas"), "cublas: the own kernel");
  suite.Expect(has(shown.owners, "libcublas.so"),
               "cublas: a kernel of libcublas was launched");
  suite.Expect(shown.unknown == 0 && shown.compiled == 0,
               "cublas: every module equals an embedded image");
  const verdict::PathEvaluation seen =
      verdict::EvaluatePath(suite.entry(), v1::PATH_PTX_JIT, result);
  std::vector<std::string> codes;
  bool owner = false;
  for (const v1::Reason& reason : seen.reasons) {
    codes.push_back(reason.code());
    owner |= reason.code() == "TP333" &&
             absl::StrContains(reason.detail(), "libcublas");
    std::printf("    %s %s\n", reason.code().c_str(),
                Printable(reason.detail()).c_str());
  }
  suite.Expect(seen.status == verdict::PathStatus::kFailed && owner,
               "cublas, forced JIT: fails, and libcublas owns the kernel");
}

void CheckTorch(Suite& suite, const std::string& python) {
  const v1::CellResult result = suite.Run(
      "", python,
      {"-c",
       "import torch; a=torch.ones(64,64,device='cuda'); b=(a@a+a).relu();"
       "torch.cuda.synchronize(); print(float(b.sum()))"},
      {v1::PATH_PLAIN});
  const v1::Observation* own = OwnRun(result, v1::PATH_PLAIN);
  if (own == nullptr || own->exit_code() != 0) {
    std::printf("  --   torch: does not run here; not checked\n");
    return;
  }
  const v1::Trace trace = TraceOf(result, v1::PATH_PLAIN);
  const Shown shown = Count(trace);
  suite.Expect(trace.device_tracer().started() && trace.launches() >= 3,
               "torch: launches are seen");
  suite.Expect(shown.embedded >= 2 && shown.compiled == 0,
               "torch: every module equals an embedded image");
  suite.Expect(shown.owners.contains("libtorch_cuda.so"),
               "torch: kernels of libtorch_cuda");
}

std::string JsonOf(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  return status.ok() ? text : "{}";
}

int Main(int argc, char** argv) {
  std::map<std::string, std::string> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  if (options["--kernels"].empty() || argc % 2 == 0) {
    std::fprintf(stderr,
                 "usage: gpu_trace --kernels FOLDER [--json FILE] [--python "
                 "PROGRAM]\n");
    return 2;
  }
  FactsOptions facts_options;
  facts_options.version = "gpu_trace";
  facts_options.ptx_isa_ceiling = false;
  const v1::HostFacts facts = CollectFacts(facts_options);
  if (facts.gpu_probe().state() != v1::PROBE_STATE_OK || facts.gpus().empty()) {
    std::printf("no GPU: %s\n", facts.gpu_probe().error().c_str());
    return 3;
  }
  const std::vector<std::string> cupti = FindCupti();
  std::printf("CUPTI: %s\n", absl::StrJoin(cupti, ", ").c_str());
  if (const absl::Status libraries = CheckTraceLibraries(); !libraries.ok()) {
    std::printf("%s\n", std::string(MessageOf(libraries)).c_str());
    return 2;
  }
  if (cupti.empty()) return 2;
  Suite suite(options["--kernels"], facts.gpus(0).uuid());
  CheckPrograms(suite);
  CheckCoverageSuite(suite);
  CheckVendor(suite);
  if (!options["--python"].empty()) CheckTorch(suite, options["--python"]);
  if (!options["--json"].empty()) {
    const absl::Status status =
        WriteFileAtomic(options["--json"], JsonOf(suite.sweep()), 0644);
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  std::printf("%d of %d statements hold\n", suite.checks() - suite.failures(),
              suite.checks());
  return suite.failures() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace twinpath::runner

int main(int argc, char** argv) { return twinpath::runner::Main(argc, argv); }
