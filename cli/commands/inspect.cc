// twinpath inspect: what device code files, packages and folders hold.

#include <re2/re2.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/code_view.h"
#include "cli/collection.h"
#include "cli/commands.h"
#include "cli/coverage_view.h"
#include "cli/expect.h"
#include "cli/inputs.h"
#include "cli/progress.h"
#include "cli/reason_view.h"
#include "cli/report_stream.h"
#include "cli/report_view.h"
#include "cli/view_options.h"
#include "cli/witness_view.h"
#include "compat/reason.h"
#include "compat/tables.h"
#include "inspect/child.h"
#include "inspect/folder.h"
#include "inspect/summary.h"
#include "runner/paths.h"
#include "runner/run.h"
#include "runner/toolkit.h"
#include "runner/witness.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::cli {
namespace {

// Rows of a folder's or carrier's table; a screenful.
constexpr size_t kMaxRows = 40;
// Files named of those that lack an expected target each of them should have.
constexpr size_t kMaxLacking = 10;

// Files of these kinds cannot hold device code as they are.
bool IsForeign(const v1::FileReport& report) {
  return !report.has_carrier() && report.fatbins().empty() &&
         (report.kind() == v1::FILE_KIND_TEXT ||
          report.kind() == v1::FILE_KIND_OTHER ||
          report.kind() == v1::FILE_KIND_ARCHIVE);
}

std::string ForeignText(const v1::FileReport& report) {
  return absl::StrCat(
      Printable(report.name()), ": not an ELF, fatbin, cubin or PTX file",
      report.size_bytes() == 0                 ? "; it is empty"
      : report.kind() == v1::FILE_KIND_OTHER   ? ", and not a package"
      : report.kind() == v1::FILE_KIND_ARCHIVE ? "; it is an "
                                               : "; it is ",
      report.size_bytes() == 0 || report.kind() == v1::FILE_KIND_OTHER
          ? ""
          : FileKindText(report.kind()));
}

// One call of the command: takes reports as they come, prints, and keeps the
// exit code.
class Inspection {
 public:
  Inspection(const InspectOptionsCli& options, Console& console)
      : options_(options),
        console_(console),
        view_{console.width(), console.color()},
        stream_(console) {}

  // Checks the options; an exit code other than kExitPass ends the command.
  int Prepare();
  int Run();

 private:
  // What is known of the argument at hand.
  struct Group {
    Group(const InputGroup& i, const TargetWords& listed,
          const TargetWords& expected, const TargetWords& each)
        : input(i), files(listed), expected(expected), each(each) {}
    const InputGroup& input;
    Collection files;
    ExpectedTargets expected;
    ExpectedTargets each;
    // Where --target asks for its coverage.
    inspect::KernelCover kernels;
    // Problems TP238 of single files.
    std::vector<v1::Reason> lacking;
  };

  void Raise(int code);
  void RaiseFor(const v1::FileReport& report);
  void Input(const absl::Status& status);
  // Says in a thin archive's report which of its members are not among the
  // files of the call: they hold its code.
  void NameAbsent(v1::FileReport& archive) const;
  absl::Status Take(Group& group, std::vector<v1::FileReport> reports);
  // Text of one file of its own and its members.
  void PrintFile(Group& group, const std::vector<v1::FileReport>& reports);
  // Summary and lists that were asked for of a file in a collection.
  void PrintMember(const v1::FileReport& report);
  // Images and kernels that were asked for.
  std::string Lists(const v1::FileReport& report);
  // What of `kernels` the GPUs of --target can use. `report`: of one file.
  void PrintCoverage(const std::vector<inspect::KernelCoverage>& kernels,
                     const v1::FileReport* report);
  // The same for JSON, which has it behind all reports.
  void AddCoverage(const std::vector<inspect::KernelCoverage>& kernels,
                   absl::string_view name, const v1::FileReport* report);
  absl::Status FinishJson();
  void PrintFolder(const Group& group);
  void PrintExpected(const Group& group);
  std::vector<v1::Reason> Unexpected(const Group& group) const;
  // Says how the files were read: with --details, and where a layer is missing.
  void TellConfinement();
  void Separate();
  // Lets cuobjdump list the file at `path` and compares; fills
  // FileReport.witness.
  void AskWitness(const std::string& path,
                  std::vector<v1::FileReport>& reports);

  const InspectOptionsCli& options_;
  Console& console_;
  ViewOptions view_;
  ReportStream stream_;
  // Of JSON with --target.
  std::vector<v1::TargetCoverage> coverage_;
  Inputs inputs_;
  CodeFilter filter_;
  std::unique_ptr<re2::RE2> match_;
  // For what --target's GPUs can use; null: without the tables' rules.
  const compat::Tables* tables_ = nullptr;
  // The worst of the processes that read the files; none has said so yet.
  std::optional<v1::Confinement> confinement_;
  TargetWords expected_;
  TargetWords each_;
  inspect::InspectOptions how_;
  // cuobjdump's path, where it is to be asked.
  std::string cuobjdump_;
  bool list_kernels_ = false;
  bool list_images_ = false;
  bool any_listed_ = false;
  bool printed_ = false;
  bool any_code_ = false;
  int worst_ = kExitPass;
};

int Inspection::Prepare() {
  const bool needs_kernels = options_.kernels || options_.details ||
                             options_.demangle || !options_.match.empty();
  if (needs_kernels && options_.no_kernels) {
    console_.Error(
        "--no-kernels excludes --kernels, --details, --demangle and --match");
    return kExitUsage;
  }
  const auto words = [this](const std::vector<std::string>& texts,
                            absl::string_view option, TargetWords& to) {
    absl::StatusOr<TargetWords> parsed = ParseTargetWords(texts);
    if (!parsed.ok()) {
      console_.Error(absl::StrCat(option, ": ", MessageOf(parsed.status())));
      return false;
    }
    to = *std::move(parsed);
    return true;
  };
  if (!words(options_.targets, "--target", filter_.targets) ||
      !words(options_.expect, "--expect", expected_) ||
      !words(options_.expect_each, "--expect-each", each_)) {
    return kExitUsage;
  }
  if (!options_.match.empty()) {
    re2::RE2::Options how;
    how.set_log_errors(false);
    match_ = std::make_unique<re2::RE2>(options_.match, how);
    if (!match_->ok()) {
      console_.Error(absl::StrCat("--match: ", Printable(match_->error())));
      return kExitUsage;
    }
    filter_.match = match_.get();
  }
  if (!filter_.targets.empty()) {
    if (const absl::StatusOr<const compat::Tables*> tables =
            compat::Tables::Default();
        tables.ok()) {
      tables_ = *tables;
    }
  }
  if (options_.witness) {
    std::vector<std::string> environment;
    for (const char* name :
         {"PATH", "CUDA_HOME", "CUDA_PATH", "TWINPATH_CUOBJDUMP"}) {
      if (const char* value = std::getenv(name); value != nullptr) {
        environment.push_back(absl::StrCat(name, "=", value));
      }
    }
    const absl::StatusOr<std::string> found = runner::FindCuobjdump(
        runner::FindToolkits("", environment), environment);
    if (!found.ok()) {
      console_.Error(absl::StrCat("--witness: ", MessageOf(found.status())));
      return kExitUsage;
    }
    cuobjdump_ = *found;
  }
  filter_.details = options_.details;
  filter_.demangle = options_.demangle;
  // What narrows or widens a list asks for one.
  list_images_ = options_.images || (options_.details && !options_.kernels);
  list_kernels_ = options_.kernels || (options_.details && !options_.images) ||
                  ((options_.demangle || match_ != nullptr) && !list_images_);
  how_.kernels = !options_.no_kernels;
  // Programs get all there is; people wait for what they asked for.
  how_.details = console_.json() || options_.details;
  how_.demangle = options_.demangle || match_ != nullptr;
  return kExitPass;
}

void Inspection::Raise(int code) {
  // Input errors before damage before incompleteness.
  const auto rank = [](int c) {
    return c == kExitPass           ? 0
           : c == kExitInconclusive ? 1
           : c == kExitFail         ? 2
                                    : 3;
  };
  if (rank(code) > rank(worst_)) worst_ = code;
}

void Inspection::RaiseFor(const v1::FileReport& report) {
  switch (HealthOf(report)) {
    case Health::kBroken:
      Raise(kExitFail);
      break;
    case Health::kUnread:
      Raise(kExitInconclusive);
      break;
    default:
      break;
  }
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    any_code_ |= !fatbin.images().empty();
  }
}

void Inspection::Separate() {
  if (printed_) console_.Print("\n");
  printed_ = true;
}

std::vector<v1::Reason> Inspection::Unexpected(const Group& group) const {
  std::vector<v1::Reason> reasons;
  const std::string text = group.expected.Describe(group.input.path);
  if (!text.empty()) reasons.push_back(compat::MakeReason("TP238", text));
  const size_t named = std::min(group.lacking.size(), kMaxLacking);
  reasons.insert(reasons.end(), group.lacking.begin(),
                 group.lacking.begin() + static_cast<std::ptrdiff_t>(named));
  // Without any code there is no file that could lack it.
  if (group.lacking.empty() && !group.each.empty()) {
    const std::string each = group.each.Describe(group.input.path);
    if (!each.empty()) reasons.push_back(compat::MakeReason("TP238", each));
  }
  return reasons;
}

void Inspection::PrintExpected(const Group& group) {
  const std::vector<v1::Reason> reasons = Unexpected(group);
  const size_t more =
      group.lacking.size() - std::min(group.lacking.size(), kMaxLacking);
  if (!reasons.empty()) Raise(kExitFail);
  if (console_.json()) {
    for (const v1::Reason& reason : reasons) {
      console_.Error(compat::DescribeReason(reason));
    }
    return;
  }
  const auto counts = [this](absl::string_view label,
                             const ExpectedTargets& targets) {
    if (targets.empty()) return;
    console_.Print(absl::StrCat("  ", Paint(label, Style::kDim, view_.color),
                                targets.Counts(), "\n"));
  };
  counts("expected  ", group.expected);
  counts("in each   ", group.each);
  console_.Print(RenderReasonList(reasons, view_));
  if (more > 0) console_.Print(absl::StrCat("    and ", more, " more files\n"));
}

std::string Inspection::Lists(const v1::FileReport& report) {
  std::string text;
  if (list_images_) text = RenderImages(report, filter_, view_);
  if (list_kernels_) {
    absl::StrAppend(&text, RenderKernels(report, filter_, view_));
    if (!filter_.targets.empty()) {
      absl::StrAppend(&text, RenderKernelGaps(inspect::CoverKernels({&report}),
                                              filter_.targets, tables_,
                                              match_.get(), view_));
    }
  }
  any_listed_ |= !text.empty();
  return text;
}

void Inspection::PrintMember(const v1::FileReport& report) {
  if (options_.members) {
    Separate();
    console_.Print(RenderFileSummary(report, view_, filter_.targets));
    console_.Print(RenderWitness(report, view_));
    console_.Print(Lists(report));
    return;
  }
  const std::string lists = RenderWitnessTrouble(report, view_) + Lists(report);
  if (lists.empty()) return;
  Separate();
  console_.Print(
      absl::StrCat(Paint(Printable(report.name()), Style::kBold, view_.color),
                   ":\n", lists));
}

void Inspection::PrintFile(Group& group,
                           const std::vector<v1::FileReport>& reports) {
  const v1::FileReport& own = reports.front();
  Separate();
  console_.Print(RenderFileSummary(own, view_, filter_.targets));
  console_.Print(RenderWitness(own, view_));
  if (own.has_carrier()) {
    console_.Print(absl::StrCat(
        "  ", Paint("code      ", Style::kDim, view_.color),
        group.files.Counts(), "\n", group.files.Render(view_, kMaxRows)));
    PrintCoverage(group.kernels.Kernels(), nullptr);
  } else {
    PrintCoverage(group.kernels.Kernels(), &own);
    console_.Print(Lists(own));
  }
  PrintExpected(group);
  for (size_t i = 1; i < reports.size(); ++i) PrintMember(reports[i]);
}

void Inspection::PrintCoverage(
    const std::vector<inspect::KernelCoverage>& kernels,
    const v1::FileReport* report) {
  console_.Print(
      RenderCoverage(kernels, report, filter_.targets, tables_, view_));
}

void Inspection::AddCoverage(
    const std::vector<inspect::KernelCoverage>& kernels, absl::string_view name,
    const v1::FileReport* report) {
  for (v1::TargetCoverage& coverage :
       CoverageOf(kernels, name, report, filter_.targets, tables_)) {
    coverage_.push_back(std::move(coverage));
  }
}

absl::Status Inspection::FinishJson() {
  const auto fill = [this](auto& rest) {
    rest.set_inspector_version(std::string(kVersion));
    if (confinement_) *rest.mutable_confinement() = *confinement_;
  };
  if (filter_.targets.empty()) {
    v1::ArtifactReport rest;
    fill(rest);
    return stream_.Finish(rest);
  }
  v1::InspectOutput rest;
  fill(rest);
  for (v1::TargetCoverage& coverage : coverage_) {
    *rest.add_coverage() = std::move(coverage);
  }
  return stream_.Finish(rest);
}

void Inspection::PrintFolder(const Group& group) {
  Separate();
  console_.Print(absl::StrCat(
      Paint(Printable(group.input.path), Style::kBold, view_.color),
      ": folder, ", group.input.count,
      group.input.count == 1 ? " file\n" : " files\n", "  ",
      Paint("code      ", Style::kDim, view_.color), group.files.Counts(),
      "\n"));
  console_.Print(group.files.Render(view_, kMaxRows));
  PrintCoverage(group.kernels.Kernels(), nullptr);
  console_.Print(RenderReasonList(group.input.problems, view_));
  PrintExpected(group);
}

void Inspection::NameAbsent(v1::FileReport& archive) const {
  // Of a thin archive inside another carrier nothing lies beside.
  const std::string path = archive.member_of().empty() ? archive.name() : "/";
  const std::vector<std::string> absent =
      inspect::ThinMembersElsewhere(archive, path, inputs_.targets);
  if (absent.empty()) return;
  constexpr size_t kMaxNamed = 5;
  const size_t named = std::min(absent.size(), kMaxNamed);
  std::string text =
      absl::StrCat("thin archive: ", absent.size(), " of its ",
                   archive.carrier().external_members_size(),
                   " members lie elsewhere and were not read: ",
                   Printable(absl::StrJoin(
                       absent.begin(),
                       absent.begin() + static_cast<ptrdiff_t>(named), ", ")));
  if (named < absent.size()) {
    absl::StrAppend(&text, " and ", absent.size() - named, " more");
  }
  *archive.add_problems() = compat::MakeReason(
      "TP232", text,
      "Name them, or the folder they lie in, on the command line.");
}

absl::Status Inspection::Take(Group& group,
                              std::vector<v1::FileReport> reports) {
  const bool collects = group.input.folder || reports.front().has_carrier();
  for (size_t i = 0; i < reports.size(); ++i) {
    v1::FileReport& report = reports[i];
    if (report.carrier().external_members_size() > 0) {
      NameAbsent(report);
    }
    RaiseFor(report);
    if (!filter_.targets.empty()) group.kernels.Add(report);
    const std::vector<std::string> lacking = group.expected.Add(report);
    const std::vector<std::string> each = group.each.Add(report);
    if (!each.empty()) {
      const v1::Reason reason = compat::MakeReason(
          "TP238", absl::StrCat(Printable(report.name()), ": no image for ",
                                absl::StrJoin(each, ", ")));
      group.lacking.push_back(reason);
    }
    std::vector<std::string> all = lacking;
    for (const std::string& name : each) {
      if (std::find(all.begin(), all.end(), name) == all.end()) {
        all.push_back(name);
      }
    }
    // The carrier itself is the heading.
    const bool heading = i == 0 && !group.input.folder && report.has_carrier();
    if (collects && !heading) {
      group.files.Add(report, NameInGroup(report.name(), group.input), all);
    }
  }
  if (!group.input.folder && IsForeign(reports.front())) {
    console_.Error(ForeignText(reports.front()));
    Raise(kExitUsage);
  }
  if (console_.json()) {
    if (!group.input.folder) {
      for (const v1::Reason& reason : Unexpected(group)) {
        *reports.front().add_problems() = reason;
      }
      PrintExpected(group);
    }
    for (const v1::FileReport& report : reports) {
      TWINPATH_RETURN_IF_ERROR(stream_.Add(report));
      if (!filter_.targets.empty()) {
        AddCoverage(inspect::CoverKernels({&report}), report.name(), &report);
      }
    }
    if (!group.input.folder && reports.front().has_carrier()) {
      AddCoverage(group.kernels.Kernels(), reports.front().name(), nullptr);
    }
    return absl::OkStatus();
  }
  if (!group.input.folder) {
    PrintFile(group, reports);
  } else {
    for (const v1::FileReport& report : reports) PrintMember(report);
  }
  return absl::OkStatus();
}

void Inspection::AskWitness(const std::string& path,
                            std::vector<v1::FileReport>& reports) {
  v1::FileReport& own = reports.front();
  // A package is no file for cuobjdump, nor is text; whoever asks for a folder
  // means the files in it that are.
  if (IsForeign(own) || (own.has_carrier() && own.carrier().format() != "ar")) {
    return;
  }
  std::vector<const v1::FileReport*> members;
  for (size_t i = 1; i < reports.size(); ++i) members.push_back(&reports[i]);
  runner::WitnessOptions how;
  how.program = cuobjdump_;
  how.run = [](const v1::RunRequest& request) {
    return runner::RunInChild(
        request,
        runner::TimeLimit(request.entry(), request.path()) + absl::Seconds(60),
        nullptr);
  };
  *own.mutable_witness() = runner::AskWitness(path, own, members, how);
  if (!own.witness().problem().empty() ||
      !own.witness().differences().empty()) {
    Raise(kExitInconclusive);
  }
}

void Inspection::TellConfinement() {
  if (!confinement_) return;
  if (options_.details && !console_.json()) {
    Separate();
    console_.Print(
        absl::StrCat(Paint("read by a process with ", Style::kDim, view_.color),
                     inspect::DescribeConfinement(*confinement_), "\n"));
  }
  if (confinement_->missing_size() > 0) {
    console_.Warn(compat::DescribeReason(compat::MakeReason(
        "TP244", absl::StrJoin(confinement_->missing(), "; "))));
  }
}

int Inspection::Run() {
  if (const int code = Prepare(); code != kExitPass) return code;
  inputs_ = ExpandInputs(options_.files);
  const Inputs& inputs = inputs_;
  how_.digest =
      console_.json() || options_.members ||
      std::any_of(inputs.groups.begin(), inputs.groups.end(),
                  [](const InputGroup& group) { return !group.folder; });
  std::unique_ptr<Group> group;
  size_t next_group = 0;
  const auto finish = [&] {
    if (group == nullptr) return;
    if (group->input.folder) {
      if (console_.json()) {
        PrintExpected(*group);
        AddCoverage(group->kernels.Kernels(), group->input.path, nullptr);
      } else {
        PrintFolder(*group);
      }
    }
    group.reset();
  };
  // Opens the groups up to the one that has `target`.
  const auto advance = [&](size_t target) {
    while (next_group < inputs.groups.size() &&
           (group == nullptr ||
            target >= group->input.first + group->input.count)) {
      finish();
      const InputGroup& input = inputs.groups[next_group++];
      if (!input.status.ok()) {
        Raise(console_.Fail(input.status));
        continue;
      }
      if (!input.problems.empty()) Raise(kExitInconclusive);
      group = std::make_unique<Group>(input, filter_.targets, expected_, each_);
    }
  };
  absl::Status status;
  {
    Progress progress(console_);
    const auto show = [&](size_t target, absl::string_view how_far) {
      if (!console_.err_is_terminal() || target >= inputs.targets.size()) {
        return;
      }
      progress.Show(absl::StrCat(
          "reading ",
          inputs.targets.size() == 1
              ? ""
              : absl::StrCat(target + 1, " of ", inputs.targets.size(), ": "),
          Printable(inputs.targets[target].path), how_far));
    };
    show(0, "");
    inspect::ChildEvents events;
    events.confined = [this](const v1::Confinement& confinement) {
      if (!confinement_ ||
          confinement_->missing_size() < confinement.missing_size()) {
        confinement_ = confinement;
      }
    };
    if (console_.err_is_terminal()) {
      events.progress = [&show](size_t target, uint64_t done, uint64_t total) {
        if (total == 0) return;
        const double part =
            static_cast<double>(done) / static_cast<double>(total);
        show(target, absl::StrCat(": ", static_cast<int>(part * 100), " %"));
      };
    }
    status = inspect::InspectFiles(
        inputs.targets, how_,
        [&](const absl::Status& opened, size_t target,
            std::vector<v1::FileReport> reports) -> absl::Status {
          console_.Transient("");
          if (console_.closed()) {
            return absl::CancelledError("nobody reads the reports");
          }
          advance(target);
          if (!opened.ok()) {
            Raise(console_.Fail(opened));
          } else if (!reports.empty()) {
            if (options_.witness) {
              AskWitness(inputs_.targets[target].path, reports);
            }
            TWINPATH_RETURN_IF_ERROR(Take(*group, std::move(reports)));
          }
          show(target + 1, "");
          return absl::OkStatus();
        },
        events);
  }
  // `inspect ... | head`: what is not read yet interests nobody.
  if (console_.closed()) return kExitClosedPipe;
  if (!status.ok()) Raise(console_.Fail(status));
  if (status.ok()) {
    advance(inputs.targets.size());
    finish();
  }
  if (console_.json()) {
    if (const absl::Status end = FinishJson(); !end.ok()) {
      Raise(console_.Fail(end));
    }
  }
  TellConfinement();
  if (!console_.json() && (list_images_ || list_kernels_) && any_code_ &&
      !any_listed_) {
    console_.Warn(match_ != nullptr || !filter_.targets.empty()
                      ? "nothing is what --match and --target ask for"
                      : "no kernels in any of the files");
  }
  if (worst_ == kExitPass && !any_code_) {
    // An empty listing is no success: whoever inspects wants device code.
    console_.Warn("no device code in any of the files");
    return kExitFail;
  }
  return worst_;
}

}  // namespace

int RunInspect(const InspectOptionsCli& options, Console& console) {
  Inspection inspection(options, console);
  return inspection.Run();
}

}  // namespace twinpath::cli
