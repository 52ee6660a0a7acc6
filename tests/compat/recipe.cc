#include "tests/compat/recipe.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "inspect/child.h"
#include "inspect/folder.h"
#include "tests/compat/case_file.h"

namespace twinpath::compat {
namespace {

// Found by cmake; empty: none, or one that knows other targets than 13.0.
constexpr absl::string_view kNvcc = TWINPATH_CASES_NVCC;
// Where files are kept.
constexpr absl::string_view kKept = TWINPATH_CASES_KEPT;

std::string Sources() { return SourcePath("tests/compat/recipes"); }

std::string SearchPath() {
  std::string path = "/usr/local/bin:/usr/bin:/bin";
  if (const char* own = std::getenv("PATH")) path = own;
  if (!kNvcc.empty())
    path = absl::StrCat(DirName(std::string(kNvcc)), ":", path);
  return path;
}

bool IsInPath(const std::string& program) {
  for (const absl::string_view folder : absl::StrSplit(SearchPath(), ':')) {
    if (::access(absl::StrCat(folder, "/", program).c_str(), X_OK) == 0) {
      return true;
    }
  }
  return false;
}

// What the files depend on.
std::string KeyOf(const test::Recipe& recipe) {
  std::string all =
      absl::StrCat(kNvcc, "\n", absl::StrJoin(recipe.lines(), "\n"));
  const auto sources = ListDirectory(Sources());
  for (const std::string& name : sources.value_or(std::vector<std::string>())) {
    const auto text = ReadFile(absl::StrCat(Sources(), "/", name), 1 << 20);
    absl::StrAppend(&all, "\n", name, "\n", text.value_or(""));
  }
  return Sha256Of(all).Hex().substr(0, 24);
}

absl::Status RunLines(const test::Recipe& recipe, const std::string& folder) {
  ProcessOptions options;
  options.argv = {"/bin/sh", "-euc", absl::StrJoin(recipe.lines(), "\n")};
  options.environment = {absl::StrCat("PATH=", SearchPath()),
                         absl::StrCat("SRC=", Sources()),
                         absl::StrCat("TMPDIR=", folder, "/.tmp"),
                         absl::StrCat("HOME=", folder, "/.tmp"), "LANG=C"};
  options.directory = folder;
  options.timeout = absl::Minutes(4);
  if (absl::Status made = MakeDirectories(folder + "/.tmp"); !made.ok()) {
    return made;
  }
  const auto result = RunProcess(options);
  if (!result.ok()) return result.status();
  if (!result->succeeded()) {
    return absl::InternalError(absl::StrCat("the recipe: ", result->Describe(),
                                            "\n", result->out.head,
                                            result->err.head));
  }
  return RemoveTree(folder + "/.tmp");
}

// Reports of everything below `folder`, named by the path in it.
absl::StatusOr<v1::ArtifactReport> Inspect(const std::string& folder,
                                           const test::Recipe& recipe) {
  std::vector<inspect::InspectTarget> targets;
  std::vector<std::string> names(recipe.inspect().begin(),
                                 recipe.inspect().end());
  if (names.empty()) names.push_back("");
  for (const std::string& name : names) {
    const std::string path =
        name.empty() ? folder : absl::StrCat(folder, "/", name);
    struct stat status;
    if (::stat(path.c_str(), &status) != 0) {
      return absl::NotFoundError(absl::StrCat("the recipe made no ", name));
    }
    if (!S_ISDIR(status.st_mode)) {
      targets.push_back({path, name});
      continue;
    }
    auto listing = inspect::ListFolder(path, name.empty() ? "." : name);
    if (!listing.ok()) return listing.status();
    for (inspect::InspectTarget& target : listing->targets) {
      if (absl::StartsWith(target.name, "./")) target.name.erase(0, 2);
      targets.push_back(std::move(target));
    }
  }
  v1::ArtifactReport report;
  const absl::Status done =
      inspect::InspectFiles(targets, {.digest = false},
                            [&](const absl::Status& opened, size_t,
                                std::vector<v1::FileReport> files) {
                              if (!opened.ok()) return opened;
                              for (v1::FileReport& file : files) {
                                *report.add_files() = std::move(file);
                              }
                              return absl::OkStatus();
                            });
  if (!done.ok()) return done;
  // A recipe stands for files that the thread's own toolkit made; which nvcc
  // this machine has is no part of the case. (What the maker's major decides is
  // tested by itself: Selection.MachineCodeOfANewerMajorIsNotPromised.)
  for (v1::FileReport& file : *report.mutable_files()) {
    for (v1::Fatbin& fatbin : *file.mutable_fatbins()) {
      for (v1::Image& image : *fatbin.mutable_images()) {
        image.mutable_producer()->clear_toolkit();
      }
    }
  }
  return report;
}

}  // namespace

std::string MissingProgram(const test::Recipe& recipe) {
  for (const std::string& program : recipe.needs()) {
    if (program == "nvcc" || program == "fatbinary" || program == "ptxas" ||
        program == "nvlink") {
      if (kNvcc.empty()) return "nvcc of CUDA 13.0 or later";
    }
    if (!IsInPath(program)) return program;
  }
  return "";
}

absl::StatusOr<v1::ArtifactReport> BuildAndInspect(const test::Recipe& recipe) {
  const std::string kept = absl::StrCat(kKept, "/", KeyOf(recipe));
  if (::access(kept.c_str(), R_OK | X_OK) == 0) return Inspect(kept, recipe);
  const auto scratch = TempDirectory::Make();
  if (!scratch.ok()) return scratch.status();
  // A folder of its own first, moved into place as a whole: tests run side by
  // side. Where the build tree cannot be written the files are not kept.
  std::string folder = absl::StrCat(kept, ".", ::getpid());
  if (!MakeDirectories(folder, 0755).ok()) folder = scratch->path() + "/files";
  if (absl::Status made = MakeDirectories(folder, 0755); !made.ok())
    return made;
  if (absl::Status ran = RunLines(recipe, folder); !ran.ok()) {
    RemoveTree(folder).IgnoreError();
    return ran;
  }
  if (absl::StartsWith(folder, kept)) {
    if (std::rename(folder.c_str(), kept.c_str()) == 0) {
      folder = kept;
    } else if (::access(kept.c_str(), R_OK | X_OK) == 0) {
      RemoveTree(folder).IgnoreError();
      folder = kept;
    }
  }
  return Inspect(folder, recipe);
}

}  // namespace twinpath::compat
