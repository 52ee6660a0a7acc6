// What comes of a process's needs on one host: which file each library is taken
// from, and what is wrong with that. For loader.h. Pure functions.

#ifndef TWINPATH_COMPAT_LOADER_JUDGE_H_
#define TWINPATH_COMPAT_LOADER_JUDGE_H_

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "compat/loader.h"
#include "compat/loader_host.h"
#include "compat/loader_index.h"
#include "compat/loader_walk.h"
#include "twinpath/v1/prediction.pb.h"

namespace twinpath::compat {

// Libraries that processes take, each once, in the order they are asked for.
class LoaderLibraries {
 public:
  void Add(v1::ResolvedLibrary library);
  std::vector<v1::ResolvedLibrary> Take() { return std::move(libraries_); }

 private:
  std::vector<v1::ResolvedLibrary> libraries_;
  absl::flat_hash_set<std::string> seen_;
};

// Adds to `findings`, by file, and to `libraries`, each once. `started`: the
// root is started by itself; what its search path does not lead to is missing
// for sure.
void JudgeLoading(const LoaderIndex& index, const LoaderHost& host,
                  const LoaderRoot& root, bool started,
                  std::map<size_t, LoaderFinding>& findings,
                  LoaderLibraries& libraries);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_LOADER_JUDGE_H_
