// Backoff: when to come back after a session ended. Exponential from 1 s to
// 60 s with full jitter, so that a fleet does not return as one; a session that
// lasted resets it. What cannot heal by itself (wrong identity, no common
// protocol) is tried again slowly, since a person may repair it meanwhile.
// Not thread-safe.

#ifndef TWINPATH_AGENT_BACKOFF_H_
#define TWINPATH_AGENT_BACKOFF_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace twinpath::agent {

struct BackoffOptions {
  absl::Duration first = absl::Seconds(1);
  absl::Duration longest = absl::Seconds(60);
  // A session at least this long shows that the coordinator is well.
  absl::Duration stable = absl::Minutes(2);
  // For what cannot heal by itself: between half of this and all of it.
  absl::Duration slow = absl::Minutes(5);
  // Another agent took the session over: between half of this and all of it.
  absl::Duration taken_over = absl::Minutes(1);
};

// Whether an ended session can be mended by waiting.
enum class Trouble { kTransient, kTakenOver, kPermanent };
Trouble TroubleOf(const absl::Status& status);

class Backoff {
 public:
  // `uniform` returns a number in [0, 1).
  Backoff(const BackoffOptions& options, std::function<double()> uniform)
      : options_(options), uniform_(std::move(uniform)) {}

  // Returns how long to wait after a session of length `lasted` ended so.
  absl::Duration After(const absl::Status& status, absl::Duration lasted);
  // The same after the coordinator asked to leave: never sooner than
  // `retry_after`, and spread over as much again.
  absl::Duration AfterDrain(absl::Duration retry_after);

 private:
  const BackoffOptions options_;
  const std::function<double()> uniform_;
  int failures_ = 0;
};

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_BACKOFF_H_
