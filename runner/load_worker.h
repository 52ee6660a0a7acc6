// A worker of the image loader: jobs as lines on standard input, an answer a
// line on standard output, written at once, because the driver may end the
// process at any image.

#ifndef TWINPATH_RUNNER_LOAD_WORKER_H_
#define TWINPATH_RUNNER_LOAD_WORKER_H_

#include <string>

namespace twinpath::runner {

// Returns the exit code. `path`: the file whose images the jobs are; empty:
// none.
int RunLoadWorker(const std::string& path);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_LOAD_WORKER_H_
