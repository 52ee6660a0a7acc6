#include "agent/identity.h"

#include <errno.h>
#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/status.h"

namespace twinpath::agent {
namespace {

constexpr absl::string_view kFirstLine = "twinpath-agent-identity 1";
constexpr uint64_t kMaxFile = 4096;

absl::Status Damaged(absl::string_view path, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("identity file ", path, ": ", what,
                   "; remove it and enrol again with a join token"));
}

bool IsPlainWord(absl::string_view word) {
  if (word.empty() || word.size() > 256) return false;
  for (const char c : word) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<Identity> LoadIdentity(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("reading identity file ", path));
  }
  if ((info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("identity file ", path,
                     " can be read by others: chmod 0600 it, and enrol again "
                     "if it may have been read"));
  }
  TWINPATH_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFile));
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  // The trailing empty line proves that the end was written.
  if (lines.size() < 2 || lines[0] != kFirstLine || !lines.back().empty()) {
    return Damaged(path, "not an identity");
  }
  Identity identity;
  bool simulated_seen = false;
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    const std::pair<std::string, std::string> line =
        absl::StrSplit(lines[i], absl::MaxSplits('=', 1));
    if (line.first == "host_id") {
      identity.host_id = line.second;
    } else if (line.first == "secret") {
      identity.secret = line.second;
    } else if (line.first == "simulated" &&
               (line.second == "true" || line.second == "false")) {
      identity.simulated = line.second == "true";
      simulated_seen = true;
    } else {
      return Damaged(path, absl::StrCat("line ", i + 1, " is not understood"));
    }
  }
  if (!IsPlainWord(identity.host_id) || !IsPlainWord(identity.secret) ||
      !simulated_seen) {
    return Damaged(path, "host_id, secret or simulated is missing");
  }
  return identity;
}

absl::Status SaveIdentity(const std::string& path, const Identity& identity) {
  if (!IsPlainWord(identity.host_id) || !IsPlainWord(identity.secret)) {
    return absl::InvalidArgumentError(
        "the coordinator's answer to the enrolment holds no usable host id and "
        "secret");
  }
  return WriteFileAtomic(
      path,
      absl::StrCat(kFirstLine, "\nhost_id=", identity.host_id,
                   "\nsecret=", identity.secret,
                   "\nsimulated=", identity.simulated ? "true" : "false", "\n"),
      0600);
}

absl::StatusOr<std::string> ReadJoinToken(const std::string& path) {
  TWINPATH_ASSIGN_OR_RETURN_CTX(const std::string text,
                                ReadFile(path, kMaxFile),
                                absl::StrCat("reading join token ", path));
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  if (!IsPlainWord(token)) {
    return absl::InvalidArgumentError(
        absl::StrCat("join token file ", path,
                     " must hold one token of printable characters"));
  }
  return std::string(token);
}

}  // namespace twinpath::agent
