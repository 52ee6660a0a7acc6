// Which file the dynamic loader takes for each CUDA library that an artifact's
// files need: a file of the artifact, one of the host, or none. A pure model of
// glibc's ld.so(8), over reports and facts; nothing is opened.
//
// Search order for a needed name, the first copy for the host's CPU wins:
//   1. a library of that name that the process has loaded already
//   2. DT_RPATH of the object, of those that loaded it, and of the program;
//      none of them where the object has DT_RUNPATH
//   3. LD_LIBRARY_PATH
//   4. DT_RUNPATH of the object alone
//   5. the cache of ldconfig and the default folders
//
// Only CUDA's libraries are judged: of others the facts say nothing. A library
// is called missing only where the facts list all libraries of its stem
// (LoaderFacts.complete_for) and every folder searched is known; everything
// else stays silent. Immutable after construction; thread-safe.

#ifndef TWINPATH_COMPAT_LOADER_H_
#define TWINPATH_COMPAT_LOADER_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "compat/host_check.h"
#include "compat/library_name.h"
#include "compat/tables.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

class LoaderIndex;
struct LoaderRoot;

// What there is to say of one file.
struct LoaderFinding {
  // Index in the report.
  size_t file = 0;
  // Set: the file does not start or load, whatever device code it holds.
  std::optional<Blocker> blocker;
  // Said beside the prediction.
  std::vector<v1::Reason> remarks;
  // A forward-compatibility libcuda of the artifact that works here and is
  // found before the host's driver: the process has its CUDA version.
  std::optional<v1::ForwardCompatLibrary> driver;
};

struct LoaderAnswer {
  // CUDA libraries the files need, and copies of libcuda in the artifact that
  // are found before the host's.
  std::vector<v1::ResolvedLibrary> libraries;
  // Files with something to say, in the report's order.
  std::vector<LoaderFinding> findings;
};

class LoaderModel {
 public:
  // Keeps a reference to the report.
  explicit LoaderModel(const v1::ArtifactReport& report);
  ~LoaderModel();
  LoaderModel(const LoaderModel&) = delete;
  LoaderModel& operator=(const LoaderModel&) = delete;

  // What the loader of a host does. `started`: file that is started by itself,
  // with a clean environment; what its search path does not lead to is then
  // missing for sure. Absent: a script may set LD_LIBRARY_PATH first.
  // `inherits`: the process has the host's LD_LIBRARY_PATH, as users' programs
  // do and Twinpath's runs do not.
  LoaderAnswer Resolve(const v1::HostFacts& facts, const v1::Gpu& gpu,
                       const Tables& tables,
                       std::optional<size_t> started = std::nullopt,
                       bool inherits = true) const;

  // Whether a file is a program, or one of those that a program of the artifact
  // has loaded once it starts.
  bool Starts(size_t file) const { return starts_[file]; }

  // Whether some process may find a forward-compatibility libcuda that the
  // artifact brings: false costs nothing to ask.
  bool BringsDriver() const { return brings_driver_; }

  // Files of the artifact that a process has loaded once `file` is, itself
  // first, in the loader's order. Libraries that lie off the search path are
  // taken by name.
  std::vector<size_t> Closure(size_t file) const;

 private:
  // loader_index.h: what lies where. loader_walk.h: what each process asks for.
  // loader_judge.h: what comes of that on a host.
  std::unique_ptr<const LoaderIndex> index_;
  std::vector<LoaderRoot> roots_;
  std::vector<bool> starts_;
  bool brings_driver_ = false;
};

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_LOADER_H_
