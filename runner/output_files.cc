#include "runner/output_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "trust/entry_rules.h"

namespace twinpath::runner {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;

// What an error of opening says of a file, in words that are the same on every
// host.
std::string OpenProblem(int error) {
  switch (error) {
    case ENOENT:
      return "is missing";
    case ENOTDIR:
    case ELOOP:
      return "is missing: a part of its name is no folder";
    case ENAMETOOLONG:
      return "is missing: its name is too long for the file system";
    default:
      return absl::StrCat("could not be opened: ", std::strerror(error));
  }
}

std::string KindProblem(mode_t mode) {
  if (S_ISLNK(mode)) return "is a symbolic link";
  if (S_ISDIR(mode)) return "is a folder";
  return "is no regular file";
}

// Opens the file `name` below `folder`, one part after the other, none of which
// may be a link. An invalid descriptor has `problem` set.
UniqueFd OpenBelow(int folder, absl::string_view name, std::string& problem) {
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  UniqueFd below;
  int at = folder;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    struct stat info;
    if (fstatat(at, parts[i].c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      problem = OpenProblem(errno);
      return {};
    }
    if (S_ISLNK(info.st_mode)) {
      problem = "lies behind a symbolic link";
      return {};
    }
    UniqueFd next(openat(at, parts[i].c_str(),
                         O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next.valid()) {
      problem = OpenProblem(errno);
      return {};
    }
    below = std::move(next);
    at = below.get();
  }
  // Looked at before it is opened: opening a device or a FIFO may do something.
  struct stat info;
  if (fstatat(at, parts.back().c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    problem = OpenProblem(errno);
    return {};
  }
  if (!S_ISREG(info.st_mode)) {
    problem = KindProblem(info.st_mode);
    return {};
  }
  UniqueFd file(
      openat(at, parts.back().c_str(),
             O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.valid()) {
    problem = OpenProblem(errno);
    return {};
  }
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    problem = "could not be read: it was replaced";
    return {};
  }
  return file;
}

// Reads `fd` to its end. Head and tail hold up to `kept` bytes each. Returns
// the problem; empty: it was read whole.
std::string Capture(int fd, uint64_t kept, const OutputFileLimits& limits,
                    absl::Time until, v1::CapturedOutput& out) {
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return absl::StrCat("could not be read: ", std::strerror(errno));
  }
  Sha256Stream digest;
  std::string head;
  std::string tail;
  uint64_t at = 0;
  while (true) {
    // Its size is looked at too, so that a hole of terabytes is not read.
    if (at > limits.largest_bytes ||
        static_cast<uint64_t>(info.st_size) > limits.largest_bytes) {
      return "could not be read: it is larger than is read";
    }
    if (absl::Now() > until) {
      return "could not be read: reading the entry's files took too long";
    }
    const auto piece = PreadUpTo(fd, at, kPieceBytes);
    if (!piece.ok()) {
      return absl::StrCat("could not be read: ",
                          absl::StatusCodeToString(piece.status().code()));
    }
    if (piece->empty()) break;
    digest.Update(*piece);
    at += piece->size();
    absl::string_view rest = *piece;
    const size_t room = static_cast<size_t>(kept) - head.size();
    const size_t taken = std::min(room, rest.size());
    head.append(rest.data(), taken);
    rest.remove_prefix(taken);
    tail.append(rest.data(), rest.size());
    if (tail.size() > kept) tail.erase(0, tail.size() - kept);
  }
  out.set_total_bytes(at);
  out.set_head(std::move(head));
  out.set_tail(std::move(tail));
  out.mutable_digest()->set_sha256(digest.Finish().Raw());
  return "";
}

}  // namespace

google::protobuf::RepeatedPtrField<v1::OutputFile> CollectOutputFiles(
    const v1::Entry& entry, const std::string& work_directory,
    const std::string& home_name, const OutputFileLimits& limits) {
  google::protobuf::RepeatedPtrField<v1::OutputFile> files;
  if (entry.expected_files().empty()) return files;
  const absl::Time until = absl::Now() + limits.time;
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const UniqueFd folder(open(work_directory.c_str(), kFlags));
  const UniqueFd home(
      folder.valid() ? openat(folder.get(), home_name.c_str(), kFlags) : -1);
  uint64_t room = limits.kept_in_all;
  const int count =
      std::min(entry.expected_files_size(), trust::kMaxEntryFiles);
  for (int i = 0; i < count; ++i) {
    const std::string& name = entry.expected_files(i).name();
    v1::OutputFile& file = *files.Add();
    file.set_name(name);
    if (!trust::IsOutputFileName(name)) {
      file.set_problem("is not looked for: its name leaves the working folder");
      continue;
    }
    if (!home.valid()) {
      file.set_problem("is missing: the program replaced its working folder");
      continue;
    }
    std::string problem;
    const UniqueFd fd = OpenBelow(home.get(), name, problem);
    if (fd.valid()) {
      const uint64_t kept = std::min(limits.kept_bytes, room / 2);
      problem = Capture(fd.get(), kept, limits, until, *file.mutable_content());
      room -= file.content().head().size() + file.content().tail().size();
    }
    if (!problem.empty()) {
      file.clear_content();
      file.set_problem(problem);
    }
  }
  return files;
}

void AddOutputFiles(const v1::RunRequest& request, uint64_t kept_bytes,
                    v1::Observation& observation) {
  if (observation.ending() == v1::ENDING_NOT_STARTED) return;
  OutputFileLimits limits;
  limits.kept_bytes = kept_bytes;
  *observation.mutable_files() = CollectOutputFiles(
      request.entry(), request.work_directory(), "home", limits);
}

}  // namespace twinpath::runner
