#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/text.h"

namespace twinpath {
namespace {

// Descriptor numbers asked for in a child stay below this.
constexpr int kLargestDescriptor = 1024;
// Once the child is gone, what still holds its pipes gets this long.
constexpr absl::Duration kDrainTime = absl::Milliseconds(500);
constexpr absl::Duration kCancelPoll = absl::Milliseconds(100);
// Without pidfd_open (before Linux 5.3) the child's end is looked for.
constexpr absl::Duration kExitPoll = absl::Milliseconds(20);

enum class Stage : int { kDescriptors, kDirectory, kLimits, kExec };

// What the child tells when it could not become the program.
struct StartFailure {
  Stage stage;
  int error;
};

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
      error = EACCES;
    } else if (errno != ENOENT && errno != ENOTDIR) {
      error = errno;
      break;
    }
  }
  FailStart(failure_fd, Stage::kExec, error);
}

// Collects one output stream.
class Capture {
 public:
  Capture(uint64_t head_bytes, uint64_t tail_bytes)
      : head_bytes_(head_bytes), tail_bytes_(tail_bytes) {}

  void Add(absl::string_view data) {
    stream_.total_bytes += data.size();
    hash_.Update(data);
    const uint64_t head_room = head_bytes_ - stream_.head.size();
    const size_t to_head =
        static_cast<size_t>(std::min<uint64_t>(head_room, data.size()));
    stream_.head.append(data.data(), to_head);
    data.remove_prefix(to_head);
    if (data.empty() || tail_bytes_ == 0) return;
    if (data.size() > tail_bytes_) {
      data.remove_prefix(data.size() - static_cast<size_t>(tail_bytes_));
    }
    stream_.tail.append(data.data(), data.size());
    // Trimmed only at twice the size, so that the cost of a byte is constant.
    if (stream_.tail.size() >= 2 * tail_bytes_ + 65536) TrimTail();
  }

  StreamCapture Finish() {
    TrimTail();
    stream_.digest = hash_.Finish();
    return std::move(stream_);
  }

 private:
  void TrimTail() {
    if (stream_.tail.size() > tail_bytes_) {
      stream_.tail.erase(
          0, stream_.tail.size() - static_cast<size_t>(tail_bytes_));
    }
  }

  const uint64_t head_bytes_;
  const uint64_t tail_bytes_;
  StreamCapture stream_;
  Sha256Stream hash_;
};

// The reading end of one of the child's pipes.
class OutputPipe {
 public:
  OutputPipe(UniqueFd fd, const ProcessOptions& options)
      : fd_(std::move(fd)), capture_(options.head_bytes, options.tail_bytes) {}

  // -1 once the stream has ended; poll skips such an entry.
  int fd() const { return fd_.get(); }

  // Reads what is there, but not without end, so that a flood cannot keep the
  // caller from its deadline.
  void ReadSome() {
    std::array<char, 65536> buffer;
    for (int i = 0; i < 32 && fd_.valid(); ++i) {
      const ssize_t got = read(fd_.get(), buffer.data(), buffer.size());
      if (got > 0) {
        capture_.Add(
            absl::string_view(buffer.data(), static_cast<size_t>(got)));
        continue;
      }
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      fd_.Close();
    }
  }

  StreamCapture Finish() { return capture_.Finish(); }

 private:
  UniqueFd fd_;
  Capture capture_;
};

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

// Children that survived SIGKILL. Once the kernel lets one go, it is reaped by
// the next call.
Mutex& AbandonedMutex() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}
std::vector<pid_t>& Abandoned() {
  static auto* const children = new std::vector<pid_t>;
  return *children;
}

void ReapAbandoned() {
  MutexLock lock(AbandonedMutex());
  std::vector<pid_t>& children = Abandoned();
  children.erase(std::remove_if(children.begin(), children.end(),
                                [](pid_t pid) {
                                  return waitpid(pid, nullptr, WNOHANG) != 0;
                                }),
                 children.end());
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

absl::Status StartError(const StartFailure& failure,
                        const ProcessOptions& options,
                        const std::vector<std::string>& programs) {
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
      for (const std::string& program : programs) {
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

int PollMilliseconds(absl::Duration wait) {
  wait = std::clamp(wait, absl::ZeroDuration(), absl::Seconds(60));
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
}

// One started child, from fork to the end.
class Child {
 public:
  Child(pid_t pid, UniqueFd failure, UniqueFd out, UniqueFd err,
        const ProcessOptions& options)
      : options_(options),
        pid_(pid),
        failure_fd_(std::move(failure)),
        out_(std::move(out), options),
        err_(std::move(err), options),
        started_(Now()) {
#ifdef SYS_pidfd_open
    pid_fd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0U)));
#endif
  }

  // Waits for the end. Returns the failure if the child never was the program.
  std::optional<StartFailure> Run(ProcessResult& result) {
    absl::Time next_cancel_check = started_;
    absl::Time phase_end = started_ + options_.timeout;
    while (true) {
      if (HasExited()) break;
      const absl::Time now = Now();
      if (phase_ == Phase::kRunning && options_.cancelled &&
          now >= next_cancel_check) {
        next_cancel_check = now + kCancelPoll;
        if (options_.cancelled()) {
          result.ending = ProcessResult::Ending::kCancelled;
          phase_end = now;
        }
      }
      if (now >= phase_end) {
        if (phase_ == Phase::kKilling) {
          Abandon(result);
          return std::nullopt;
        }
        phase_end = NextPhase(result, now);
      }
      absl::Duration wait = phase_end - now;
      if (phase_ == Phase::kRunning && options_.cancelled) {
        wait = std::min(wait, next_cancel_check - now);
      }
      if (!pid_fd_.valid()) wait = std::min(wait, kExitPoll);
      Wait(wait);
    }
    End(result);
    return start_failure_;
  }

 private:
  enum class Phase { kRunning, kTerminating, kKilling };

  static absl::Time Now() { return SystemClock().Monotonic(); }

  // Whether the child has ended. It stays a zombie, so that its number and that
  // of its group cannot be given to another process yet.
  bool HasExited() const {
    siginfo_t info{};
    const int rc = waitid(P_PID, static_cast<id_t>(pid_), &info,
                          WEXITED | WNOHANG | WNOWAIT);
    // ECHILD: the caller ignores SIGCHLD and the status is lost.
    return rc != 0 ? errno == ECHILD : info.si_pid == pid_;
  }

  // Sends SIGTERM or SIGKILL; returns when the phase so begun ends.
  absl::Time NextPhase(ProcessResult& result, absl::Time now) {
    if (phase_ == Phase::kRunning) {
      phase_ = Phase::kTerminating;
      if (result.ending != ProcessResult::Ending::kCancelled) {
        result.ending = ProcessResult::Ending::kTimedOut;
      }
      Signal(SIGTERM);
      return now + options_.grace;
    }
    phase_ = Phase::kKilling;
    Signal(SIGKILL);
    return now + options_.abandon_after;
  }

  void Signal(int number) {
    kill(-pid_, number);
    // It may have joined another group.
    kill(pid_, number);
  }

  void Wait(absl::Duration at_most) {
    std::array<pollfd, 4> polled = {{{failure_fd_.get(), POLLIN, 0},
                                     {out_.fd(), POLLIN, 0},
                                     {err_.fd(), POLLIN, 0},
                                     {pid_fd_.get(), POLLIN, 0}}};
    if (poll(polled.data(), polled.size(), PollMilliseconds(at_most)) <= 0) {
      return;
    }
    if (polled[0].revents != 0) ReadFailure();
    if (polled[1].revents != 0) out_.ReadSome();
    if (polled[2].revents != 0) err_.ReadSome();
  }

  void ReadFailure() {
    if (!failure_fd_.valid()) return;
    StartFailure failure{};
    const ssize_t got = read(failure_fd_.get(), &failure, sizeof(failure));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got == sizeof(failure)) start_failure_ = failure;
    failure_fd_.Close();
  }

  void End(ProcessResult& result) {
    ReadFailure();
    // The rest of the group goes while the zombie still holds its number.
    kill(-pid_, SIGKILL);
    int status = 0;
    rusage usage{};
    pid_t waited = -1;
    do {
      waited = wait4(pid_, &status, 0, &usage);
    } while (waited < 0 && errno == EINTR);
    result.duration = Now() - started_;
    if (waited < 0) {
      // The status is lost; that is no success.
      result.exit_code = -1;
    } else if (WIFSIGNALED(status)) {
      result.signal = WTERMSIG(status);
      if (result.ending == ProcessResult::Ending::kExited) {
        result.ending = ProcessResult::Ending::kSignaled;
      }
    } else {
      result.exit_code = WEXITSTATUS(status);
    }
    result.max_rss_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    Drain();
    Collect(result);
  }

  // Reads what the child left in the pipes. A descendant that escaped the group
  // may hold them open for ever, so the end of the stream is not insisted on.
  void Drain() {
    const absl::Time deadline = Now() + kDrainTime;
    while (out_.fd() >= 0 || err_.fd() >= 0) {
      const absl::Duration left = deadline - Now();
      std::array<pollfd, 2> polled = {
          {{out_.fd(), POLLIN, 0}, {err_.fd(), POLLIN, 0}}};
      poll(polled.data(), polled.size(), PollMilliseconds(left));
      // Also behind the deadline, once: the child's own last bytes may not be
      // lost on a slow machine.
      out_.ReadSome();
      err_.ReadSome();
      if (left <= absl::ZeroDuration()) return;
    }
  }

  void Abandon(ProcessResult& result) {
    result.ending = ProcessResult::Ending::kHung;
    result.signal = SIGKILL;
    result.duration = Now() - started_;
    Collect(result);
    MutexLock lock(AbandonedMutex());
    Abandoned().push_back(pid_);
  }

  void Collect(ProcessResult& result) {
    result.out = out_.Finish();
    result.err = err_.Finish();
  }

  const ProcessOptions& options_;
  const pid_t pid_;
  UniqueFd pid_fd_;
  UniqueFd failure_fd_;
  OutputPipe out_;
  OutputPipe err_;
  const absl::Time started_;
  Phase phase_ = Phase::kRunning;
  std::optional<StartFailure> start_failure_;
};

}  // namespace

std::string ProcessResult::Describe() const {
  switch (ending) {
    case Ending::kExited:
      return absl::StrCat("exit ", exit_code);
    case Ending::kSignaled: {
      const char* name = sigabbrev_np(signal);
      return name == nullptr
                 ? absl::StrCat("signal ", signal)
                 : absl::StrCat("signal ", signal, " (SIG", name, ")");
    }
    case Ending::kTimedOut:
      return absl::StrCat(
          "timed out after ",
          absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1))));
    case Ending::kHung:
      return "hung: it survived SIGKILL and was given up";
    case Ending::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

absl::StatusOr<ProcessResult> RunProcess(const ProcessOptions& options) {
  ReapAbandoned();
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

  Child child(pid, std::move(failure.read_end), std::move(out.read_end),
              std::move(err.read_end), options);
  ProcessResult result;
  const std::optional<StartFailure> start_failure = child.Run(result);
  if (start_failure.has_value()) {
    return StartError(*start_failure, options, programs);
  }
  return result;
}

std::vector<std::string> MinimalEnvironment() {
  const auto from_caller = [](const char* name, absl::string_view otherwise) {
    const char* value = std::getenv(name);
    return absl::StrCat(name, "=",
                        value != nullptr && *value != '\0' ? value : otherwise);
  };
  return {from_caller("PATH",
                      "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:"
                      "/bin"),
          from_caller("HOME", "/"), "LANG=C"};
}

}  // namespace twinpath
