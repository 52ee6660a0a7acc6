// A watch on GPUs while a run lasts: their state just before and just after,
// and what faults the driver reports meanwhile (Xid). The driver is asked by a
// probe child, or by the probe unit where its socket is there, which lives as
// long as the watch and is told its end; a driver that hangs costs a deadline
// and never this process.

#ifndef TWINPATH_RUNNER_DEVICE_WATCH_H_
#define TWINPATH_RUNNER_DEVICE_WATCH_H_

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/file.h"
#include "runner/probe.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::runner {

// One watch. Not thread-safe.
class DeviceWatcher {
 public:
  // Starts watching and returns when the watch stands, or cannot. Without GPUs
  // nothing is started.
  DeviceWatcher(const std::vector<std::string>& gpu_uuids,
                const ProbeOptions& options);
  // Ends the child.
  ~DeviceWatcher();
  DeviceWatcher(const DeviceWatcher&) = delete;
  DeviceWatcher& operator=(const DeviceWatcher&) = delete;

  // Ends the watch and returns what was seen. `xid_watch` says whether events
  // could be seen, and why not. Call it once.
  v1::DeviceWatch Finish();

  // Whether the driver did not answer.
  bool hung() const { return hung_; }

 private:
  // Starts the other end of socket_.
  absl::Status Connect(const v1::ProbeRequest& request,
                       const ProbeOptions& options);
  void Fail(const absl::Status& status, absl::string_view what);

  UniqueFd socket_;
  std::atomic<bool> stop_{false};
  std::thread child_;
  bool hung_ = false;
  v1::DeviceWatch watch_;
};

// Starts a watch; what it returns ends it.
using DeviceWatchStarter = std::function<std::function<v1::DeviceWatch()>(
    const std::vector<std::string>& gpu_uuids)>;

// A starter that asks as `options` say. After a driver that hung it starts no
// more: each would leave a process behind that nothing can end.
DeviceWatchStarter WatchesOf(const ProbeOptions& options);

// Serves the watch that `request` asks for on the connection `socket`, in a
// child twinpath-probe, until the watch is over or the other end is gone.
// `program_options` as in ProbeOptions. Used by ServeProbe.
absl::Status ServeWatchInChild(int socket, const v1::ProbeRequest& request,
                               const ProbeOptions& options,
                               std::function<bool()> cancelled);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_DEVICE_WATCH_H_
