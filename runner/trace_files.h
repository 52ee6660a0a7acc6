// What the files that a traced run opened hold, as far as its modules and
// kernels ask: which image a module is, which file owns a kernel, and how many
// kernels of each file the GPU could launch. Files are read by the inspector
// child, never here; what is kept of a report is small.

#ifndef TWINPATH_RUNNER_TRACE_FILES_H_
#define TWINPATH_RUNNER_TRACE_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "base/digest.h"
#include "runner/trace_records.h"
#include "twinpath/v1/common.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/report.pb.h"
#include "twinpath/v1/trace.pb.h"

namespace twinpath::runner {

// Whether an image can serve a GPU of compute capability `gpu` on `path`:
// machine code not on ptx-jit, PTX not on native, either by base/target_rule.h;
// what the numbers alone allow is taken to fit.
bool FitsGpu(const v1::Image& image, const v1::Version& gpu, v1::Path path);

// Most kernels that are named as not launched, of one file.
inline constexpr size_t kMaxNotLaunched = 100;

// One file that was opened.
struct TracedFile {
  v1::TracedObject object;
  // Kernels that are registered and have an image for the GPU.
  uint64_t kernels = 0;
  // Of these, the ones asked for.
  absl::flat_hash_set<std::string> asked;
  // Of these, the first by name that were not asked for.
  std::vector<std::string> not_asked;
};

// An image of a file that equals a module.
struct EqualImage {
  size_t file = 0;
  uint64_t offset = 0;
  v1::Target target;
};

// A module whose bytes the library kept.
struct ReadModule {
  v1::Target target;
  std::vector<std::string> kernels;
};

struct FilesQuestion {
  // Paths of objects, as the processes saw them.
  std::vector<std::string> paths;
  // "" = none.
  std::string artifact_directory;
  std::string work_directory;
  // Files that the sandbox showed at their own path.
  std::vector<std::string> shown;
  // The run's /tmp and the like are this process's own (systemd unit), so what
  // lay there can still be read.
  bool same_folders = false;
  // Names of the kernels that were launched or refused.
  std::vector<std::string> kernels;
  std::vector<ModuleRecord> modules;
  // Folder with the modules' bytes.
  std::string module_directory;
  std::optional<v1::Version> gpu;
  v1::Path path = v1::PATH_PLAIN;
  // Nothing is begun behind it.
  absl::Time deadline = absl::InfiniteFuture();
};

struct FilesAnswer {
  // In the order of the paths; a file with several paths once.
  std::vector<TracedFile> files;
  absl::flat_hash_map<Sha256, EqualImage> equal;
  absl::flat_hash_map<Sha256, ReadModule> read;
  // Indexes of the files with an image that has the kernel.
  absl::flat_hash_map<std::string, std::vector<size_t>> owners;
  // Every image of every file was read, so that a module that equals none was
  // made in the process.
  bool complete = true;
};

// Reads the files. Never fails as a whole: a file that cannot be read says why
// in TracedObject.problem.
FilesAnswer AskFiles(const FilesQuestion& question);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_TRACE_FILES_H_
