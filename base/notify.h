// Words to systemd (sd_notify(3)): one datagram to the socket NOTIFY_SOCKET
// names. Thread-safe after Open.

#ifndef TWINPATH_BASE_NOTIFY_H_
#define TWINPATH_BASE_NOTIFY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace twinpath {

class Notify {
 public:
  // Takes NOTIFY_SOCKET and WATCHDOG_USEC out of the environment, so that no
  // child speaks for this process. Call before any thread exists.
  static Notify Open();

  // Sends "READY=1", "STATUS=...", "WATCHDOG=1", "STOPPING=1". Nothing without
  // a service manager.
  void Send(absl::string_view words) const;
  // How often systemd wants to hear from this process; infinite: never.
  absl::Duration watchdog() const { return watchdog_; }

 private:
  std::string socket_;
  absl::Duration watchdog_ = absl::InfiniteDuration();
};

}  // namespace twinpath

#endif  // TWINPATH_BASE_NOTIFY_H_
