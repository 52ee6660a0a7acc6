#include "compat/diagnose.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"
#include "compat/cuda_error.h"
#include "compat/kernel_owner.h"
#include "compat/reason.h"
#include "compat/sign.h"
#include "compat/signal_words.h"

namespace twinpath::compat {
namespace {

constexpr size_t kMaxErrors = 1000;
constexpr size_t kMaxLineShown = 300;

// A launch or load that did not happen.
bool IsFailedLaunch(const CudaErrorSeen& seen) {
  return IsDecisiveError(seen.code) || IsLaunchCall(seen.call) ||
         absl::StartsWith(seen.call, "cuLibraryGetKernel") ||
         absl::StartsWith(seen.call, "cuModuleLoad");
}

bool IsImage(uint32_t code) { return KindOfError(code) == ErrorKind::kImage; }

// Head and tail are one text unless bytes between them are missing.
std::string Joined(const v1::CapturedOutput& output) {
  const bool cut =
      output.total_bytes() > output.head().size() + output.tail().size();
  return absl::StrCat(output.head(), cut ? "\n" : "", output.tail());
}

std::string Shown(absl::string_view line) {
  return Printable(line.substr(0, kMaxLineShown));
}

// A switch of the run's environment, set and not 0.
bool IsSwitchSet(const v1::Observation& observation,
                 std::initializer_list<absl::string_view> names) {
  for (const v1::EnvironmentVariable& variable : observation.environment()) {
    for (const absl::string_view name : names) {
      if (variable.name() == name && !variable.value().empty() &&
          variable.value() != "0") {
        return true;
      }
    }
  }
  return false;
}

class Diagnosis {
 public:
  Diagnosis(const v1::Observation& observation, const Tables* tables,
            const DiagnosisContext& context)
      : observation_(observation),
        tables_(tables),
        context_(context),
        owners_(context.report, tables) {}

  std::vector<v1::Reason> Run() {
    switch (observation_.ending()) {
      case v1::ENDING_SKIPPED:
        Add("TP316", Problem());
        return std::move(reasons_);
      case v1::ENDING_INTERRUPTED:
        Add("TP307", Problem());
        return std::move(reasons_);
      case v1::ENDING_NOT_STARTED:
        Add("TP306", Problem());
        return std::move(reasons_);
      default:
        break;
    }
    errors_ = ErrorsInDriverLog(Joined(observation_.driver_log()));
    ReadOutput();
    if (observation_.ending() == v1::ENDING_EXITED &&
        observation_.exit_code() == 0) {
      FalseSuccess();
      return std::move(reasons_);
    }
    AddOutputErrors();
    const CudaErrorSeen* decisive = DecisiveError();
    if (Loader(decisive)) {
      Ended();
      return std::move(reasons_);
    }
    DeviceFault(decisive);
    Memory(decisive);
    if (decisive != nullptr) CudaError(*decisive);
    Compiler(decisive);
    Causes(decisive);
    Status(decisive);
    Gate(decisive);
    Cpu();
    Ended();
    return std::move(reasons_);
  }

 private:
  void Add(absl::string_view code, absl::string_view detail,
           absl::string_view fix = "", uint32_t cuda_error = 0) {
    reasons_.push_back(MakeReason(code, detail, fix, cuda_error));
  }

  bool HasCode(absl::string_view code) const {
    for (const v1::Reason& reason : reasons_) {
      if (reason.code() == code) return true;
    }
    return false;
  }

  std::string Problem() const { return Printable(observation_.problem()); }

  void ReadOutput() {
    if (tables_ == nullptr) return;
    signs_ = SignsOf(Joined(observation_.stderr()), *tables_);
    std::vector<Sign> more = SignsOf(Joined(observation_.stdout()), *tables_);
    std::move(more.begin(), more.end(), std::back_inserter(signs_));
  }

  // The first message with one of the effects; nullptr if there is none.
  const Sign* FirstMessage(MessageEffect effect) const {
    for (const Sign& sign : signs_) {
      if (sign.kind == Sign::Kind::kMessage && sign.effect == effect) {
        return &sign;
      }
    }
    return nullptr;
  }

  // Whether the same program says that its GPU is in use.
  bool SaysGpuIsUsed(absl::string_view tool) const {
    return std::any_of(signs_.begin(), signs_.end(), [tool](const Sign& sign) {
      return sign.kind == Sign::Kind::kMessage &&
             sign.effect == MessageEffect::kGpu && sign.message->tool == tool;
    });
  }

  // Where the driver log has no error, the output's count.
  void AddOutputErrors() {
    for (const Sign& sign : signs_) {
      uint32_t code = 0;
      if (sign.kind == Sign::Kind::kError) {
        code = sign.code;
      } else if (sign.kind == Sign::Kind::kMessage &&
                 sign.effect == MessageEffect::kCause) {
        code = sign.message->error;
      }
      if (code == 0) continue;
      said_.insert(code);
      CudaErrorSeen seen;
      seen.code = code;
      seen.call = sign.call;
      seen.kernel = sign.kernel;
      output_errors_.push_back(std::move(seen));
    }
    if (errors_.empty()) errors_ = output_errors_;
  }

  // The log's decisive error; among several kinds in the log, the one that the
  // program names as well.
  const CudaErrorSeen* DecisiveError() const {
    for (auto it = errors_.rbegin(); it != errors_.rend(); ++it) {
      if (IsDecisiveError(it->code) && said_.count(it->code) > 0) return &*it;
    }
    return compat::DecisiveError(errors_);
  }

  std::string Describe(const CudaErrorSeen& seen) const {
    std::string text = absl::StrCat("CUDA error ", seen.code);
    const ErrorRow* row =
        tables_ == nullptr ? nullptr : tables_->FindError(seen.code);
    if (row != nullptr && !row->text.empty()) {
      absl::StrAppend(&text, " (", row->text, ")");
    } else if (!seen.name.empty()) {
      absl::StrAppend(&text, " (", seen.name, ")");
    }
    if (!seen.call.empty()) absl::StrAppend(&text, " from ", seen.call);
    if (!seen.kernel.empty()) {
      absl::StrAppend(&text, ", kernel ", seen.kernel);
      const std::string owner = owners_.Describe(seen.kernel);
      if (!owner.empty()) absl::StrAppend(&text, " (", owner, ")");
    }
    return text;
  }

  // "--match '^name$'" for a command to paste; empty where the name, which a
  // program wrote, has more than a symbol's characters.
  static std::string MatchOption(absl::string_view kernel) {
    const bool symbol =
        !kernel.empty() &&
        std::all_of(kernel.begin(), kernel.end(), [](char c) {
          return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                 c == '_' || c == '$' || c == '.';
        });
    if (!symbol) return "";
    return absl::StrCat(
        "--match '^", absl::StrReplaceAll(kernel, {{"$", "\\$"}, {".", "\\."}}),
        "$'");
  }

  // What to look at first, in the order an engineer would: for a failed native
  // run the targets and the final link, for a failed PTX run the PTX and the
  // driver's ceiling, else the error itself.
  std::string NextCheck(const CudaErrorSeen& seen) const {
    const uint32_t code = seen.code;
    const bool no_image = code == 209 || code == 98 || code == 300;
    const std::string predicted = FromPrediction(seen);
    if (!predicted.empty()) return predicted;
    const std::string match = MatchOption(seen.kernel);
    const std::string which = absl::StrCat("twinpath inspect ", match,
                                           match.empty() ? "" : " ", "FILE");
    if (observation_.path() == v1::PATH_NATIVE && (no_image || code == 223)) {
      return absl::StrCat(
          "look at the native targets of the final file first: ", which,
          ", then the gencode flags and the device link");
    }
    if (observation_.path() == v1::PATH_PTX_JIT && no_image) {
      return absl::StrCat(
          "look for PTX in the final file and in the library that owns the "
          "kernel: ",
          which);
    }
    if (observation_.path() == v1::PATH_PTX_JIT && code == 222) {
      return absl::StrCat(
          "compare the PTX's ISA with the driver's ceiling: ", which,
          " and twinpath doctor; then write the PTX with an older toolkit or "
          "raise the driver");
    }
    if (observation_.path() == v1::PATH_PLAIN && no_image) {
      if (IsSwitchSet(observation_, {"CUDA_FORCE_PTX_JIT", "CUDA_FORCE_JIT"})) {
        return "CUDA_FORCE_PTX_JIT is set in the run's environment: unset it";
      }
      return absl::StrCat("compare the file's targets with the GPU: ", which);
    }
    const ErrorRow* row =
        tables_ == nullptr ? nullptr : tables_->FindError(code);
    return row == nullptr ? "" : row->action;
  }

  // What the prediction for the path makes of the error.
  std::string FromPrediction(const CudaErrorSeen& seen) const {
    if (context_.prediction == nullptr || !IsImage(seen.code)) return "";
    const v1::PathPrediction& prediction = *context_.prediction;
    switch (prediction.outcome()) {
      case v1::OUTCOME_FAILS:
        for (const v1::Reason& reason : prediction.reasons()) {
          if (reason.cuda_error() == 0 ||
              !IsSameError(reason.cuda_error(), seen.code)) {
            continue;
          }
          return absl::StrCat("as predicted (", reason.code(),
                              "): ", FixOf(reason));
        }
        return "";
      case v1::OUTCOME_NATIVE:
      case v1::OUTCOME_JIT: {
        const absl::string_view word =
            prediction.outcome() == v1::OUTCOME_NATIVE ? "machine code"
                                                       : "usable PTX";
        const std::string match = MatchOption(seen.kernel);
        if (owners_.IsVendors(seen.kernel)) {
          return absl::StrCat(
              "the artifact's own files have ", word,
              " for this GPU; the kernel is another library's: look at that "
              "library and its version, not at the build");
        }
        return absl::StrCat(
            word,
            " for this GPU was predicted, so another image than those counted "
            "was asked for: ",
            seen.kernel.empty()
                ? "run again with CUDA_LOG_FILE to learn the kernel"
            : match.empty()
                ? "find who owns the kernel: twinpath inspect --kernels FILES"
                : absl::StrCat("find who owns the kernel: twinpath inspect ",
                               match, " FILES"),
            "; then code made at run time, JIT switches in the environment, "
            "and a library found outside the artifact");
      }
      default:
        return "";
    }
  }

  // A driver log with a failed launch beside exit code 0, or a program that
  // says that it did without the GPU.
  void FalseSuccess() {
    for (auto it = errors_.rbegin(); it != errors_.rend(); ++it) {
      if (!IsFailedLaunch(*it)) continue;
      Add("TP308",
          absl::StrCat("exit code 0, but the driver log holds ", Describe(*it)),
          "check every CUDA call and launch: cudaGetLastError right behind it",
          it->code);
      break;
    }
    Cpu();
  }

  void Cpu() {
    const Sign* sign = FirstMessage(MessageEffect::kCpu);
    if (sign == nullptr || SaysGpuIsUsed(sign->message->tool)) return;
    Add("TP320", Shown(sign->line), sign->message->action);
  }

  // Whether the program could not be loaded: then nothing else is looked at.
  bool Loader(const CudaErrorSeen* decisive) {
    const int code = observation_.exit_code();
    const bool exited = observation_.ending() == v1::ENDING_EXITED;
    const Sign* sign = FirstMessage(MessageEffect::kLoader);
    // 126 and 127 come from the loader or the shell before the program runs.
    const bool before = exited && (code == 126 || code == 127);
    if (sign != nullptr && (before || decisive == nullptr)) {
      Add("TP312", Shown(sign->line), sign->message->action);
      if (!sign->message->reason.empty() && sign->message->reason != "TP312") {
        Add(sign->message->reason, sign->message->meaning);
      }
      return true;
    }
    if (before && errors_.empty()) {
      Add("TP312",
          code == 127 ? "exit code 127: a program or library was not found"
                      : "exit code 126: the program could not be executed",
          code == 127 ? "look at the program's path and its libraries: "
                        "twinpath predict names those that are not found"
                      : "look at the file's mode, its CPU architecture "
                        "(twinpath inspect) and noexec of its file system");
      return true;
    }
    return false;
  }

  // An Xid or a device error: whatever failed, failed on a faulty device.
  void DeviceFault(const CudaErrorSeen* decisive) {
    for (const Sign& sign : signs_) {
      if (sign.kind != Sign::Kind::kXid) continue;
      if (sign.xid->origin != XidOrigin::kHardware &&
          sign.xid->origin != XidOrigin::kFabric &&
          sign.xid->origin != XidOrigin::kDriver) {
        continue;
      }
      Add("TP322", absl::StrCat("Xid ", sign.code, ": ", sign.xid->meaning),
          sign.xid->action);
      return;
    }
    if (decisive != nullptr &&
        (decisive->code == 214 || decisive->code == 220)) {
      Add("TP322", Describe(*decisive), NextCheck(*decisive), decisive->code);
    }
  }

  // Memory that ran out, also where it looks like an error of code: a load that
  // fails beside signs of it says nothing about the architecture
  // (marin-community/marin#7421). Not where nothing was predicted to load.
  void Memory(const CudaErrorSeen* decisive) {
    if (decisive != nullptr && decisive->code == 2) {
      Add("TP313", Describe(*decisive), NextCheck(*decisive), 2);
      return;
    }
    const Sign* sign = MemorySign();
    if (sign == nullptr || decisive == nullptr) return;
    const bool load = decisive->code == 200 || decisive->code == 300 ||
                      decisive->code == 1 || decisive->code == 999;
    const bool predicted_to_load =
        context_.prediction != nullptr &&
        (context_.prediction->outcome() == v1::OUTCOME_NATIVE ||
         context_.prediction->outcome() == v1::OUTCOME_JIT);
    if (!load && !(IsImage(decisive->code) && predicted_to_load)) return;
    Add("TP313",
        absl::StrCat("a load failed beside signs of exhausted memory (",
                     Shown(sign->line), "): do not blame the architecture"),
        "run again with more free device memory; the error goes away if it "
        "was that");
  }

  const Sign* MemorySign() const {
    for (const Sign& sign : signs_) {
      if (sign.kind == Sign::Kind::kMessage &&
          sign.effect == MessageEffect::kMemory) {
        return &sign;
      }
      if (sign.kind == Sign::Kind::kError && sign.code == 2) return &sign;
      if (sign.kind == Sign::Kind::kStatus && sign.status->kind == "memory") {
        return &sign;
      }
    }
    return nullptr;
  }

  void CudaError(const CudaErrorSeen& seen) {
    if (HasError(seen.code)) return;
    Add("TP311", Describe(seen), NextCheck(seen), seen.code);
    if (observation_.path() == v1::PATH_PTX_JIT && IsImage(seen.code) &&
        owners_.IsVendors(seen.kernel)) {
      Add("TP222",
          absl::StrCat("the failing kernel is ", owners_.Describe(seen.kernel),
                       ", which carries no PTX for this GPU; the artifact is "
                       "not at fault"),
          "judge the artifact's own PTX by image loading");
    }
  }

  bool HasError(uint32_t code) const {
    for (const v1::Reason& reason : reasons_) {
      if (reason.cuda_error() == code) return true;
    }
    return false;
  }

  void Compiler(const CudaErrorSeen* decisive) {
    const Sign* sign = FirstMessage(MessageEffect::kCompiler);
    if (sign == nullptr) return;
    const std::string& reason = sign->message->reason;
    // A driver's own compiler: its error says the same.
    if (decisive != nullptr && decisive->code == sign->message->error) return;
    Add("TP324", Shown(sign->line), sign->message->action);
    if (!reason.empty() && reason != "TP324") {
      Add(reason, sign->message->meaning);
    }
  }

  // Messages that say why, where no CUDA error does.
  void Causes(const CudaErrorSeen* decisive) {
    if (decisive != nullptr) return;
    const Sign* sign = FirstMessage(MessageEffect::kCause);
    if (sign == nullptr) return;
    const std::string& reason = sign->message->reason;
    Add(reason.empty() ? "TP302" : reason, Shown(sign->line),
        sign->message->action);
  }

  void Status(const CudaErrorSeen* decisive) {
    const Sign* found = nullptr;
    for (const Sign& sign : signs_) {
      if (sign.kind == Sign::Kind::kStatus && found == nullptr) found = &sign;
    }
    if (found == nullptr) return;
    const StatusRow& status = *found->status;
    if (status.kind == "memory") {
      if (!HasCode("TP313")) Add("TP313", Shown(found->line), status.action);
      return;
    }
    Add("TP326",
        absl::StrCat(status.name, " (", status.library, " status ", status.code,
                     "): ", status.meaning),
        status.action);
    const bool forced =
        observation_.path() == v1::PATH_PTX_JIT ||
        IsSwitchSet(observation_, {"CUDA_FORCE_PTX_JIT", "CUDA_FORCE_JIT"});
    if (status.kind == "internal" && forced && decisive == nullptr) {
      Add("TP222",
          absl::StrCat(status.library,
                       " failed under forced JIT; the artifact is not at "
                       "fault unless its own kernels fail as well"),
          "judge the artifact's own PTX by image loading");
    }
  }

  void Gate(const CudaErrorSeen* decisive) {
    const Sign* sign = FirstMessage(MessageEffect::kGate);
    if (sign == nullptr || decisive != nullptr) return;
    Add("TP321", Shown(sign->line), sign->message->action);
  }

  void Ended() {
    switch (observation_.ending()) {
      case v1::ENDING_TIMED_OUT:
        if (absl::StartsWith(observation_.problem(), "hung")) {
          Add("TP317", Problem());
        } else if (observation_.path() == v1::PATH_PTX_JIT) {
          Add("TP310", Problem());
        } else {
          Add("TP304", Problem());
        }
        return;
      case v1::ENDING_SIGNALED: {
        const int signal = observation_.signal();
        const Sign* memory = MemorySign();
        if (memory != nullptr && !HasCode("TP313")) {
          Add("TP313", Shown(memory->line));
        }
        if (signal == 4 && reasons_.empty()) {
          Add("TP323",
              "SIGILL (4): the CPU met an instruction it does not "
              "have");
        }
        const absl::string_view meaning = SignalMeaning(signal);
        Add("TP305",
            absl::StrCat(SignalName(signal), " (", signal, ")",
                         meaning.empty() ? "" : ": ", meaning),
            SignalFix(signal));
        return;
      }
      default:
        break;
    }
    const int code = observation_.exit_code();
    const Sign* memory = MemorySign();
    if (reasons_.empty() && memory != nullptr) {
      Add("TP313", Shown(memory->line));
    }
    // A shell's way of saying that a signal ended a program.
    const bool by_signal = code > 128 && code <= 128 + 64;
    const absl::string_view meaning = SignalMeaning(code - 128);
    if (by_signal && code == 132 && reasons_.empty()) {
      Add("TP323",
          "exit code 132 is SIGILL (4) of a program that a shell "
          "started");
    }
    Add("TP302",
        by_signal ? absl::StrCat("exit code ", code, ": ",
                                 SignalName(code - 128), " (", code - 128,
                                 ") of a program that a shell started",
                                 meaning.empty() ? "" : ": ", meaning)
                  : absl::StrCat("exit code ", code),
        by_signal ? SignalFix(code - 128) : absl::string_view());
  }

  const v1::Observation& observation_;
  const Tables* tables_;
  const DiagnosisContext context_;
  const KernelOwners owners_;
  // Of the driver log, or else of the output.
  std::vector<CudaErrorSeen> errors_;
  std::vector<CudaErrorSeen> output_errors_;
  // Numbers of the output.
  std::set<uint32_t> said_;
  std::vector<Sign> signs_;
  std::vector<v1::Reason> reasons_;
};

}  // namespace

std::vector<CudaErrorSeen> ErrorsInOutput(absl::string_view output,
                                          const Tables& tables) {
  std::vector<CudaErrorSeen> errors;
  for (const Sign& sign : SignsOf(output, tables)) {
    if (sign.kind != Sign::Kind::kError) continue;
    CudaErrorSeen seen;
    seen.code = sign.code;
    if (sign.error != nullptr) {
      seen.name = sign.error->runtime_name.empty() ? sign.error->driver_name
                                                   : sign.error->runtime_name;
    }
    seen.call = sign.call;
    seen.kernel = sign.kernel;
    errors.push_back(std::move(seen));
    if (errors.size() > kMaxErrors) errors.erase(errors.begin());
  }
  return errors;
}

std::vector<v1::Reason> Diagnose(const v1::Observation& observation,
                                 const Tables& tables,
                                 const DiagnosisContext& context) {
  return Diagnosis(observation, &tables, context).Run();
}

std::vector<v1::Reason> Diagnose(const v1::Observation& observation,
                                 const DiagnosisContext& context) {
  const absl::StatusOr<const Tables*> tables = Tables::Default();
  return Diagnosis(observation, tables.ok() ? *tables : nullptr, context).Run();
}

}  // namespace twinpath::compat
