// twinpath explain: what a code, an error text or a log means.

#include "compat/explain.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "cli/view_options.h"
#include "twinpath/v1/cli.pb.h"

namespace twinpath::cli {
namespace {

constexpr uint64_t kMaxLogBytes = 64u << 20;

absl::StatusOr<std::string> ReadStandardInput() {
  std::string text;
  char buffer[65536];
  while (true) {
    const ssize_t got = read(STDIN_FILENO, buffer, sizeof buffer);
    if (got < 0) return ErrnoStatus(errno, "reading standard input");
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMaxLogBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("standard input: more than ", HumanBytes(kMaxLogBytes)));
    }
  }
}

}  // namespace

int RunExplain(const std::vector<std::string>& words, Console& console) {
  std::string input = absl::StrJoin(words, " ");
  bool missing_file = false;
  struct stat info {};
  if (input == "-") {
    absl::StatusOr<std::string> text = ReadStandardInput();
    if (!text.ok()) return console.Fail(text.status());
    input = *std::move(text);
  } else if (words.size() == 1 && stat(input.c_str(), &info) == 0 &&
             S_ISREG(info.st_mode)) {
    absl::StatusOr<std::string> text = ReadFile(input, kMaxLogBytes);
    if (!text.ok()) return console.Fail(text.status());
    input = *std::move(text);
  } else if (words.size() == 1) {
    // Spelt like the path of a file.
    missing_file = input.find_first_of("./") != std::string::npos &&
                   input.find_first_of(" \n") == std::string::npos &&
                   access(input.c_str(), F_OK) != 0;
  }
  // Several codes, or the words of one text: a number in a sentence need not
  // be a code.
  std::vector<compat::Explanation> found;
  for (const std::string& word : words) {
    if (words.size() == 1) break;
    const std::vector<compat::Explanation> one = compat::Explain(word);
    if (one.empty()) {
      found.clear();
      break;
    }
    found.insert(found.end(), one.begin(), one.end());
  }
  if (found.empty()) found = compat::Explain(input);
  v1::ExplainOutput output;
  for (const compat::Explanation& explanation : found) {
    v1::ExplainedText& text = *output.add_explanations();
    text.set_code(explanation.cuda_error != 0
                      ? absl::StrCat(explanation.cuda_error)
                      : explanation.reason_code);
    text.set_name(IsValidUtf8(explanation.title)
                      ? explanation.title
                      : Printable(explanation.title));
    text.set_text(explanation.meaning);
    if (!explanation.action.empty()) text.add_steps(explanation.action);
    text.set_reason_code(explanation.reason_code);
    text.set_found_in(explanation.found_in);
  }
  if (console.json()) {
    console.PrintJson(output);
  } else {
    const size_t width = static_cast<size_t>(console.width()) - 2;
    bool first = true;
    for (const compat::Explanation& explanation : found) {
      if (!first) console.Print("\n");
      first = false;
      console.Print(absl::StrCat(
          Paint(Printable(explanation.title), Style::kBold, console.color()),
          "\n  ", Wrap(Printable(explanation.meaning), width, 2), "\n"));
      if (!explanation.action.empty()) {
        console.Print(absl::StrCat(
            "  ",
            Wrap(absl::StrCat("do: ", Printable(explanation.action)), width, 6),
            "\n"));
      }
      if (!explanation.found_in.empty()) {
        console.Print(absl::StrCat(
            "  ",
            Paint(Truncate(absl::StrCat("seen in: ",
                                        Printable(explanation.found_in)),
                           width),
                  Style::kDim, console.color()),
            "\n"));
      }
    }
  }
  if (found.empty()) {
    console.Error(absl::StrCat("explain: nothing known in ",
                               words.size() > 1  ? "this text"
                               : words[0] == "-" ? "standard input"
                                                 : Printable(words[0]),
                               missing_file ? " (and no such file)" : ""));
    console.Hint(
        "give a reason code (TP204), a CUDA error (209), an error text, a log "
        "file, or - for standard input");
    return kExitUsage;
  }
  return kExitPass;
}

}  // namespace twinpath::cli
