#include "agent/spool.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "agent/fault_point.h"
#include "agent/record.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status.h"

namespace twinpath::agent {
namespace {

constexpr absl::string_view kSuffix = ".result";
constexpr absl::string_view kAside = "damaged";

// Takes "<20 digits>-<result id>.result" apart.
bool ParseName(absl::string_view name, uint64_t* sequence,
               std::string* result_id) {
  if (!absl::EndsWith(name, kSuffix) || name.size() < 22 + kSuffix.size() ||
      name[20] != '-') {
    return false;
  }
  name.remove_suffix(kSuffix.size());
  if (!absl::SimpleAtoi(name.substr(0, 20), sequence)) return false;
  *result_id = std::string(name.substr(21));
  return true;
}

bool IsHexId(absl::string_view id) {
  return !id.empty() && id.size() <= 64 &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

constexpr absl::string_view kTraceDropped =
    "the trace is too large to be sent with the result";

// Keeps at most `limit` bytes of a stream's head and of its tail.
void Shorten(v1::CapturedOutput* output, size_t limit) {
  std::string& head = *output->mutable_head();
  std::string& tail = *output->mutable_tail();
  if (tail.empty() && head.size() > 2 * limit) {
    // Nothing was cut so far: the end often tells most, so keep it as the tail.
    tail = head.substr(head.size() - limit);
  } else if (tail.size() > limit) {
    tail.erase(0, tail.size() - limit);
  }
  if (head.size() > limit && (head.size() > 2 * limit || !tail.empty())) {
    head.resize(limit);
  }
}

// Drops the largest trace; false: there is none. A tracer that did not start
// proves nothing, so the rest of the trace goes with it.
bool DropTrace(v1::CellResult* result) {
  v1::Observation* largest = nullptr;
  for (v1::Observation& observation : *result->mutable_observations()) {
    if (!observation.has_trace() ||
        observation.trace().device_tracer().problem() == kTraceDropped) {
      continue;
    }
    if (largest == nullptr ||
        observation.trace().ByteSizeLong() > largest->trace().ByteSizeLong()) {
      largest = &observation;
    }
  }
  if (largest == nullptr) return false;
  v1::Trace dropped;
  for (v1::Tracer* tracer :
       {dropped.mutable_objects_tracer(), dropped.mutable_device_tracer()}) {
    tracer->set_problem(std::string(kTraceDropped));
  }
  *largest->mutable_trace() = std::move(dropped);
  return true;
}

}  // namespace

void FitResult(v1::CellResult* result) {
  for (size_t limit = 64 << 10; result->ByteSizeLong() > kMaxResultBytes;
       limit /= 2) {
    if (limit < 4096 && DropTrace(result)) {
      // What tracing costs is the trace, not the result.
      limit *= 2;
      continue;
    }
    if (limit < 256) {
      result->clear_staged();
      result->set_complete(false);
      v1::Reason& reason = *result->add_problems();
      reason.set_code("TP418");
      reason.set_detail("the result is too large to be sent whole");
      return;
    }
    for (v1::Observation& observation : *result->mutable_observations()) {
      if (observation.has_stdout()) {
        Shorten(observation.mutable_stdout(), limit);
      }
      if (observation.has_stderr()) {
        Shorten(observation.mutable_stderr(), limit);
      }
      if (observation.has_driver_log()) {
        Shorten(observation.mutable_driver_log(), limit);
      }
      for (v1::OutputFile& file : *observation.mutable_files()) {
        if (file.has_content()) Shorten(file.mutable_content(), limit);
      }
    }
  }
}

absl::StatusOr<std::unique_ptr<Spool>> Spool::Open(const std::string& directory,
                                                   const SpoolLimits& limits) {
  std::unique_ptr<Spool> spool(new Spool(directory, limits));
  TWINPATH_RETURN_IF_ERROR_CTX(spool->Load(),
                               absl::StrCat("opening spool ", directory));
  return spool;
}

absl::Status Spool::Load() {
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            ListDirectory(directory_));
  MutexLock lock(mutex_);
  for (const std::string& name : names) {
    if (name == kAside) continue;
    Stored stored;
    uint64_t sequence = 0;
    if (!ParseName(name, &sequence, &stored.result_id)) {
      if (absl::EndsWith(name, kSuffix)) {
        TWINPATH_RETURN_IF_ERROR(SetAside(name, "its name is not understood"));
      } else {
        // The remains of an atomic write that was cut off: its result was never
        // in the spool, and the journal still has it.
        TWINPATH_RETURN_IF_ERROR(RemoveTree(JoinPath(directory_, name)));
      }
      continue;
    }
    next_sequence_ = std::max(next_sequence_, sequence + 1);
    const absl::StatusOr<v1::CellResult> result = ReadFileOf(name);
    if (!result.ok()) {
      if (!absl::IsDataLoss(result.status())) return result.status();
      TWINPATH_RETURN_IF_ERROR(SetAside(name, MessageOf(result.status())));
      continue;
    }
    stored.cell_id = result->cell_id();
    stored.name = name;
    stored.bytes = result->ByteSizeLong() + kRecordHeaderBytes;
    bytes_ += stored.bytes;
    stored_.emplace(sequence, std::move(stored));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::CellResult> Spool::ReadFileOf(
    const std::string& name) const {
  const std::string path = JoinPath(directory_, name);
  absl::StatusOr<std::string> bytes =
      ReadFile(path, kMaxRecordBytes + kRecordHeaderBytes);
  if (absl::IsResourceExhausted(bytes.status())) {
    return absl::DataLossError("the file is larger than a result can be");
  }
  TWINPATH_RETURN_IF_ERROR(bytes.status());
  absl::string_view rest = *bytes;
  const absl::StatusOr<absl::string_view> payload = TakeRecord(&rest);
  v1::CellResult result;
  if (!payload.ok()) {
    return absl::DataLossError(MessageOf(payload.status()));
  }
  if (!rest.empty() ||
      !result.ParseFromArray(payload->data(),
                             static_cast<int>(payload->size()))) {
    return absl::DataLossError("the file holds no result");
  }
  return result;
}

absl::Status Spool::SetAside(const std::string& name, absl::string_view why) {
  const std::string folder = JoinPath(directory_, kAside);
  TWINPATH_RETURN_IF_ERROR(MakeDirectories(folder));
  const std::string from = JoinPath(directory_, name);
  const std::string to = JoinPath(folder, name);
  if (rename(from.c_str(), to.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("setting aside ", from));
  }
  ++set_aside_;
  Log(LogLevel::kError,
      "spool file is damaged and was set aside; its cell will be run again",
      {{"file", to}, {"why", std::string(why)}});
  return SyncDirectory(directory_);
}

bool Spool::HasRoomFor(uint32_t running) const {
  MutexLock lock(mutex_);
  return stored_.size() + running <= limits_.max_results &&
         bytes_ + running * kMaxResultBytes <= limits_.max_bytes;
}

absl::Status Spool::Add(v1::CellResult result) {
  if (!IsHexId(result.result_id())) {
    return absl::InvalidArgumentError("a result id must be hexadecimal");
  }
  FitResult(&result);
  const std::string record = EncodeRecord(result.SerializeAsString());

  MutexLock lock(mutex_);
  for (const auto& [sequence, stored] : stored_) {
    if (stored.result_id == result.result_id()) return absl::OkStatus();
  }
  Stored stored;
  stored.result_id = result.result_id();
  stored.cell_id = result.cell_id();
  stored.name = absl::StrCat(absl::StrFormat("%020d", next_sequence_), "-",
                             result.result_id(), kSuffix);
  stored.bytes = record.size();
  FaultPoint("spool.before-write");
  TWINPATH_RETURN_IF_ERROR_CTX(
      WriteFileAtomic(JoinPath(directory_, stored.name), record),
      "writing a result to the spool");
  FaultPoint("spool.written");
  bytes_ += stored.bytes;
  stored_.emplace(next_sequence_++, std::move(stored));
  return absl::OkStatus();
}

absl::StatusOr<v1::CellResult> Spool::Read(absl::string_view result_id) {
  MutexLock lock(mutex_);
  const auto found = std::find_if(
      stored_.begin(), stored_.end(),
      [&](const auto& entry) { return entry.second.result_id == result_id; });
  if (found == stored_.end()) {
    return absl::NotFoundError(
        absl::StrCat("no result ", result_id, " in the spool"));
  }
  absl::StatusOr<v1::CellResult> result = ReadFileOf(found->second.name);
  if (result.ok() || (!absl::IsDataLoss(result.status()) &&
                      !absl::IsNotFound(result.status()))) {
    return result;
  }
  // The file went bad, or away, behind our back. What is left of it is kept for
  // a person; the cell is run again because nothing reports it as held.
  const Stored stored = found->second;
  bytes_ -= stored.bytes;
  stored_.erase(found);
  if (absl::IsDataLoss(result.status())) {
    const absl::Status aside =
        SetAside(stored.name, MessageOf(result.status()));
    if (!aside.ok()) {
      Log(LogLevel::kError, "a damaged spool file cannot be set aside",
          {{"file", stored.name}, {"why", std::string(MessageOf(aside))}});
    }
  } else {
    Log(LogLevel::kError, "a spool file is gone; its cell will be run again",
        {{"file", stored.name}});
  }
  return absl::DataLossError(
      absl::StrCat("result ", result_id, ": ", MessageOf(result.status())));
}

absl::Status Spool::Acknowledge(absl::string_view result_id) {
  MutexLock lock(mutex_);
  for (auto it = stored_.begin(); it != stored_.end(); ++it) {
    if (it->second.result_id != result_id) continue;
    const std::string path = JoinPath(directory_, it->second.name);
    FaultPoint("spool.before-remove");
    if (unlink(path.c_str()) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, absl::StrCat("removing ", path));
    }
    bytes_ -= it->second.bytes;
    stored_.erase(it);
    FaultPoint("spool.removed");
    // Unsynced on purpose: a removal lost to a power cut means one more
    // delivery, which the coordinator knows by its result id.
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

std::vector<Spool::Entry> Spool::Pending() const {
  MutexLock lock(mutex_);
  std::vector<Entry> pending;
  pending.reserve(stored_.size());
  for (const auto& [sequence, stored] : stored_) {
    pending.push_back({stored.result_id, stored.cell_id});
  }
  return pending;
}

uint32_t Spool::size() const {
  MutexLock lock(mutex_);
  return static_cast<uint32_t>(stored_.size());
}

uint32_t Spool::set_aside() const {
  MutexLock lock(mutex_);
  return set_aside_;
}

}  // namespace twinpath::agent
