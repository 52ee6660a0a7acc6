// Asks the run unit as the agent does, and as an agent that lies would. Prints
// how the run ended and what it said. Exit code 0: there was an answer.

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "inspect/manifest.h"
#include "runner/probe.h"
#include "runner/run.h"
#include "runner/run_unit.h"
#include "runner/unit_socket.h"
#include "trust/signed_release.h"

namespace twinpath {
namespace {

struct Flags {
  std::string socket = runner::kRunSocket;
  std::string key;
  std::string program;
  // A folder whose files are the artifact; instead of program.
  std::string folder;
  // Digest: the entry is one of an oci_image.
  std::string oci_image;
  std::string path = "plain";
  std::vector<std::string> gpus;
  // No unit: twinpath-run as a child.
  bool local = false;
  std::vector<std::string> environment;
  std::vector<std::string> command;
  std::vector<std::string> labels;
  int timeout = 60;
  uint64_t memory = 0;
  uint32_t output = 0;
  // The connection is closed after so many seconds; 0: never.
  std::string hold;
  int64_t not_after = 0;
  std::string sent_file;
  std::string changed_argument;
  std::string asked_entry = "entry";
};

absl::StatusOr<v1::UnitRunRequest> MakeRequest(const Flags& flags) {
  v1::UnitRunRequest request;
  request.set_attempt_id("0123456789abcdef0123456789abcdef");
  request.set_path(flags.path == "native"    ? v1::PATH_NATIVE
                   : flags.path == "ptx-jit" ? v1::PATH_PTX_JIT
                                             : v1::PATH_PLAIN);
  for (const std::string& gpu : flags.gpus) request.add_gpu_uuids(gpu);
  request.set_entry(flags.asked_entry);
  request.set_output_limit_bytes(flags.output);
  v1::Release& release = *request.mutable_release();
  const std::string what = flags.folder.empty() ? flags.program : flags.folder;
  TWINPATH_ASSIGN_OR_RETURN(*release.mutable_artifact(),
                            inspect::ScanArtifact({what}, flags.folder));
  v1::Entry& entry = *release.add_entries();
  entry.set_name("entry");
  for (const std::string& word : flags.command) entry.add_command(word);
  entry.mutable_timeout()->set_seconds(flags.timeout);
  entry.set_memory_bytes(flags.memory);
  if (!flags.oci_image.empty()) {
    entry.set_kind(v1::ENTRY_KIND_OCI);
    entry.set_oci_image(flags.oci_image);
  }
  for (const std::string& text : flags.environment) {
    v1::EnvironmentVariable& variable = *entry.add_environment();
    variable.set_name(text.substr(0, text.find('=')));
    variable.set_value(text.substr(text.find('=') + 1));
  }
  for (const std::string& label : flags.labels) {
    release.add_host_labels(label);
  }
  if (flags.not_after != 0) {
    release.mutable_not_after()->set_seconds(flags.not_after);
  }
  if (!flags.key.empty()) {
    TWINPATH_ASSIGN_OR_RETURN(const std::string pem,
                              ReadFile(flags.key, 64 << 10));
    TWINPATH_ASSIGN_OR_RETURN(const trust::PrivateKey key,
                              trust::PrivateKey::FromPem(pem));
    TWINPATH_ASSIGN_OR_RETURN(*request.mutable_envelope(),
                              trust::SignRelease(release, key));
  }
  // What a liar changes behind the signature.
  if (!flags.changed_argument.empty()) {
    entry.add_command(flags.changed_argument);
  }
  return request;
}

// Asks the probe unit, at most so many seconds.
int Probe(int seconds) {
  runner::ProbeOptions options;
  options.socket = runner::kProbeSocket;
  v1::ProbeRequest request;
  request.set_driver(true);
  const auto answer =
      runner::ProbeInChild(request, absl::Seconds(seconds), options);
  if (!answer.ok()) return 2;
  std::printf("%s gpus=%d %s\n",
              v1::ProbeState_Name(answer->gpu_probe().state()).c_str(),
              answer->gpus_size(), answer->gpu_probe().error().c_str());
  return 0;
}

// Runs the entry without the unit.
v1::Observation RunLocally(const v1::UnitRunRequest& asked, const Flags& flags,
                           const std::string& work,
                           const std::function<bool()>& cancelled) {
  v1::RunRequest request;
  request.set_attempt_id(asked.attempt_id());
  request.set_path(asked.path());
  *request.mutable_entry() = asked.release().entries(0);
  *request.mutable_gpu_uuids() = asked.gpu_uuids();
  request.set_output_limit_bytes(asked.output_limit_bytes());
  request.set_artifact_directory(flags.folder.empty() ? DirName(flags.program)
                                                      : flags.folder);
  request.set_work_directory(work);
  return runner::RunInChild(request, absl::Minutes(5), cancelled);
}

int Run(const Flags& flags) {
  const absl::StatusOr<v1::UnitRunRequest> request = MakeRequest(flags);
  if (!request.ok()) {
    std::fprintf(stderr, "%s\n",
                 std::string(request.status().message()).c_str());
    return 2;
  }
  // The connection is closed once this file is there.
  const auto over = [&] {
    return !flags.hold.empty() && access(flags.hold.c_str(), F_OK) == 0;
  };
  const absl::StatusOr<TempDirectory> work = TempDirectory::Make("/var/tmp");
  if (!work.ok()) return 2;
  const v1::Observation seen =
      flags.local ? RunLocally(*request, flags, work->path(), over)
                  : runner::RunInUnit(
                        flags.socket, *request,
                        [&](const v1::ArtifactFile& file) {
                          return OpenRegularFile(
                              !flags.sent_file.empty() ? flags.sent_file
                              : flags.folder.empty()
                                  ? flags.program
                                  : JoinPath(flags.folder, file.name()));
                        },
                        absl::Minutes(5), over)
                        .observation();
  std::printf(
      "ending=%s exit=%d signal=%d sandbox=%s kept=%zu total=%llu "
      "landlock=%u\n",
      v1::Ending_Name(seen.ending()).c_str(), seen.exit_code(), seen.signal(),
      seen.sandbox().c_str(),
      seen.stdout().head().size() + seen.stdout().tail().size(),
      static_cast<unsigned long long>(seen.stdout().total_bytes()),
      seen.landlock_abi());
  std::printf("problem: %s\n", seen.problem().c_str());
  if (seen.has_oci_image()) {
    std::printf(
        "image: %s from %s user %s\n", seen.oci_image().digest().c_str(),
        seen.oci_image().source().c_str(), seen.oci_image().user().c_str());
    for (const auto& variable : seen.environment()) {
      std::printf("env: %s=%s\n", variable.name().c_str(),
                  variable.value().c_str());
    }
    std::printf("cache: %u\n", seen.cache().files());
  }
  std::printf("out: %.4000s\n", seen.stdout().head().c_str());
  std::printf("err: %.4000s\n", seen.stderr().head().c_str());
  return seen.ending() == v1::ENDING_INTERRUPTED ? 1 : 0;
}

}  // namespace
}  // namespace twinpath

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  twinpath::Flags flags;
  CLI::App app{"Asks the run unit."};
  CLI::Option* const socket = app.add_option("--socket", flags.socket);
  app.add_option("--key", flags.key, "Signs with this key; none: unsigned");
  app.add_option("--program", flags.program, "The artifact's only file");
  int probe = 0;
  app.add_option("--probe", probe, "Ask the probe unit instead");
  app.add_option("--folder", flags.folder, "A folder of files instead");
  app.add_option("--oci-image", flags.oci_image);
  app.add_option("--path", flags.path);
  app.add_option("--gpu", flags.gpus)->allow_extra_args(false);
  app.add_option("--env", flags.environment)->allow_extra_args(false);
  app.add_flag("--local", flags.local, "Without the unit");
  app.add_option("--label", flags.labels)->allow_extra_args(false);
  app.add_option("--timeout", flags.timeout);
  app.add_option("--memory", flags.memory);
  app.add_option("--output", flags.output);
  app.add_option("--hold", flags.hold);
  app.add_option("--not-after", flags.not_after);
  app.add_option("--sent-file", flags.sent_file, "Send this one instead");
  app.add_option("--changed-argument", flags.changed_argument);
  app.add_option("--asked-entry", flags.asked_entry);
  app.add_option("command", flags.command);
  CLI11_PARSE(app, argc, argv);
  if (socket->count() == 0 && !flags.oci_image.empty()) {
    flags.socket = twinpath::runner::kOciSocket;
  }
  if (probe > 0) return twinpath::Probe(probe);
  return twinpath::Run(flags);
}
