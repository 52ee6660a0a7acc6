// Pause: the host's owner wants no runs now. A file in the state folder says
// so, so that it holds whether or not the agent runs, survives a restart, and
// nobody but this host can take it back. Pure functions and one small file;
// thread-safe.

#ifndef TWINPATH_AGENT_PAUSE_H_
#define TWINPATH_AGENT_PAUSE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace twinpath::agent {

struct Pause {
  // Until when by the host's clock; unset: until somebody resumes.
  std::optional<absl::Time> until;
  // Why, for people. May be empty.
  std::string reason;
  // What runs is ended instead of being finished.
  bool now = false;

  bool operator==(const Pause& other) const {
    return until == other.until && reason == other.reason && now == other.now;
  }
};

// Longest reason; the rest is cut.
inline constexpr size_t kMaxPauseReason = 200;

// "paused on its host until 2026-11-30T15:00:00Z: training run".
std::string Describe(const Pause& pause);

// Writes the file, whole or not at all. NOT_FOUND: there is no such folder.
absl::Status WritePause(const std::string& path, const Pause& pause);

// Removes it. OK where it is not there.
absl::Status RemovePause(const std::string& path);

// The pause that holds at `now`; nothing where there is no file or its time is
// over. A file that cannot be understood pauses without end: somebody meant to.
std::optional<Pause> ReadPause(const std::string& path, absl::Time now);

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_PAUSE_H_
