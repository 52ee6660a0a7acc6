#include "base/subprocess_start.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/text.h"

namespace twinpath::subprocess_internal {
namespace {

// Descriptor numbers asked for in a child stay below this.
constexpr int kLargestDescriptor = 1024;
struct Limit {
  int resource;
  rlim_t soft;
  rlim_t hard;
};

// Everything the child needs between fork and exec, made before the fork: the
// caller may have threads, so that the child may neither allocate nor lock.
struct ChildPlan {
  pid_t parent = 0;
  std::vector<const char*> programs;
  std::vector<char*> argv;
  std::vector<char*> environment;
  const char* directory = nullptr;
  std::vector<Limit> limits;
  // From (the caller's number), to (the child's number).
  std::vector<std::pair<int, int>> descriptors;
  // Room for the child, one for each of `descriptors`.
  std::vector<int> moved;
  int largest_target = STDERR_FILENO;
  int failure_fd = -1;
};

[[noreturn]] void FailStart(int fd, Stage stage, int error) {
  const StartFailure failure{stage, error};
  // A write below PIPE_BUF is whole or fails; a failure shows as exit 127.
  const ssize_t ignored = write(fd, &failure, sizeof(failure));
  static_cast<void>(ignored);
  _exit(127);
}

int CloseRange(unsigned first, unsigned last) {
#ifdef SYS_close_range
  return static_cast<int>(syscall(SYS_close_range, first, last, 0U));
#else
  errno = ENOSYS;
  return -1;
#endif
}

// close_range is of Linux 5.9; older kernels list the open ones. opendir would
// allocate, so the system call is made directly.
void CloseListed(int first, int kept) {
  const int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    for (int fd = first; fd < 65536; ++fd) {
      if (fd != kept) close(fd);
    }
    return;
  }
  // linux_dirent64: inode (8), offset (8), record length (2), type (1), name.
  alignas(8) std::array<char, 4096> buffer{};
  while (true) {
    const long got =
        syscall(SYS_getdents64, folder, buffer.data(), buffer.size());
    if (got <= 0) break;
    for (long at = 0; at < got;) {
      uint16_t record_length = 0;
      std::memcpy(&record_length, buffer.data() + at + 16,
                  sizeof(record_length));
      int fd = 0;
      bool number = true;
      for (const char* c = buffer.data() + at + 19; *c != '\0'; ++c) {
        if (*c < '0' || *c > '9') {
          number = false;
          break;
        }
        fd = fd * 10 + (*c - '0');
      }
      if (number && fd >= first && fd != kept && fd != folder) close(fd);
      at += record_length;
    }
  }
  close(folder);
}

void CloseAllFrom(int first, int kept) {
  const unsigned begin = static_cast<unsigned>(first);
  const unsigned kept_number = static_cast<unsigned>(kept);
  const bool below = begin < kept_number;
  if ((!below || CloseRange(begin, kept_number - 1) == 0) &&
      CloseRange(kept_number + 1, ~0U) == 0) {
    return;
  }
  CloseListed(first, kept);
}

// Runs in the child, with all signals blocked. Only async-signal-safe calls.
[[noreturn]] void BecomeProgram(ChildPlan& plan) {
  // Numbers above every target, so that no dup2 below overwrites a source.
  const int first_free = plan.largest_target + 1;
  const int failure_fd = fcntl(plan.failure_fd, F_DUPFD_CLOEXEC, first_free);
  if (failure_fd < 0) FailStart(plan.failure_fd, Stage::kDescriptors, errno);

  setpgid(0, 0);
  // The program dies with its caller, even one that is killed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const pid_t parent = getppid();
  if (parent != plan.parent && parent != 0) _exit(127);

  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) != 0) continue;
    if (action.sa_handler == SIG_DFL) continue;
    std::memset(&action, 0, sizeof(action));
    action.sa_handler = SIG_DFL;
    sigaction(number, &action, nullptr);
  }

  for (size_t i = 0; i < plan.descriptors.size(); ++i) {
    plan.moved[i] =
        fcntl(plan.descriptors[i].first, F_DUPFD_CLOEXEC, first_free);
    if (plan.moved[i] < 0) FailStart(failure_fd, Stage::kDescriptors, errno);
  }
  for (int fd = STDERR_FILENO + 1; fd < first_free; ++fd) close(fd);
  for (size_t i = 0; i < plan.descriptors.size(); ++i) {
    if (dup2(plan.moved[i], plan.descriptors[i].second) < 0) {
      FailStart(failure_fd, Stage::kDescriptors, errno);
    }
  }
  CloseAllFrom(first_free, failure_fd);

  if (plan.directory != nullptr && chdir(plan.directory) != 0) {
    FailStart(failure_fd, Stage::kDirectory, errno);
  }
  for (const Limit& limit : plan.limits) {
    const auto resource = static_cast<__rlimit_resource_t>(limit.resource);
    struct rlimit now {};
    if (getrlimit(resource, &now) != 0) {
      FailStart(failure_fd, Stage::kLimits, errno);
    }
    // Nobody may raise a hard limit without privilege; a lower one is kept.
    now.rlim_cur = std::min(limit.soft, now.rlim_max);
    now.rlim_max = std::min(limit.hard, now.rlim_max);
    if (setrlimit(resource, &now) != 0) {
      FailStart(failure_fd, Stage::kLimits, errno);
    }
  }

  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  // As execvpe does: the first program found; one that may not be run is only
  // an error if no other is found.
  int error = ENOENT;
  for (const char* program : plan.programs) {
    execve(program, plan.argv.data(), plan.environment.data());
    if (errno == EACCES) {
      // A folder of PATH that may not be searched says nothing of the program.
      if (plan.programs.size() == 1 || access(program, F_OK) == 0) {
        error = EACCES;
      }
    } else if (errno != ENOENT && errno != ENOTDIR) {
      error = errno;
      break;
    }
  }
  FailStart(failure_fd, Stage::kExec, error);
}

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make a pipe");
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  // Only the reading end: the flag belongs to the open end, and the child's
  // standard output has to block.
  if (fcntl(pipe.read_end.get(), F_SETFL, O_NONBLOCK) != 0) {
    return ErrnoStatus(errno, "make a pipe");
  }
  return pipe;
}

// The child's standard input: a memory file, so that nobody has to feed a pipe
// and no SIGPIPE arises when the child does not read.
absl::StatusOr<UniqueFd> MakeInput(absl::string_view input) {
  if (input.empty()) {
    UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null.valid()) return ErrnoStatus(errno, "open /dev/null");
    return null;
  }
  UniqueFd file(memfd_create("input", MFD_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, "make the standard input");
  TWINPATH_RETURN_IF_ERROR_CTX(WriteAll(file.get(), input),
                               "make the standard input");
  if (lseek(file.get(), 0, SEEK_SET) != 0) {
    return ErrnoStatus(errno, "make the standard input");
  }
  return file;
}

bool HasNul(absl::string_view text) {
  return text.find('\0') != absl::string_view::npos;
}

absl::Status CheckOptions(const ProcessOptions& options) {
  if (options.argv.empty() || options.argv[0].empty()) {
    return absl::InvalidArgumentError("no program is named");
  }
  for (const std::string& argument : options.argv) {
    // It would be cut there without a word.
    if (HasNul(argument)) {
      return absl::InvalidArgumentError("an argument holds a NUL byte");
    }
  }
  for (const std::string& variable : options.environment) {
    const size_t equals = variable.find('=');
    if (HasNul(variable) || equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", Printable(variable), "\" is no NAME=value"));
    }
  }
  if (HasNul(options.directory)) {
    return absl::InvalidArgumentError("the working folder holds a NUL byte");
  }
  std::vector<int> targets;
  for (const auto& [from, to] : options.descriptors) {
    if (from < 0 || to <= STDERR_FILENO || to >= kLargestDescriptor ||
        std::find(targets.begin(), targets.end(), to) != targets.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "descriptor ", from, " cannot be number ", to, " in the child"));
    }
    targets.push_back(to);
  }
  return absl::OkStatus();
}

// Paths to try for the program, as execvpe would, but with the child's PATH. An
// empty part of PATH would be the working folder and is skipped.
std::vector<std::string> ProgramPaths(const ProcessOptions& options) {
  const std::string& program = options.argv[0];
  if (absl::StrContains(program, "/")) return {program};
  std::vector<std::string> paths;
  for (absl::string_view variable : options.environment) {
    if (!absl::ConsumePrefix(&variable, "PATH=")) continue;
    for (const absl::string_view folder : absl::StrSplit(variable, ':')) {
      if (!folder.empty()) paths.push_back(JoinPath(folder, program));
    }
    break;
  }
  return paths;
}

std::vector<Limit> LimitsOf(const ProcessLimits& limits) {
  std::vector<Limit> result = {
      {RLIMIT_CORE, limits.core_bytes, limits.core_bytes}};
  const auto add = [&result](int resource, const std::optional<uint64_t>& value,
                             uint64_t extra = 0) {
    if (value.has_value()) result.push_back({resource, *value, *value + extra});
  };
  // One second between SIGXCPU, which names the cause, and SIGKILL.
  add(RLIMIT_CPU, limits.cpu_seconds, 1);
  add(RLIMIT_NOFILE, limits.open_files);
  add(RLIMIT_FSIZE, limits.file_bytes);
  add(RLIMIT_AS, limits.address_space_bytes);
  return result;
}

// Starts the child. All signals are blocked over the fork, so that no handler
// of the caller runs in the child.
absl::StatusOr<pid_t> Fork(ChildPlan& plan) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) BecomeProgram(plan);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return ErrnoStatus(fork_error, "start a process");
  // Also done by the child; whoever comes first, the group exists from here on.
  setpgid(pid, pid);
  return pid;
}

}  // namespace

absl::Status StartError(const StartFailure& failure,
                        const ProcessOptions& options) {
  const std::string running = absl::StrCat("run ", Printable(options.argv[0]));
  switch (failure.stage) {
    case Stage::kDescriptors:
      return ErrnoStatus(failure.error,
                         absl::StrCat(running, ": pass descriptors"));
    case Stage::kDirectory:
      return ErrnoStatus(failure.error,
                         absl::StrCat(running, ": enter folder ",
                                      Printable(options.directory)));
    case Stage::kLimits:
      return ErrnoStatus(failure.error, absl::StrCat(running, ": set limits"));
    case Stage::kExec:
      break;
  }
  switch (failure.error) {
    case ENOENT:
    case ENOTDIR:
      for (const std::string& program : ProgramPaths(options)) {
        const std::string path = absl::StartsWith(program, "/")
                                     ? program
                                     : JoinPath(options.directory, program);
        if (access(path.c_str(), F_OK) == 0) {
          return absl::NotFoundError(
              absl::StrCat(running,
                           ": the file exists, but the interpreter or dynamic "
                           "loader it names does not"));
        }
      }
      if (!absl::StrContains(options.argv[0], "/")) {
        return absl::NotFoundError(absl::StrCat(
            running, ": no such program in PATH of its environment"));
      }
      return absl::NotFoundError(absl::StrCat(running, ": no such program"));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(absl::StrCat(
          running,
          ": may not be run; check that it is a file, its mode, and the mount "
          "option noexec"));
    case ENOEXEC:
      return absl::InvalidArgumentError(
          absl::StrCat(running,
                       ": no program for this machine (exec format error); a "
                       "script needs a #! line"));
    default:
      return ErrnoStatus(failure.error, running);
  }
}

absl::StatusOr<StartedChild> StartChild(const ProcessOptions& options) {
  TWINPATH_RETURN_IF_ERROR(CheckOptions(options));
  TWINPATH_ASSIGN_OR_RETURN(const UniqueFd input, MakeInput(options.input));
  TWINPATH_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  TWINPATH_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  TWINPATH_ASSIGN_OR_RETURN(Pipe failure, MakePipe());

  const std::vector<std::string> programs = ProgramPaths(options);
  ChildPlan plan;
  plan.parent = getpid();
  for (const std::string& program : programs) {
    plan.programs.push_back(program.c_str());
  }
  // execve takes char* but changes nothing.
  for (const std::string& argument : options.argv) {
    plan.argv.push_back(const_cast<char*>(argument.c_str()));
  }
  plan.argv.push_back(nullptr);
  for (const std::string& variable : options.environment) {
    plan.environment.push_back(const_cast<char*>(variable.c_str()));
  }
  plan.environment.push_back(nullptr);
  if (!options.directory.empty()) plan.directory = options.directory.c_str();
  plan.limits = LimitsOf(options.limits);
  plan.descriptors = options.descriptors;
  plan.descriptors.emplace_back(input.get(), STDIN_FILENO);
  plan.descriptors.emplace_back(out.write_end.get(), STDOUT_FILENO);
  plan.descriptors.emplace_back(err.write_end.get(), STDERR_FILENO);
  plan.moved.resize(plan.descriptors.size());
  for (const auto& [from, to] : plan.descriptors) {
    plan.largest_target = std::max(plan.largest_target, to);
  }
  plan.failure_fd = failure.write_end.get();

  TWINPATH_ASSIGN_OR_RETURN(const pid_t pid, Fork(plan));
  out.write_end.Close();
  err.write_end.Close();
  failure.write_end.Close();
  return StartedChild{pid, std::move(failure.read_end), std::move(out.read_end),
                      std::move(err.read_end)};
}

}  // namespace twinpath::subprocess_internal
