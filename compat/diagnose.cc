#include "compat/diagnose.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "compat/reason.h"
#include "re2/re2.h"

namespace twinpath::compat {
namespace {

// Longest line looked at; logs are foreign.
constexpr size_t kMaxLine = 4096;
constexpr size_t kMaxErrors = 1000;

re2::StringPiece Piece(absl::string_view text) {
  return re2::StringPiece(text.data(), text.size());
}

// Calls whose failure is how programs ask whether something exists.
bool IsLookup(absl::string_view call) {
  return absl::StartsWith(call, "cuGetProcAddress") ||
         absl::StartsWith(call, "cuGetExportTable") ||
         absl::StartsWith(call, "cuPointerGetAttribute");
}

// 201 stands in the log of every healthy PyTorch start; 600 is "not finished".
bool IsHarmless(const CudaErrorSeen& seen) {
  return seen.code == 0 || seen.code == 201 || seen.code == 600 ||
         (seen.code == 500 && IsLookup(seen.call)) ||
         (seen.code == 1 && IsLookup(seen.call));
}

// Errors that say why device code did not run, or that the device is unusable.
bool IsDecisive(uint32_t code) {
  switch (code) {
    case 34:
    case 35:
    case 36:
    case 98:
    case 100:
    case 200:
    case 209:
    case 218:
    case 221:
    case 222:
    case 223:
    case 225:
    case 300:
    case 802:
    case 803:
    case 804:
      return true;
    default:
      return false;
  }
}

// A launch or load that did not happen.
bool IsFailedLaunch(const CudaErrorSeen& seen) {
  return IsDecisive(seen.code) || absl::StartsWith(seen.call, "cuLaunch") ||
         absl::StartsWith(seen.call, "cuLibraryGetKernel") ||
         absl::StartsWith(seen.call, "cuModuleLoad");
}

// Head and tail are one text unless bytes between them are missing.
std::string Joined(const v1::CapturedOutput& output) {
  const bool cut =
      output.total_bytes() > output.head().size() + output.tail().size();
  return absl::StrCat(output.head(), cut ? "\n" : "", output.tail());
}

// What the dynamic loader or the shell wrote; empty if nothing.
std::string LoaderLine(absl::string_view text) {
  static const auto& pattern = *new RE2(
      "(error while loading shared libraries|cannot open shared object file|"
      "symbol lookup error|undefined symbol|version `[^']*' not found|"
      "cannot execute binary file|Exec format error|"
      "wrong ELF class|command not found)");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view part = line.substr(0, kMaxLine);
    if (RE2::PartialMatch(Piece(part), pattern)) return std::string(part);
  }
  return "";
}

bool MentionsOutOfMemory(absl::string_view text) {
  static const auto& pattern = *new RE2(
      "(?i)(out of memory|cudaErrorMemoryAllocation|"
      "CUDA_ERROR_OUT_OF_MEMORY|std::bad_alloc|Cannot allocate "
      "memory|oom-kill)");
  return RE2::PartialMatch(Piece(text), pattern);
}

std::string SignalName(int signal) {
  switch (signal) {
    case 4:
      return "SIGILL";
    case 6:
      return "SIGABRT";
    case 7:
      return "SIGBUS";
    case 8:
      return "SIGFPE";
    case 9:
      return "SIGKILL";
    case 11:
      return "SIGSEGV";
    case 15:
      return "SIGTERM";
    case 31:
      return "SIGSYS";
    default:
      return "signal";
  }
}

class Diagnosis {
 public:
  Diagnosis(const v1::Observation& observation, const Tables* tables)
      : observation_(observation), tables_(tables) {}

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
    const bool ended_well = observation_.ending() == v1::ENDING_EXITED &&
                            observation_.exit_code() == 0;
    ReadErrors(ended_well);
    const std::string text =
        Joined(observation_.stderr()) + Joined(observation_.stdout());
    if (ended_well) {
      FalseSuccess();
      return std::move(reasons_);
    }
    if (!Loader(text)) CudaError();
    Ended(text);
    return std::move(reasons_);
  }

 private:
  void Add(absl::string_view code, absl::string_view detail,
           absl::string_view fix = "", uint32_t cuda_error = 0) {
    reasons_.push_back(MakeReason(code, detail, fix, cuda_error));
  }

  std::string Problem() const { return Printable(observation_.problem()); }

  void ReadErrors(bool ended_well) {
    errors_ = ErrorsInDriverLog(Joined(observation_.driver_log()));
    if (!errors_.empty() || tables_ == nullptr) return;
    // The output of a run that ended well may quote errors it handled.
    if (ended_well) return;
    errors_ = ErrorsInOutput(Joined(observation_.stderr()), *tables_);
    if (errors_.empty()) {
      errors_ = ErrorsInOutput(Joined(observation_.stdout()), *tables_);
    }
  }

  std::string Describe(const CudaErrorSeen& seen) const {
    std::string text = absl::StrCat("CUDA error ", seen.code);
    const ErrorRow* row =
        tables_ == nullptr ? nullptr : tables_->FindError(seen.code);
    if (row != nullptr) {
      absl::StrAppend(&text, " (", row->text, ")");
    } else if (!seen.name.empty()) {
      absl::StrAppend(&text, " (", seen.name, ")");
    }
    if (!seen.call.empty()) absl::StrAppend(&text, " from ", seen.call);
    if (!seen.kernel.empty()) absl::StrAppend(&text, ", kernel ", seen.kernel);
    return text;
  }

  // What to look at first, in the order an engineer would: for a failed native
  // run the targets and the final link, for a failed PTX run the PTX and the
  // driver's ceiling, else the error itself.
  std::string NextCheck(uint32_t code) const {
    const bool image = code == 209 || code == 98 || code == 300;
    if (observation_.path() == v1::PATH_NATIVE && (image || code == 223)) {
      return "look at the native targets of the final file first: twinpath "
             "inspect, then the gencode flags and the device link";
    }
    if (observation_.path() == v1::PATH_PTX_JIT && image) {
      return "look for PTX in the final file and in the library that owns the "
             "kernel: twinpath inspect";
    }
    const ErrorRow* row =
        tables_ == nullptr ? nullptr : tables_->FindError(code);
    return row == nullptr ? "" : row->action;
  }

  // A driver log with a failed launch beside exit code 0.
  void FalseSuccess() {
    for (auto it = errors_.rbegin(); it != errors_.rend(); ++it) {
      if (!IsFailedLaunch(*it)) continue;
      Add("TP308",
          absl::StrCat("exit code 0, but the driver log holds ", Describe(*it)),
          "check every CUDA call and launch: cudaGetLastError right behind it",
          it->code);
      return;
    }
  }

  bool Loader(absl::string_view text) {
    const std::string line = LoaderLine(text);
    const int code = observation_.exit_code();
    const bool exited = observation_.ending() == v1::ENDING_EXITED;
    // 126 and 127 come from the loader or the shell before the program runs.
    if (!line.empty() && exited && (code == 127 || code == 126 || code == 1)) {
      Add("TP312", Printable(line));
      return code != 1;
    }
    if (exited && (code == 126 || code == 127) && errors_.empty()) {
      Add("TP312", code == 127
                       ? "exit code 127: a program or library was not found"
                       : "exit code 126: the program could not be executed");
      return true;
    }
    return false;
  }

  void CudaError() {
    const CudaErrorSeen* decisive = DecisiveError(errors_);
    if (decisive == nullptr) return;
    if (decisive->code == 2) {
      Add("TP313", Describe(*decisive), NextCheck(2), 2);
      return;
    }
    Add("TP311", Describe(*decisive), NextCheck(decisive->code),
        decisive->code);
  }

  void Ended(absl::string_view text) {
    switch (observation_.ending()) {
      case v1::ENDING_TIMED_OUT:
        if (observation_.path() == v1::PATH_PTX_JIT ||
            observation_.jit_proof()) {
          Add("TP310", Problem());
        } else {
          Add("TP304", Problem());
        }
        return;
      case v1::ENDING_SIGNALED: {
        const int signal = observation_.signal();
        if (MentionsOutOfMemory(text) && !HasCode("TP313")) {
          Add("TP313", "the output speaks of memory");
        }
        Add("TP305", absl::StrCat(SignalName(signal), " (", signal, ")",
                                  signal == 9 ? ": a limit or the host's "
                                                "out-of-memory killer"
                                              : ""));
        return;
      }
      default:
        break;
    }
    if (reasons_.empty() && MentionsOutOfMemory(text)) {
      Add("TP313", "the output speaks of memory");
    }
    Add("TP302", absl::StrCat("exit code ", observation_.exit_code()));
  }

  bool HasCode(absl::string_view code) const {
    for (const v1::Reason& reason : reasons_) {
      if (reason.code() == code) return true;
    }
    return false;
  }

  const v1::Observation& observation_;
  const Tables* tables_;
  std::vector<CudaErrorSeen> errors_;
  std::vector<v1::Reason> reasons_;
};

}  // namespace

std::vector<CudaErrorSeen> ErrorsInDriverLog(absl::string_view log) {
  // Records, not lines: the driver cuts a long record and then writes the next
  // one behind it without a line feed (seen on R580 with a long kernel name).
  static const auto& record =
      *new RE2(R"(Kernel \(([^)\s]+)\) cannot be found|)"
               R"(Returning (\d{1,4}) \(([A-Za-z0-9_]+)\) from (\w+))");
  std::vector<CudaErrorSeen> errors;
  std::string kernel;
  re2::StringPiece rest = Piece(log);
  std::string name;
  std::string code;
  CudaErrorSeen seen;
  while (RE2::FindAndConsume(&rest, record, &name, &code, &seen.name,
                             &seen.call)) {
    if (code.empty()) {
      kernel = Printable(absl::string_view(name).substr(0, kMaxLine));
      continue;
    }
    if (!absl::SimpleAtoi(code, &seen.code) || IsHarmless(seen)) continue;
    seen.kernel = std::exchange(kernel, "");
    errors.push_back(seen);
    // The last ones count.
    if (errors.size() > kMaxErrors) errors.erase(errors.begin());
  }
  return errors;
}

std::vector<CudaErrorSeen> ErrorsInOutput(absl::string_view output,
                                          const Tables& tables) {
  static const auto& named =
      *new RE2(R"(\b(cudaError[A-Z]\w+|CUDA_ERROR_[A-Z0-9_]+)\b)");
  static const auto& numbered = *new RE2(
      R"((?i)\b(?:cuda(?:\s+runtime|\s+driver)?\s+)?error(?:\s+code)?[\s:=(#]+(\d{1,3})\b)");
  std::vector<CudaErrorSeen> errors;
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    line = line.substr(0, kMaxLine);
    const ErrorRow* found = nullptr;
    std::string matched;
    if (RE2::PartialMatch(Piece(line), named, &matched)) {
      found = tables.FindErrorByName(matched);
    }
    // Longest text first: "file not found" must not hide a longer one.
    for (const ErrorRow& row : tables.errors()) {
      if (found != nullptr && found->text.size() >= row.text.size()) continue;
      if (matched.empty() && row.text.size() >= 9 &&
          absl::StrContains(line, row.text)) {
        found = &row;
      }
    }
    uint32_t number = 0;
    if (found == nullptr && RE2::PartialMatch(Piece(line), numbered, &number)) {
      const bool speaks_of_cuda =
          absl::StrContains(absl::AsciiStrToLower(line), "cuda");
      if (speaks_of_cuda) found = tables.FindError(number);
    }
    if (found == nullptr) continue;
    CudaErrorSeen seen;
    seen.code = found->code;
    seen.name = found->runtime_name;
    if (IsHarmless(seen)) continue;
    errors.push_back(std::move(seen));
    if (errors.size() > kMaxErrors) errors.erase(errors.begin());
  }
  return errors;
}

const CudaErrorSeen* DecisiveError(const std::vector<CudaErrorSeen>& errors) {
  for (auto it = errors.rbegin(); it != errors.rend(); ++it) {
    if (IsDecisive(it->code)) return &*it;
  }
  return errors.empty() ? nullptr : &errors.back();
}

std::vector<v1::Reason> Diagnose(const v1::Observation& observation,
                                 const Tables& tables) {
  return Diagnosis(observation, &tables).Run();
}

std::vector<v1::Reason> Diagnose(const v1::Observation& observation) {
  const absl::StatusOr<const Tables*> tables = Tables::Default();
  return Diagnosis(observation, tables.ok() ? *tables : nullptr).Run();
}

}  // namespace twinpath::compat
