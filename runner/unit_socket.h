// What both ends of a run unit's or probe unit's socket speak: messages behind
// their length (four bytes, big end first), and descriptors with SCM_RIGHTS.
// Waiting is bounded by a deadline on the monotonic clock. Not thread-safe per
// socket.

#ifndef TWINPATH_RUNNER_UNIT_SOCKET_H_
#define TWINPATH_RUNNER_UNIT_SOCKET_H_

#include <google/protobuf/message_lite.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/file.h"

namespace twinpath::runner {

// Where systemd listens (deploy/systemd).
inline constexpr char kRunSocket[] = "/run/twinpath/run.sock";
inline constexpr char kOciSocket[] = "/run/twinpath/oci.sock";
inline constexpr char kProbeSocket[] = "/run/twinpath/probe.sock";

// Most descriptors in one message; the kernel takes 253.
inline constexpr size_t kMaxDescriptors = 64;

// How long to wait, and who may end the waiting early (polled every 100 ms; may
// be empty).
struct Patience {
  // From now.
  static Patience For(absl::Duration limit,
                      std::function<bool()> cancelled = nullptr);
  // On the monotonic clock.
  absl::Duration until;
  std::function<bool()> cancelled;
};

// Connects to the socket at `path`. NOT_FOUND where there is none; errors as
// ErrnoStatus.
absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path);

// Whether the process that connected may ask: root, or `user`. The kernel says
// who it was. PERMISSION_DENIED otherwise.
absl::Status CheckPeer(int socket, const std::string& user);

// Whether the other end has closed.
bool PeerIsGone(int socket);

// DEADLINE_EXCEEDED, CANCELLED, UNAVAILABLE (the other end closed): also where
// the other end does not read.
absl::Status WriteMessage(int socket, const Patience& patience,
                          const google::protobuf::MessageLite& message);

// DEADLINE_EXCEEDED, CANCELLED, UNAVAILABLE (the other end closed),
// RESOURCE_EXHAUSTED (longer than `max_bytes`), INVALID_ARGUMENT (no such
// message).
absl::Status ReadMessage(int socket, const Patience& patience, size_t max_bytes,
                         google::protobuf::MessageLite& message);

// Errors as WriteMessage.
absl::Status SendDescriptors(int socket, const Patience& patience,
                             absl::Span<const int> descriptors);

// Exactly `count` descriptors that one SendDescriptors sent. Errors as
// ReadMessage.
absl::StatusOr<std::vector<UniqueFd>> ReceiveDescriptors(
    int socket, size_t count, const Patience& patience);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_UNIT_SOCKET_H_
