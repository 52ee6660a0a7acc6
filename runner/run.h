// One run of an entry on a path: the child twinpath-run confines, limits,
// watches and records it. Whatever happens is an Observation; there is no error
// beside it.

#ifndef TWINPATH_RUNNER_RUN_H_
#define TWINPATH_RUNNER_RUN_H_

#include <functional>

#include "absl/time/time.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

// Runs `request` in the child twinpath-run and returns what it observed and,
// for entries of other kinds, found. The
// entry's own time limit (TimeLimit) is the child's business; `deadline` is the
// limit of the whole and ends the child with everything in it, result
// TIMED_OUT. `cancelled` is polled; true ends it likewise, result INTERRUPTED.
// NOT_STARTED with `problem` where there is no sandbox ("TP114 ..."), no
// program, or a program for another CPU architecture. Thread-safe.
v1::RunResponse RunEntryInChild(const v1::RunRequest& request,
                                absl::Duration deadline,
                                std::function<bool()> cancelled);
// The observation alone.
v1::Observation RunInChild(const v1::RunRequest& request,
                           absl::Duration deadline,
                           std::function<bool()> cancelled);

// What twinpath-run does, in this process: used by its main and by tests. The
// kind of the entry says what it is: a command, images (load_run.h), a
// toolchain check (toolchain.h), a container.
// `abandoned`: as in RunHereInUnit.
v1::RunResponse RunHere(const v1::RunRequest& request,
                        const std::function<bool()>& abandoned = nullptr);

// The same inside the systemd run unit, which takes bubblewrap's place: the
// process has a user of its own (DynamicUser), a control group, no network and
// a private file system. `abandoned` is polled; true means that nobody waits
// for the answer, and ends the run. NOT_STARTED ("TP114 ...") for a process
// whose user is not one that systemd made for it: everything of that user is
// killed when the run ends.
v1::RunResponse RunHereInUnit(const v1::RunRequest& request,
                              const std::function<bool()>& abandoned);

// The same inside the systemd unit for entries of oci_images, where podman does
// the confining and this process is root: see oci_run.h.
v1::RunResponse RunHereInOciUnit(const v1::RunRequest& request,
                                 const std::function<bool()>& abandoned);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_RUN_H_
