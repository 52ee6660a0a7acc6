#include "runner/unit_socket.h"

#include <poll.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"

namespace twinpath::runner {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(100);
// What goes with descriptors, which need a byte to travel with.
constexpr char kDescriptorByte = 'F';
constexpr size_t kLengthBytes = 4;
// A message is taken in pieces, so that a length alone costs no memory.
constexpr size_t kPiece = 1 << 20;

absl::Duration MonotonicNow() {
  struct timespec now {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

absl::Status Closed() {
  return absl::UnavailableError("the other end closed the connection");
}

// Waits until there is something to read (POLLIN) or room to write (POLLOUT).
absl::Status WaitFor(int socket, short event, const Patience& patience) {
  while (true) {
    if (patience.cancelled && patience.cancelled()) {
      return absl::CancelledError("cancelled");
    }
    const absl::Duration left = patience.until - MonotonicNow();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("no answer within the time limit");
    }
    struct pollfd wait = {socket, event, 0};
    const int ready = poll(
        &wait, 1,
        static_cast<int>(absl::ToInt64Milliseconds(std::min(left, kPoll)) + 1));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "poll");
  }
}

absl::Status ReadExactly(int socket, size_t size, const Patience& patience,
                         std::string& out) {
  out.clear();
  while (out.size() < size) {
    TWINPATH_RETURN_IF_ERROR(WaitFor(socket, POLLIN, patience));
    const size_t have = out.size();
    const size_t room = std::min(size - have, kPiece);
    out.resize(have + room);
    // No descriptors are taken here: the kernel drops those that come along.
    const ssize_t got = recv(socket, out.data() + have, room, MSG_DONTWAIT);
    const int error = errno;
    out.resize(have + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return Closed();
    if (got < 0 && error != EINTR && error != EAGAIN) {
      return error == ECONNRESET ? Closed() : ErrnoStatus(error, "receiving");
    }
  }
  return absl::OkStatus();
}

absl::Status SendAll(int socket, const Patience& patience,
                     absl::string_view data) {
  while (!data.empty()) {
    TWINPATH_RETURN_IF_ERROR(WaitFor(socket, POLLOUT, patience));
    const ssize_t sent =
        send(socket, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0) {
      return errno == EPIPE || errno == ECONNRESET
                 ? Closed()
                 : ErrnoStatus(errno, "sending");
    }
    data.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

// User number of `name`; NOT_FOUND if there is none.
absl::StatusOr<uid_t> UserNumber(const std::string& name) {
  struct passwd entry {};
  struct passwd* found = nullptr;
  std::array<char, 16384> buffer{};
  const int error =
      getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (error != 0) return ErrnoStatus(error, absl::StrCat("user ", name));
  if (found == nullptr) {
    return absl::NotFoundError(absl::StrCat("there is no user ", name));
  }
  return entry.pw_uid;
}

}  // namespace

Patience Patience::For(absl::Duration limit, std::function<bool()> cancelled) {
  return {MonotonicNow() + limit, std::move(cancelled)};
}

absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path) {
  struct sockaddr_un address {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no path of a socket: ", Printable(path)));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "socket");
  int done;
  do {
    done = connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address));
  } while (done != 0 && errno == EINTR);
  if (done != 0) {
    return ErrnoStatus(errno, absl::StrCat("connecting to ", path));
  }
  return fd;
}

absl::Status CheckPeer(int socket, const std::string& user) {
  struct ucred peer {};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return ErrnoStatus(errno, "standard input is no connection of a socket");
  }
  if (peer.uid == 0) return absl::OkStatus();
  TWINPATH_ASSIGN_OR_RETURN(const uid_t allowed, UserNumber(user));
  if (peer.uid == allowed) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("user ", peer.uid, " may not ask; only ", user, " may"));
}

bool PeerIsGone(int socket) {
  struct pollfd wait = {socket, POLLRDHUP, 0};
  return poll(&wait, 1, 0) > 0 &&
         (wait.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

absl::Status WriteMessage(int socket, const Patience& patience,
                          const google::protobuf::MessageLite& message) {
  std::string bytes(kLengthBytes, '\0');
  if (!message.AppendToString(&bytes)) {
    return absl::InternalError("the message cannot be serialised");
  }
  const size_t size = bytes.size() - kLengthBytes;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    bytes[i] = static_cast<char>(size >> (8 * (kLengthBytes - 1 - i)));
  }
  return SendAll(socket, patience, bytes);
}

absl::Status ReadMessage(int socket, const Patience& patience, size_t max_bytes,
                         google::protobuf::MessageLite& message) {
  std::string bytes;
  TWINPATH_RETURN_IF_ERROR(ReadExactly(socket, kLengthBytes, patience, bytes));
  size_t size = 0;
  for (const char byte : bytes) {
    size = size << 8 | static_cast<unsigned char>(byte);
  }
  if (size > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a message of ", size, " bytes; at most ", max_bytes));
  }
  TWINPATH_RETURN_IF_ERROR(ReadExactly(socket, size, patience, bytes));
  if (!message.ParseFromString(bytes)) {
    return absl::InvalidArgumentError("the message cannot be read");
  }
  return absl::OkStatus();
}

absl::Status SendDescriptors(int socket, const Patience& patience,
                             absl::Span<const int> descriptors) {
  if (descriptors.empty() || descriptors.size() > kMaxDescriptors) {
    return absl::InvalidArgumentError("no such number of descriptors");
  }
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxDescriptors)>
      control{};
  char byte = kDescriptorByte;
  struct iovec data = {&byte, 1};
  struct msghdr message {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
  std::memcpy(CMSG_DATA(header), descriptors.data(),
              sizeof(int) * descriptors.size());
  ssize_t sent;
  do {
    TWINPATH_RETURN_IF_ERROR(WaitFor(socket, POLLOUT, patience));
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && (errno == EINTR || errno == EAGAIN));
  if (sent == 1) return absl::OkStatus();
  return errno == EPIPE || errno == ECONNRESET
             ? Closed()
             : ErrnoStatus(errno, "sending descriptors");
}

absl::StatusOr<std::vector<UniqueFd>> ReceiveDescriptors(
    int socket, size_t count, const Patience& patience) {
  if (count == 0 || count > kMaxDescriptors) {
    return absl::InvalidArgumentError("no such number of descriptors");
  }
  TWINPATH_RETURN_IF_ERROR(WaitFor(socket, POLLIN, patience));
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxDescriptors)>
      control{};
  char byte = 0;
  struct iovec data = {&byte, 1};
  struct msghdr message {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return ErrnoStatus(errno, "receiving descriptors");
  std::vector<UniqueFd> descriptors;
  for (struct cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < here; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      descriptors.emplace_back(fd);
    }
  }
  if (got == 0) return Closed();
  if (byte != kDescriptorByte || descriptors.size() != count ||
      (message.msg_flags & MSG_CTRUNC) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(descriptors.size(), " descriptors came, not ", count));
  }
  return descriptors;
}

}  // namespace twinpath::runner
