#include "cli/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"

namespace twinpath::cli {
namespace {

std::vector<std::string> Environment(const ChildOptions& options) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view variable(*entry);
    bool keep = true;
    for (const std::string& name : options.unset) {
      keep &= !absl::StartsWith(variable, absl::StrCat(name, "="));
    }
    for (const std::string& set : options.set) {
      keep &= !absl::StartsWith(variable, set.substr(0, set.find('=') + 1));
    }
    if (keep) out.emplace_back(variable);
  }
  out.insert(out.end(), options.set.begin(), options.set.end());
  return out;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& text : strings) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// Whether the program exists: as a path, or in a folder of PATH that may be
// searched. execvpe says EACCES also for a folder that may not.
bool IsSomewhere(const std::string& program) {
  if (absl::StrContains(program, '/')) return true;
  const char* path = std::getenv("PATH");
  for (const absl::string_view folder :
       absl::StrSplit(path == nullptr ? "" : path, ':')) {
    if (access(JoinPath(folder, program).c_str(), F_OK) == 0) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const ChildOptions& options) {
  if (options.argv.empty()) {
    return absl::InvalidArgumentError("no program to start");
  }
  // Everything that allocates happens before the fork.
  std::vector<std::string> arguments = options.argv;
  std::vector<std::string> variables = Environment(options);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(variables);
  UniqueFd log;
  UniqueFd null;
  if (!options.log_path.empty()) {
    log = UniqueFd(open(options.log_path.c_str(),
                        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!log.valid()) {
      return ErrnoStatus(errno, absl::StrCat("opening ", options.log_path));
    }
    null = UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null.valid()) return ErrnoStatus(errno, "opening /dev/null");
  }
  // The child writes errno here if it cannot become the program.
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  UniqueFd report_read(report[0]);
  UniqueFd report_write(report[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "fork");
  if (pid == 0) {
    if (log.valid()) {
      dup2(null.get(), STDIN_FILENO);
      dup2(log.get(), STDOUT_FILENO);
      dup2(log.get(), STDERR_FILENO);
    }
    if (options.daemon) {
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != parent) _exit(1);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    execvpe(argv[0], argv.data(), envp.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written =
        write(report_write.get(), &error, sizeof error);
    _exit(127);
  }
  report_write.Close();
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(report_read.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof error)) {
    waitpid(pid, nullptr, 0);
    if (error == EACCES && !IsSomewhere(options.argv[0])) error = ENOENT;
    return ErrnoStatus(error,
                       absl::StrCat("starting ", Printable(options.argv[0])));
  }
  return ChildProcess(pid);
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0 || Poll().has_value()) return;
  kill(pid_, SIGKILL);
  WaitFor(absl::InfiniteDuration());
}

void ChildProcess::Signal(int number) {
  if (pid_ > 0 && !Poll().has_value()) kill(pid_, number);
}

std::optional<int> ChildProcess::Poll() {
  if (status_.has_value() || pid_ <= 0) return status_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_;
}

std::optional<int> ChildProcess::WaitFor(absl::Duration timeout) {
  const absl::Time end = absl::Now() + timeout;
  while (!Poll().has_value() && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  return status_;
}

int ShellExitCode(int wait_status) {
  if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  if (WIFSIGNALED(wait_status)) return 128 + WTERMSIG(wait_status);
  return 1;
}

}  // namespace twinpath::cli
