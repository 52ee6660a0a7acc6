#include "inspect/layout_files.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "base/status.h"
#include "inspect/folder.h"

namespace twinpath::inspect {
namespace {

// Documents refer to documents six times at most: indexes inside each other, a
// manifest, its configuration.
constexpr int kMaxRounds = 8;
// Descriptors for everything else in this process and at the start of a child.
constexpr size_t kOtherDescriptors = 128;
// Starting a child takes two descriptors a file.
constexpr size_t kDescriptorsOfFile = 2;

// How many files may be open so that a child can still be given them, of
// `wanted`.
size_t RoomFor(size_t wanted) {
  static Mutex mutex;
  MutexLock lock(mutex);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t needed = wanted * kDescriptorsOfFile + kOtherDescriptors;
  if (limit.rlim_cur < needed && limit.rlim_cur < limit.rlim_max) {
    rlimit raised = limit;
    raised.rlim_cur = std::min(needed, limit.rlim_max);
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  if (limit.rlim_cur <= kOtherDescriptors) return 0;
  return std::min<uint64_t>(
      wanted, (limit.rlim_cur - kOtherDescriptors) / kDescriptorsOfFile);
}

bool IsFolder(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool IsRegular(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// Whether a path that a survey names is one of a blob: it comes from a process
// that has read foreign bytes.
bool IsBlobPath(absl::string_view path) {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  const auto fits = [](absl::string_view part) {
    return !part.empty() && part != "." && part != ".." &&
           part.find('\0') == absl::string_view::npos;
  };
  return parts.size() == 3 && parts[0] == "blobs" && fits(parts[1]) &&
         fits(parts[2]);
}

class LayoutOpener {
 public:
  LayoutOpener(const std::string& path, const LayoutLimits& limits)
      : path_(path), limits_(limits) {}

  // Opens all files; there is room for them.
  LayoutFiles All(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) Open(path, paths.size());
    return std::move(files_);
  }

  absl::StatusOr<LayoutFiles> Needed(const SurveyLayout& survey) {
    for (const char* const name : {"index.json", "oci-layout"}) Open(name, 2);
    for (int round = 0; round < kMaxRounds; ++round) {
      TWINPATH_ASSIGN_OR_RETURN(const OciNeeds needs, survey(files_));
      const size_t before = seen_.size();
      Blobs(needs.documents, before + needs.documents.size());
      if (seen_.size() > before) continue;
      Blobs(needs.layers, before + needs.layers.size());
      break;
    }
    return std::move(files_);
  }

 private:
  void Blobs(const std::vector<std::string>& paths, size_t wanted) {
    for (const std::string& path : paths) {
      // What is no file of the layout is missing, as far as it is concerned.
      if (!IsBlobPath(path) || !IsFolder(JoinPath(path_, DirName(path))) ||
          !IsRegular(JoinPath(path_, path))) {
        continue;
      }
      Open(path, wanted);
    }
  }

  // `wanted`: how many files are to be open in the end, as known by now.
  void Open(const std::string& path, size_t wanted) {
    if (!seen_.insert(path).second) return;
    if (files_.fds.size() >= room_) {
      room_ = RoomFor(std::min(wanted, limits_.most));
      if (files_.fds.size() >= room_) {
        files_.unopened[path] =
            absl::StrCat("no more than ", files_.fds.size(),
                         " files of a layout can be open at once here");
        return;
      }
    }
    absl::StatusOr<UniqueFd> fd = OpenRegularFile(JoinPath(path_, path));
    if (!fd.ok()) {
      files_.unopened[path] = std::string(MessageOf(fd.status()));
      return;
    }
    files_.fds.push_back(*std::move(fd));
    files_.paths.push_back(path);
  }

  const std::string& path_;
  const LayoutLimits& limits_;
  LayoutFiles files_;
  std::set<std::string> seen_;
  size_t room_ = 0;
};

}  // namespace

absl::StatusOr<LayoutFiles> OpenLayout(const std::string& path,
                                       const SurveyLayout& survey,
                                       const LayoutLimits& limits) {
  uint64_t left_out = 0;
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                            ListOciLayout(path, limits.few, left_out));
  LayoutOpener opener(path, limits);
  if (left_out == 0 && RoomFor(paths.size()) == paths.size()) {
    return opener.All(paths);
  }
  return opener.Needed(survey);
}

}  // namespace twinpath::inspect
