#include "cli/record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "cli/child_process.h"
#include "cli/json.h"

namespace twinpath::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxOutputs = 1000;
constexpr size_t kMaxVisited = 200000;
constexpr absl::Duration kToolTimeout = absl::Seconds(20);

std::string CurrentDirectory() {
  std::error_code error;
  const fs::path path = fs::current_path(error);
  return error ? "." : path.string();
}

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

bool IsProgram(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

// As a shell finds it; empty: not found.
std::string FindProgram(absl::string_view name) {
  if (name.empty()) return "";
  if (absl::StrContains(name, '/')) {
    return IsProgram(std::string(name)) ? std::string(name) : "";
  }
  for (absl::string_view folder : absl::StrSplit(Variable("PATH"), ':')) {
    const std::string path = JoinPath(folder.empty() ? "." : folder, name);
    if (IsProgram(path)) return path;
  }
  return "";
}

std::string Resolved(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? path : real.string();
}

// What `tool --version` says in a line: the line with a release where there is
// one (NVIDIA's tools print a banner first), else the first.
std::string VersionLine(const std::string& path) {
  ProcessOptions options;
  options.argv = {path, "--version"};
  options.environment = MinimalEnvironment();
  options.timeout = kToolTimeout;
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  if (!result.ok() || !result->succeeded()) return "";
  std::string first;
  for (absl::string_view line : absl::StrSplit(result->out.head, '\n')) {
    if (absl::StrContains(line, "release ")) return std::string(line);
    if (first.empty()) first = std::string(line);
  }
  return first;
}

void AddTool(absl::string_view name, const std::string& path,
             v1::BuildRecord* record) {
  if (path.empty()) return;
  const std::string real = Resolved(path);
  v1::ToolIdentity& tool = *record->add_tools();
  tool.set_name(std::string(name));
  tool.set_path(real);
  tool.set_version(VersionLine(real));
  if (const absl::StatusOr<Sha256> digest = Sha256OfFile(real); digest.ok()) {
    tool.mutable_digest()->set_sha256(digest->Raw());
  }
}

// nvcc as the command would find it: the command itself, then PATH, CUDA_HOME,
// /usr/local/cuda.
std::string FindNvcc(const std::vector<std::string>& argv) {
  for (const std::string& word : argv) {
    if (BaseName(word) == "nvcc") {
      if (std::string path = FindProgram(word); !path.empty()) return path;
    }
  }
  for (const std::string& candidate :
       {FindProgram("nvcc"), Variable("CUDA_HOME") + "/bin/nvcc",
        std::string("/usr/local/cuda/bin/nvcc")}) {
    if (!candidate.empty() && IsProgram(candidate)) return candidate;
  }
  return "";
}

void AddTools(const std::vector<std::string>& argv, v1::BuildRecord* record) {
  const std::string nvcc = FindNvcc(argv);
  AddTool("nvcc", nvcc, record);
  if (!nvcc.empty()) {
    // nvcc starts the tools beside it, whatever PATH says.
    const std::string folder = DirName(Resolved(nvcc));
    for (const char* name : {"ptxas", "nvlink"}) {
      const std::string beside = JoinPath(folder, name);
      AddTool(name, IsProgram(beside) ? beside : FindProgram(name), record);
    }
  }
  std::string host = HostCompilerInArguments(argv);
  if (host.empty()) host = Variable("NVCC_CCBIN");
  if (host.empty() && nvcc.empty()) host = Variable("CXX");
  struct stat info {};
  if (!host.empty() && stat(host.c_str(), &info) == 0 &&
      S_ISDIR(info.st_mode)) {
    host = JoinPath(host, "g++");
  }
  if (host.empty()) host = FindProgram("g++").empty() ? "c++" : "g++";
  AddTool("host-compiler", FindProgram(host), record);
}

// `git` in the working folder; empty where there is no repository.
std::string Git(std::vector<std::string> arguments) {
  ProcessOptions options;
  options.argv = {"git"};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.environment = MinimalEnvironment();
  options.environment.push_back("GIT_OPTIONAL_LOCKS=0");
  options.timeout = kToolTimeout;
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  if (!result.ok() || !result->succeeded()) return "";
  return std::string(absl::StripTrailingAsciiWhitespace(result->out.head));
}

// The child that signals go to, and the last one that went there.
std::atomic<pid_t> signalled_child{0};
std::atomic<int> signal_passed_on{0};

// Passes on what was sent to this process alone. What a terminal sends (Ctrl-C)
// the kernel gives to the whole group, the child too.
void PassOn(int number, siginfo_t* info, void* /*context*/) {
  if (info->si_code == SI_KERNEL) return;
  const int error = errno;
  signal_passed_on = number;
  if (const pid_t child = signalled_child; child > 0) kill(child, number);
  errno = error;
}

// While it lives, signals that end a process go to a child instead. Of one
// process only one at a time.
class SignalsToChild {
 public:
  SignalsToChild() {
    signal_passed_on = 0;
    struct sigaction pass_on {};
    pass_on.sa_sigaction = PassOn;
    pass_on.sa_flags = SA_SIGINFO | SA_RESTART;
    for (size_t i = 0; i < kNumbers.size(); ++i) {
      sigaction(kNumbers[i], nullptr, &before_[i]);
      // What the caller has us ignore (nohup, a job behind "&") stays ignored.
      if (before_[i].sa_handler != SIG_IGN) {
        sigaction(kNumbers[i], &pass_on, nullptr);
      }
    }
  }
  ~SignalsToChild() {
    for (size_t i = 0; i < kNumbers.size(); ++i) {
      sigaction(kNumbers[i], &before_[i], nullptr);
    }
  }
  SignalsToChild(const SignalsToChild&) = delete;
  SignalsToChild& operator=(const SignalsToChild&) = delete;

  // A signal that came before it was started is passed on now. 0: none any
  // more.
  void SetChild(pid_t child) {
    signalled_child = child;
    if (child > 0 && passed_on() != 0) kill(child, passed_on());
  }
  // 0: none.
  int passed_on() const { return signal_passed_on; }

 private:
  static constexpr std::array<int, 3> kNumbers = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_ = {};
};

google::protobuf::Timestamp Stamp(absl::Time time) {
  google::protobuf::Timestamp out;
  out.set_seconds(absl::ToUnixSeconds(time));
  out.set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(out.seconds()))));
  return out;
}

absl::Status AddOutput(const std::string& path, v1::BuildRecord* record) {
  TWINPATH_ASSIGN_OR_RETURN_CTX(const UniqueFd fd, OpenRegularFile(path),
                                "output of the build");
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, path);
  TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest, Sha256OfDescriptor(fd.get()));
  v1::BuildOutput& output = *record->add_outputs();
  output.set_path(path);
  output.set_size_bytes(static_cast<uint64_t>(info.st_size));
  output.mutable_digest()->set_sha256(digest.Raw());
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> OutputsInArguments(
    const std::vector<std::string>& argv) {
  std::vector<std::string> out;
  for (size_t i = 0; i < argv.size(); ++i) {
    absl::string_view word = argv[i];
    if (word == "-o" || word == "--output-file" || word == "-output-file" ||
        word == "--output") {
      if (i + 1 < argv.size()) out.push_back(argv[++i]);
    } else if (absl::ConsumePrefix(&word, "--output-file=") ||
               absl::ConsumePrefix(&word, "--output=") ||
               absl::ConsumePrefix(&word, "-o=")) {
      out.emplace_back(word);
    } else if (absl::ConsumePrefix(&word, "-o") && !word.empty() &&
               // -odir and -objtemp are nvcc's own options.
               !absl::StartsWith(word, "dir") &&
               !absl::StartsWith(word, "bjtemp") &&
               !absl::StartsWith(word, "ptf") &&
               !absl::StartsWith(word, "ptimize")) {
      out.emplace_back(word);
    }
  }
  return out;
}

std::string HostCompilerInArguments(const std::vector<std::string>& argv) {
  for (size_t i = 0; i < argv.size(); ++i) {
    absl::string_view word = argv[i];
    if (word == "-ccbin" || word == "--compiler-bindir") {
      return i + 1 < argv.size() ? argv[i + 1] : "";
    }
    if (absl::ConsumePrefix(&word, "-ccbin=") ||
        absl::ConsumePrefix(&word, "--compiler-bindir=")) {
      return std::string(word);
    }
  }
  return "";
}

absl::StatusOr<std::vector<std::string>> ChangedFiles(
    const std::string& directory, absl::Time since, size_t limit) {
  std::vector<std::string> out;
  std::error_code error;
  fs::recursive_directory_iterator it(
      directory, fs::directory_options::skip_permission_denied, error);
  if (error) return ErrnoStatus(error.value(), directory);
  // File systems stamp with a coarser clock than ours: a file written just
  // after `since` may carry a slightly older time.
  const absl::Time bound = since - absl::Milliseconds(20);
  size_t visited = 0;
  while (it != fs::recursive_directory_iterator()) {
    const fs::path& path = it->path();
    const std::string name = path.filename().string();
    struct stat info {};
    if (lstat(path.c_str(), &info) == 0) {
      if (S_ISDIR(info.st_mode) && absl::StartsWith(name, ".")) {
        it.disable_recursion_pending();
      } else if (S_ISREG(info.st_mode) &&
                 absl::TimeFromTimespec(info.st_mtim) >= bound) {
        out.push_back(fs::relative(path, directory, error).string());
      }
    }
    if (++visited > kMaxVisited || out.size() >= limit) break;
    it.increment(error);
    if (error) break;
  }
  std::sort(out.begin(), out.end());
  return out;
}

absl::StatusOr<v1::BuildRecord> RecordBuild(const RecordOptions& options) {
  v1::BuildRecord record;
  for (const std::string& word : options.argv) record.add_argv(word);
  const std::string directory = CurrentDirectory();
  record.set_directory(directory);
  // Before the build: what it was built from, not what it left behind.
  record.set_revision(Git({"rev-parse", "HEAD"}));
  if (!record.revision().empty()) {
    record.set_dirty(!Git({"status", "--porcelain"}).empty());
  }
  AddTools(options.argv, &record);

  const absl::Time start = absl::Now();
  *record.mutable_start_time() = Stamp(start);
  ChildOptions child;
  child.argv = options.argv;
  SignalsToChild signals;
  absl::StatusOr<ChildProcess> process = ChildProcess::Start(child);
  std::optional<int> status;
  if (process.ok()) {
    signals.SetChild(process->pid());
    status = process->WaitFor(absl::InfiniteDuration());
    signals.SetChild(0);
  }
  TWINPATH_RETURN_IF_ERROR(process.status());
  *record.mutable_end_time() = Stamp(absl::Now());
  record.set_exit_code(ShellExitCode(*status));
  // Whoever ended us wants no record, however the build took it.
  if (const int ended_by = signals.passed_on(); ended_by != 0) {
    record.set_exit_code(128 + ended_by);
  }
  if (record.exit_code() != 0) return record;

  std::set<std::string> outputs;
  if (!options.outputs.empty()) {
    outputs.insert(options.outputs.begin(), options.outputs.end());
  } else {
    for (const std::string& name : OutputsInArguments(options.argv)) {
      if (access(name.c_str(), F_OK) == 0) outputs.insert(name);
    }
    TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> changed,
                              ChangedFiles(directory, start, kMaxOutputs));
    outputs.insert(changed.begin(), changed.end());
  }
  for (const std::string& path : outputs) {
    TWINPATH_RETURN_IF_ERROR(AddOutput(path, &record));
  }
  return record;
}

absl::StatusOr<v1::BuildRecord> LoadBuildRecord(const std::string& path) {
  v1::BuildRecord record;
  TWINPATH_RETURN_IF_ERROR(LoadJson(path, &record));
  if (record.exit_code() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the recorded build failed with exit code ",
                     record.exit_code()));
  }
  if (record.argv().empty() || record.outputs().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": holds no command or no outputs; write it with "
                     "twinpath record"));
  }
  record.set_declared(false);
  return record;
}

absl::Status CheckRecordCovers(const v1::BuildRecord& record,
                               const v1::Artifact& artifact) {
  for (const v1::BuildOutput& output : record.outputs()) {
    for (const v1::ArtifactFile& file : artifact.files()) {
      if (!output.digest().sha256().empty() &&
          output.digest().sha256() == file.digest().sha256()) {
        return absl::OkStatus();
      }
    }
  }
  return absl::FailedPreconditionError(
      "build record: no file of the artifact is an output of the recorded "
      "build (built again since, or the record of another build)");
}

}  // namespace twinpath::cli
