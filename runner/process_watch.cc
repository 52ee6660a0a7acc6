#include "runner/process_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"

namespace twinpath::runner {

namespace {

constexpr uint64_t kMaxSmallFile = 64 << 10;

std::string Small(const std::string& path) {
  auto text = ReadFile(path, kMaxSmallFile);
  return text.ok() ? *std::move(text) : std::string();
}

// Sum of the lines "NAME VALUE" whose name is one of `names`.
uint64_t SumOf(absl::string_view text,
               std::initializer_list<absl::string_view> names) {
  uint64_t sum = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    uint64_t value = 0;
    if (std::find(names.begin(), names.end(), parts.first) != names.end() &&
        absl::SimpleAtoi(parts.second, &value)) {
      sum += value;
    }
  }
  return sum;
}

// Calls `visit` for every process below `root`.
template <typename Visit>
void VisitDescendants(pid_t root, Visit visit) {
  std::unordered_map<pid_t, ProcessStat> all;
  std::unordered_map<pid_t, std::vector<pid_t>> children;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid)) continue;
    char path[64];
    std::snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    const UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) continue;
    char line[1024];
    const ssize_t got = read(fd.get(), line, sizeof(line));
    ProcessStat stat;
    if (got <= 0 ||
        !ParseProcessStat(absl::string_view(line, static_cast<size_t>(got)),
                          stat)) {
      continue;
    }
    children[stat.parent].push_back(pid);
    all[pid] = stat;
  }
  closedir(folder);
  std::vector<pid_t> open = {root};
  // Numbers can be reused while reading; a circle must not be followed.
  std::unordered_set<pid_t> seen = {root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    const auto found = children.find(parent);
    if (found == children.end()) continue;
    for (const pid_t child : found->second) {
      if (!seen.insert(child).second) continue;
      visit(child, all[child]);
      open.push_back(child);
    }
  }
}

// Calls `visit` with the folder of each control group this process is in that
// counts memory or tasks.
template <typename Visit>
void VisitControlGroups(const std::string& root, Visit visit) {
  // "0::/path" of the unified hierarchy, "N:memory:/path" of the older one
  // (cgroups(7)).
  for (const absl::string_view line :
       absl::StrSplit(Small(root + "/proc/self/cgroup"), '\n')) {
    const std::vector<absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool unified = parts[0] == "0";
    if (!unified && parts[1] != "memory" && parts[1] != "pids") continue;
    visit(absl::StrCat(root, "/sys/fs/cgroup", unified ? "" : "/",
                       unified ? "" : parts[1], parts[2]),
          unified);
  }
}

}  // namespace

TreeUsage UsageOfControlGroup(const std::string& root) {
  TreeUsage usage;
  VisitControlGroups(root, [&](const std::string& folder, bool unified) {
    if (const std::string memory = Small(folder + "/memory.stat");
        !memory.empty()) {
      usage.resident_bytes = unified
                                 ? SumOf(memory, {"anon", "shmem"})
                                 : SumOf(memory, {"total_rss", "total_shmem"});
    }
    if (uint64_t tasks = 0;
        absl::SimpleAtoi(Small(folder + "/pids.current"), &tasks)) {
      usage.tasks = tasks;
    }
  });
  return usage;
}

std::vector<pid_t> ProcessesOfControlGroup(const std::string& root) {
  std::set<pid_t> pids;
  VisitControlGroups(root, [&](const std::string& folder, bool) {
    for (const absl::string_view line :
         absl::StrSplit(Small(folder + "/cgroup.procs"), '\n')) {
      pid_t pid = 0;
      if (absl::SimpleAtoi(line, &pid) && pid != getpid()) pids.insert(pid);
    }
  });
  return {pids.begin(), pids.end()};
}

std::optional<uint64_t> TakenForMemory(const std::string& root) {
  std::optional<uint64_t> taken;
  VisitControlGroups(root, [&](std::string folder, bool unified) {
    // Where systemd delegates the group it starts its own commands in one of
    // their own below it.
    if (absl::EndsWith(folder, "/.control")) folder = DirName(folder);
    // cgroup-v2.rst; Documentation/admin-guide/cgroup-v1/memory.rst.
    const std::string text =
        Small(folder + (unified ? "/memory.events" : "/memory.oom_control"));
    if (text.find("oom_kill ") == std::string::npos) return;
    taken = taken.value_or(0) + SumOf(text, {"oom_kill"});
  });
  return taken;
}

bool ParseProcessStat(absl::string_view line, ProcessStat& stat) {
  // "pid (name) state ppid pgrp ...": field 4 is the parent, 20 the threads, 24
  // the resident pages (proc(5)).
  const size_t close = line.rfind(')');
  if (close == absl::string_view::npos) return false;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(line.substr(close + 1), ' ', absl::SkipEmpty());
  constexpr size_t kState = 3;
  if (fields.size() <= 24 - kState) return false;
  return absl::SimpleAtoi(fields[4 - kState], &stat.parent) &&
         absl::SimpleAtoi(fields[20 - kState], &stat.threads) &&
         absl::SimpleAtoi(fields[24 - kState], &stat.resident_pages);
}

TreeUsage UsageOfDescendants(pid_t root) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  TreeUsage usage;
  VisitDescendants(root, [&](pid_t, const ProcessStat& stat) {
    usage.resident_bytes += stat.resident_pages * page;
    usage.tasks += stat.threads;
    ++usage.processes;
  });
  return usage;
}

std::vector<pid_t> DescendantsOf(pid_t root) {
  std::vector<pid_t> pids;
  VisitDescendants(root,
                   [&](pid_t pid, const ProcessStat&) { pids.push_back(pid); });
  return pids;
}

uint64_t HostMemoryBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return 0;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
}

}  // namespace twinpath::runner
