#include "base/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "base/file.h"

namespace twinpath {

Notify Notify::Open() {
  Notify notify;
  if (const char* path = getenv("NOTIFY_SOCKET")) notify.socket_ = path;
  int64_t microseconds = 0;
  if (const char* text = getenv("WATCHDOG_USEC");
      text != nullptr && absl::SimpleAtoi(text, &microseconds) &&
      microseconds > 0) {
    notify.watchdog_ = absl::Microseconds(microseconds);
  }
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
    unsetenv(name);
  }
  return notify;
}

void Notify::Send(absl::string_view words) const {
  sockaddr_un address = {};
  if (socket_.empty() || socket_.size() >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::copy(socket_.begin(), socket_.end(), address.sun_path);
  // '@' stands for the abstract name space.
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return;
  // A manager that does not listen is no reason to stop.
  (void)sendto(
      fd.get(), words.data(), words.size(), MSG_NOSIGNAL,
      reinterpret_cast<const sockaddr*>(&address),
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size()));
}

}  // namespace twinpath
