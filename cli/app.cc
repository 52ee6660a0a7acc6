#include "cli/app.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/console.h"

namespace twinpath::cli {
namespace {

// Everything the options are written into; lives as long as the parse and the
// run.
struct Options {
  std::string format = "table";
  std::string color = "auto";
  bool no_color = false;
  bool quiet = false;
  std::string coordinator;
  int width = 0;

  InspectOptionsCli inspect;
  PredictOptionsCli predict;
  CheckOptions check;
  RecordOptionsCli record;
  HostsOptions hosts;
  std::string host;
  ArtifactPushOptions push;
  size_t limit = 100;
  SweepStartOptions start;
  std::string sweep_id;
  GateOptions gate;
  std::vector<std::string> explain;
  UpOptions up;
};

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

using Run = std::function<int(Console&)>;

// Builds the commands. `run` becomes what the chosen one does.
class Builder {
 public:
  Builder(CLI::App& app, Options& options, Run& run)
      : app_(app), o_(options), run_(run) {}

  void Build() {
    app_.formatter(std::make_shared<HelpFormatter>());
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.set_help_flag("-h,--help", "Show this help");
    app_.set_version_flag("--version", std::string(kVersion),
                          "Show the version");
    app_.add_option("--format", o_.format, "Output: table or json")
        ->check(CLI::IsMember({"table", "json"}));
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
    Record();
    Doctor();
    Explain();
    Up();
    Hosts();
    Artifact();
    Sweep();
    Gate();
    CLI::App* version = Command(app_, "version", "Version of this program");
    version->callback(
        [this] { run_ = [](Console& c) { return RunVersion(c); }; });
  }

 private:
  CLI::App* Command(CLI::App& parent, const std::string& name,
                    const std::string& description) {
    CLI::App* sub = parent.add_subcommand(name, description);
    sub->formatter(parent.get_formatter());
    sub->fallthrough();
    sub->footer(
        "--format, --coordinator and other options of every command: "
        "twinpath --help");
    return sub;
  }

  void Inspect() {
    CLI::App* sub = Command(
        app_, "inspect",
        "What device code files, packages and folders hold\n"
        "\n"
        "  twinpath inspect build/app\n"
        "  twinpath inspect dist/*.whl build/lib\n"
        "  twinpath inspect --expect sm_90,sm_121,ptx dist/pkg.whl\n"
        "  twinpath inspect --match 'gemm.*bf16' --target sm_90a libfoo.so\n"
        "  twinpath inspect --format json app | jq .files[0].fatbins\n"
        "\n"
        "Folders, wheels, zip, tar, deb, static libraries and container "
        "images\n"
        "are opened. Exit: 0 device code was found and read whole, 1 none,\n"
        "damaged or an expected target is missing, 2 not a file that can hold\n"
        "any, 3 part could not be read.");
    const auto list = [sub](const std::string& name,
                            std::vector<std::string>& to,
                            const std::string& text) {
      // One value each, so that FILE is not taken for one.
      sub->add_option(name, to, text)
          ->expected(1)
          ->allow_extra_args(false)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    };
    sub->add_option("FILE", o_.inspect.files, "Files, packages, folders")
        ->required();
    sub->add_flag("--kernels", o_.inspect.kernels,
                  "List every kernel with its targets");
    sub->add_flag("--images", o_.inspect.images, "List every image");
    sub->add_flag("--details", o_.inspect.details,
                  "Registers, shared memory, threads of kernels; what made the "
                  "images");
    sub->add_flag("--demangle", o_.inspect.demangle,
                  "Demangled names beside the mangled ones");
    sub->add_option("--match", o_.inspect.match,
                    "Only kernels (and images with one) in whose mangled or "
                    "demangled name this regular expression (RE2) is found");
    list("--target", o_.inspect.targets,
         "List only this target: sm_90, 90a, compute_120, ptx");
    sub->add_flag("--members", o_.inspect.members,
                  "The full summary of every file of folders and packages");
    list("--expect", o_.inspect.expect,
         "Targets that each FILE, taken as a whole, must hold: sm_90,sm_121,"
         "ptx");
    list("--expect-each", o_.inspect.expect_each,
         "Targets that every file with device code must hold");
    sub->add_flag("--no-kernels", o_.inspect.no_kernels,
                  "Do not decode images (faster)");
    sub->callback([this] {
      run_ = [this](Console& c) { return RunInspect(o_.inspect, c); };
    });
  }

  void Predict() {
    CLI::App* sub = Command(
        app_, "predict",
        "What hosts will do with a file, without running it\n"
        "\n"
        "  twinpath predict build/app                      on this host\n"
        "  twinpath predict --host dgx-spark --host h200 build/app\n"
        "  twinpath predict --matrix build/app             on every profile\n"
        "\n"
        "Exit: 0 the plain run works on every host, 1 it fails on one, 3 not\n"
        "known; --require names other paths.");
    sub->add_option("FILE", o_.predict.files, "The program and its libraries")
        ->required();
    // One value each, so that FILE is not taken for a host.
    sub->add_option("--host", o_.predict.hosts,
                    "Profile, or file with facts (.json) or a profile (.yaml)")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    sub->add_flag("--matrix", o_.predict.matrix, "All profiles");
    sub->add_option("--require", o_.predict.require,
                    "Paths that decide the exit code: native, ptx-jit, plain")
        ->delimiter(',')
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->check(CLI::IsMember({"native", "ptx-jit", "plain"}));
    sub->callback([this] {
      run_ = [this](Console& c) { return RunPredict(o_.predict, c); };
    });
  }

  void Check() {
    CLI::App* sub = Command(
        app_, "check",
        "Runs a program on this host along the paths; needs no coordinator\n"
        "\n"
        "  twinpath check build/app -- --size 64\n"
        "  twinpath check --expect-contains PASS build/app\n"
        "  twinpath check --ptx-jit=optional build/app libkernels.so\n"
        "\n"
        "Every run is a new process in a sandbox and a new folder. Exit: 0\n"
        "every required path is proven, 1 one fails, 3 inconclusive (a host\n"
        "without a usable GPU, too).");
    sub->add_option("FILE", o_.check.files,
                    "The program, then files it needs beside it")
        ->required();
    sub->add_option("--expect-exit", o_.check.expect_exit,
                    "Exit code of success (default 0)")
        ->check(CLI::Range(0, 255));
    sub->add_option("--expect-output", o_.check.expect_output,
                    "Standard output, byte for byte");
    sub->add_option("--expect-contains", o_.check.expect_contains,
                    "Text that standard output contains");
    sub->add_option("--expect-pattern", o_.check.expect_pattern,
                    "Regular expression (RE2) that matches in it");
    sub->add_option("--env", o_.check.environment, "NAME=value for the program")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    sub->add_option("--timeout", o_.check.timeout,
                    "Limit of a run, such as 90s (default 60s)");
    sub->add_option("--jit-timeout", o_.check.jit_timeout,
                    "Limit of the forced JIT run (default ten times that, at "
                    "least 15m)");
    const auto rule = [sub](const std::string& name, std::string& to) {
      sub->add_option(name, to, "required, optional or skip")
          ->check(CLI::IsMember({"required", "optional", "skip"}));
    };
    rule("--native", o_.check.native);
    rule("--ptx-jit", o_.check.ptx_jit);
    rule("--plain", o_.check.plain);
    sub->add_flag("--strict", o_.check.strict, "Warnings fail");
    sub->add_flag("--all-gpus", o_.check.all_gpus,
                  "Every GPU (default: one of each model)");
    sub->callback([this, sub] {
      o_.check.has_expect_output = sub->count("--expect-output") > 0;
      o_.check.has_expect_contains = sub->count("--expect-contains") > 0;
      o_.check.has_expect_pattern = sub->count("--expect-pattern") > 0;
      run_ = [this](Console& c) { return RunCheck(o_.check, c); };
    });
  }

  void Record() {
    CLI::App* sub = Command(
        app_, "record",
        "Runs a build and keeps command, tools and digests of the outputs\n"
        "\n"
        "  twinpath record -- nvcc -gencode ... -o app app.cu\n"
        "  twinpath record --output app -o app.record.json -- make app\n"
        "\n"
        "The exit code of the build is passed on; a failed build leaves no\n"
        "record.");
    sub->add_option("-o,--record", o_.record.record_path,
                    "File to write (default record.json)");
    sub->add_option("--output", o_.record.outputs,
                    "Output file of the build (default: found)")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    sub->callback([this] {
      run_ = [this](Console& c) {
        if (o_.record.argv.empty()) {
          c.Error("record: no build command");
          c.Hint("twinpath record -- nvcc -o app app.cu");
          return static_cast<int>(kExitUsage);
        }
        return RunRecord(o_.record, c);
      };
    });
  }

  void Doctor() {
    CLI::App* sub = Command(app_, "doctor",
                            "This host: driver, GPUs, toolkits, what is wrong\n"
                            "\n"
                            "  twinpath doctor\n"
                            "  twinpath doctor --format json > facts.json\n"
                            "\n"
                            "Exit: 1 where an error was found.");
    sub->callback([this] { run_ = [](Console& c) { return RunDoctor(c); }; });
  }

  void Explain() {
    CLI::App* sub = Command(
        app_, "explain",
        "What a reason code, CUDA error, error text or log means\n"
        "\n"
        "  twinpath explain TP204\n"
        "  twinpath explain 209\n"
        "  twinpath explain \"an illegal memory access was encountered\"\n"
        "  twinpath explain app.log\n"
        "  ./app 2>&1 | twinpath explain -");
    sub->add_option("WHAT", o_.explain, "Code, text, file, or -")->required();
    sub->callback([this] {
      run_ = [this](Console& c) { return RunExplain(o_.explain, c); };
    });
  }

  void Up() {
    CLI::App* sub =
        Command(app_, "up",
                "Starts coordinator and agent on this host, for trying it\n"
                "\n"
                "  twinpath up\n"
                "  twinpath up --simulate dgx-spark --simulate h200\n"
                "\n"
                "Loopback only. Ctrl-C stops everything; the state stays.");
    sub->add_option("--state", o_.up.state,
                    "State folder (default $XDG_STATE_HOME/twinpath)");
    sub->add_option("--listen", o_.up.listen,
                    "Address of the coordinator (default 127.0.0.1:7711; port "
                    "0: any)");
    sub->add_option("--ready-file", o_.up.ready_file,
                    "Written with the address when all are connected");
    sub->add_option("--simulate", o_.up.simulate,
                    "Also an agent that simulates this profile")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    sub->add_flag("--no-host", o_.up.no_host, "No agent of this host itself");
    sub->callback(
        [this] { run_ = [this](Console& c) { return RunUp(o_.up, c); }; });
  }

  void Hosts() {
    CLI::App* sub = Command(app_, "hosts",
                            "Hosts the coordinator knows\n"
                            "\n"
                            "  twinpath hosts\n"
                            "  twinpath hosts --label site=lab\n"
                            "  twinpath hosts show spark-01");
    sub->add_option("--label", o_.hosts.labels, "Only hosts with key=value")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    CLI::App* show = Command(*sub, "show", "One host with its facts");
    show->add_option("HOST", o_.host, "Name or id")->required();
    sub->require_subcommand(0, 1);
    sub->callback([this, show] {
      o_.hosts.coordinator = o_.coordinator;
      const bool one = show->parsed();
      run_ = [this, one](Console& c) {
        return one ? RunHostsShow(o_.hosts, o_.host, c)
                   : RunHostsList(o_.hosts, c);
      };
    });
  }

  void Artifact() {
    CLI::App* sub = Command(app_, "artifact",
                            "Files under test at the coordinator\n"
                            "\n"
                            "  twinpath artifact push build/app lib/*.so\n"
                            "  twinpath artifact ls");
    sub->require_subcommand(1);
    CLI::App* push =
        Command(*sub, "push",
                "Uploads what is missing and registers the artifact\n"
                "\n"
                "  twinpath artifact push build/app libfoo.so\n"
                "  twinpath artifact push --root dist dist/bin dist/lib");
    push->add_option("FILE", o_.push.files, "Files and folders")->required();
    push->add_option("--name", o_.push.name,
                     "Name for people (default: the first file's)");
    push->add_option("--root", o_.push.root,
                     "Folder that names are relative to");
    push->callback([this] {
      run_ = [this](Console& c) {
        o_.push.coordinator = o_.coordinator;
        return RunArtifactPush(o_.push, c);
      };
    });
    CLI::App* list = Command(*sub, "ls", "Artifacts, newest first");
    Limit(list);
    list->callback([this] {
      run_ = [this](Console& c) {
        return RunArtifactList(o_.coordinator, o_.limit, c);
      };
    });
  }

  void Limit(CLI::App* sub) {
    sub->add_option("--limit", o_.limit, "At most this many (default 100)")
        ->check(CLI::Range(1, 100000));
  }

  void Sweep() {
    CLI::App* sub = Command(app_, "sweep",
                            "An artifact's entries on many hosts\n"
                            "\n"
                            "  twinpath sweep start sweep.yaml --watch\n"
                            "  twinpath sweep show 7f3a09c2\n"
                            "  twinpath sweep list");
    sub->require_subcommand(1);
    CLI::App* start = Command(
        *sub, "start",
        "Uploads the files and starts the sweep of a sweep file\n"
        "\n"
        "  twinpath sweep start sweep.yaml --watch\n"
        "  twinpath sweep start sweep.yaml --dry-run\n"
        "\n"
        "Prints the sweep's id. With --watch: the matrix at the end, and the\n"
        "exit code of the verdict.");
    start->add_option("FILE", o_.start.file, "Sweep file (docs/sweep-file.md)")
        ->required();
    start->add_flag("--watch", o_.start.watch, "Wait and show the result");
    start->add_flag("--dry-run", o_.start.dry_run,
                    "Only check the file and what it names");
    start->callback([this] {
      run_ = [this](Console& c) {
        o_.start.coordinator = o_.coordinator;
        return RunSweepStart(o_.start, c);
      };
    });
    const auto with_id =
        [this, sub](
            const std::string& name, const std::string& text,
            int (*function)(const std::string&, const std::string&, Console&)) {
          CLI::App* command = Command(*sub, name, text);
          command->add_option("ID", o_.sweep_id, "Sweep")->required();
          command->callback([this, function] {
            run_ = [this, function](Console& c) {
              return function(o_.coordinator, o_.sweep_id, c);
            };
          });
        };
    with_id("watch", "Waits for the end; exit code of the verdict",
            RunSweepWatch);
    with_id("show", "The sweep as it is now", RunSweepShow);
    with_id("cancel", "Ends a sweep early", RunSweepCancel);
    CLI::App* list = Command(*sub, "list", "Sweeps, newest first");
    Limit(list);
    list->callback([this] {
      run_ = [this](Console& c) {
        return RunSweepList(o_.coordinator, o_.limit, c);
      };
    });
  }

  void Gate() {
    CLI::App* sub = Command(
        app_, "gate",
        "The verdict of a sweep as an exit code\n"
        "\n"
        "  twinpath gate 7f3a09c2 && ./rollout\n"
        "  twinpath gate --wait 7f3a09c2\n"
        "\n"
        "Exit: 0 pass, 1 fail, 3 inconclusive or stale, 4 no host answered or\n"
        "the coordinator is not reachable. Never 0 without positive evidence\n"
        "from a real host.");
    sub->add_option("ID", o_.gate.id, "Sweep")->required();
    sub->add_flag("--wait", o_.gate.wait, "Wait for the sweep's end first");
    sub->add_option("--inconclusive", o_.gate.inconclusive,
                    "What inconclusive becomes: fail or pass-with-warning")
        ->check(CLI::IsMember({"fail", "pass-with-warning"}));
    sub->callback([this] {
      run_ = [this](Console& c) {
        o_.gate.coordinator = o_.coordinator;
        return RunGate(o_.gate, c);
      };
    });
  }

  CLI::App& app_;
  Options& o_;
  Run& run_;
};

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
  what = what.substr(0, what.find('\n'));
  console.Error(absl::StrCat(name, ": ", what));
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (extras && chosen->get_name() == "record") {
    console.Hint("the build stands behind --: twinpath record -- nvcc ...");
    return kExitUsage;
  }
  for (const std::string& arg : args) {
    if (!absl::StartsWith(arg, "--") || arg == "--") continue;
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
  out.format = options.format == "json" ? Format::kJson : Format::kTable;
  out.color = options.no_color            ? Color::kNever
              : options.color == "always" ? Color::kAlways
              : options.color == "never"  ? Color::kNever
                                          : Color::kAuto;
  out.quiet = options.quiet;
  out.width = options.width;
  return out;
}

int Parse(const std::vector<std::string>& all) {
  // What follows "--" belongs to the program or the build, option or not.
  const auto separator = std::find(all.begin(), all.end(), "--");
  std::vector<std::string> args(all.begin(), separator);
  std::vector<std::string> rest(
      separator == all.end() ? separator : separator + 1, all.end());

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
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  if (!reversed.empty()) reversed.pop_back();
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    const CLI::App* chosen = Chosen(app);
    Console console(stdout, stderr, ConsoleOptionsOf(options));
    console.Print(chosen->help(
        chosen->get_parent() == nullptr ? "" : PathOf(chosen->get_parent())));
    return console.Flush().ok() ? kExitPass : kExitInternal;
  } catch (const CLI::CallForVersion&) {
    Console console(stdout, stderr, ConsoleOptionsOf(options));
    const int code = RunVersion(console);
    return console.Flush().ok() ? code : static_cast<int>(kExitInternal);
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
  if (separator != all.end()) {
    if (command == "check") {
      options.check.arguments = std::move(rest);
    } else if (command == "record") {
      options.record.argv = std::move(rest);
    } else if (!rest.empty()) {
      console.Error(
          absl::StrCat("twinpath ", command, ": nothing may follow \"--\""));
      return kExitUsage;
    }
  }
  int code = run(console);
  if (const absl::Status flushed = console.Flush(); !flushed.ok()) {
    // A result nobody could read is none.
    console.Error(MessageOf(flushed));
    if (code == kExitPass) code = kExitUsage;
  }
  return code;
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
