#include "runner/child_protocol.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/file.h"
#include "base/status.h"

namespace twinpath::runner {
namespace {
constexpr size_t kMaxRequestBytes = 64 << 20;
}  // namespace

int ClaimStandardOutput() {
  const int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return fd;
}

absl::Status ReadRequest(google::protobuf::MessageLite& request) {
  std::string bytes;
  char buffer[64 << 10];
  while (true) {
    const ssize_t got = read(STDIN_FILENO, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "reading the request");
    if (got == 0) break;
    bytes.append(buffer, static_cast<size_t>(got));
    if (bytes.size() > kMaxRequestBytes) {
      return absl::InvalidArgumentError("the request is longer than 64 MiB");
    }
  }
  if (!request.ParseFromString(bytes)) {
    return absl::InvalidArgumentError(
        "standard input holds no request; this program is started by the "
        "agent and the twinpath command, not by hand");
  }
  return absl::OkStatus();
}

absl::Status WriteAnswer(int fd, const google::protobuf::MessageLite& answer) {
  return WriteAll(fd, answer.SerializeAsString());
}

}  // namespace twinpath::runner
