// twinpath explain: what a code, an error text or a log means.

#include "compat/explain.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/matrix.h"
#include "cli/table.h"
#include "compat/tables.h"
#include "twinpath/v1/cli.pb.h"

namespace twinpath::cli {
namespace {

// What was read, and what it says.
struct Answer {
  std::vector<compat::Explanation> found;
  uint64_t lines = 0;
  uint64_t bytes = 0;
  // It was read from a file or standard input.
  bool log = false;
};

// Whether what begins so can be read as lines of text; strings inside a program
// are none of its messages.
absl::Status CheckText(absl::string_view begin, absl::string_view name) {
  const std::string what = Printable(name);
  for (const auto& [magic, tool] :
       {std::pair<absl::string_view, absl::string_view>{"\x1f\x8b", "zcat"},
        {"\x28\xb5\x2f\xfd", "zstdcat"},
        {"BZh", "bzcat"},
        {"\xfd"
         "7zXZ",
         "xzcat"}}) {
    if (absl::StartsWith(begin, magic)) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, ": is compressed; ", tool, " ", what, " | twinpath explain -"));
    }
  }
  if (absl::StartsWith(begin,
                       "\x7f"
                       "ELF")) {
    return absl::InvalidArgumentError(
        absl::StrCat(what,
                     ": is a program or library, no log; its device code: "
                     "twinpath inspect ",
                     what));
  }
  if (absl::StartsWith(begin, "\xff\xfe") ||
      absl::StartsWith(begin, "\xfe\xff")) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": is UTF-16; iconv -f UTF-16 -t UTF-8 ", what,
                     " | twinpath explain -"));
  }
  // Logs have escapes and tabs in them, and a hole of zeros in front where they
  // were cut while written; other control characters hardly ever.
  size_t bytes = 0;
  size_t odd = 0;
  for (const char c : begin.substr(0, 64 << 10)) {
    if (c == '\0') continue;
    ++bytes;
    const auto byte = static_cast<unsigned char>(c);
    odd += byte < 0x07 || (byte > 0x0D && byte < 0x1B) ||
           (byte > 0x1B && byte < 0x20) || byte == 0x7F;
  }
  if (odd * 20 > bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": is no text, and so no log"));
  }
  return absl::OkStatus();
}

// Reads a log of any size in pieces; nothing of it is kept but what was found.
absl::StatusOr<Answer> ReadLog(int fd, absl::string_view name) {
  const absl::StatusOr<const compat::Tables*> tables =
      compat::Tables::Default();
  if (!tables.ok()) return tables.status();
  Answer answer;
  answer.log = true;
  compat::LogExplainer log(**tables);
  constexpr size_t kPiece = 1 << 20;
  const auto buffer = std::make_unique<char[]>(kPiece);
  while (true) {
    const ssize_t got = read(fd, buffer.get(), kPiece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return ErrnoStatus(errno, absl::StrCat("reading ", Printable(name)));
    }
    if (got == 0) break;
    const absl::string_view piece(buffer.get(), static_cast<size_t>(got));
    if (answer.bytes == 0) TWINPATH_RETURN_IF_ERROR(CheckText(piece, name));
    answer.bytes += piece.size();
    log.Feed(piece);
  }
  answer.found = log.Finish();
  answer.lines = log.lines();
  return answer;
}

bool IsCode(const std::vector<compat::Explanation>& found) {
  return !found.empty() && found[0].effect == "code";
}

// Several codes, or the words of one text: a number in a sentence need not be a
// code.
std::vector<compat::Explanation> ExplainWords(
    const std::vector<std::string>& words, const std::string& joined) {
  std::vector<compat::Explanation> found;
  if (words.size() > 1) {
    // "Xid 79", "NVML 18".
    found = compat::Explain(joined);
    if (IsCode(found)) return found;
    found.clear();
    for (const std::string& word : words) {
      const std::vector<compat::Explanation> one = compat::Explain(word);
      if (!IsCode(one)) {
        found.clear();
        break;
      }
      found.insert(found.end(), one.begin(), one.end());
    }
    if (!found.empty()) return found;
  }
  return compat::Explain(joined);
}

v1::ExplainOutput Message(const Answer& answer) {
  v1::ExplainOutput output;
  output.set_lines(answer.lines);
  output.set_bytes(answer.bytes);
  for (const compat::Explanation& explanation : answer.found) {
    v1::ExplainedText& text = *output.add_explanations();
    text.set_code(explanation.cuda_error != 0
                      ? absl::StrCat(explanation.cuda_error)
                      : explanation.reason_code);
    text.set_name(Printable(explanation.title));
    text.set_meaning(Printable(explanation.meaning));
    if (!explanation.action.empty()) {
      text.add_actions(Printable(explanation.action));
    }
    text.set_reason_code(explanation.reason_code);
    text.set_effect(explanation.effect);
    text.set_line(Printable(explanation.found_in));
    text.set_line_number(explanation.first_line);
    text.set_count(explanation.count);
  }
  return output;
}

// What a heading says of an explanation that is no cause.
absl::string_view Remark(const compat::Explanation& explanation) {
  if (explanation.effect == "harmless") return ": can be ignored";
  if (explanation.effect == "hint") return ": a hint, no cause";
  if (explanation.effect == "cpu") return ": goes on without the GPU";
  if (explanation.effect == "gate") return ": the program's own check";
  return "";
}

void Show(const Answer& answer, Console& console) {
  // People read the first few; JSON has all.
  constexpr size_t kMaxShown = 12;
  const size_t width = static_cast<size_t>(console.width()) - 2;
  for (size_t i = 0; i < answer.found.size() && i < kMaxShown; ++i) {
    const compat::Explanation& explanation = answer.found[i];
    if (i > 0) console.Print("\n");
    console.Print(absl::StrCat(
        Paint(absl::StrCat(Printable(explanation.title), Remark(explanation)),
              Style::kBold, console.color()),
        "\n  ", Wrap(Printable(explanation.meaning), width, 2), "\n"));
    if (!explanation.action.empty()) {
      console.Print(absl::StrCat(
          "  ",
          Wrap(absl::StrCat("do: ", Printable(explanation.action)), width, 6),
          "\n"));
    }
    if (!explanation.reason_code.empty() &&
        !absl::StartsWith(explanation.title, explanation.reason_code)) {
      console.Print(absl::StrCat("  see: twinpath explain ",
                                 explanation.reason_code, "\n"));
    }
    if (!explanation.found_in.empty()) {
      const std::string where =
          answer.log || explanation.count > 1
              ? absl::StrCat(explanation.count == 1
                                 ? "seen in line "
                                 : absl::StrCat("seen ", explanation.count,
                                                " times, first in line "),
                             explanation.first_line, ": ")
              : "seen in: ";
      console.Print(absl::StrCat(
          "  ",
          Paint(Truncate(absl::StrCat(where, Printable(explanation.found_in)),
                         width),
                Style::kDim, console.color()),
          "\n"));
    }
  }
  if (answer.found.size() > kMaxShown) {
    console.Say(
        absl::StrCat(answer.found.size() - kMaxShown, " more: --format json"));
  }
}

}  // namespace

int RunExplain(const std::vector<std::string>& words, Console& console) {
  const std::string input = absl::StrJoin(words, " ");
  Answer answer;
  bool missing_file = false;
  struct stat info {};
  const bool one = words.size() == 1;
  if (input == "-") {
    absl::StatusOr<Answer> read = ReadLog(STDIN_FILENO, "standard input");
    if (!read.ok()) return console.Fail(read.status());
    answer = *std::move(read);
  } else {
    // A code wins over a file of its name.
    if (one) answer.found = compat::Explain(input);
    if (one && !IsCode(answer.found) && stat(input.c_str(), &info) == 0) {
      if (S_ISDIR(info.st_mode)) {
        console.Error(
            absl::StrCat("explain: ", Printable(input), " is a folder"));
        console.Hint(
            absl::StrCat("cat ", Printable(input), "/* | twinpath explain -"));
        return kExitUsage;
      }
      const UniqueFd fd(open(input.c_str(), O_RDONLY | O_CLOEXEC));
      if (!fd.valid()) {
        return console.Fail(
            ErrnoStatus(errno, absl::StrCat("opening ", Printable(input))));
      }
      absl::StatusOr<Answer> read = ReadLog(fd.get(), input);
      if (!read.ok()) return console.Fail(read.status());
      answer = *std::move(read);
    } else if (!one) {
      answer.found = ExplainWords(words, input);
    } else if (answer.found.empty()) {
      // Spelt like the path of a file.
      missing_file = input.find_first_of("./") != std::string::npos &&
                     input.find_first_of(" \n") == std::string::npos;
    }
  }
  if (answer.log) {
    console.Say(absl::StrCat("read ", answer.lines,
                             answer.lines == 1 ? " line, " : " lines, ",
                             HumanBytes(answer.bytes)));
  }
  if (console.json()) {
    console.PrintJson(Message(answer));
  } else {
    Show(answer, console);
  }
  if (!answer.found.empty()) {
    const bool known =
        std::all_of(answer.found.begin(), answer.found.end(),
                    [](const compat::Explanation& one) { return one.known; });
    if (known) return kExitPass;
    // Nothing but an Xid of tomorrow: a log tells no more than that.
    if (IsCode(answer.found)) return kExitUsage;
    return std::any_of(answer.found.begin(), answer.found.end(),
                       [](const compat::Explanation& one) { return one.known; })
               ? kExitPass
               : kExitInconclusive;
  }
  console.Error(absl::StrCat("explain: nothing known in ",
                             !one           ? "this text"
                             : input == "-" ? "standard input"
                                            : Printable(input),
                             missing_file ? " (and no such file)" : ""));
  console.Hint(
      "give a reason code (TP204), a CUDA error (209), an error text, a log "
      "file, or - for standard input");
  // What was read is no mistake of the caller.
  return answer.log ? kExitInconclusive : kExitUsage;
}

}  // namespace twinpath::cli
