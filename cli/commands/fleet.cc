// twinpath hosts and twinpath artifact: what the coordinator knows.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/digest.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/artifact_files.h"
#include "cli/client.h"
#include "cli/client_hint.h"
#include "cli/commands.h"
#include "cli/facts_view.h"
#include "cli/host_findings.h"
#include "cli/reason_view.h"
#include "cli/table.h"
#include "twinpath/v1/services.pb.h"

namespace twinpath::cli {
namespace {

uint64_t TotalBytes(const v1::Artifact& artifact) {
  uint64_t total = 0;
  for (const v1::ArtifactFile& file : artifact.files()) {
    total += file.size_bytes();
  }
  return total;
}

}  // namespace

int RunHostsList(const HostsOptions& options, Console& console) {
  for (const std::string& label : options.labels) {
    // Without "=" it would select nothing, and look like an empty fleet.
    if (label.find('=') == std::string::npos || label[0] == '=') {
      console.Error(absl::StrCat("--label \"", Printable(label),
                                 "\": expected key=value"));
      return kExitUsage;
    }
  }
  const auto client = Client::Make(CoordinatorAddress(options.coordinator));
  if (!client.ok()) return console.Fail(client.status());
  v1::HostSelector selector;
  for (const std::string& label : options.labels) selector.add_labels(label);
  const absl::StatusOr<std::vector<v1::Host>> hosts =
      (*client)->ListHosts(selector);
  if (!hosts.ok()) return console.Fail(hosts.status(), HintFor(hosts.status()));
  if (console.json()) {
    v1::ListHostsResponse response;
    response.mutable_hosts()->Add(hosts->begin(), hosts->end());
    console.PrintJson(response);
    return kExitPass;
  }
  if (hosts->empty() && !options.labels.empty()) {
    console.Say(
        absl::StrCat("no host is labelled ",
                     Printable(absl::StrJoin(options.labels, " and "))));
    console.Hint("twinpath hosts lists every host");
    return kExitPass;
  }
  if (hosts->empty()) {
    console.Say("no host is known yet");
    console.Hint("start an agent on a GPU host: twinpath-agent --help");
    return kExitPass;
  }
  console.Print(RenderHosts(*hosts, absl::Now(),
                            ViewOptions{console.width(), console.color()}));
  return kExitPass;
}

int RunHostsShow(const HostsOptions& options, const std::string& host,
                 Console& console) {
  const auto client = Client::Make(CoordinatorAddress(options.coordinator));
  if (!client.ok()) return console.Fail(client.status());
  const absl::StatusOr<v1::Host> found = (*client)->GetHost(host);
  if (!found.ok()) {
    // An unknown host: the message names the nearest.
    return console.Fail(found.status(), HintFor(found.status()));
  }
  if (console.json()) {
    console.PrintJson(*found);
    return kExitPass;
  }
  const ViewOptions view{console.width(), console.color()};
  console.Print(RenderHosts({*found}, absl::Now(), view));
  if (found->has_facts()) {
    console.Print("\n");
    console.Print(RenderFacts(found->facts(), view));
    console.Print("\n");
    console.Print(RenderHostFindings(HostFindings(found->facts()), view));
  }
  return kExitPass;
}

int RunArtifactPush(const ArtifactPushOptions& options, Console& console) {
  std::vector<ArtifactSource> sources;
  for (const std::string& file : options.files) {
    sources.push_back(ArtifactSource{file, "", ""});
  }
  const std::string name = options.name.empty()
                               ? std::string(BaseName(options.files[0]))
                               : options.name;
  const absl::StatusOr<LocalArtifact> artifact =
      ScanLocal(name, sources, options.root);
  if (!artifact.ok()) return console.Fail(artifact.status());
  const auto client = Client::Make(CoordinatorAddress(options.coordinator));
  if (!client.ok()) return console.Fail(client.status());
  const absl::StatusOr<v1::RegisterArtifactResponse> response =
      PushArtifact(*artifact, **client, console);
  if (!response.ok()) {
    return console.Fail(response.status(), HintFor(response.status()));
  }
  if (console.json()) {
    console.PrintJson(*response);
    return kExitPass;
  }
  console.Print(absl::StrCat(
      HexOf(response->artifact().digest()), "  ",
      Printable(response->artifact().name()), "  ",
      response->artifact().files_size(),
      response->artifact().files_size() == 1 ? " file, " : " files, ",
      HumanBytes(TotalBytes(response->artifact())),
      response->existed() ? ", was there already" : "", "\n"));
  return kExitPass;
}

int RunArtifactList(const std::string& coordinator, size_t limit,
                    Console& console) {
  const auto client = Client::Make(CoordinatorAddress(coordinator));
  if (!client.ok()) return console.Fail(client.status());
  const absl::StatusOr<std::vector<v1::StoredArtifact>> artifacts =
      (*client)->ListArtifacts(limit);
  if (!artifacts.ok()) {
    return console.Fail(artifacts.status(), HintFor(artifacts.status()));
  }
  if (console.json()) {
    v1::ListArtifactsResponse response;
    response.mutable_artifacts()->Add(artifacts->begin(), artifacts->end());
    console.PrintJson(response);
    return kExitPass;
  }
  if (artifacts->empty()) {
    console.Say("no artifact is stored yet");
    console.Hint("twinpath artifact push FILE...");
    return kExitPass;
  }
  Table table({"DIGEST", "NAME", "FILES", "SIZE", "REGISTERED"});
  for (const v1::StoredArtifact& stored : *artifacts) {
    table.AddRow(
        {HexPrefix(stored.artifact().digest()), stored.artifact().name(),
         absl::StrCat(stored.artifact().files_size()),
         HumanBytes(TotalBytes(stored.artifact())),
         absl::FormatTime("%Y-%m-%d %H:%M:%SZ",
                          absl::FromUnixSeconds(stored.create_time().seconds()),
                          absl::UTCTimeZone())});
  }
  console.Print(table.Render(console.width(), console.color()));
  return kExitPass;
}

}  // namespace twinpath::cli
