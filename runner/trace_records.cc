#include "runner/trace_records.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "runner/trace/record.h"

namespace twinpath::runner {
namespace {

// A tracer in a process: its number, and the how-manieth start in it.
using Starter = std::pair<uint32_t, uint32_t>;

constexpr size_t kMaxStarters = 65536;
constexpr size_t kMaxCountFiles = 1024;
constexpr size_t kMaxProblemBytes = 1000;
constexpr uint64_t kMaxLaunches = uint64_t{1} << 53;
// Kernels that the driver's log says are not there.
constexpr size_t kMaxNotFound = 1000;
// What the tracer calls a kernel whose name it does not learn.
constexpr char kNoName[] = "(no name)";

std::string ReadAt(int folder, const std::string& name, uint64_t limit) {
  // O_NONBLOCK: the program may have put a FIFO there.
  const UniqueFd fd(openat(folder, name.c_str(),
                           O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info;
  if (!fd.valid() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return "";
  }
  auto bytes = PreadUpTo(fd.get(), 0,
                         std::min(static_cast<uint64_t>(info.st_size), limit));
  return bytes.ok() ? *std::move(bytes) : "";
}

uint64_t Add(uint64_t a, uint64_t b) {
  return std::min(kMaxLaunches,
                  std::min(a, kMaxLaunches) + std::min(b, kMaxLaunches));
}

// One file of records.
class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}

  // The next record; false at the end. Skips what is none.
  bool Next(TraceRecord& record, absl::string_view& payload) {
    while (at_ + sizeof(TraceRecord) <= bytes_.size()) {
      std::memcpy(&record, bytes_.data() + at_, sizeof(record));
      if (record.magic == TP_TRACE_MAGIC &&
          record.payload <= TP_TRACE_MAX_PAYLOAD &&
          at_ + sizeof(record) + record.payload <= bytes_.size()) {
        payload = absl::string_view(bytes_).substr(at_ + sizeof(record),
                                                   record.payload);
        at_ += sizeof(record) + record.payload;
        return true;
      }
      damaged_ = true;
      ++at_;
    }
    damaged_ |= at_ < bytes_.size();
    at_ = bytes_.size();
    return false;
  }
  bool damaged() const { return damaged_; }

 private:
  const std::string bytes_;
  size_t at_ = 0;
  bool damaged_ = false;
};

// What both tracers say of themselves.
class TracerState {
 public:
  void Take(const TraceRecord& record, absl::string_view payload) {
    const Starter starter(record.pid, record.instance);
    switch (record.type) {
      case TP_RECORD_STARTED:
        if (processes_.size() < kMaxStarters) processes_.insert(record.pid);
        version_ = record.a;
        // What it tried before it could start is of no interest.
        problems_.erase(starter);
        break;
      case TP_RECORD_PROBLEM: {
        if (problems_.size() >= 64 && !problems_.contains(starter)) break;
        std::string& text = problems_[starter];
        if (text.size() > kMaxProblemBytes) break;
        if (!text.empty()) text += "; ";
        absl::StrAppend(&text, payload.substr(0, kMaxProblemBytes));
        break;
      }
      case TP_RECORD_DROPPED:
        if (dropped_.size() < kMaxStarters || dropped_.contains(starter)) {
          uint64_t& most = dropped_[starter];
          most = std::max(most, std::min(record.a, kMaxLaunches));
        }
        break;
      default:
        break;
    }
  }

  void Fill(bool damaged, uint64_t left_out, v1::Tracer& tracer) const {
    tracer.set_started(!processes_.empty());
    tracer.set_processes(static_cast<uint32_t>(processes_.size()));
    uint64_t dropped = left_out;
    for (const auto& [starter, count] : dropped_) dropped = Add(dropped, count);
    tracer.set_dropped(dropped);
    std::string problem = problems_.empty() ? "" : problems_.begin()->second;
    if (damaged) {
      absl::StrAppend(&problem, problem.empty() ? "" : "; ",
                      "parts of its record are none");
    }
    tracer.set_problem(problem);
  }
  uint64_t version() const { return version_; }

 private:
  std::set<uint32_t> processes_;
  std::map<Starter, std::string> problems_;
  std::map<Starter, uint64_t> dropped_;
  uint64_t version_ = 0;
};

void ReadObjects(int folder, TraceRecords& records) {
  Reader reader(ReadAt(folder, "objects",
                       uint64_t{TP_TRACE_MAX_FILE} + TP_TRACE_FILE_RESERVE));
  TracerState state;
  absl::flat_hash_set<std::string> seen;
  size_t bytes = 0;
  uint64_t left_out = 0;
  TraceRecord record;
  absl::string_view payload;
  while (reader.Next(record, payload)) {
    if (record.type != TP_RECORD_OBJECT) {
      state.Take(record, payload);
      continue;
    }
    if (payload.empty() || seen.contains(payload)) continue;
    if (records.objects.size() >= kMaxTracedObjects ||
        bytes + payload.size() > kMaxTracedNameBytes) {
      ++left_out;
      continue;
    }
    bytes += payload.size();
    seen.emplace(payload);
    records.objects.emplace_back(payload);
  }
  state.Fill(reader.damaged(), left_out, records.objects_tracer);
  if (records.objects_tracer.started()) {
    records.objects_tracer.set_version(
        absl::StrCat("LD_AUDIT ", std::min<uint64_t>(state.version(), 99)));
  } else if (records.objects_tracer.problem().empty()) {
    records.objects_tracer.set_problem(
        "no process loaded it: the program is linked statically, or its loader "
        "does not know LD_AUDIT");
  }
}

// Launch counts of each start of the tracer.
class Counts {
 public:
  explicit Counts(int folder) : folder_(folder) {}

  TraceCount At(const Starter& starter, uint64_t index, uint64_t& left_out) {
    TraceCount count = {};
    auto found = files_.find(starter);
    if (found == files_.end()) {
      if (files_.size() >= kMaxCountFiles) {
        ++left_out;
        return count;
      }
      found = files_
                  .emplace(starter,
                           ReadAt(folder_,
                                  absl::StrCat("counts-", starter.first, "-",
                                               starter.second),
                                  sizeof(TraceCount) * TP_TRACE_MAX_KERNELS))
                  .first;
    }
    const std::string& bytes = found->second;
    if (index < TP_TRACE_MAX_KERNELS &&
        (index + 1) * sizeof(TraceCount) <= bytes.size()) {
      std::memcpy(&count, bytes.data() + index * sizeof(TraceCount),
                  sizeof(count));
    }
    return count;
  }

 private:
  const int folder_;
  std::map<Starter, std::string> files_;
};

void AddKernel(const TraceCount& count, KernelRecord& kernel) {
  kernel.launches = Add(kernel.launches, count.launches);
  kernel.refused = Add(kernel.refused, count.refused);
  if (count.refused > 0 && count.error > 0 && count.error < 100'000) {
    kernel.cuda_error = static_cast<uint32_t>(count.error);
  }
}

void ReadDevice(int folder, TraceRecords& records) {
  Reader reader(ReadAt(folder, "device",
                       uint64_t{TP_TRACE_MAX_FILE} + TP_TRACE_FILE_RESERVE));
  TracerState state;
  Counts counts(folder);
  absl::flat_hash_map<std::string, size_t> kernels;
  absl::flat_hash_map<Sha256, size_t> modules;
  // A start of the tracer numbers its kernels; a second record of one number
  // would count its launches twice.
  std::set<std::pair<Starter, uint64_t>> counted;
  size_t bytes = 0;
  uint64_t left_out = 0;
  TraceRecord record;
  absl::string_view payload;
  while (reader.Next(record, payload)) {
    switch (record.type) {
      case TP_RECORD_MODULE: {
        const auto digest = Sha256::FromRaw(payload);
        if (!digest.ok()) break;
        const auto [found, is_new] =
            modules.emplace(*digest, records.modules.size());
        if (is_new) {
          if (records.modules.size() >= kMaxTracedModules) {
            modules.erase(found);
            ++left_out;
            break;
          }
          records.modules.push_back(
              {.digest = *digest, .size_bytes = record.a});
        }
        ModuleRecord& module = records.modules[found->second];
        if (module.loads < UINT32_MAX) ++module.loads;
        module.kept |= record.b == 1;
        break;
      }
      case TP_RECORD_KERNEL: {
        const Starter starter(record.pid, record.instance);
        if (record.a >= TP_TRACE_MAX_KERNELS || payload.empty()) break;
        auto found = kernels.find(payload);
        if (found == kernels.end()) {
          if (records.kernels.size() >= kMaxTracedKernels ||
              bytes + payload.size() > kMaxTracedNameBytes) {
            ++left_out;
            break;
          }
          bytes += payload.size();
          found = kernels.emplace(std::string(payload), records.kernels.size())
                      .first;
          records.kernels.push_back({.name = std::string(payload)});
        }
        if (counted.size() >= kMaxStarters) {
          ++left_out;
        } else if (counted.emplace(starter, record.a).second) {
          AddKernel(counts.At(starter, record.a, left_out),
                    records.kernels[found->second]);
        }
        break;
      }
      case TP_RECORD_DEVICE:
        if (!records.gpu && record.a > 0 && record.a < 100 && record.b < 10) {
          records.gpu.emplace();
          records.gpu->set_major(static_cast<uint32_t>(record.a));
          records.gpu->set_minor(static_cast<uint32_t>(record.b));
        }
        break;
      default:
        state.Take(record, payload);
        break;
    }
  }
  state.Fill(reader.damaged(), left_out, records.device_tracer);
  if (records.device_tracer.started()) {
    records.device_tracer.set_version(
        absl::StrCat("CUPTI ", std::min<uint64_t>(state.version(), 100'000)));
  } else if (records.device_tracer.problem().empty()) {
    bool driver = false;
    for (const std::string& path : records.objects) {
      driver |= absl::StartsWith(BaseName(path), "libcuda.so");
    }
    records.device_tracer.set_problem(
        driver ? "the driver was opened and did not load it"
               : "no process opened the driver's library");
  }
}

}  // namespace

TraceRecords ReadTraceRecords(int folder) {
  TraceRecords records;
  ReadObjects(folder, records);
  ReadDevice(folder, records);
  return records;
}

void AddNotFound(absl::string_view driver_log, TraceRecords& records) {
  static constexpr absl::string_view kKernel = "Kernel (";
  static constexpr absl::string_view kMissing = ") cannot be found";
  static constexpr absl::string_view kReturning = "Returning ";
  std::vector<KernelRecord> found;
  // Records, not lines: the driver cuts a long one and writes the next behind
  // it.
  for (size_t at = driver_log.find(kKernel); at != absl::string_view::npos;
       at = driver_log.find(kKernel)) {
    driver_log.remove_prefix(at + kKernel.size());
    const absl::string_view near =
        driver_log.substr(0, TP_TRACE_MAX_PAYLOAD + 1);
    const absl::string_view name =
        near.substr(0, std::min(near.find(')'), near.size()));
    if (name.empty() || name.size() > TP_TRACE_MAX_PAYLOAD ||
        !absl::StartsWith(driver_log.substr(name.size()), kMissing)) {
      continue;
    }
    const absl::string_view behind = driver_log.substr(
        0, std::min(driver_log.find(kKernel), driver_log.size()));
    const size_t error = behind.find(kReturning);
    KernelRecord record{.name = std::string(name)};
    if (error != absl::string_view::npos) {
      const absl::string_view text = behind.substr(error + kReturning.size());
      if (!absl::SimpleAtoi(text.substr(0, std::min<size_t>(text.find(' '), 4)),
                            &record.cuda_error)) {
        record.cuda_error = 0;
      }
    }
    found.push_back(std::move(record));
    if (found.size() == kMaxNotFound) break;
  }
  std::set<std::string> names;
  for (const KernelRecord& kernel : found) names.insert(kernel.name);
  for (KernelRecord& kernel : records.kernels) {
    if (kernel.name == kNoName && names.size() == 1)
      kernel.name = *names.begin();
    names.erase(kernel.name);
  }
  for (KernelRecord& kernel : found) {
    if (kernel.cuda_error == 0 || names.erase(kernel.name) == 0) continue;
    if (records.kernels.size() >= kMaxTracedKernels) return;
    records.kernels.push_back(std::move(kernel));
  }
}

std::string ModuleFileName(const Sha256& digest) {
  return absl::StrCat("module-", digest.Hex());
}

}  // namespace twinpath::runner
