#include "compat/explain.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "compat/cuda_error.h"
#include "compat/sign.h"
#include "re2/re2.h"

namespace twinpath::compat {
namespace {

re2::StringPiece Piece(absl::string_view text) {
  return re2::StringPiece(text.data(), text.size());
}

Explanation OfReason(const ReasonInfo& reason) {
  Explanation explanation;
  explanation.title = absl::StrCat(reason.code, " ", reason.name);
  explanation.meaning = std::string(reason.text);
  explanation.action = std::string(reason.remedy);
  explanation.reason_code = std::string(reason.code);
  explanation.effect =
      reason.severity == ReasonSeverity::kNote ? "hint" : "cause";
  return explanation;
}

Explanation OfError(const ErrorRow& error) {
  Explanation explanation;
  explanation.title = absl::StrCat(
      "CUDA error ", error.code, " (", error.runtime_name,
      error.runtime_name.empty() || error.driver_name.empty() ? "" : ", ",
      error.driver_name, ")");
  explanation.meaning =
      error.text.empty() ? error.cause
                         : absl::StrCat("\"", error.text, "\": ", error.cause);
  if (error.process_must_restart) {
    absl::StrAppend(&explanation.meaning,
                    " The process cannot go on: it must be started anew.");
  }
  explanation.action = error.action;
  explanation.reason_code = error.reason.empty() ? "TP311" : error.reason;
  explanation.cuda_error = error.code;
  explanation.effect =
      KindOfError(error.code) == ErrorKind::kNone ? "harmless" : "cause";
  return explanation;
}

// No row of the table of errors: it is none.
Explanation OfSuccess() {
  Explanation explanation;
  explanation.title = "CUDA error 0 (cudaSuccess, CUDA_SUCCESS)";
  explanation.meaning = "\"no error\": the call succeeded.";
  explanation.effect = "harmless";
  return explanation;
}

Explanation OfStatus(const StatusRow& status) {
  Explanation explanation;
  explanation.title =
      absl::StrCat(status.name, " (", status.library, " ", status.code, ")");
  explanation.meaning = status.meaning;
  explanation.action = status.action;
  explanation.reason_code = status.reason.empty() ? "TP326" : status.reason;
  explanation.effect = status.kind == "pending"  ? "harmless"
                       : status.kind == "absent" ? "hint"
                       : status.kind == "memory" ? "memory"
                                                 : "cause";
  return explanation;
}

Explanation OfXid(uint32_t number, const XidRow* xid) {
  Explanation explanation;
  explanation.title = absl::StrCat("Xid ", number);
  if (xid == nullptr) {
    explanation.meaning = "An Xid that the tables do not know.";
    explanation.action =
        "Look it up in NVIDIA's Xid catalog: "
        "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html";
    explanation.effect = "hint";
    explanation.known = false;
    return explanation;
  }
  absl::StrAppend(&explanation.title, " (", OriginName(xid->origin), ")");
  explanation.meaning = xid->meaning;
  explanation.action = xid->action;
  switch (xid->origin) {
    case XidOrigin::kHardware:
    case XidOrigin::kFabric:
    case XidOrigin::kDriver:
      explanation.reason_code = "TP322";
      explanation.effect = "cause";
      break;
    case XidOrigin::kApplication:
    case XidOrigin::kEither:
      explanation.reason_code = "TP311";
      explanation.effect = "cause";
      break;
    case XidOrigin::kInformation:
      explanation.effect = "hint";
      break;
  }
  return explanation;
}

Explanation OfMessage(const MessageRow& message, MessageEffect effect) {
  Explanation explanation;
  explanation.title = absl::StrCat("message of ", message.tool);
  explanation.meaning = message.meaning;
  explanation.action = message.action;
  explanation.effect = std::string(EffectName(effect));
  explanation.reason_code = message.reason;
  if (effect == MessageEffect::kHarmless) {
    explanation.meaning = absl::StrCat(
        "Harmless here: the list holds code that runs on this GPU. ",
        message.meaning);
    explanation.reason_code = "";
  } else if (effect != message.effect && effect == MessageEffect::kHint) {
    explanation.meaning =
        "The list holds code of this GPU's major version, and NVIDIA promises "
        "nothing across the border to Tegra parts: it may run.";
    explanation.reason_code = "TP210";
  }
  return explanation;
}

Explanation OfSign(const Sign& sign) {
  switch (sign.kind) {
    case Sign::Kind::kError: {
      if (sign.error != nullptr) return OfError(*sign.error);
      Explanation explanation;
      explanation.title = absl::StrCat("CUDA error ", sign.code);
      explanation.meaning = "An error that the tables do not know.";
      explanation.action = "Look it up in cuda.h of a newer toolkit.";
      explanation.cuda_error = sign.code;
      explanation.reason_code = "TP311";
      explanation.effect = "cause";
      return explanation;
    }
    case Sign::Kind::kStatus:
      return OfStatus(*sign.status);
    case Sign::Kind::kMessage:
      return OfMessage(*sign.message, sign.effect);
    case Sign::Kind::kXid:
    case Sign::Kind::kUnknownXid:
      return OfXid(sign.code, sign.xid);
    case Sign::Kind::kReason:
      return OfReason(*sign.reason);
  }
  return {};
}

// The order in which an engineer looks: smaller goes first.
int RankOf(const Sign& sign) {
  enum {
    kLoader,
    kDevice,
    kImage,
    kMemory,
    kExecution,
    kCause,
    kStatus,
    kGate,
    kCpu,
    kOtherError,
    kHint,
    kHarmless,
  };
  switch (sign.kind) {
    case Sign::Kind::kXid:
      switch (sign.xid->origin) {
        case XidOrigin::kHardware:
        case XidOrigin::kFabric:
        case XidOrigin::kDriver:
          return kDevice;
        case XidOrigin::kApplication:
        case XidOrigin::kEither:
          return kExecution;
        case XidOrigin::kInformation:
          return kHint;
      }
      return kHint;
    case Sign::Kind::kUnknownXid:
      return kHint;
    case Sign::Kind::kReason:
      return sign.reason->severity == ReasonSeverity::kNote ? kHint : kCause;
    case Sign::Kind::kStatus:
      return sign.status->kind == "memory"   ? kMemory
             : sign.status->kind == "absent" ? kHint
                                             : kStatus;
    case Sign::Kind::kError:
      if (IsDecisiveError(sign.code)) return kImage;
      switch (KindOfError(sign.code)) {
        case ErrorKind::kExecution:
          return kExecution;
        case ErrorKind::kState:
          return sign.code == 2 ? kMemory : kDevice;
        case ErrorKind::kNone:
          return kHarmless;
        default:
          return kOtherError;
      }
    case Sign::Kind::kMessage:
      switch (sign.effect) {
        case MessageEffect::kLoader:
          return kLoader;
        case MessageEffect::kMemory:
          return kMemory;
        case MessageEffect::kCause:
        case MessageEffect::kCompiler:
          return sign.message->reason == "TP322" ? kDevice : kCause;
        case MessageEffect::kGate:
          return kGate;
        case MessageEffect::kCpu:
          return kCpu;
        case MessageEffect::kGpu:
        case MessageEffect::kHint:
          return kHint;
        case MessageEffect::kHarmless:
          return kHarmless;
      }
  }
  return kHint;
}

// A whole input that is a code or a number. Returns whether it was one.
bool ExplainCode(absl::string_view input, const Tables* tables,
                 std::vector<Explanation>& found) {
  if (const ReasonInfo* reason = FindReason(input)) {
    found.push_back(OfReason(*reason));
    return true;
  }
  if (tables == nullptr) return false;
  static const auto& number =
      *new RE2(R"((?i)(?:cuda\s*)?(?:error\s*)?(?:code\s*)?#?(\d{1,4}))");
  static const auto& xid = *new RE2(R"((?i)s?xid\s*:?\s*(\d{1,4}))");
  static const auto& status = *new RE2(
      R"((?i)(cublas|cufft|cusparse|cusolver|cudnn|nccl|nvrtc|nvjitlink|nvml))"
      R"((?:lt)?\s*(?:error|status|return|result|code)?\s*:?#?(\d{1,4}))");
  uint32_t value = 0;
  std::string library;
  if (RE2::FullMatch(Piece(input), xid, &value)) {
    found.push_back(OfXid(value, tables->FindXid(value)));
    return true;
  }
  if (RE2::FullMatch(Piece(input), status, &library, &value)) {
    const StatusRow* row =
        tables->FindStatus(absl::AsciiStrToLower(library), value);
    if (row != nullptr) found.push_back(OfStatus(*row));
    return !found.empty();
  }
  if (RE2::FullMatch(Piece(input), number, &value)) {
    if (value == 0) {
      found.push_back(OfSuccess());
    } else if (const ErrorRow* row = tables->FindError(value)) {
      found.push_back(OfError(*row));
    }
    return !found.empty();
  }
  if (const ErrorRow* row = tables->FindErrorByName(input)) {
    found.push_back(OfError(*row));
    return true;
  }
  if (const StatusRow* row = tables->FindStatusByName(input)) {
    found.push_back(OfStatus(*row));
    return true;
  }
  bool any = false;
  for (const ErrorRow& row : tables->errors()) {
    if (!row.text.empty() && absl::EqualsIgnoreCase(row.text, input)) {
      found.push_back(OfError(row));
      any = true;
    }
  }
  return any;
}

// People quote the part of an error text that they remember.
void ExplainPartOfText(absl::string_view input, const Tables& tables,
                       std::vector<Explanation>& found) {
  constexpr size_t kShortest = 12;
  constexpr size_t kLongest = 400;
  if (input.size() < kShortest || input.size() > kLongest) return;
  const std::string part = absl::AsciiStrToLower(input);
  for (const ErrorRow& row : tables.errors()) {
    if (absl::StrContains(absl::AsciiStrToLower(row.text), part)) {
      found.push_back(OfError(row));
    }
  }
  for (const MessageRow& row : tables.messages()) {
    if (absl::StrContains(absl::AsciiStrToLower(row.text), part)) {
      found.push_back(OfMessage(row, row.effect));
    }
  }
}

std::vector<Explanation> ExplainWith(absl::string_view input,
                                     const Tables* tables) {
  std::vector<Explanation> found;
  const absl::string_view trimmed = absl::StripAsciiWhitespace(input);
  if (ExplainCode(trimmed, tables, found)) {
    for (Explanation& one : found) one.effect = "code";
    return found;
  }
  if (tables == nullptr) return found;
  LogExplainer log(*tables);
  log.Feed(trimmed);
  found = log.Finish();
  if (found.empty()) ExplainPartOfText(trimmed, *tables, found);
  return found;
}

constexpr absl::string_view kHandMarker =
    "<!-- Generated up to here; text below is written by hand. -->";

std::string Capital(absl::string_view text) {
  std::string result(text);
  if (!result.empty())
    result[0] = absl::ascii_toupper(static_cast<unsigned char>(result[0]));
  return result;
}

}  // namespace

// Lines are put together from pieces; what a line says is kept once, with a
// count.
class LogExplainer::Impl {
 public:
  explicit Impl(const Tables& tables) : tables_(tables), reader_(tables) {}

  void Feed(absl::string_view piece) {
    while (!piece.empty()) {
      // Progress bars end their lines with a carriage return.
      const size_t end = piece.find_first_of("\n\r");
      if (end == absl::string_view::npos) {
        Keep(piece);
        return;
      }
      if (rest_.empty()) {
        Line(piece.substr(0, end));
      } else {
        Keep(piece.substr(0, end));
        Line(rest_);
        rest_.clear();
      }
      piece.remove_prefix(end + 1);
    }
  }

  std::vector<Explanation> Finish() {
    if (!rest_.empty()) Line(rest_);
    rest_.clear();
    reader_.Finish(&signs_);
    Take();
    std::vector<const Found*> order;
    for (const auto& [key, one] : found_) order.push_back(&one);
    std::stable_sort(order.begin(), order.end(),
                     [](const Found* a, const Found* b) {
                       if (a->rank != b->rank) return a->rank < b->rank;
                       return a->first_line < b->first_line;
                     });
    std::vector<Explanation> result;
    for (const Found* one : order) {
      if (result.size() == kMaxExplanations) break;
      Explanation explanation = OfSign(one->sign);
      explanation.found_in = Printable(one->sign.line);
      if (!one->sign.kernel.empty() &&
          !absl::StrContains(explanation.found_in, one->sign.kernel)) {
        absl::StrAppend(&explanation.found_in, " (kernel ", one->sign.kernel,
                        ")");
      }
      if (const KernelOwnerRow* owner =
              tables_.OwnerOfKernel(one->sign.kernel)) {
        absl::StrAppend(&explanation.meaning, " The kernel is of ",
                        owner->owner,
                        owner->vendor ? ", not of your own files." : ".");
      }
      explanation.first_line = one->first_line;
      explanation.count = one->count;
      result.push_back(std::move(explanation));
    }
    return result;
  }

  uint64_t lines() const { return lines_; }

 private:
  struct Found {
    Sign sign;
    int rank = 0;
    uint64_t first_line = 0;
    uint64_t count = 0;
  };

  // A line without end (JSON of a job in one line) is read in parts that end at
  // a space where there is one.
  void Keep(absl::string_view piece) {
    constexpr size_t kPart = 60 << 10;
    while (rest_.size() + piece.size() > kPart) {
      const size_t take = kPart - std::min(rest_.size(), kPart);
      rest_.append(piece.data(), take);
      piece.remove_prefix(take);
      const size_t space = rest_.find_last_of(" ,;\t");
      const size_t cut = space == std::string::npos || space < kPart / 2
                             ? rest_.size()
                             : space + 1;
      Line(absl::string_view(rest_).substr(0, cut));
      rest_.erase(0, cut);
    }
    rest_.append(piece.data(), piece.size());
  }

  void Line(absl::string_view line) {
    ++lines_;
    reader_.ReadLine(line, &signs_);
    if (!signs_.empty()) Take();
  }

  void Take() {
    for (Sign& sign : signs_) {
      const std::string key = absl::StrCat(
          static_cast<int>(sign.kind), "|", static_cast<int>(sign.effect), "|",
          sign.code, "|", sign.message == nullptr ? "" : sign.message->text,
          "|", sign.status == nullptr ? "" : sign.status->name, "|",
          sign.reason == nullptr ? "" : sign.reason->code);
      constexpr size_t kMaxFound = 1000;
      if (found_.size() >= kMaxFound && found_.count(key) == 0) continue;
      const auto [it, added] = found_.try_emplace(key);
      Found& one = it->second;
      ++one.count;
      if (added) {
        one.rank = RankOf(sign);
        one.first_line = sign.line_number;
        one.sign = std::move(sign);
      } else if (one.sign.kernel.empty() && !sign.kernel.empty()) {
        one.sign.kernel = std::move(sign.kernel);
      }
    }
    signs_.clear();
  }

  const Tables& tables_;
  SignReader reader_;
  std::vector<Sign> signs_;
  std::string rest_;
  std::map<std::string, Found> found_;
  uint64_t lines_ = 0;
};

LogExplainer::LogExplainer(const Tables& tables)
    : impl_(std::make_unique<Impl>(tables)) {}
LogExplainer::~LogExplainer() = default;
void LogExplainer::Feed(absl::string_view piece) { impl_->Feed(piece); }
std::vector<Explanation> LogExplainer::Finish() { return impl_->Finish(); }
uint64_t LogExplainer::lines() const { return impl_->lines(); }

std::vector<Explanation> Explain(absl::string_view input,
                                 const Tables& tables) {
  return ExplainWith(input, &tables);
}

std::vector<Explanation> Explain(absl::string_view input) {
  const absl::StatusOr<const Tables*> tables = Tables::Default();
  return ExplainWith(input, tables.ok() ? *tables : nullptr);
}

std::string ReasonPage(const ReasonInfo& reason) {
  return absl::StrCat(
      "# ", reason.code, " ", reason.name, "\n\n", "| | |\n|---|---|\n",
      "| group | ", GroupName(reason.group), " |\n", "| severity | ",
      SeverityName(reason.severity), " |\n\n", "**What it means.** ",
      Capital(reason.text), "\n\n**What to do.** ", Capital(reason.remedy),
      "\n\nOn the command line: `twinpath explain ", reason.code, "`.\n\n",
      kHandMarker, "\n");
}

std::string ReasonIndexPage() {
  std::string page =
      "# Reason codes\n\nEvery finding, prediction and verdict carries one of "
      "these codes. They are stable: a code is never reused and never changes "
      "its meaning. The table in base/reason.cc is the source; a test keeps "
      "these pages equal to it (`TWINPATH_UPDATE_PAGES=1` rewrites them).\n";
  for (const ReasonGroup group :
       {ReasonGroup::kHost, ReasonGroup::kArtifact, ReasonGroup::kPrediction,
        ReasonGroup::kRun, ReasonGroup::kFleet, ReasonGroup::kEvidence}) {
    absl::StrAppend(&page, "\n## ", Capital(GroupName(group)),
                    "\n\n| code | name | severity | meaning |\n"
                    "|---|---|---|---|\n");
    for (const ReasonInfo& reason : AllReasons()) {
      if (reason.group != group) continue;
      absl::StrAppend(&page, "| [", reason.code, "](", reason.code, ".md) | ",
                      reason.name, " | ", SeverityName(reason.severity), " | ",
                      reason.text, " |\n");
    }
  }
  return page;
}

}  // namespace twinpath::compat
