// twinpath sweep and twinpath gate.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/digest.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/artifact_files.h"
#include "cli/client.h"
#include "cli/client_hint.h"
#include "cli/commands.h"
#include "cli/gate.h"
#include "cli/prepared_sweep.h"
#include "cli/progress.h"
#include "cli/sweep_view.h"
#include "cli/table.h"
#include "cli/view_options.h"
#include "twinpath/v1/services.pb.h"
#include "twinpath/v1/sweep.pb.h"
#include "verdict/judge.h"

namespace twinpath::cli {
namespace {

std::string Counted(int count, absl::string_view what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

ViewOptions ViewOf(const Console& console) {
  return ViewOptions{console.width(), console.color()};
}

void PrintSweep(const v1::Sweep& sweep, Console& console) {
  if (console.json()) {
    console.PrintJson(sweep);
  } else {
    console.Print(RenderSweep(sweep, ViewOf(console)));
  }
}

absl::StatusOr<v1::Sweep> Watch(Client& client, absl::string_view id,
                                Console& console) {
  Progress progress(console);
  return client.WatchSweep(
      id, [&](const v1::Sweep& sweep) { progress.Show(ProgressLine(sweep)); },
      [&](absl::string_view reason) {
        console.Warn(absl::StrCat(reason, "; trying again for 30 s"));
      });
}

int Finish(const absl::StatusOr<v1::Sweep>& sweep, Console& console) {
  if (!sweep.ok()) {
    return console.Fail(sweep.status(), absl::IsNotFound(sweep.status())
                                            ? "twinpath sweep list"
                                            : HintFor(sweep.status()));
  }
  PrintSweep(*sweep, console);
  return verdict::ExitCodeOf(sweep->verdict());
}

}  // namespace

int RunSweepStart(const SweepStartOptions& options, Console& console) {
  absl::StatusOr<PreparedSweep> prepared = PrepareSweep(options.file);
  if (prepared.ok() && !options.signature.empty()) {
    const absl::Status status = AddSignature(options.signature, *prepared);
    if (!status.ok()) {
      return console.Fail(status, absl::StrCat("twinpath release sign ",
                                               options.file, " --key KEY"));
    }
  }
  if (!prepared.ok()) {
    return console.Fail(
        prepared.status(),
        absl::StrContains(prepared.status().message(), "build record")
            ? "run the build under twinpath record again"
            : "");
  }
  if (options.dry_run) {
    if (console.json()) {
      console.PrintJson(prepared->spec);
    } else {
      console.Print(absl::StrCat(
          options.file, ": ",
          Counted(prepared->artifact.artifact.files_size(), "file"), ", ",
          prepared->spec.release().entries_size(),
          prepared->spec.release().entries_size() == 1 ? " entry" : " entries",
          ": in order; nothing was sent\n"));
    }
    return kExitPass;
  }
  const auto client = Client::Make(CoordinatorAddress(options.coordinator));
  if (!client.ok()) return console.Fail(client.status());
  const absl::StatusOr<v1::RegisterArtifactResponse> pushed =
      PushArtifact(prepared->artifact, **client, console);
  if (!pushed.ok()) {
    return console.Fail(pushed.status(), HintFor(pushed.status()));
  }
  v1::StartSweepRequest request;
  request.set_request_id(RandomHex(16));
  *request.mutable_spec() = prepared->spec;
  const absl::StatusOr<v1::Sweep> started = (*client)->StartSweep(request);
  if (!started.ok()) {
    return console.Fail(started.status(), HintFor(started.status()));
  }
  if (started->cells().empty()) {
    console.Warn("no host fits the selector; the sweep runs nothing");
  }
  if (options.watch) {
    console.Say(absl::StrCat("sweep ", started->id(), " started: ",
                             Counted(started->cells_size(), "cell")));
    return Finish(Watch(**client, started->id(), console), console);
  }
  if (console.json()) {
    console.PrintJson(*started);
    return kExitPass;
  }
  console.Print(absl::StrCat(started->id(), "\n"));
  console.Say(absl::StrCat("started with ",
                           Counted(started->cells_size(), "cell"),
                           "; next: twinpath sweep watch ", started->id()));
  return kExitPass;
}

int RunSweepWatch(const std::string& coordinator, const std::string& id,
                  Console& console) {
  const auto client = Client::Make(CoordinatorAddress(coordinator));
  if (!client.ok()) return console.Fail(client.status());
  return Finish(Watch(**client, id, console), console);
}

int RunSweepShow(const std::string& coordinator, const std::string& id,
                 Console& console) {
  const auto client = Client::Make(CoordinatorAddress(coordinator));
  if (!client.ok()) return console.Fail(client.status());
  const absl::StatusOr<v1::Sweep> sweep = (*client)->GetSweep(id);
  const int code = Finish(sweep, console);
  return sweep.ok() ? static_cast<int>(kExitPass) : code;
}

int RunSweepCancel(const std::string& coordinator, const std::string& id,
                   Console& console) {
  const auto client = Client::Make(CoordinatorAddress(coordinator));
  if (!client.ok()) return console.Fail(client.status());
  const absl::StatusOr<v1::Sweep> sweep = (*client)->CancelSweep(id);
  if (!sweep.ok()) {
    return console.Fail(sweep.status(), absl::IsNotFound(sweep.status())
                                            ? "twinpath sweep list"
                                            : HintFor(sweep.status()));
  }
  if (console.json()) {
    console.PrintJson(*sweep);
  } else {
    console.Say(
        absl::StrCat("sweep ", sweep->id(), ": ", StateWord(sweep->state())));
  }
  return kExitPass;
}

int RunSweepList(const std::string& coordinator, size_t limit,
                 Console& console) {
  const auto client = Client::Make(CoordinatorAddress(coordinator));
  if (!client.ok()) return console.Fail(client.status());
  const absl::StatusOr<std::vector<v1::Sweep>> sweeps =
      (*client)->ListSweeps(limit);
  if (!sweeps.ok()) {
    return console.Fail(sweeps.status(), HintFor(sweeps.status()));
  }
  if (console.json()) {
    v1::ListSweepsResponse response;
    response.mutable_sweeps()->Add(sweeps->begin(), sweeps->end());
    console.PrintJson(response);
    return kExitPass;
  }
  if (sweeps->empty()) {
    console.Say("no sweep was started yet");
    console.Hint("twinpath sweep start FILE");
    return kExitPass;
  }
  Table table({"ID", "NAME", "STATE", "VERDICT", "STARTED"});
  for (const v1::Sweep& sweep : *sweeps) {
    table.AddRow(
        {sweep.id(),
         sweep.spec().name(),
         std::string(StateWord(sweep.state())),
         {std::string(VerdictWord(sweep.verdict().kind())),
          VerdictStyle(sweep.verdict().kind())},
         absl::FormatTime("%Y-%m-%d %H:%M:%SZ",
                          absl::FromUnixSeconds(sweep.start_time().seconds()),
                          absl::UTCTimeZone())});
  }
  console.Print(table.Render(console.width(), console.color()));
  return kExitPass;
}

int RunGate(const GateOptions& options, Console& console) {
  const auto client = Client::Make(CoordinatorAddress(options.coordinator));
  if (!client.ok()) return console.Fail(client.status());
  const absl::StatusOr<v1::Sweep> sweep =
      options.wait ? Watch(**client, options.id, console)
                   : (*client)->GetSweep(options.id);
  if (!sweep.ok()) {
    return console.Fail(sweep.status(), absl::IsNotFound(sweep.status())
                                            ? "twinpath sweep list"
                                            : HintFor(sweep.status()));
  }
  const GateAnswer answer = AnswerGate(*sweep, options.inconclusive);
  if (console.json()) {
    console.PrintJson(sweep->verdict());
  } else {
    ViewOptions view = ViewOf(console);
    view.whole_statement = true;
    console.Print(RenderVerdict(*sweep, view));
  }
  if (!answer.note.empty()) console.Warn(answer.note);
  if (sweep->state() == v1::SWEEP_STATE_RUNNING) {
    console.Hint(absl::StrCat("twinpath gate --wait ", Printable(options.id)));
  }
  return answer.exit_code;
}

}  // namespace twinpath::cli
