#include "agent/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "agent/fault_point.h"
#include "agent/record.h"
#include "agent/time_proto.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status.h"

namespace twinpath::agent {
namespace {

constexpr absl::string_view kSuffix = ".journal";
// Head, attempts and observations of a cell stay far below this.
constexpr uint64_t kMaxJournal = 256 << 20;

bool IsHexId(absl::string_view id) {
  return !id.empty() && id.size() <= 64 &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

// What a journal file tells.
struct Replay {
  v1::CellResult result;
  bool has_head = false;
  bool damaged = false;
};

Replay ReplayJournal(absl::string_view bytes) {
  Replay replay;
  while (!bytes.empty()) {
    const absl::StatusOr<absl::string_view> record = TakeRecord(&bytes);
    if (!record.ok()) {
      // A cut-off last record was never synced, so nothing was started under
      // it. Anything else is damage.
      replay.damaged = !absl::IsOutOfRange(record.status());
      return replay;
    }
    const absl::string_view body =
        record->substr(std::min<size_t>(1, record->size()));
    const char letter = record->empty() ? '\0' : (*record)[0];
    v1::Observation observation;
    const int size = static_cast<int>(body.size());
    if (letter == 'C' && !replay.has_head) {
      if (!replay.result.ParseFromArray(body.data(), size)) break;
      replay.has_head = true;
    } else if ((letter == 'A' || letter == 'O') && replay.has_head) {
      if (!observation.ParseFromArray(body.data(), size)) break;
      auto* all = replay.result.mutable_observations();
      const auto same = std::find_if(
          all->begin(), all->end(), [&](const v1::Observation& other) {
            return other.attempt_id() == observation.attempt_id();
          });
      if (same != all->end()) {
        *same = observation;
      } else {
        *all->Add() = observation;
      }
    } else {
      break;
    }
    if (bytes.empty()) return replay;
  }
  replay.damaged = !bytes.empty() || !replay.has_head;
  return replay;
}

}  // namespace

absl::Status CellJournal::Append(char letter, absl::string_view message) {
  std::string payload(1, letter);
  absl::StrAppend(&payload, message);
  if (payload.size() > kMaxRecordBytes) {
    return absl::ResourceExhaustedError("journal record too large");
  }
  if (broken_) {
    return absl::DataLossError(
        absl::StrCat("journal ", path_, " could not be written before"));
  }
  const std::string record = EncodeRecord(payload);
  const absl::Status written = WriteAll(fd_.get(), record);
  if (!written.ok()) {
    broken_ = ftruncate(fd_.get(), static_cast<off_t>(length_)) != 0;
    return WithContext(written, absl::StrCat("writing journal ", path_));
  }
  FaultPoint("journal.before-sync");
  if (fdatasync(fd_.get()) != 0) {
    // What is on disk now is not known any more.
    broken_ = true;
    return ErrnoStatus(errno, absl::StrCat("syncing journal ", path_));
  }
  length_ += record.size();
  return absl::OkStatus();
}

absl::Status CellJournal::BeforeAttempt(const v1::Observation& attempt) {
  v1::Observation start = attempt;
  start.set_ending(v1::ENDING_INTERRUPTED);
  if (start.problem().empty()) {
    start.set_problem("the agent or the host stopped during this run");
  }
  TWINPATH_RETURN_IF_ERROR(Append('A', start.SerializeAsString()));
  FaultPoint("journal.attempt-synced");
  return absl::OkStatus();
}

absl::Status CellJournal::AfterAttempt(const v1::Observation& observation) {
  FaultPoint("journal.attempt-ended");
  TWINPATH_RETURN_IF_ERROR(Append('O', observation.SerializeAsString()));
  FaultPoint("journal.observation-synced");
  return absl::OkStatus();
}

absl::Status CellJournal::Close() {
  FaultPoint("journal.before-close");
  fd_.Close();
  if (unlink(path_.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, absl::StrCat("removing journal ", path_));
  }
  FaultPoint("journal.closed");
  return SyncDirectory(DirName(path_));
}

std::string Journal::PathOf(absl::string_view result_id) const {
  return JoinPath(directory_, absl::StrCat(result_id, kSuffix));
}

absl::StatusOr<std::unique_ptr<CellJournal>> Journal::Begin(
    const v1::CellResult& head) {
  if (!IsHexId(head.result_id())) {
    return absl::InvalidArgumentError("a result id must be hexadecimal");
  }
  const std::string path = PathOf(head.result_id());
  FaultPoint("journal.before-begin");
  const std::string record =
      EncodeRecord(absl::StrCat("C", head.SerializeAsString()));
  TWINPATH_RETURN_IF_ERROR_CTX(WriteFileAtomic(path, record),
                               absl::StrCat("beginning journal ", path));
  FaultPoint("journal.begun");
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoStatus(errno, absl::StrCat("opening journal ", path));
  }
  return std::make_unique<CellJournal>(path, std::move(fd), record.size());
}

absl::StatusOr<std::vector<v1::CellResult>> Journal::Recover(absl::Time now) {
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            ListDirectory(directory_));
  std::vector<v1::CellResult> results;
  for (const std::string& name : names) {
    const std::string path = JoinPath(directory_, name);
    if (name == "damaged") continue;
    absl::string_view id = name;
    if (!absl::EndsWith(id, kSuffix) ||
        !IsHexId(id.substr(0, id.size() - kSuffix.size()))) {
      // Left by an atomic write that was cut off.
      TWINPATH_RETURN_IF_ERROR(RemoveTree(path));
      continue;
    }
    TWINPATH_ASSIGN_OR_RETURN(const std::string bytes,
                              ReadFile(path, kMaxJournal));
    Replay replay = ReplayJournal(bytes);
    if (replay.damaged) {
      const std::string aside = JoinPath(directory_, "damaged");
      TWINPATH_RETURN_IF_ERROR(MakeDirectories(aside));
      Log(LogLevel::kError, "journal file is damaged; set aside",
          {{"file", name}, {"folder", aside}});
      // A copy stays behind for a person; the file itself goes only once the
      // result that was read from it is in the spool.
      TWINPATH_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(aside, name), bytes));
    }
    if (!replay.has_head || replay.result.observations().empty()) {
      TWINPATH_RETURN_IF_ERROR(RemoveTree(path));
      continue;
    }
    v1::CellResult& result = replay.result;
    result.set_complete(false);
    v1::Reason& reason = *result.add_problems();
    reason.set_code("TP307");
    reason.set_detail(
        replay.damaged
            ? "the agent stopped during the run and its journal is damaged"
            : "the agent stopped during the run (restart, crash or power)");
    *result.mutable_finish_time() = ToProto(now);
    results.push_back(std::move(result));
  }
  return results;
}

absl::Status Journal::Remove(absl::string_view result_id) {
  if (!IsHexId(result_id)) {
    return absl::InvalidArgumentError("a result id must be hexadecimal");
  }
  FaultPoint("journal.before-remove");
  TWINPATH_RETURN_IF_ERROR(RemoveTree(PathOf(result_id)));
  return SyncDirectory(directory_);
}

}  // namespace twinpath::agent
