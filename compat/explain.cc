#include "compat/explain.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "compat/diagnose.h"
#include "re2/re2.h"

namespace twinpath::compat {
namespace {

constexpr size_t kMaxLine = 4096;
constexpr size_t kMaxAnswers = 20;

re2::StringPiece Piece(absl::string_view text) {
  return re2::StringPiece(text.data(), text.size());
}

Explanation OfReason(const ReasonInfo& reason) {
  Explanation explanation;
  explanation.title = absl::StrCat(reason.code, " ", reason.name);
  explanation.meaning = std::string(reason.text);
  explanation.action = std::string(reason.remedy);
  explanation.reason_code = std::string(reason.code);
  return explanation;
}

// The reason code a CUDA error points to.
absl::string_view ReasonOfError(uint32_t code) {
  switch (code) {
    case 2:
      return "TP313";
    case 34:
      return "TP105";
    case 35:
      return "TP207";
    case 100:
      return "TP106";
    case 200:
      return "TP211";
    case 209:
      return "TP201";
    case 218:
      return "TP218";
    case 221:
      return "TP108";
    case 222:
      return "TP204";
    case 223:
      return "TP205";
    case 803:
      return "TP104";
    default:
      return "TP311";
  }
}

Explanation OfError(const ErrorRow& error) {
  Explanation explanation;
  explanation.title = absl::StrCat(
      "CUDA error ", error.code, " (", error.runtime_name,
      error.driver_name.empty() ? "" : ", ", error.driver_name, ")");
  explanation.meaning = absl::StrCat("\"", error.text, "\": ", error.cause);
  if (error.process_must_restart) {
    absl::StrAppend(&explanation.meaning,
                    " The process cannot go on: it must be started anew.");
  }
  explanation.action = error.action;
  explanation.reason_code = std::string(ReasonOfError(error.code));
  explanation.cuda_error = error.code;
  return explanation;
}

Explanation OfXid(const XidRow& xid) {
  Explanation explanation;
  explanation.title = absl::StrCat("Xid ", xid.xid);
  explanation.meaning = xid.meaning;
  explanation.action =
      "A fault of the device or of the program on it, not of compatibility: "
      "look at the kernel log around it.";
  return explanation;
}

// Whether the line holds the message's fixed parts in order; '*' stands for
// targets and file names, which differ from case to case.
bool MessageMatches(absl::string_view line, const MessageRow& message) {
  size_t from = 0;
  for (const absl::string_view part :
       absl::StrSplit(message.text, '*', absl::SkipEmpty())) {
    const size_t at = line.find(part, from);
    if (at == absl::string_view::npos) return false;
    from = at + part.size();
  }
  return true;
}

Explanation OfMessage(const MessageRow& message) {
  Explanation explanation;
  explanation.title = absl::StrCat("message of ", message.tool);
  explanation.meaning = message.meaning;
  return explanation;
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
  static const auto& xid = *new RE2(R"((?i)xid\s*:?\s*(\d{1,4}))");
  uint32_t value = 0;
  if (RE2::FullMatch(Piece(input), xid, &value)) {
    for (const XidRow& row : tables->xids()) {
      if (row.xid == value) found.push_back(OfXid(row));
    }
    return !found.empty();
  }
  if (RE2::FullMatch(Piece(input), number, &value)) {
    if (const ErrorRow* row = tables->FindError(value)) {
      found.push_back(OfError(*row));
    }
    return !found.empty();
  }
  if (const ErrorRow* row = tables->FindErrorByName(input)) {
    found.push_back(OfError(*row));
    return true;
  }
  bool any = false;
  for (const ErrorRow& row : tables->errors()) {
    if (absl::EqualsIgnoreCase(row.text, input)) {
      found.push_back(OfError(row));
      any = true;
    }
  }
  return any;
}

// Adds what a line of a log shows, once each.
class LogReader {
 public:
  LogReader(const Tables& tables, std::vector<Explanation>& found)
      : tables_(tables), found_(found) {}

  void Read(absl::string_view log) {
    static const auto& xid_line = *new RE2(R"(NVRM: Xid \([^)]*\): (\d{1,4}))");
    static const auto& reason_code = *new RE2(R"(\b(TP\d{3})\b)");
    for (absl::string_view line : absl::StrSplit(log, '\n')) {
      if (found_.size() >= kMaxAnswers) return;
      line = line.substr(0, kMaxLine);
      uint32_t xid = 0;
      std::string code;
      if (RE2::PartialMatch(Piece(line), xid_line, &xid)) {
        for (const XidRow& row : tables_.xids()) {
          if (row.xid == xid) Add(OfXid(row), line);
        }
      }
      if (RE2::PartialMatch(Piece(line), reason_code, &code)) {
        if (const ReasonInfo* reason = FindReason(code)) {
          Add(OfReason(*reason), line);
        }
      }
      std::vector<CudaErrorSeen> errors = ErrorsInDriverLog(line);
      if (errors.empty()) errors = ErrorsInOutput(line, tables_);
      for (const CudaErrorSeen& seen : errors) {
        if (const ErrorRow* row = tables_.FindError(seen.code)) {
          Add(OfError(*row), line);
        }
      }
      for (const MessageRow& message : tables_.messages()) {
        if (MessageMatches(line, message)) Add(OfMessage(message), line);
      }
      if (absl::StrContains(line, "error while loading shared libraries") ||
          absl::StrContains(line, "cannot open shared object file")) {
        Add(OfReason(*FindReason("TP312")), line);
      }
    }
  }

 private:
  void Add(Explanation explanation, absl::string_view line) {
    for (const Explanation& known : found_) {
      if (known.title == explanation.title &&
          known.meaning == explanation.meaning) {
        return;
      }
    }
    explanation.found_in = Printable(line);
    found_.push_back(std::move(explanation));
  }

  const Tables& tables_;
  std::vector<Explanation>& found_;
};

// People quote the part of an error text that they remember.
void ExplainPartOfText(absl::string_view input, const Tables& tables,
                       std::vector<Explanation>& found) {
  constexpr size_t kShortest = 12;
  if (input.size() < kShortest) return;
  const std::string part = absl::AsciiStrToLower(input);
  for (const ErrorRow& row : tables.errors()) {
    if (absl::StrContains(absl::AsciiStrToLower(row.text), part)) {
      found.push_back(OfError(row));
    }
  }
}

std::vector<Explanation> ExplainWith(absl::string_view input,
                                     const Tables* tables) {
  std::vector<Explanation> found;
  const absl::string_view trimmed = absl::StripAsciiWhitespace(input);
  if (ExplainCode(trimmed, tables, found) || tables == nullptr) return found;
  LogReader(*tables, found).Read(trimmed);
  if (found.empty()) ExplainPartOfText(trimmed, *tables, found);
  // The error that decides goes first.
  std::vector<CudaErrorSeen> errors = ErrorsInDriverLog(trimmed);
  if (errors.empty()) errors = ErrorsInOutput(trimmed, *tables);
  if (const CudaErrorSeen* decisive = DecisiveError(errors)) {
    std::stable_partition(found.begin(), found.end(),
                          [&](const Explanation& explanation) {
                            return explanation.cuda_error == decisive->code;
                          });
  }
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
  absl::string_view group;
  for (const ReasonInfo& reason : AllReasons()) {
    if (GroupName(reason.group) != group) {
      group = GroupName(reason.group);
      absl::StrAppend(&page, "\n## ", Capital(group),
                      "\n\n| code | name | severity | meaning |\n"
                      "|---|---|---|---|\n");
    }
    absl::StrAppend(&page, "| [", reason.code, "](", reason.code, ".md) | ",
                    reason.name, " | ", SeverityName(reason.severity), " | ",
                    reason.text, " |\n");
  }
  return page;
}

}  // namespace twinpath::compat
