#include "cli/app.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/app_builder.h"
#include "cli/commands.h"
#include "cli/console.h"

namespace twinpath::cli {
namespace {

// Lists each command with the first line of its description only; examples
// stand before the options.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(34); }
  std::string make_subcommand(const CLI::App* sub) const override {
    std::string name = sub->get_display_name();
    std::string text = sub->get_description();
    text = text.substr(0, text.find('\n'));
    name.insert(0, "  ");
    name.resize(std::max<size_t>(name.size() + 1, 14), ' ');
    return absl::StrCat(name, text, "\n");
  }
  std::string make_description(const CLI::App* app) const override {
    return app->get_description().empty()
               ? ""
               : absl::StrCat(app->get_description(), "\n\n");
  }
};

}  // namespace

void Builder::Build() {
  app_.formatter(std::make_shared<HelpFormatter>());
  app_.require_subcommand(1);
  app_.fallthrough();
  app_.set_help_flag("-h,--help", "Show this help");
  app_.set_version_flag("--version", std::string(kVersion), "Show the version");
  app_.add_option("--format", o_.format,
                  "Output: table or json; predict: junit, markdown, too")
      ->check(CLI::IsMember({"table", "json", "junit", "markdown"}));
  app_.add_option("--color", o_.color, "Colour: auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app_.add_flag("--no-color", o_.no_color,
                "No colour (as NO_COLOR in the environment)");
  app_.add_flag("-q,--quiet", o_.quiet, "Warnings and errors only");
  app_.add_option("--width", o_.width,
                  "Columns for tables (default: the terminal's)")
      ->check(CLI::Range(40, 10000));
  app_.add_option("--coordinator", o_.coordinator,
                  "HOST:PORT (default: $TWINPATH_COORDINATOR or "
                  "127.0.0.1:7711)");
  Inspect();
  Predict();
  Check();
  Reference();
  Record();
  Doctor();
  Explain();
  Tables();
  Up();
  Hosts();
  Artifact();
  Sweep();
  Release();
  Gate();
  CLI::App* version = Command(app_, "version", "Version of this program");
  version->callback(
      [this] { run_ = [](Console& c) { return RunVersion(c); }; });
}

CLI::App* Builder::Command(CLI::App& parent, const std::string& name,
                           const std::string& description) {
  CLI::App* sub = parent.add_subcommand(name, description);
  sub->formatter(parent.get_formatter());
  sub->fallthrough();
  sub->footer(
      "--format, --coordinator and other options of every command: "
      "twinpath --help");
  return sub;
}

namespace {

std::vector<std::string> NamesOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub :
       app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

std::vector<std::string> FlagsOf(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        flags.push_back("--" + name);
      }
    }
  }
  return flags;
}

// A word where a command is expected that names none; fills `text` and `hint`.
bool UnknownCommand(const CLI::App& app, const std::vector<std::string>& args,
                    std::string* text, std::string* hint) {
  const CLI::App* at = &app;
  for (size_t i = 1; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (absl::StartsWith(word, "-")) {
      // Options with a value of its own take the next word too.
      for (const CLI::App* scope = at; scope != nullptr;
           scope = scope->get_parent()) {
        const CLI::Option* option = scope->get_option_no_throw(word);
        if (option == nullptr) continue;
        if (option->get_items_expected_max() > 0) ++i;
        break;
      }
      continue;
    }
    const std::vector<std::string> names = NamesOf(*at);
    if (names.empty()) return false;
    if (std::find(names.begin(), names.end(), word) != names.end()) {
      at = at->get_subcommand(word);
      continue;
    }
    const std::string group =
        at == &app ? "twinpath" : absl::StrCat("twinpath ", at->get_name());
    *text = absl::StrCat(group, ": no such command: ", Printable(word));
    const std::string nearest = NearestWord(word, names);
    *hint = nearest.empty()
                ? absl::StrCat("commands are ", absl::StrJoin(names, ", "))
                : absl::StrCat("did you mean ", group, " ", nearest, "?");
    return true;
  }
  return false;
}

// The command that `args` name: their first word that is no option nor the
// value of one. Empty: none.
std::string CommandIn(const CLI::App& app,
                      const std::vector<std::string>& args) {
  for (size_t i = 1; i < args.size(); ++i) {
    if (!absl::StartsWith(args[i], "-")) return args[i];
    const CLI::Option* option = app.get_option_no_throw(args[i]);
    if (option != nullptr && option->get_items_expected_max() > 0) ++i;
  }
  return "";
}

// In front of words that stood behind "--". CLI11 itself takes such words only
// where no positional came before them.
constexpr absl::string_view kMark = "\x01";

// Lets the positionals of all commands take marked words.
void TakeMarkedWords(CLI::App* app) {
  const auto unmark = [](std::string& word) {
    if (absl::StartsWith(word, kMark)) word.erase(0, kMark.size());
    return std::string();
  };
  for (CLI::Option* option : app->get_options()) {
    if (option->get_positional()) {
      option->transform(CLI::Validator(unmark, "", "words behind --"));
    }
  }
  for (CLI::App* sub : app->get_subcommands([](CLI::App*) { return true; })) {
    TakeMarkedWords(sub);
  }
}

// "twinpath help inspect" asks for "twinpath inspect --help".
void TakeHelpForAnOption(std::vector<std::string>* args) {
  if (args->size() < 2 || (*args)[1] != "help") return;
  args->erase(args->begin() + 1);
  args->push_back("--help");
}

const CLI::App* Chosen(const CLI::App& app) {
  const CLI::App* at = &app;
  while (true) {
    const std::vector<CLI::App*> subs =
        const_cast<CLI::App*>(at)->get_subcommands();
    if (subs.empty()) return at;
    at = subs.front();
  }
}

std::string PathOf(const CLI::App* app) {
  std::vector<std::string> parts;
  for (; app != nullptr; app = app->get_parent()) {
    parts.insert(parts.begin(), app->get_name());
  }
  return absl::StrJoin(parts, " ");
}

// Turns a parse error into error and hint.
int ReportParseError(const CLI::App& app, const CLI::ParseError& error,
                     const std::vector<std::string>& args, Console& console) {
  std::string text;
  std::string hint;
  if (UnknownCommand(app, args, &text, &hint)) {
    console.Error(text);
    console.Hint(hint);
    return kExitUsage;
  }
  const CLI::App* chosen = Chosen(app);
  const std::string name = PathOf(chosen);
  std::string what = error.what();
  what = absl::StrReplaceAll(what.substr(0, what.find('\n')), {{kMark, ""}});
  console.Error(absl::StrCat(name, ": ", what));
  for (size_t i = 1; i < args.size(); ++i) {
    if (args[i].size() > 1 && args[i][0] == '-' &&
        access(args[i].c_str(), F_OK) == 0) {
      console.Hint(
          absl::StrCat("a FILE that begins with \"-\" stands behind "
                       "--: ",
                       name, " -- ", Printable(args[i])));
      return kExitUsage;
    }
  }
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (extras && chosen->get_name() == "record") {
    console.Hint("the build stands behind --: twinpath record -- nvcc ...");
    return kExitUsage;
  }
  for (const std::string& arg : args) {
    if (!absl::StartsWith(arg, "--")) continue;
    const std::string flag = arg.substr(0, arg.find('='));
    const std::vector<std::string> flags = FlagsOf(*chosen);
    if (std::find(flags.begin(), flags.end(), flag) != flags.end()) continue;
    const std::string nearest = NearestWord(flag, flags);
    if (!nearest.empty()) {
      console.Hint(absl::StrCat("did you mean ", nearest, "?"));
      return kExitUsage;
    }
  }
  console.Hint(extras && chosen->get_name() == "check"
                   ? "the program's arguments stand behind --: twinpath check "
                     "app -- ARGS"
                   : absl::StrCat(name, " --help"));
  return kExitUsage;
}

ConsoleOptions ConsoleOptionsOf(const Options& options) {
  ConsoleOptions out;
  out.format = options.format == "json"       ? Format::kJson
               : options.format == "junit"    ? Format::kJunit
               : options.format == "markdown" ? Format::kMarkdown
                                              : Format::kTable;
  out.color = options.no_color            ? Color::kNever
              : options.color == "always" ? Color::kAlways
              : options.color == "never"  ? Color::kNever
                                          : Color::kAuto;
  out.quiet = options.quiet;
  out.width = options.width;
  return out;
}

// Writes what is left to standard output and returns the exit code of a command
// that ended with `code`.
int Settle(Console& console, int code) {
  const absl::Status flushed = console.Flush();
  if (flushed.ok()) return code;
  // A result nobody could read is none.
  if (console.closed()) return code == kExitPass ? kExitClosedPipe : code;
  console.Error(MessageOf(flushed));
  return code == kExitPass ? kExitUsage : code;
}

int Parse(std::vector<std::string> all) {
  TakeHelpForAnOption(&all);
  Options options;
  Run run;
  CLI::App app(
      "Will this exact CUDA artifact run on these hosts, by which path, and "
      "how do we know?\n"
      "\n"
      "  twinpath inspect app              what device code a file holds\n"
      "  twinpath predict --matrix app     what known GPUs would do with it\n"
      "  twinpath check app                run it here along the paths\n"
      "  twinpath up                       try the whole on this host\n"
      "\n"
      "Exit codes: 0 pass, 1 fail, 2 usage or input, 3 inconclusive,\n"
      "4 unreachable, 5 permission, 6 integrity, 70 bug.",
      "twinpath");
  // Lives until the command has run: the callbacks refer to it.
  Builder builder(app, options, run);
  builder.Build();
  TakeMarkedWords(&app);
  // What follows "--" belongs to the program or the build, option or not. Of
  // other commands it is words that are no options, whatever they begin with.
  const auto separator = std::find(all.begin(), all.end(), "--");
  std::vector<std::string> args(all.begin(), separator);
  std::vector<std::string> rest;
  if (separator != all.end()) {
    const std::string command = CommandIn(app, args);
    if (command == "check" || command == "record") {
      rest.assign(separator + 1, all.end());
    } else {
      for (auto word = separator + 1; word != all.end(); ++word) {
        args.push_back(absl::StrCat(kMark, *word));
      }
    }
  }
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  if (!reversed.empty()) reversed.pop_back();
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    const CLI::App* chosen = Chosen(app);
    Console console(stdout, stderr, ConsoleOptionsOf(options));
    std::string text;
    std::string hint;
    if (UnknownCommand(app, args, &text, &hint)) {
      console.Error(text);
      console.Hint(hint);
      return kExitUsage;
    }
    console.Print(chosen->help(
        chosen->get_parent() == nullptr ? "" : PathOf(chosen->get_parent())));
    return Settle(console, kExitPass);
  } catch (const CLI::CallForVersion&) {
    Console console(stdout, stderr, ConsoleOptionsOf(options));
    const int code = RunVersion(console);
    return Settle(console, code);
  } catch (const CLI::ParseError& error) {
    Console console(stdout, stderr, ConsoleOptionsOf(options));
    if (args.size() <= 1) {
      fputs(app.help().c_str(), stderr);
      return kExitUsage;
    }
    return ReportParseError(app, error, args, console);
  }
  Console console(stdout, stderr, ConsoleOptionsOf(options));
  const std::string command = Chosen(app)->get_name();
  if (command != "predict" && (console.format() == Format::kJunit ||
                               console.format() == Format::kMarkdown)) {
    console.Error(absl::StrCat("twinpath ", command, ": no --format ",
                               options.format, "; it has table and json"));
    return kExitUsage;
  }
  if (command == "check") {
    options.check.arguments = std::move(rest);
  } else if (command == "record") {
    options.record.argv = std::move(rest);
  }
  return Settle(console, run(console));
}

}  // namespace

int Main(const std::vector<std::string>& args) {
  // CLI11 and the standard library may throw; nothing else does.
  try {
    return Parse(args);
  } catch (const std::exception& error) {
    fprintf(stderr, "error: twinpath: internal error: %s\n",
            Printable(error.what()).c_str());
    return kExitInternal;
  }
}

}  // namespace twinpath::cli
