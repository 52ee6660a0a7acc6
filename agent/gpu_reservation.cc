#include "agent/gpu_reservation.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "agent/fault_point.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace twinpath::agent {
namespace {

// sysexits.h, EX_TEMPFAIL.
constexpr int kTryLater = 75;
constexpr uint64_t kMaxBytes = 64 << 10;
constexpr absl::string_view kSuffix = ".owed";

struct CommandResult {
  // -1: no exit code, see `detail`.
  int exit_code = -1;
  // Whether the program ran at all.
  bool started = false;
  std::string detail;
};

CommandResult RunCommand(const std::vector<std::string>& argv,
                         const std::string& cell_id,
                         const std::vector<std::string>& gpu_uuids,
                         absl::Duration timeout,
                         std::function<bool()> cancelled) {
  ProcessOptions options;
  options.argv = argv;
  options.environment = MinimalEnvironment();
  options.environment.push_back(
      absl::StrCat("TWINPATH_GPU_UUIDS=", absl::StrJoin(gpu_uuids, ",")));
  // The coordinator names cells; a NUL would end the variable early.
  options.environment.push_back(absl::StrCat(
      "TWINPATH_CELL=", Printable(absl::string_view(cell_id).substr(0, 200))));
  options.head_bytes = 4 << 10;
  options.timeout = timeout;
  options.cancelled = std::move(cancelled);
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  CommandResult out;
  if (!result.ok()) {
    out.detail =
        absl::StrCat(Printable(argv[0]), ": ", MessageOf(result.status()));
    return out;
  }
  out.started = true;
  if (result->ending == ProcessResult::Ending::kExited) {
    out.exit_code = result->exit_code;
  }
  // What it says for people: the last line of its errors, or of its output.
  std::string said =
      result->err.head.empty() ? result->out.head : result->err.head;
  absl::string_view text = absl::StripAsciiWhitespace(said);
  text = text.substr(
      text.rfind('\n') == absl::string_view::npos ? 0 : text.rfind('\n') + 1);
  out.detail =
      absl::StrCat(Printable(argv[0]), ": ", result->Describe(),
                   text.empty() ? "" : ": ", Printable(text.substr(0, 200)));
  return out;
}

bool Intersect(const std::vector<std::string>& a,
               const std::vector<std::string>& b) {
  return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
}

void LogUnreadable(const absl::Status& status) {
  Log(LogLevel::kError,
      "TP137 reservation-failed: what a file owes cannot be read; release its "
      "GPUs by hand and remove it",
      {{"why", std::string(MessageOf(status))}});
}

}  // namespace

bool GpuReservations::Take(const Owed& owed, const std::string& own) {
  MutexLock lock(mutex_);
  for (const Owed& other : live_) {
    if (other.path == owed.path) return false;
    if (other.path != own && Intersect(other.gpu_uuids, owed.gpu_uuids)) {
      return false;
    }
  }
  live_.push_back(owed);
  return true;
}

void GpuReservations::Drop(const std::string& path) {
  MutexLock lock(mutex_);
  std::erase_if(live_, [&](const Owed& owed) { return owed.path == path; });
}

absl::StatusOr<GpuReservations::Owed> GpuReservations::Read(
    const std::string& path) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxBytes));
  Owed owed;
  owed.path = path;
  bool first = true;
  for (const absl::string_view line :
       absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    std::string value;
    if (!absl::CUnescape(line, &value)) continue;
    if (std::exchange(first, false)) {
      owed.cell_id = std::move(value);
    } else {
      owed.gpu_uuids.push_back(std::move(value));
    }
  }
  return owed;
}

bool GpuReservations::MakeUpFor(const Owed& owed) {
  bool released = true;
  // It may have been released and removed since it was read.
  if (!absl::IsNotFound(Read(owed.path).status())) {
    Log(LogLevel::kWarning, "a GPU is released that was not before",
        {{"gpus", absl::StrJoin(owed.gpu_uuids, ",")}});
    released = Release(owed);
  }
  Drop(owed.path);
  return released;
}

absl::Status GpuReservations::Settle(const Owed& wanted) {
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            ListDirectory(directory_));
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, kSuffix)) continue;
    const std::string path = JoinPath(directory_, name);
    const absl::StatusOr<Owed> owed = Read(path);
    if (!owed.ok()) {
      // Nobody will ever run a release for it: no danger to what is granted.
      if (!absl::IsNotFound(owed.status())) LogUnreadable(owed.status());
      continue;
    }
    if (!Intersect(owed->gpu_uuids, wanted.gpu_uuids)) continue;
    if (!Take(*owed, wanted.path) || !MakeUpFor(*owed)) {
      return absl::UnavailableError(
          "an earlier reservation of the GPU is not released yet");
    }
  }
  return absl::OkStatus();
}

GpuReservations::Outcome GpuReservations::Reserve(
    const std::string& cell_id, const std::vector<std::string>& gpu_uuids,
    std::function<bool()> cancelled) {
  Outcome outcome;
  if (commands_.reserve.empty()) {
    outcome.detail = "gpu_use is reserved and gpu_reserve names no command";
    return outcome;
  }
  Owed owed;
  owed.path = JoinPath(directory_, absl::StrCat(RandomHex(8), kSuffix));
  owed.cell_id = cell_id;
  owed.gpu_uuids = gpu_uuids;
  std::string text = absl::StrCat(absl::CEscape(cell_id), "\n");
  for (const std::string& uuid : gpu_uuids) {
    absl::StrAppend(&text, absl::CEscape(uuid), "\n");
  }
  if (!Take(owed)) {
    outcome.answer = Answer::kBusy;
    outcome.detail = "the GPU is held, or being released, by another cell";
    return outcome;
  }
  const auto forget = [this, path = owed.path] { Drop(path); };
  if (const absl::Status status = Settle(owed); !status.ok()) {
    outcome.answer =
        absl::IsUnavailable(status) ? Answer::kBusy : Answer::kFailed;
    outcome.detail = std::string(MessageOf(status));
    forget();
    return outcome;
  }
  if (const absl::Status status = WriteFileAtomic(owed.path, text);
      !status.ok()) {
    outcome.detail = std::string(MessageOf(status));
    forget();
    return outcome;
  }
  FaultPoint("reservation.owed");
  const CommandResult result =
      RunCommand(commands_.reserve, cell_id, gpu_uuids, commands_.timeout,
                 std::move(cancelled));
  if (result.exit_code == 0) {
    FaultPoint("reservation.granted");
    outcome.answer = Answer::kGranted;
    outcome.hold = Hold(nullptr, [this, owed, forget](void*) {
      (void)Release(owed);
      forget();
    });
    return outcome;
  }
  outcome.answer =
      result.exit_code == kTryLater ? Answer::kBusy : Answer::kFailed;
  outcome.detail = result.detail;
  if (result.started && result.exit_code < 0) {
    // Ended in the middle: it may have been granted.
    (void)Release(owed);
  } else if (const absl::Status status = RemoveTree(owed.path); !status.ok()) {
    Log(LogLevel::kWarning, "a reservation's file cannot be removed",
        {{"why", std::string(MessageOf(status))}});
  }
  forget();
  return outcome;
}

bool GpuReservations::Release(const Owed& owed) {
  if (!commands_.release.empty()) {
    const CommandResult result =
        RunCommand(commands_.release, owed.cell_id, owed.gpu_uuids,
                   commands_.timeout, nullptr);
    if (result.exit_code != 0) {
      Log(LogLevel::kError,
          "TP137 reservation-failed: a GPU was not released; it is tried "
          "again",
          {{"gpus", absl::StrJoin(owed.gpu_uuids, ",")},
           {"why", result.detail}});
      return false;
    }
  }
  FaultPoint("reservation.released");
  if (const absl::Status status = RemoveTree(owed.path); !status.ok()) {
    Log(LogLevel::kWarning, "a reservation's file cannot be removed",
        {{"why", std::string(MessageOf(status))}});
    return false;
  }
  return true;
}

size_t GpuReservations::ReleaseOwed() {
  const absl::StatusOr<std::vector<std::string>> names =
      ListDirectory(directory_);
  if (!names.ok()) {
    LogUnreadable(names.status());
    return 0;
  }
  size_t left = 0;
  for (const std::string& name : *names) {
    if (!absl::EndsWith(name, kSuffix)) continue;
    const std::string path = JoinPath(directory_, name);
    const absl::StatusOr<Owed> owed = Read(path);
    if (absl::IsNotFound(owed.status())) continue;
    if (!owed.ok()) {
      LogUnreadable(owed.status());
      ++left;
      continue;
    }
    if (!Take(*owed)) {
      // A hold's own file is no debt; an older one of its GPUs is.
      MutexLock lock(mutex_);
      left += std::none_of(live_.begin(), live_.end(),
                           [&](const Owed& live) { return live.path == path; });
      continue;
    }
    if (!MakeUpFor(*owed)) ++left;
  }
  return left;
}

}  // namespace twinpath::agent
