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
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compat/host_check.h"
#include "compat/tables.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

// "libcudart" and 12 of "libcudart.so.12"; no major: 0. The stem ends at
// ".so"; a name without it is its own stem.
struct LibraryName {
  std::string stem;
  uint32_t major = 0;
};
LibraryName ParseLibraryName(absl::string_view soname);

// Whether a name is one of NVIDIA's CUDA libraries (cudart, cuBLAS, NVRTC, ...)
// whose absence the facts can tell.
bool IsCudaLibrary(absl::string_view soname);

// Whether a name is the driver's libcuda, also as wheel tools rename a copy
// ("libcuda-9cd02a88.so.1").
bool IsDriverLibrary(absl::string_view soname);

// What there is to say of one file.
struct LoaderFinding {
  // Index in the report.
  size_t file = 0;
  // Set: the file does not start or load, whatever device code it holds.
  std::optional<Blocker> blocker;
  // Said beside the prediction.
  std::vector<v1::Reason> remarks;
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
  LoaderAnswer Resolve(const v1::HostFacts& facts, const v1::Gpu& gpu,
                       const Tables& tables,
                       std::optional<size_t> started = std::nullopt) const;

  // Files of the artifact that a process has loaded once `file` is, itself
  // first, in the loader's order. Libraries that lie off the search path are
  // taken by name.
  std::vector<size_t> Closure(size_t file) const;

 private:
  // A place that is searched for one name.
  struct Place {
    // File of the artifact found there; without one, a folder of the host.
    std::optional<size_t> file;
    std::string host_folder;
    bool runpath = false;
  };
  // A name that a process asks for.
  struct Need {
    std::string soname;
    size_t by = 0;
    // In order, DT_RPATH before DT_RUNPATH.
    std::vector<Place> places;
    // A folder that is searched may hold it unseen: a link, a relative path.
    bool unseen_folder = false;
    // A copy in a folder that is searched without being told.
    std::optional<size_t> in_default;
    // A copy that no folder leads to.
    std::optional<size_t> unlisted;
    // A copy for another CPU.
    std::optional<size_t> other_cpu;
    // The process has a root file system of its own (an oci_image).
    bool own_root = false;
  };
  // A file that is started, or loaded by something outside the artifact.
  struct Root {
    size_t file = 0;
    bool program = false;
    std::vector<size_t> closure;
    // CUDA libraries and libcuda among the names, each once.
    std::vector<Need> needs;
  };

  class Index;
  class HostSide;
  class Walker;
  class Judge;

  std::unique_ptr<const Index> index_;
  std::vector<Root> roots_;
};

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_LOADER_H_
