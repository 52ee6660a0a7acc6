// What one process asks its dynamic loader for, in ld.so's order, as far as the
// artifact alone tells. For loader.h. Pure functions.

#ifndef TWINPATH_COMPAT_LOADER_WALK_H_
#define TWINPATH_COMPAT_LOADER_WALK_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "compat/loader_index.h"

namespace twinpath::compat {

// A place that is searched for one name.
struct LoaderPlace {
  // File of the artifact found there; without one, a folder of the host, which
  // the index holds.
  std::optional<size_t> file;
  const std::string* host_folder = nullptr;
  bool runpath = false;
};

// A name that a process asks for.
struct LoaderNeed {
  std::string soname;
  size_t by = 0;
  // In order, DT_RPATH before DT_RUNPATH.
  std::vector<LoaderPlace> places;
  // A folder that is searched may hold it unseen: a link, a relative path, or
  // the walk ended before it.
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
struct LoaderRoot {
  size_t file = 0;
  bool program = false;
  std::vector<size_t> closure;
  // CUDA libraries and libcuda among the names, each once.
  std::vector<LoaderNeed> needs;
};

// Steps that walks may take: a name asked for, a folder looked into, a copy
// compared. Files that ask for more than any program does must not hold up who
// judges them.
class WalkBudget {
 public:
  explicit WalkBudget(size_t steps) : left_(steps) {}
  // For all walks through an artifact, and for one of them.
  static WalkBudget ForAll(const LoaderIndex& index);
  static constexpr size_t kOneWalk = size_t{1} << 17;

  // Takes a step; false: none is left.
  bool Take() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  size_t left() const { return left_; }

 private:
  size_t left_;
};

// Follows the needed names of `file` through the artifact. Where the budget
// ends, names have `unseen_folder` and lead nowhere.
LoaderRoot WalkLoader(const LoaderIndex& index, size_t file,
                      WalkBudget& budget);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_LOADER_WALK_H_
