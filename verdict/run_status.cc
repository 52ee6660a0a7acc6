#include "verdict/run_status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/reason.h"
#include "compat/diagnose.h"
#include "compat/reason.h"
#include "verdict/compiled.h"
#include "verdict/cuda_error.h"
#include "verdict/output.h"

namespace twinpath::verdict {
namespace {

constexpr int kSigkill = 9;

v1::Reason Make(const Run& run, absl::string_view code,
                absl::string_view detail, uint32_t cuda_error = 0) {
  return compat::MakeReason(code, absl::StrCat(run.label, ": ", detail), "",
                            cuda_error);
}

// Reasons the agent found, or else those found here.
std::vector<v1::Reason> Errors(const Run& run) {
  const v1::Observation& observation = run.observation;
  if (observation.errors_size() > 0) {
    return {observation.errors().begin(), observation.errors().end()};
  }
  compat::DiagnosisContext context;
  context.prediction = run.prediction;
  return compat::Diagnose(observation, context);
}

const v1::Reason* FindCode(const std::vector<v1::Reason>& reasons,
                           absl::string_view code) {
  for (const v1::Reason& reason : reasons) {
    if (reason.code() == code) return &reason;
  }
  return nullptr;
}

// The reason that names the decisive CUDA error; nullptr if none does.
const v1::Reason* DecisiveError(const std::vector<v1::Reason>& reasons) {
  for (const v1::Reason& reason : reasons) {
    if (reason.cuda_error() != 0) return &reason;
  }
  return nullptr;
}

// Codes that say how a run ended, as a diagnosis repeats them.
bool IsEndingCode(absl::string_view code) {
  return code == "TP302" || code == "TP303" || code == "TP304" ||
         code == "TP305" || code == "TP306" || code == "TP310";
}

// Appends the run's own errors behind the reason that decides, labelled, each
// code once.
void AppendErrors(const Run& run, const std::vector<v1::Reason>& errors,
                  std::vector<v1::Reason>& reasons) {
  for (const v1::Reason& error : errors) {
    // How the run ended is said here, with what was expected.
    if (IsEndingCode(error.code()) ||
        FindCode(reasons, error.code()) != nullptr) {
      continue;
    }
    v1::Reason copy = error;
    copy.set_detail(absl::StrCat(run.label, ": ", error.detail()));
    reasons.push_back(std::move(copy));
  }
}

// "TP114" at the front of a runner's problem text; empty if there is none.
absl::string_view CodeOfProblem(absl::string_view problem) {
  const size_t end = problem.find_first_of(" :");
  const absl::string_view word = problem.substr(0, end);
  return absl::StartsWith(word, "TP") && FindReason(word) != nullptr
             ? word
             : absl::string_view();
}

// Codes of a start that failed because of the program (or of another program in
// its place), not because of the host.
bool IsProgramFault(absl::string_view code) {
  return code == "TP208" || code == "TP209" || code == "TP231" ||
         code == "TP312" || code == "TP405";
}

PathEvaluation NotStarted(const Run& run) {
  const std::string& problem = run.observation.problem();
  std::string code(CodeOfProblem(problem));
  if (code.empty()) {
    // A host that cannot even be asked is not the artifact's fault, so only
    // reasons the runner states are looked at.
    for (const v1::Reason& error : run.observation.errors()) {
      if (FindReason(error.code()) != nullptr) {
        code = error.code();
        break;
      }
    }
  }
  // The runner's words for a program that this host's CPU cannot start.
  const bool other_cpu = absl::StartsWith(problem, "exec format error");
  if (code.empty() && other_cpu) code = "TP208";
  std::string detail = "could not be started";
  if (!problem.empty()) absl::StrAppend(&detail, ": ", problem);
  if (IsProgramFault(code)) {
    PathEvaluation evaluation =
        Evaluation(PathStatus::kFailed, Make(run, code, detail));
    evaluation.reasons.push_back(Make(run, "TP306", "could not be started"));
    return evaluation;
  }
  return Evaluation(PathStatus::kNotRun,
                    Make(run, code.empty() ? "TP306" : code, detail));
}

// Whether the time limit can have come while the driver was compiling.
bool MayStillCompile(const Run& run) {
  const v1::Outcome outcome = run.prediction == nullptr
                                  ? v1::OUTCOME_UNSPECIFIED
                                  : run.prediction->outcome();
  switch (run.observation.path()) {
    case v1::PATH_PTX_JIT:
      return outcome != v1::OUTCOME_FAILS &&
             outcome != v1::OUTCOME_NO_DEVICE_CODE;
    case v1::PATH_PLAIN:
      return DriverCompiled(run.observation.cache()) ||
             outcome == v1::OUTCOME_JIT || outcome == v1::OUTCOME_UNKNOWN;
    default:
      return false;
  }
}

bool ConditionsChanged(const v1::Observation& observation) {
  return observation.has_conditions_before() &&
         observation.has_conditions_after() &&
         observation.conditions_before().digest().sha256() !=
             observation.conditions_after().digest().sha256();
}

PathEvaluation Failed(const Run& run, const OutputJudgement& output) {
  const v1::Observation& observation = run.observation;
  const std::vector<v1::Reason> errors = Errors(run);
  const v1::Reason* decisive = DecisiveError(errors);
  const uint32_t cuda_error = decisive == nullptr ? 0 : decisive->cuda_error();

  PathEvaluation evaluation;
  evaluation.status = PathStatus::kFailed;
  evaluation.cuda_error = cuda_error;
  std::vector<v1::Reason>& reasons = evaluation.reasons;

  if (ConditionsChanged(observation)) {
    evaluation.status = PathStatus::kInconclusive;
    reasons.push_back(Make(run, "TP315", "conditions changed during the run"));
  } else if (!errors.empty() && errors[0].code() == "TP322") {
    // Whatever failed, failed on a faulty device.
    reasons.push_back(errors[0]);
    reasons.back().set_detail(
        absl::StrCat(run.label, ": ", errors[0].detail()));
    evaluation.status = PathStatus::kInconclusive;
  } else if (cuda_error == 2 ||
             (cuda_error == 0 && FindCode(errors, "TP313") != nullptr) ||
             (!errors.empty() && errors[0].code() == "TP313")) {
    // The last: a load failed beside signs of exhausted memory.
    evaluation.status = PathStatus::kInconclusive;
    reasons.push_back(
        Make(run, "TP313", "the run ran out of memory", cuda_error));
  } else if (IsTransientError(cuda_error)) {
    evaluation.status = PathStatus::kInconclusive;
    reasons.push_back(
        Make(run, "TP311",
             absl::StrCat("CUDA error ", cuda_error,
                          " is a state of the device, not of the artifact"),
             cuda_error));
  }
  if (evaluation.status == PathStatus::kInconclusive) {
    AppendErrors(run, errors, reasons);
    return evaluation;
  }

  // What the driver said comes before how the program took it.
  if (decisive != nullptr) AppendErrors(run, errors, reasons);
  switch (observation.ending()) {
    case v1::ENDING_TIMED_OUT:
      if (absl::StartsWith(observation.problem(), "hung")) {
        reasons.push_back(Make(run, "TP317", "survived SIGKILL in the driver"));
      } else if (MayStillCompile(run)) {
        evaluation.status = PathStatus::kInconclusive;
        reasons.insert(reasons.begin(),
                       Make(run, "TP310",
                            "still running at the time limit; the driver may "
                            "have been compiling"));
      } else {
        reasons.push_back(
            Make(run, "TP304", "did not end within its time limit"));
      }
      break;
    case v1::ENDING_SIGNALED:
      // Nothing kills itself so: a memory limit or a person did.
      if (observation.signal() == kSigkill) {
        evaluation.status = PathStatus::kInconclusive;
        reasons.insert(
            reasons.begin(),
            Make(run, "TP305",
                 absl::StrCat("was killed from outside (signal 9)",
                              observation.problem().empty() ? "" : ": ",
                              observation.problem())));
      } else {
        reasons.push_back(
            Make(run, "TP305",
                 absl::StrCat("ended by signal ", observation.signal())));
      }
      break;
    default:
      if (observation.exit_code() != run.entry.expected_exit()) {
        reasons.push_back(
            Make(run, "TP302",
                 absl::StrCat("exit code ", observation.exit_code(),
                              ", expected ", run.entry.expected_exit())));
      } else {
        reasons.push_back(Make(run, output.code, output.why));
      }
  }
  AppendErrors(run, errors, reasons);
  return evaluation;
}

// A failed launch or load in the driver log of a run that reports success;
// nothing if there is none.
std::optional<PathEvaluation> CheckLog(const Run& run, bool output_verified) {
  const v1::CapturedOutput& log = run.observation.driver_log();
  std::optional<LogFailure> failure;
  if (!IsCut(log)) {
    // One text: a record may lie across the border of its two parts.
    failure = FindFailure(absl::StrCat(log.head(), log.tail()));
  } else {
    failure = FindFailure(log.head());
    if (!failure || !failure->launch) {
      const std::optional<LogFailure> later = FindFailure(log.tail());
      if (later && (!failure || later->launch)) failure = later;
    }
  }
  // Programs may offer the driver an image, see it refused and go on with
  // another; a result that was checked settles that.
  if (failure && (failure->launch || !output_verified)) {
    std::string detail =
        absl::StrCat("reports success, but the driver log holds CUDA error ",
                     failure->cuda_error);
    if (!failure->call.empty()) {
      absl::StrAppend(&detail, " from ", failure->call);
    }
    if (!failure->kernel.empty()) {
      absl::StrAppend(&detail, " for kernel ", failure->kernel);
    }
    const bool failed =
        failure->launch && !IsTransientError(failure->cuda_error);
    return Evaluation(failed ? PathStatus::kFailed : PathStatus::kInconclusive,
                      Make(run, "TP308", detail, failure->cuda_error));
  }
  if (IsCut(log)) {
    return Evaluation(
        PathStatus::kInconclusive,
        Make(run, "TP418",
             "the driver log was cut; the part that is missing may hold a "
             "failed launch"));
  }
  return std::nullopt;
}

// Value of a variable of the process; nullptr if it was not set.
const std::string* Variable(const v1::Observation& observation,
                            absl::string_view name) {
  for (const v1::EnvironmentVariable& variable : observation.environment()) {
    if (variable.name() == name) return &variable.value();
  }
  return nullptr;
}

bool IsOn(const v1::Observation& observation, absl::string_view name) {
  const std::string* value = Variable(observation, name);
  return value != nullptr && !value->empty() && *value != "0";
}

// What the process's variables lack to prove the path; empty if nothing. The
// native path needs the cache off too: a compilation kept in the cache passes
// with PTX compilation disabled (docs/gpu-runs.md).
std::string EnvironmentFault(const v1::Observation& observation) {
  const bool disabled = IsOn(observation, "CUDA_DISABLE_PTX_JIT");
  const bool forced = IsOn(observation, "CUDA_FORCE_PTX_JIT");
  const bool cache_off = IsOn(observation, "CUDA_CACHE_DISABLE");
  const std::string* folder = Variable(observation, "CUDA_CACHE_PATH");
  const bool other = IsOn(observation, "CUDA_DISABLE_JIT") ||
                     IsOn(observation, "CUDA_FORCE_JIT");
  if (other) return "a switch that belongs to no path was set";
  switch (observation.path()) {
    case v1::PATH_NATIVE:
      if (disabled && !forced && cache_off) return "";
      return "CUDA_DISABLE_PTX_JIT=1 and CUDA_CACHE_DISABLE=1 were not both "
             "set";
    case v1::PATH_PTX_JIT:
      if (disabled || !forced) return "CUDA_FORCE_PTX_JIT=1 was not set";
      if (observation.jit_proof()) {
        if (!cache_off && folder != nullptr && !folder->empty()) return "";
        return "CUDA_CACHE_PATH did not name an empty folder";
      }
      return cache_off ? "" : "CUDA_CACHE_DISABLE=1 was not set";
    case v1::PATH_PLAIN:
      if (disabled || forced || cache_off) {
        return "a switch of another path was set";
      }
      if (folder != nullptr && !folder->empty()) return "";
      return "CUDA_CACHE_PATH did not name an empty folder";
    default:
      return "the path is not stated";
  }
}

// Whatever is missing from the evidence of a run that reports success; nothing
// if it is complete.
std::optional<PathEvaluation> CheckEvidence(const Run& run) {
  const v1::Observation& observation = run.observation;
  const std::string& before = observation.conditions_before().digest().sha256();
  const std::string& after = observation.conditions_after().digest().sha256();
  if (before.empty() || after.empty()) {
    return Evaluation(
        PathStatus::kInconclusive,
        Make(run, "TP418",
             "the host's conditions before and after the run were not "
             "recorded"));
  }
  if (before != after) {
    return Evaluation(PathStatus::kInconclusive,
                      Make(run, "TP315", "conditions changed during the run"));
  }
  const std::string fault = EnvironmentFault(observation);
  if (!fault.empty()) {
    return Evaluation(PathStatus::kInconclusive, Make(run, "TP418", fault));
  }
  const bool needs_cache =
      observation.path() == v1::PATH_PLAIN || observation.jit_proof();
  if (needs_cache && !observation.cache().observed()) {
    return Evaluation(
        PathStatus::kInconclusive,
        Make(run, "TP418", "whether anything was compiled was not observed"));
  }
  return std::nullopt;
}

PathEvaluation Proven(const Run& run) {
  const v1::Observation& observation = run.observation;
  switch (observation.path()) {
    case v1::PATH_NATIVE:
      return Evaluation(PathStatus::kProven,
                        Make(run, "TP300", "ran from machine code"));
    case v1::PATH_PTX_JIT:
      return Evaluation(PathStatus::kProven,
                        Make(run, "TP301", "ran with compilation forced"));
    default:
      break;
  }
  if (!DriverCompiled(observation.cache())) {
    return Evaluation(PathStatus::kProven,
                      Make(run, "TP319", "ran, and nothing was compiled"));
  }
  PathEvaluation evaluation =
      Evaluation(PathStatus::kProven, Make(run, "TP301", "compiled PTX"));
  if (run.prediction != nullptr &&
      run.prediction->outcome() == v1::OUTCOME_NATIVE) {
    evaluation.reasons.insert(
        evaluation.reasons.begin(),
        Make(run, "TP314", "compiled PTX although machine code was predicted"));
  }
  return evaluation;
}

}  // namespace

PathEvaluation Evaluation(PathStatus status, v1::Reason reason) {
  PathEvaluation evaluation;
  evaluation.status = status;
  evaluation.cuda_error = reason.cuda_error();
  evaluation.reasons.push_back(std::move(reason));
  return evaluation;
}

PathEvaluation EvaluateRun(const Run& run, bool simulated) {
  const v1::Observation& observation = run.observation;
  if (simulated || observation.simulated()) {
    return Evaluation(PathStatus::kInconclusive,
                      Make(run, "TP414", "comes from a model"));
  }
  switch (observation.ending()) {
    case v1::ENDING_EXITED:
      break;
    case v1::ENDING_SIGNALED:
    case v1::ENDING_TIMED_OUT:
      return Failed(run, {});
    case v1::ENDING_NOT_STARTED:
      return NotStarted(run);
    case v1::ENDING_INTERRUPTED:
      return Evaluation(PathStatus::kNotRun,
                        Make(run, "TP307", "the run was interrupted"));
    case v1::ENDING_SKIPPED: {
      const absl::string_view code = CodeOfProblem(observation.problem());
      return Evaluation(
          PathStatus::kNotRun,
          Make(run, code.empty() ? "TP316" : code,
               observation.problem().empty()
                   ? "was not run"
                   : absl::StrCat("was not run: ", observation.problem())));
    }
    default:
      return Evaluation(PathStatus::kInconclusive,
                        Make(run, "TP418", "how the run ended is not stated"));
  }

  const OutputJudgement output = JudgeOutput(run.entry, observation);
  if (observation.exit_code() != run.entry.expected_exit() ||
      output.match == OutputMatch::kDiffers) {
    return Failed(run, output);
  }
  if (std::optional<PathEvaluation> fault =
          CheckLog(run, output.match == OutputMatch::kMatches)) {
    return *std::move(fault);
  }
  // A program that says it did without the GPU proves nothing about it.
  const std::vector<v1::Reason> errors = Errors(run);
  if (const v1::Reason* cpu = FindCode(errors, "TP320")) {
    return Evaluation(PathStatus::kInconclusive,
                      Make(run, "TP320", cpu->detail()));
  }
  if (output.match == OutputMatch::kUnknown) {
    return Evaluation(PathStatus::kInconclusive,
                      Make(run, output.code, output.why));
  }
  if (std::optional<PathEvaluation> fault = CheckEvidence(run)) {
    return *std::move(fault);
  }
  return Proven(run);
}

}  // namespace twinpath::verdict
