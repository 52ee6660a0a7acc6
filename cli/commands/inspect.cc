// twinpath inspect: what device code files, packages and folders hold.

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/coverage_view.h"
#include "cli/expect.h"
#include "cli/inputs.h"
#include "cli/inspect_plan.h"
#include "cli/inspect_printer.h"
#include "cli/progress.h"
#include "cli/report_stream.h"
#include "cli/report_view.h"
#include "compat/reason.h"
#include "inspect/child.h"
#include "inspect/folder.h"
#include "inspect/summary.h"
#include "runner/paths.h"
#include "runner/run.h"
#include "runner/witness.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::cli {
namespace {

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

// The report of a file that could not be opened, or of a folder of which a part
// could not be listed: nothing is known of what is in it.
v1::FileReport Unread(absl::string_view name) {
  v1::FileReport report;
  report.set_name(std::string(name));
  return report;
}

// One call of the command: takes reports as they come, prints, and keeps the
// exit code.
class Inspection {
 public:
  Inspection(const InspectOptionsCli& options, InspectPlan plan,
             Console& console)
      : options_(options),
        plan_(std::move(plan)),
        console_(console),
        printer_(options, plan_, console),
        stream_(console) {}

  int Run();

 private:
  void Raise(int code);
  void RaiseFor(const v1::FileReport& report);
  // Says in a thin archive's report which of its members are not among the
  // files of the call: they hold its code.
  void NameAbsent(v1::FileReport& archive) const;
  absl::Status Take(InspectGroup& group, std::vector<v1::FileReport> reports);
  // A target of the argument that could not be opened.
  absl::Status Miss(InspectGroup& group, size_t target,
                    const absl::Status& opened);
  // Says for programs what of a folder could not be listed; people have it
  // below the folder's table.
  absl::Status TellUnlisted(const InputGroup& folder);
  // What the GPUs of --target can use, for JSON, which has it behind all
  // reports.
  void AddCoverage(std::vector<v1::TargetCoverage> coverage);
  absl::Status FinishJson();
  // Lets cuobjdump list the file at `path` and compares; fills
  // FileReport.witness.
  void AskWitness(const std::string& path,
                  std::vector<v1::FileReport>& reports);

  const InspectOptionsCli& options_;
  InspectPlan plan_;
  Console& console_;
  InspectPrinter printer_;
  ReportStream stream_;
  // Of JSON with --target.
  std::vector<v1::TargetCoverage> coverage_;
  Inputs inputs_;
  // The worst of the processes that read the files; none has said so yet.
  std::optional<v1::Confinement> confinement_;
  bool any_code_ = false;
  int worst_ = kExitPass;
};

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

void Inspection::AddCoverage(std::vector<v1::TargetCoverage> coverage) {
  for (v1::TargetCoverage& one : coverage) {
    coverage_.push_back(std::move(one));
  }
}

absl::Status Inspection::FinishJson() {
  const auto fill = [this](auto& rest) {
    rest.set_inspector_version(std::string(kVersion));
    if (confinement_) *rest.mutable_confinement() = *confinement_;
  };
  if (plan_.filter.targets.empty()) {
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

absl::Status Inspection::Take(InspectGroup& group,
                              std::vector<v1::FileReport> reports) {
  const bool collects = group.input.folder || reports.front().has_carrier();
  for (size_t i = 0; i < reports.size(); ++i) {
    v1::FileReport& report = reports[i];
    if (report.carrier().external_members_size() > 0) {
      NameAbsent(report);
    }
    RaiseFor(report);
    std::vector<v1::TargetCoverage> coverage = group.coverage.Add(report);
    if (console_.json()) AddCoverage(std::move(coverage));
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
    // The carrier itself is the heading, unless it has code of its own, as a
    // program with an archive behind it may have.
    const bool heading = i == 0 && !group.input.folder &&
                         report.has_carrier() && report.fatbins().empty();
    if (collects && !heading) {
      const std::string name = NameInGroup(report.name(), group.input);
      group.files.Add(report, name.empty() ? "(itself)" : name, all);
    }
  }
  if (!group.input.folder && IsForeign(reports.front())) {
    console_.Error(ForeignText(reports.front()));
    Raise(kExitUsage);
  }
  if (!group.input.folder && !Unexpected(group).empty()) Raise(kExitFail);
  if (console_.json()) {
    if (!group.input.folder) {
      for (const v1::Reason& reason : Unexpected(group)) {
        *reports.front().add_problems() = reason;
      }
      printer_.PrintExpected(group);
    }
    for (const v1::FileReport& report : reports) {
      TWINPATH_RETURN_IF_ERROR(stream_.Add(report));
    }
    if (!group.input.folder && reports.front().has_carrier()) {
      AddCoverage(group.coverage.Messages(reports.front().name()));
    }
    return absl::OkStatus();
  }
  if (!group.input.folder) {
    printer_.PrintFile(group, reports);
  } else {
    for (const v1::FileReport& report : reports) printer_.PrintMember(report);
  }
  return absl::OkStatus();
}

absl::Status Inspection::Miss(InspectGroup& group, size_t target,
                              const absl::Status& opened) {
  Raise(console_.Fail(opened));
  // A word that names nothing is no file that could have a report.
  if (!group.input.folder &&
      (absl::IsNotFound(opened) || absl::IsInvalidArgument(opened))) {
    return absl::OkStatus();
  }
  v1::FileReport report = Unread(inputs_.targets[target].name);
  *report.add_problems() =
      compat::MakeReason("TP232", MessageOf(opened),
                         absl::IsPermissionDenied(opened)
                             ? "Run it as a user who may read what is named."
                             : "");
  if (group.input.folder) {
    group.files.Add(report, NameInGroup(report.name(), group.input));
  }
  return console_.json() ? stream_.Add(report) : absl::OkStatus();
}

absl::Status Inspection::TellUnlisted(const InputGroup& folder) {
  if (!console_.json() || folder.problems.empty()) return absl::OkStatus();
  constexpr size_t kMaxNamed = 10;
  v1::FileReport report = Unread(folder.path);
  for (const v1::Reason& problem : folder.problems) {
    if (report.problems_size() < static_cast<int>(kMaxNamed)) {
      console_.Warn(compat::DescribeReason(problem));
    }
    *report.add_problems() = problem;
  }
  if (folder.problems.size() > kMaxNamed) {
    console_.Warn(
        absl::StrCat("and ", folder.problems.size() - kMaxNamed, " more"));
  }
  return stream_.Add(report);
}

void Inspection::AskWitness(const std::string& path,
                            std::vector<v1::FileReport>& reports) {
  v1::FileReport& own = reports.front();
  // Text is no file for cuobjdump; whoever asks for a folder means the files in
  // it that are.
  if (IsForeign(own)) return;
  if (own.has_carrier() && own.carrier().format() != "ar") {
    // Nor is a package, whose members nobody unpacks for it: where one has
    // code, that is not compared.
    if (std::any_of(reports.begin(), reports.end(), HasCode)) {
      own.mutable_witness()->set_problem(
          "members of packages are not given to cuobjdump; unpack it and name "
          "the folder");
      Raise(kExitInconclusive);
    }
    return;
  }
  std::vector<const v1::FileReport*> members;
  for (size_t i = 1; i < reports.size(); ++i) members.push_back(&reports[i]);
  runner::WitnessOptions how;
  how.program = plan_.cuobjdump;
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

int Inspection::Run() {
  inputs_ = ExpandInputs(options_.files);
  const Inputs& inputs = inputs_;
  plan_.how.digest =
      console_.json() || options_.members ||
      std::any_of(inputs.groups.begin(), inputs.groups.end(),
                  [](const InputGroup& group) { return !group.folder; });
  std::unique_ptr<InspectGroup> group;
  size_t next_group = 0;
  const auto finish = [&] {
    if (group == nullptr) return;
    if (group->input.folder) {
      if (!Unexpected(*group).empty()) Raise(kExitFail);
      if (console_.json()) {
        if (const absl::Status told = TellUnlisted(group->input); !told.ok()) {
          Raise(console_.Fail(told));
        }
        printer_.PrintExpected(*group);
        AddCoverage(group->coverage.Messages(group->input.path));
      } else {
        printer_.PrintFolder(*group);
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
        if (console_.json() && absl::IsPermissionDenied(input.status)) {
          v1::FileReport report = Unread(input.path);
          *report.add_problems() =
              compat::MakeReason("TP232", MessageOf(input.status));
          if (const absl::Status told = stream_.Add(report); !told.ok()) {
            Raise(console_.Fail(told));
          }
        }
        continue;
      }
      if (!input.problems.empty()) Raise(kExitInconclusive);
      group = std::make_unique<InspectGroup>(input, plan_);
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
        inputs.targets, plan_.how,
        [&](const absl::Status& opened, size_t target,
            std::vector<v1::FileReport> reports) -> absl::Status {
          console_.Transient("");
          if (console_.closed()) {
            return absl::CancelledError("nobody reads the reports");
          }
          advance(target);
          if (!opened.ok()) {
            TWINPATH_RETURN_IF_ERROR(Miss(*group, target, opened));
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
  if (confinement_) printer_.PrintConfinement(*confinement_);
  if (!console_.json() && (plan_.list_images || plan_.list_kernels) &&
      any_code_ && !printer_.any_listed()) {
    console_.Warn(plan_.match != nullptr || !plan_.filter.targets.empty()
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
  if (options.files == std::vector<std::string>{"-"} &&
      access("-", F_OK) != 0) {
    console.Error(
        "inspect: standard input cannot be read: files are read from "
        "both ends");
    console.Hint("COMMAND > FILE; twinpath inspect FILE");
    return kExitUsage;
  }
  std::optional<InspectPlan> plan = PlanInspection(options, console);
  if (!plan) return kExitUsage;
  return Inspection(options, *std::move(plan), console).Run();
}

}  // namespace twinpath::cli
