#include "base/subprocess.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/subprocess_start.h"

namespace twinpath {
namespace {

using subprocess_internal::StartChild;
using subprocess_internal::StartedChild;
using subprocess_internal::StartError;
using subprocess_internal::StartFailure;

// Once the child is gone, what still holds its pipes gets this long.
constexpr absl::Duration kDrainTime = absl::Milliseconds(500);
constexpr absl::Duration kCancelPoll = absl::Milliseconds(100);
// Without pidfd_open (before Linux 5.3) the child's end is looked for.
constexpr absl::Duration kExitPoll = absl::Milliseconds(20);

// Collects one output stream.
class Capture {
 public:
  explicit Capture(const ProcessOptions& options)
      : head_bytes_(options.head_bytes), tail_bytes_(options.tail_bytes) {
    if (options.digests) hash_.emplace();
  }

  void Add(absl::string_view data) {
    stream_.total_bytes += data.size();
    if (hash_.has_value()) hash_->Update(data);
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
    if (hash_.has_value()) stream_.digest = hash_->Finish();
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
  std::optional<Sha256Stream> hash_;
};

// The reading end of one of the child's pipes.
class OutputPipe {
 public:
  // `listener` may be null and must outlive this.
  OutputPipe(UniqueFd fd, const ProcessOptions& options,
             const std::function<void(absl::string_view)>* listener)
      : fd_(std::move(fd)), capture_(options), listener_(listener) {}

  // -1 once the stream has ended; poll skips such an entry.
  int fd() const { return fd_.get(); }

  // Reads what is there, but not without end, so that a flood cannot keep the
  // caller from its deadline.
  void ReadSome() {
    std::array<char, 65536> buffer;
    for (int i = 0; i < 32 && fd_.valid(); ++i) {
      const ssize_t got = read(fd_.get(), buffer.data(), buffer.size());
      if (got > 0) {
        const absl::string_view piece(buffer.data(), static_cast<size_t>(got));
        capture_.Add(piece);
        if (listener_ != nullptr && *listener_) (*listener_)(piece);
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
  const std::function<void(absl::string_view)>* listener_;
};

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

int PollMilliseconds(absl::Duration wait) {
  wait = std::clamp(wait, absl::ZeroDuration(), absl::Seconds(60));
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
}

// One started child, from fork to the end.
class Child {
 public:
  Child(StartedChild started, const ProcessOptions& options)
      : options_(options),
        pid_(started.pid),
        failure_fd_(std::move(started.failure)),
        out_(std::move(started.out), options, &options.on_output),
        err_(std::move(started.err), options, nullptr),
        started_(Now()) {
#ifdef SYS_pidfd_open
    pid_fd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0U)));
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
  TWINPATH_ASSIGN_OR_RETURN(StartedChild started, StartChild(options));
  Child child(std::move(started), options);
  ProcessResult result;
  const std::optional<StartFailure> start_failure = child.Run(result);
  if (start_failure.has_value()) return StartError(*start_failure, options);
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
