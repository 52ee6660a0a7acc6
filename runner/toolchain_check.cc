#include "runner/toolchain_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/child.h"
#include "runner/facts.h"
#include "runner/paths.h"
#include "runner/run_parts.h"
#include "runner/toolkit.h"
#include "runner/witness.h"

namespace twinpath::runner {
namespace {

constexpr absl::Duration kQuestionTimeout = absl::Seconds(30);
constexpr absl::Duration kCompileTimeout = absl::Minutes(5);
constexpr absl::Duration kWitnessTimeout = absl::Minutes(1);
constexpr absl::Duration kRunTimeout = absl::Minutes(1);
constexpr absl::Duration kJitTimeout = absl::Minutes(3);
// The check program with a static CUDA runtime has one megabyte.
constexpr uint64_t kMostProgramBytes = uint64_t{64} << 20;
constexpr const char* kProgram = "check";

// What a step keeps of a program's run. Runs on the GPU keep their output in
// ToolchainCheck.runs.
void FillStep(const std::vector<std::string>& argv, const v1::Observation& run,
              bool output, v1::ToolchainStep& step) {
  for (const std::string& word : argv) step.add_argv(word);
  step.set_ending(run.ending());
  step.set_exit_code(run.exit_code());
  *step.mutable_duration() = run.duration();
  if (!output) return;
  *step.mutable_stdout() = run.stdout();
  *step.mutable_stderr() = run.stderr();
}

// The last line of what a tool said, for a reason.
std::string LastLine(const v1::Observation& run) {
  for (const v1::CapturedOutput* output : {&run.stderr(), &run.stdout()}) {
    const std::string& text =
        output->tail().empty() ? output->head() : output->tail();
    std::string last;
    for (const absl::string_view line :
         absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      // nvcc --verbose shows its commands so.
      if (absl::StartsWith(line, "#$ ")) continue;
      // The first complaint says more than what follows from it.
      if (absl::StrContains(line, "error")) {
        return Printable(line.substr(0, 300));
      }
      last = std::string(line);
    }
    if (!last.empty()) return Printable(absl::string_view(last).substr(0, 300));
  }
  return "";
}

std::string DescribeRun(const v1::Observation& run) {
  const std::string last = LastLine(run);
  return absl::StrCat(EndingOf(run), last.empty() ? "" : ": ", last);
}

// Copies a file that a confined program made: no link, no device, no more than
// it can be.
absl::Status TakeProgram(const std::string& from, const std::string& to) {
  const UniqueFd in(
      open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!in.valid()) return ErrnoStatus(errno, "the output file");
  struct stat info;
  if (fstat(in.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError("the output is no regular file");
  }
  TWINPATH_ASSIGN_OR_RETURN(const std::string bytes,
                            PreadUpTo(in.get(), 0, kMostProgramBytes + 1));
  if (bytes.size() > kMostProgramBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the output file holds more than ", HumanBytes(kMostProgramBytes)));
  }
  const UniqueFd out(
      open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755));
  if (!out.valid()) return ErrnoStatus(errno, to);
  return WriteAll(out.get(), bytes);
}

// Where a run that had this observation's variables finds a program; "": it
// does not.
std::string OnSearchPath(const v1::Observation& run,
                         absl::string_view program) {
  for (const v1::EnvironmentVariable& variable : run.environment()) {
    if (variable.name() != "PATH") continue;
    for (const absl::string_view folder :
         absl::StrSplit(variable.value(), ':', absl::SkipEmpty())) {
      std::string path = JoinPath(folder, program);
      if (access(path.c_str(), X_OK) == 0) return path;
    }
  }
  return "";
}

class Check {
 public:
  Check(const ToolchainOptions& options, const std::string& source_folder,
        const std::string& folder, const std::string& toolkit,
        const ToolchainGpu& gpu, const std::string& jit_cache_built,
        absl::Time deadline)
      : options_(options),
        source_folder_(source_folder),
        folder_(folder),
        nvcc_(JoinPath(toolkit, "bin/nvcc")),
        gpu_(gpu),
        jit_cache_built_(jit_cache_built),
        deadline_(deadline) {
    check_.mutable_toolkit()->set_path(toolkit);
    check_.set_gpu_uuid(gpu.uuid);
    if (gpu.compute_capability.major() > 0) {
      *check_.mutable_compute_capability() = gpu.compute_capability;
    }
    *check_.mutable_target() = gpu.target;
  }

  v1::ToolchainCheck Run() {
    check_.set_holds(Steps());
    return std::move(check_);
  }

 private:
  bool Steps();
  bool AskVersion();
  bool AskTargets();
  bool Compile();
  bool Inspect();
  bool AskCuobjdump();
  bool RunPath(v1::Path path);

  v1::ToolchainStep& Step(absl::string_view name) {
    v1::ToolchainStep& step = *check_.add_steps();
    step.set_name(std::string(name));
    return step;
  }
  static bool Fails(absl::string_view code, absl::string_view detail,
                    v1::ToolchainStep& step) {
    *step.add_reasons() = ToolchainReason(code, detail);
    return false;
  }
  void Tell(absl::string_view what) const {
    if (!options_.progress) return;
    options_.progress(absl::StrCat(
        check_.toolkit().nvcc_version().empty()
            ? Printable(check_.toolkit().path())
            : absl::StrCat("nvcc ", check_.toolkit().nvcc_version()),
        ": ", what));
  }
  // Starts a tool; a step that cannot be started for lack of time is one that
  // did not end in time.
  v1::Observation Tool(absl::string_view name,
                       const std::vector<std::string>& argv,
                       absl::Duration timeout) {
    v1::RunRequest request =
        ToolRequest(absl::StrCat("toolchain-", name), argv, source_folder_,
                    JoinPath(folder_, "tools"), timeout);
    request.set_output_limit_bytes(options_.output_limit_bytes);
    return Start(std::move(request));
  }
  v1::Observation Start(v1::RunRequest request);
  // Why a tool gave no answer, with the code of a host that cannot confine it.
  v1::Reason NoAnswer(absl::string_view code, absl::string_view what,
                      const v1::Observation& run) const;
  void NoteTools(const v1::Observation& compile);
  void KeepHead(std::string text, v1::CapturedOutput& output) const;

  const ToolchainOptions& options_;
  const std::string source_folder_;
  const std::string folder_;
  const std::string nvcc_;
  const ToolchainGpu& gpu_;
  const std::string jit_cache_built_;
  const absl::Time deadline_;
  v1::ToolchainCheck check_;
};

v1::Observation Check::Start(v1::RunRequest request) {
  v1::Observation observation;
  if (options_.cancelled && options_.cancelled()) {
    observation.set_ending(v1::ENDING_INTERRUPTED);
    observation.set_problem("cancelled");
    return observation;
  }
  const absl::Duration left = deadline_ - absl::Now();
  if (left < absl::Seconds(1)) {
    observation.set_ending(v1::ENDING_TIMED_OUT);
    observation.set_problem("no time was left for this step");
    return observation;
  }
  for (google::protobuf::Duration* limit :
       {request.mutable_entry()->mutable_timeout(),
        request.mutable_entry()->mutable_jit_timeout()}) {
    limit->set_seconds(std::min(limit->seconds(), absl::ToInt64Seconds(left)));
  }
  return options_.run(request);
}

v1::Reason Check::NoAnswer(absl::string_view code, absl::string_view what,
                           const v1::Observation& run) const {
  if (run.ending() == v1::ENDING_NOT_STARTED) {
    if (absl::StartsWith(run.problem(), "TP114")) {
      absl::string_view detail = run.problem();
      absl::ConsumePrefix(&detail, "TP114 sandbox-unavailable: ");
      return ToolchainReason("TP114", detail);
    }
    if (const absl::string_view hidden =
            HiddenBySandbox(check_.toolkit().path());
        !hidden.empty()) {
      return ToolchainReason(
          code, absl::StrCat(what, ": ", EndingOf(run), "; the sandbox has a ",
                             hidden, " of its own: move the toolkit out of ",
                             hidden));
    }
  }
  return ToolchainReason(code, absl::StrCat(what, ": ", DescribeRun(run)));
}

bool Check::Steps() {
  if (!AskVersion() || !AskTargets() || !Compile() || !Inspect() ||
      !AskCuobjdump()) {
    return false;
  }
  // Built for a GPU that is not here.
  if (gpu_.uuid.empty()) return true;
  const bool native = RunPath(v1::PATH_NATIVE);
  const bool jit = RunPath(v1::PATH_PTX_JIT);
  return native && jit;
}

bool Check::AskVersion() {
  Tell("nvcc --version");
  v1::ToolchainStep& step = Step("version");
  const std::vector<std::string> argv = {nvcc_, "--version"};
  if (access(nvcc_.c_str(), X_OK) != 0) {
    for (const std::string& word : argv) step.add_argv(word);
    step.set_ending(v1::ENDING_NOT_STARTED);
    return Fails("TP132",
                 absl::StrCat(Printable(nvcc_),
                              errno == ENOENT ? " does not exist"
                                              : " is no program that may be "
                                                "run"),
                 step);
  }
  const v1::Observation run = Tool("version", argv, kQuestionTimeout);
  FillStep(argv, run, true, step);
  if (run.ending() != v1::ENDING_EXITED || run.exit_code() != 0) {
    *step.add_reasons() = NoAnswer("TP132", "nvcc --version", run);
    return false;
  }
  check_.mutable_toolkit()->set_nvcc_version(
      NvccVersionOf(run.stdout().head()));
  if (check_.toolkit().nvcc_version().empty()) {
    return Fails("TP132", "nvcc --version: its answer names no version", step);
  }
  return true;
}

bool Check::AskTargets() {
  Tell("nvcc --list-gpu-code");
  v1::ToolchainStep& step = Step("targets");
  const std::vector<std::string> argv = {nvcc_, "--list-gpu-code"};
  const v1::Observation run = Tool("targets", argv, kQuestionTimeout);
  FillStep(argv, run, true, step);
  if (run.ending() != v1::ENDING_EXITED || run.exit_code() != 0) {
    *step.add_reasons() = NoAnswer("TP132", "nvcc --list-gpu-code", run);
    return false;
  }
  for (const v1::Target& target : TargetsOf(run.stdout().head())) {
    *check_.mutable_toolkit()->add_targets() = target;
  }
  if (check_.toolkit().targets().empty()) {
    return Fails("TP132", "nvcc --list-gpu-code: its answer names no target",
                 step);
  }
  check_.mutable_toolkit()->mutable_probe()->set_state(v1::PROBE_STATE_OK);
  v1::Reason missing = LookUpTarget(check_.toolkit(), gpu_.target);
  if (missing.code().empty()) return true;
  *step.add_reasons() = std::move(missing);
  return false;
}

void Check::NoteTools(const v1::Observation& compile) {
  std::vector<std::string> paths;
  const std::string& toolkit = check_.toolkit().path();
  for (const char* tool : {"bin/nvcc", "bin/ptxas", "bin/nvlink",
                           "bin/fatbinary", "bin/cuobjdump", "nvvm/bin/cicc"}) {
    paths.push_back(JoinPath(toolkit, tool));
  }
  const std::string compiler = HostCompilerOf(
      absl::StrCat(compile.stdout().head(), "\n", compile.stderr().head()));
  if (absl::StartsWith(compiler, "/")) {
    paths.push_back(compiler);
  } else if (!compiler.empty() && !absl::StrContains(compiler, '/')) {
    const std::string path = OnSearchPath(compile, compiler);
    if (!path.empty()) paths.push_back(path);
  }
  for (const std::string& path : paths) {
    const absl::StatusOr<Sha256> digest = Sha256OfFile(path);
    if (!digest.ok()) continue;
    v1::StagedFile& tool = *check_.add_tools();
    tool.set_name(ResolvedPath(path));
    tool.mutable_digest()->set_sha256(digest->Raw());
  }
}

bool Check::Compile() {
  Tell(absl::StrCat("building the check program for ",
                    ToolchainTargetName(gpu_.target, false)));
  v1::ToolchainStep& step = Step("compile");
  const std::vector<std::string> argv =
      CompileArguments(nvcc_, gpu_.target, kCheckSource, kProgram);
  const v1::Observation run = Tool("compile", argv, kCompileTimeout);
  FillStep(argv, run, true, step);
  NoteTools(run);
  if (run.ending() != v1::ENDING_EXITED || run.exit_code() != 0) {
    *step.add_reasons() = NoAnswer("TP132", "nvcc", run);
    return false;
  }
  const std::string built = JoinPath(folder_, "built");
  absl::Status status = MakeDirectories(built, 0755);
  if (status.ok()) {
    status =
        TakeProgram(JoinPath(folder_, absl::StrCat("tools/home/", kProgram)),
                    JoinPath(built, kProgram));
  }
  if (!status.ok()) {
    return Fails("TP132",
                 absl::StrCat("nvcc ended with 0 and left no program: ",
                              MessageOf(status)),
                 step);
  }
  return true;
}

bool Check::Inspect() {
  Tell("reading the file that was built");
  v1::ToolchainStep& step = Step("inspect");
  const absl::Time start = absl::Now();
  absl::StatusOr<v1::FileReport> report = inspect::InspectInChild(
      JoinPath(folder_, absl::StrCat("built/", kProgram)), kProgram,
      inspect::InspectOptions{});
  SetDuration(absl::Now() - start, step.mutable_duration());
  if (!report.ok()) {
    step.set_ending(v1::ENDING_NOT_STARTED);
    return Fails("TP306", MessageOf(report.status()), step);
  }
  step.set_ending(v1::ENDING_EXITED);
  *check_.mutable_built() = *std::move(report);
  for (v1::Reason& reason : CheckBuilt(check_.built(), gpu_.target,
                                       kCheckKernel, HostCpuArchitecture())) {
    *step.add_reasons() = std::move(reason);
  }
  return step.reasons().empty();
}

void Check::KeepHead(std::string text, v1::CapturedOutput& output) const {
  output.set_total_bytes(text.size());
  if (text.size() > options_.output_limit_bytes) {
    text.resize(options_.output_limit_bytes);
  }
  output.set_head(std::move(text));
}

bool Check::AskCuobjdump() {
  v1::ToolchainStep& step = Step("witness");
  const std::string program =
      JoinPath(check_.toolkit().path(), "bin/cuobjdump");
  if (access(program.c_str(), X_OK) != 0) {
    step.set_ending(v1::ENDING_SKIPPED);
    return true;
  }
  Tell("asking cuobjdump");
  WitnessOptions options;
  options.run = [this](const v1::RunRequest& request) {
    return Start(request);
  };
  options.program = program;
  options.timeout = kWitnessTimeout;
  options.work_parent = folder_;
  // The step is the listing of machine code; the counts of both are in the
  // witness.
  absl::Duration duration;
  options.after = [&](const std::vector<std::string>& argv,
                      const v1::Observation& run) {
    duration += absl::Seconds(run.duration().seconds()) +
                absl::Nanoseconds(run.duration().nanos());
    std::string out = step.stdout().head() + run.stdout().head();
    std::string err = step.stderr().head() + run.stderr().head();
    step.clear_argv();
    FillStep(argv, run, false, step);
    KeepHead(std::move(out), *step.mutable_stdout());
    KeepHead(std::move(err), *step.mutable_stderr());
  };
  v1::Witness witness =
      AskWitness(JoinPath(folder_, absl::StrCat("built/", kProgram)),
                 check_.built(), {}, options);
  SetDuration(duration, step.mutable_duration());
  if (!witness.problem().empty()) {
    *step.add_reasons() = ToolchainReason(
        "TP132", absl::StrCat("cuobjdump: ", witness.problem()));
  }
  for (const v1::Reason& difference : witness.differences()) {
    *step.add_reasons() = difference;
  }
  *check_.mutable_built()->mutable_witness() = std::move(witness);
  return step.reasons().empty();
}

bool Check::RunPath(v1::Path path) {
  const std::string name(PathName(path));
  Tell(absl::StrCat("running it, ", name));
  v1::ToolchainStep& step = Step(name);
  const std::string built = JoinPath(folder_, "built");
  const auto run = [&](bool proof) {
    v1::RunRequest request;
    request.set_attempt_id(RandomHex(16));
    request.set_path(path);
    request.set_jit_proof(proof);
    v1::Entry& entry = *request.mutable_entry();
    entry.set_name(absl::StrCat("toolchain-", name));
    entry.add_command(kProgram);
    entry.mutable_timeout()->set_seconds(absl::ToInt64Seconds(kRunTimeout));
    entry.mutable_jit_timeout()->set_seconds(absl::ToInt64Seconds(kJitTimeout));
    request.add_gpu_uuids(gpu_.uuid);
    request.set_output_limit_bytes(options_.output_limit_bytes);
    request.set_artifact_directory(built);
    const std::string work =
        JoinPath(folder_, absl::StrCat("run-", check_.runs_size()));
    request.set_work_directory(work);
    v1::Observation observation;
    if (const absl::Status status = MakeDirectories(work); status.ok()) {
      observation = Start(request);
    } else {
      observation.set_ending(v1::ENDING_NOT_STARTED);
      observation.set_problem(std::string(MessageOf(status)));
    }
    observation.set_path(path);
    observation.set_jit_proof(proof);
    if (observation.has_cache()) {
      observation.mutable_cache()->set_driver_built(jit_cache_built_);
    }
    *check_.add_runs() = observation;
    return observation;
  };
  const v1::Observation first = run(false);
  FillStep({kProgram}, first, false, step);
  for (v1::Reason& reason : CheckCheckRun(first, kCheckPasses)) {
    *step.add_reasons() = std::move(reason);
  }
  if (!step.reasons().empty() || path != v1::PATH_PTX_JIT) {
    return step.reasons().empty();
  }
  const v1::Observation proof = run(true);
  std::vector<v1::Reason> reasons = CheckCheckRun(proof, kCheckPasses);
  if (reasons.empty()) reasons = CheckJitProof(proof);
  for (v1::Reason& reason : reasons) *step.add_reasons() = std::move(reason);
  return step.reasons().empty();
}

}  // namespace

v1::ToolchainCheck CheckToolkit(const ToolchainOptions& options,
                                const std::string& source_folder,
                                const std::string& folder,
                                const std::string& toolkit,
                                const ToolchainGpu& gpu,
                                const std::string& jit_cache_built,
                                absl::Time deadline) {
  return Check(options, source_folder, folder, toolkit, gpu, jit_cache_built,
               deadline)
      .Run();
}

}  // namespace twinpath::runner
