// StateDirectory: the folder in which one agent keeps everything it must not
// forget. A lock makes sure that two agents never share one: they would run one
// lease twice and empty each other's spool. Movable; not thread-safe.

#ifndef TWINPATH_AGENT_STATE_DIRECTORY_H_
#define TWINPATH_AGENT_STATE_DIRECTORY_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/file.h"

namespace twinpath::agent {

class StateDirectory {
 public:
  // Makes the folder (mode 0700) where needed, takes the lock, and empties the
  // work folder of what a killed agent left there. FAILED_PRECONDITION: another
  // agent holds the lock; PERMISSION_DENIED: the folder can be read or written
  // by others.
  static absl::StatusOr<StateDirectory> Open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string identity_file() const { return JoinPath(path_, "identity"); }
  // Random id of a host that has none of its own: a simulated one, a container.
  std::string machine_id_file() const { return JoinPath(path_, "machine-id"); }
  // While this file holds the agent takes no lease (pause.h).
  std::string paused_file() const { return JoinPath(path_, "paused"); }
  std::string journal() const { return JoinPath(path_, "journal"); }
  // Releases of GPUs that are owed (gpu_reservation.h).
  std::string reservations() const { return JoinPath(path_, "reservations"); }
  std::string spool() const { return JoinPath(path_, "spool"); }
  std::string cache() const { return JoinPath(path_, "cache"); }
  // Folders of running cells; empty when the agent starts.
  std::string work() const { return JoinPath(path_, "work"); }

 private:
  StateDirectory(std::string path, UniqueFd lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  UniqueFd lock_;
};

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_STATE_DIRECTORY_H_
