// The commands of `twinpath`: one struct of options and one function each.
// app.cc fills the structs from the command line; the functions do the work and
// return the exit code (base/exit_code.h). Results go to the console's standard
// output, everything else to standard error.

#ifndef TWINPATH_CLI_COMMANDS_H_
#define TWINPATH_CLI_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/check_results.h"
#include "cli/console.h"

namespace twinpath::cli {

// inspect FILE...
struct InspectOptionsCli {
  // Files, carriers and folders.
  std::vector<std::string> files;
  bool kernels = false;
  bool images = false;
  bool details = false;
  bool demangle = false;
  bool members = false;
  bool no_kernels = false;
  // Ask cuobjdump, too.
  bool witness = false;
  // RE2; "": all.
  std::string match;
  // Only these are listed.
  std::vector<std::string> targets;
  // Each may be a list with commas.
  std::vector<std::string> expect;
  std::vector<std::string> expect_each;
};
int RunInspect(const InspectOptionsCli& options, Console& console);

// predict FILE...
struct PredictOptionsCli {
  std::vector<std::string> files;
  // Profile names, or files with a HostFacts as JSON or a profile as YAML.
  // Empty: this host.
  std::vector<std::string> hosts;
  // Every profile as a host.
  bool profiles = false;
  // Known GPUs and driver branches.
  bool matrix = false;
  // The hosts of `fleet_folder`; empty: the coordinator's.
  bool fleet = false;
  std::string fleet_folder;
  std::string coordinator;
  // "driver=R595" and the like (compat/assume.h).
  std::vector<std::string> assume;
  bool fix = false;
  bool details = false;
  bool kernels = false;
  // Paths that decide the exit code: "native", "ptx-jit", "plain".
  std::vector<std::string> require = {"plain"};
};
int RunPredict(const PredictOptionsCli& options, Console& console);

// check FILE... -- ARGS
struct CheckOptions {
  // No command: every image of the files is given to the driver.
  bool images = false;
  // Digest of an oci_image: the files hold it, and the arguments are a command
  // in it.
  std::string oci_image;
  // The program first.
  std::vector<std::string> files;
  std::vector<std::string> arguments;
  int32_t expect_exit = 0;
  std::string expect_output;
  bool has_expect_output = false;
  std::string expect_contains;
  bool has_expect_contains = false;
  std::string expect_pattern;
  bool has_expect_pattern = false;
  std::vector<std::string> environment;
  std::string timeout;
  std::string jit_timeout;
  std::string native = "required";
  std::string ptx_jit = "required";
  std::string plain = "required";
  // "auto", "required", "off".
  std::string trace = "auto";
  // Kernels that must be launched, by mangled name.
  std::vector<std::string> must_launch;
  bool strict = false;
  bool all_gpus = false;
  CheckResultOptions results;
};
int RunCheck(const CheckOptions& options, Console& console);

// check --toolchain
struct ToolchainOptionsCli {
  // Folders of toolkits; empty: those found. Those named must all hold.
  std::vector<std::string> toolkits;
  // GPUs by UUID; empty: one of each model.
  std::vector<std::string> gpus;
  bool all_gpus = false;
  // Build for these, run nothing: "sm_90", "12.1".
  std::vector<std::string> targets;
  bool strict = false;
};
int RunCheckToolchain(const ToolchainOptionsCli& options, Console& console);

// reference record --from SWEEP -o FILE
struct ReferenceRecordOptions {
  std::string coordinator;
  // A sweep's id, or a file.
  std::string from;
  std::string out;
  std::string entry;
  std::string host;
  // "native", "plain", "ptx-jit"; empty: whichever ran well.
  std::string path;
};
int RunReferenceRecord(const ReferenceRecordOptions& options, Console& console);
int RunReferenceShow(const std::string& file, Console& console);

// record -o FILE -- CMD
struct RecordOptionsCli {
  std::string record_path = "record.json";
  std::vector<std::string> outputs;
  std::vector<std::string> argv;
};
int RunRecord(const RecordOptionsCli& options, Console& console);

// hosts, hosts show HOST
struct HostsOptions {
  std::string coordinator;
  std::vector<std::string> labels;
};
int RunHostsList(const HostsOptions& options, Console& console);
int RunHostsShow(const HostsOptions& options, const std::string& host,
                 Console& console);

// artifact push, artifact ls
struct ArtifactPushOptions {
  std::string coordinator;
  std::vector<std::string> files;
  std::string root;
  std::string name;
};
int RunArtifactPush(const ArtifactPushOptions& options, Console& console);
int RunArtifactList(const std::string& coordinator, size_t limit,
                    Console& console);

// sweep start FILE, watch, show, cancel ID, list
struct SweepStartOptions {
  std::string coordinator;
  std::string file;
  // DSSE envelope of the release; empty: not signed.
  std::string signature;
  bool watch = false;
  bool dry_run = false;
};
int RunSweepStart(const SweepStartOptions& options, Console& console);
int RunSweepWatch(const std::string& coordinator, const std::string& id,
                  Console& console);
int RunSweepShow(const std::string& coordinator, const std::string& id,
                 Console& console);
int RunSweepCancel(const std::string& coordinator, const std::string& id,
                   Console& console);
int RunSweepList(const std::string& coordinator, size_t limit,
                 Console& console);

// release sign FILE, release verify FILE
struct ReleaseSignOptions {
  std::string file;
  std::string key;
  // Empty: FILE.dsse.json.
  std::string out;
};
int RunReleaseSign(const ReleaseSignOptions& options, Console& console);
struct ReleaseVerifyOptions {
  std::string file;
  std::string signature;
  std::vector<std::string> keys;
};
int RunReleaseVerify(const ReleaseVerifyOptions& options, Console& console);

// gate ID
struct GateOptions {
  std::string coordinator;
  std::string id;
  bool wait = false;
  // "", "fail", "pass-with-warning".
  std::string inconclusive;
};
int RunGate(const GateOptions& options, Console& console);

// explain CODE|TEXT|FILE|-
int RunExplain(const std::vector<std::string>& words, Console& console);

// tables check [FOLDER], show TABLE. An empty folder: the one in use.
int RunTablesCheck(const std::string& folder, Console& console);
int RunTablesShow(const std::string& table, Console& console);

// up
struct UpOptions {
  // Empty: $XDG_STATE_HOME/twinpath or ~/.local/state/twinpath.
  std::string state;
  std::string listen = "127.0.0.1:7711";
  // Written when everything is connected: the coordinator's address.
  std::string ready_file;
  // Simulated hosts beside this one.
  std::vector<std::string> simulate;
  bool no_host = false;
};
int RunUp(const UpOptions& options, Console& console);

// doctor, version
int RunDoctor(Console& console);
int RunVersion(Console& console);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_COMMANDS_H_
