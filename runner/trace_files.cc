#include "runner/trace_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "base/target_rule.h"
#include "inspect/child.h"

namespace twinpath::runner {
namespace {

// Whether `path` lies below `folder`; "" contains nothing.
bool IsBelow(absl::string_view path, absl::string_view folder) {
  return !folder.empty() && absl::StartsWith(path, folder) &&
         path.size() > folder.size() && path[folder.size()] == '/';
}

std::string RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  return path.empty() || realpath(path.c_str(), resolved) == nullptr ? ""
                                                                     : resolved;
}

// Private folders of the sandbox (sandbox.cc): what this process sees there are
// other files.
bool IsPrivate(absl::string_view path) {
  for (const absl::string_view folder :
       {"/tmp", "/run", "/var/tmp", "/dev", "/proc"}) {
    if (IsBelow(path, folder)) return true;
  }
  return false;
}

// The driver's own files and those of tracing: what they hold is never a module
// of the program, so whether it could be read does not matter.
bool IsOfDriver(absl::string_view path) {
  const absl::string_view name = BaseName(path);
  for (const absl::string_view prefix :
       {"libcuda.so", "libcudadebugger.so", "libnvidia-", "libcupti.so",
        "twinpath-audit.so", "twinpath-trace.so"}) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return false;
}

// Whether a problem of a report means that images may have been missed: packed,
// damaged, or not read to its end.
bool LeavesOut(absl::string_view code) {
  return code == "TP215" || code == "TP229" || code == "TP232" ||
         code == "TP233";
}

bool IsElf(int fd) {
  const auto head = PreadUpTo(fd, 0, 4);
  return head.ok() && *head == absl::string_view("\177ELF", 4);
}

// Where an object lies for this process, or why it is not looked at.
class Places {
 public:
  explicit Places(const FilesQuestion& question)
      : same_folders_(question.same_folders),
        artifact_(RealPath(question.artifact_directory)),
        work_(RealPath(question.work_directory)) {
    for (const std::string& path : question.shown) {
      shown_.insert(path);
      shown_.insert(RealPath(path));
    }
  }

  // Fills in size, artifact_name or problem. Returns the path to read, or "".
  std::string Look(v1::TracedObject& object,
                   std::pair<dev_t, ino_t>& id) const {
    const auto fail = [&](absl::string_view why) {
      object.set_problem(std::string(why));
      return "";
    };
    const std::string& named = object.path();
    if (named.find('\0') != std::string::npos || named.size() >= PATH_MAX) {
      return fail("it is no path");
    }
    const auto hidden = [&](const std::string& path) {
      return !same_folders_ && IsPrivate(path) && !IsBelow(path, artifact_) &&
             !IsBelow(path, work_) && !shown_.contains(path);
    };
    if (hidden(named) && RealPath(named).empty()) {
      return fail("it lay in a private folder of the run and went with it");
    }
    const std::string path = RealPath(named);
    if (path.empty()) return fail("it is not there any more");
    // Also where a link leads there.
    if (hidden(path)) {
      return fail("it lay in a private folder of the run and went with it");
    }
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
                                             O_NOCTTY | O_CLOEXEC));
    struct stat info;
    if (!fd.valid() || fstat(fd.get(), &info) != 0) {
      return fail("it cannot be read");
    }
    // Whatever else the record names, only programs and libraries are looked
    // at.
    if (!S_ISREG(info.st_mode) || !IsElf(fd.get())) {
      return fail("it is no ELF file");
    }
    object.set_size_bytes(static_cast<uint64_t>(info.st_size));
    if (IsBelow(path, artifact_)) {
      object.set_artifact_name(path.substr(artifact_.size() + 1));
    }
    id = {info.st_dev, info.st_ino};
    return path;
  }

 private:
  const bool same_folders_;
  const std::string artifact_;
  const std::string work_;
  std::set<std::string> shown_;
};

uint64_t CountImages(const v1::FileReport& report) {
  uint64_t count = 0;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    count += static_cast<uint64_t>(fatbin.images_size());
  }
  return count;
}

// First: the modules' own bytes.
void ReadModules(const FilesQuestion& question, FilesAnswer& answer) {
  std::vector<inspect::InspectTarget> targets;
  std::vector<Sha256> digests;
  for (const ModuleRecord& module : question.modules) {
    if (!module.kept) continue;
    const std::string name = ModuleFileName(module.digest);
    targets.push_back(
        {.path = JoinPath(question.module_directory, name), .name = name});
    digests.push_back(module.digest);
  }
  // Links would lead the inspector elsewhere.
  for (size_t i = targets.size(); i-- > 0;) {
    struct stat info;
    if (lstat(targets[i].path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
      targets.erase(targets.begin() + static_cast<std::ptrdiff_t>(i));
      digests.erase(digests.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  inspect::InspectOptions options;
  options.details = false;
  options.members = false;
  inspect::InspectFiles(
      targets, options,
      [&](const absl::Status& opened, size_t target,
          std::vector<v1::FileReport> reports) -> absl::Status {
        // The bytes must be those that were loaded.
        if (opened.ok() && !reports.empty() &&
            reports[0].digest().sha256() == digests[target].Raw()) {
          ReadModule& module = answer.read[digests[target]];
          for (const v1::Fatbin& fatbin : reports[0].fatbins()) {
            for (const v1::Image& image : fatbin.images()) {
              module.target = image.target();
              for (const v1::Kernel& kernel : image.kernels()) {
                module.kernels.push_back(kernel.name());
              }
            }
          }
        }
        return absl::Now() < question.deadline
                   ? absl::OkStatus()
                   : absl::DeadlineExceededError("time");
      })
      .IgnoreError();
}

// What one file with device code says to the question.
class FileReader {
 public:
  FileReader(const FilesQuestion& question, FilesAnswer& answer)
      : question_(question), answer_(answer) {
    launched_.insert(question.kernels.begin(), question.kernels.end());
    asked_ = launched_;
    for (const auto& [digest, module] : answer.read) {
      asked_.insert(module.kernels.begin(), module.kernels.end());
    }
    for (const ModuleRecord& module : question.modules) {
      modules_.insert(module.digest.Raw());
    }
  }

  void Take(const v1::FileReport& report, size_t file) {
    absl::flat_hash_set<absl::string_view> launchable;
    absl::flat_hash_set<absl::string_view> owned;
    const bool counts = !IsOfDriver(answer_.files[file].object.path());
    for (const v1::Fatbin& fatbin : report.fatbins()) {
      answer_.complete &= !counts || !fatbin.damaged();
      const bool registered =
          fatbin.registration() == v1::REGISTRATION_REGISTERED;
      for (const v1::Image& image : fatbin.images()) {
        const bool fits = registered && question_.gpu.has_value() &&
                          FitsGpu(image, *question_.gpu, question_.path);
        for (const v1::Kernel& kernel : image.kernels()) {
          if (fits) launchable.insert(kernel.name());
          if (asked_.contains(kernel.name())) owned.insert(kernel.name());
        }
        if (!image.has_digest()) {
          answer_.complete &= !counts || image.kind() != v1::IMAGE_KIND_SASS;
        } else if (modules_.contains(image.digest().sha256())) {
          const auto digest = Sha256::FromRaw(image.digest().sha256());
          if (digest.ok()) {
            answer_.equal.try_emplace(*digest,
                                      EqualImage{.file = file,
                                                 .offset = image.offset(),
                                                 .target = image.target()});
            // What the module holds is known from here, too.
            ReadModule& module = answer_.read[*digest];
            if (module.kernels.empty()) {
              module.target = image.target();
              for (const v1::Kernel& kernel : image.kernels()) {
                if (asked_.contains(kernel.name())) {
                  module.kernels.push_back(kernel.name());
                }
              }
            }
          }
        }
      }
    }
    for (const absl::string_view name : owned) {
      answer_.owners[std::string(name)].push_back(file);
    }
    TracedFile& out = answer_.files[file];
    out.kernels = launchable.size();
    std::set<absl::string_view> rest;
    for (const absl::string_view name : launchable) {
      if (launched_.contains(name)) {
        out.asked.emplace(name);
        continue;
      }
      rest.insert(name);
      if (rest.size() > kMaxNotLaunched) rest.erase(std::prev(rest.end()));
    }
    for (const absl::string_view name : rest) out.not_asked.emplace_back(name);
  }

 private:
  const FilesQuestion& question_;
  FilesAnswer& answer_;
  absl::flat_hash_set<std::string> launched_;
  absl::flat_hash_set<std::string> asked_;
  absl::flat_hash_set<std::string> modules_;
};

// Inspects `targets`, which are files of `answer` by number, and marks those
// that time or the inspector left out.
void Inspect(const FilesQuestion& question,
             const std::vector<inspect::InspectTarget>& targets,
             const std::vector<size_t>& files,
             const inspect::InspectOptions& options, FilesAnswer& answer,
             const std::function<void(size_t file, v1::FileReport&)>& take) {
  std::vector<bool> done(targets.size());
  const absl::Status status = inspect::InspectFiles(
      targets, options,
      [&](const absl::Status& opened, size_t target,
          std::vector<v1::FileReport> reports) -> absl::Status {
        v1::TracedObject& object = answer.files[files[target]].object;
        done[target] = true;
        if (!opened.ok() || reports.empty()) {
          object.set_problem(opened.ok() ? "it was not read"
                                         : std::string(opened.message()));
          answer.complete &= IsOfDriver(object.path());
        } else {
          for (const v1::Reason& problem : reports[0].problems()) {
            if (!LeavesOut(problem.code())) continue;
            answer.complete &= IsOfDriver(object.path());
            object.set_problem(
                absl::StrCat(problem.code(), " ", problem.detail()));
          }
          take(files[target], reports[0]);
        }
        return absl::Now() < question.deadline
                   ? absl::OkStatus()
                   : absl::DeadlineExceededError(
                         "time for looking at the files is up");
      });
  for (size_t i = 0; i < targets.size(); ++i) {
    if (done[i]) continue;
    answer.complete &= IsOfDriver(answer.files[files[i]].object.path());
    answer.files[files[i]].object.set_problem(
        status.ok() ? "it was not read" : std::string(MessageOf(status)));
  }
}

}  // namespace

bool FitsGpu(const v1::Image& image, const v1::Version& gpu, v1::Path path) {
  const bool ptx = image.kind() == v1::IMAGE_KIND_PTX ||
                   image.kind() == v1::IMAGE_KIND_RELOCATABLE_PTX;
  const bool sass = image.kind() == v1::IMAGE_KIND_SASS ||
                    image.kind() == v1::IMAGE_KIND_RELOCATABLE_SASS;
  if ((ptx && path == v1::PATH_NATIVE) || (sass && path == v1::PATH_PTX_JIT) ||
      (!ptx && !sass)) {
    return false;
  }
  CodeTarget target;
  target.number = image.target().number();
  if (image.target().suffix() == v1::TARGET_SUFFIX_ARCH) {
    target.suffix = TargetSuffix::kArch;
  } else if (image.target().suffix() == v1::TARGET_SUFFIX_FAMILY) {
    target.suffix = TargetSuffix::kFamily;
  }
  // The tables of GPUs are compat's; by the numbers alone what may fit does.
  const auto nothing = [](uint32_t) -> std::optional<TargetTraits> {
    return std::nullopt;
  };
  const uint32_t number = gpu.major() * 10 + gpu.minor();
  const Fit fit = ptx ? PtxFits(target, number, nothing)
                      : SassFits(target, number, nothing);
  return fit == Fit::kYes || fit == Fit::kUnknown;
}

FilesAnswer AskFiles(const FilesQuestion& question) {
  FilesAnswer answer;
  const Places places(question);
  std::map<std::pair<dev_t, ino_t>, size_t> known;
  std::vector<inspect::InspectTarget> targets;
  std::vector<size_t> files;
  for (const std::string& path : question.paths) {
    TracedFile file;
    file.object.set_path(path);
    std::pair<dev_t, ino_t> id;
    const std::string place = places.Look(file.object, id);
    if (place.empty()) {
      answer.complete &= IsOfDriver(path);
    } else if (!known.emplace(id, answer.files.size()).second) {
      continue;
    } else {
      targets.push_back({.path = place, .name = place});
      files.push_back(answer.files.size());
    }
    answer.files.push_back(std::move(file));
  }
  if (!question.modules.empty()) ReadModules(question, answer);

  // All files without decoding anything: most have no device code.
  inspect::InspectOptions options;
  options.kernels = false;
  options.details = false;
  options.members = false;
  std::vector<inspect::InspectTarget> coded;
  std::vector<size_t> coded_files;
  size_t target = 0;
  Inspect(question, targets, files, options, answer,
          [&](size_t file, v1::FileReport& report) {
            TracedFile& out = answer.files[file];
            *out.object.mutable_digest() = report.digest();
            out.object.set_images(CountImages(report));
            while (files[target] != file) ++target;
            if (out.object.images() > 0) {
              coded.push_back(targets[target]);
              coded_files.push_back(file);
            }
          });
  // Nothing was loaded or launched: there is nothing to look for.
  if (question.modules.empty() && question.kernels.empty()) return answer;
  options.kernels = true;
  options.digest = false;
  options.image_digests = true;
  FileReader reader(question, answer);
  Inspect(
      question, coded, coded_files, options, answer,
      [&](size_t file, v1::FileReport& report) { reader.Take(report, file); });
  return answer;
}

}  // namespace twinpath::runner
