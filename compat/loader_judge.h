// What comes of a process's needs on one host: which file each library is taken
// from, and what is wrong with that. For loader.h. Pure functions.

#ifndef TWINPATH_COMPAT_LOADER_JUDGE_H_
#define TWINPATH_COMPAT_LOADER_JUDGE_H_

#include <cstddef>
#include <map>
#include <vector>

#include "compat/loader.h"
#include "compat/loader_host.h"
#include "compat/loader_index.h"
#include "compat/loader_walk.h"
#include "twinpath/v1/prediction.pb.h"

namespace twinpath::compat {

// Adds to `findings`, by file, and to `libraries`, each once. `started`: the
// root is started by itself, with a clean environment.
void JudgeLoading(const LoaderIndex& index, const LoaderHost& host,
                  const LoaderRoot& root, bool started,
                  std::map<size_t, LoaderFinding>& findings,
                  std::vector<v1::ResolvedLibrary>& libraries);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_LOADER_JUDGE_H_
