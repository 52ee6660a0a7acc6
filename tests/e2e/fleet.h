// A small fleet of real daemons for one test: a coordinator on a free port of
// the loopback interface and any number of agents, all in a temporary folder,
// all ended with the object. And the `twinpath` command against it.

#ifndef TWINPATH_TESTS_E2E_FLEET_H_
#define TWINPATH_TESTS_E2E_FLEET_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "cli/child_process.h"
#include "cli/client.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::e2e {

// Path of a program of the build tree.
std::string Program(absl::string_view name);

// What a command did.
struct CliResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Runs `twinpath ARGS` in `directory` ("": the current one), with
// TWINPATH_COORDINATOR set to `address` unless empty.
CliResult RunCli(const std::vector<std::string>& args,
                 absl::string_view address = "",
                 const std::string& directory = "",
                 const std::string& input = "");

class Fleet {
 public:
  // Starts a coordinator and waits until it listens.
  static absl::StatusOr<std::unique_ptr<Fleet>> Start();

  const std::string& address() const { return address_; }
  // A folder for the test's own files.
  const std::string& folder() const { return folder_.path(); }
  cli::Client& client() { return *client_; }
  std::string JoinTokenFile() const;

  // Starts (or starts again) the agent `name`. `profile` empty: this host.
  // `config`: its agent.yaml.
  absl::Status StartAgent(const std::string& name, const std::string& profile,
                          const std::vector<std::string>& environment = {},
                          absl::string_view config = "");
  // Ends an agent with a signal and waits for it.
  absl::Status StopAgent(const std::string& name, int signal);
  // Waits until the agent has ended by itself; its wait status.
  absl::StatusOr<int> WaitForAgent(const std::string& name);
  // Kills the coordinator as a power cut would.
  absl::Status KillCoordinator();
  // Starts it again with the same state and address.
  absl::Status StartCoordinator();

  // Waits until `count` hosts are connected and have sent facts.
  absl::Status WaitForHosts(size_t count);
  // Waits until the sweep has ended.
  absl::StatusOr<v1::Sweep> WaitForSweep(const std::string& id);

  CliResult Cli(const std::vector<std::string>& args) const {
    return RunCli(args, address_, folder());
  }
  // Writes a file into folder().
  absl::Status Write(const std::string& name, absl::string_view text,
                     uint32_t mode = 0644) const;
  // The end of a daemon's log, for messages of failed tests.
  std::string Log(const std::string& name) const;

 private:
  explicit Fleet(TempDirectory folder) : folder_(std::move(folder)) {}

  TempDirectory folder_;
  std::string address_;
  std::unique_ptr<cli::Client> client_;
  std::map<std::string, cli::ChildProcess> agents_;
  std::optional<cli::ChildProcess> coordinator_;
};

// PTX with one kernel, `name`, for compute_75; runs by compiling on everything
// from 7.5 up whose driver knows PTX ISA 6.3.
std::string SamplePtx(absl::string_view name = "_Z1kv");

// A sweep file for the file "kernel.ptx" in the same folder. `tail` is
// appended.
std::string SampleSweep(absl::string_view tail = "");

}  // namespace twinpath::e2e

#endif  // TWINPATH_TESTS_E2E_FLEET_H_
