#include "trust/trusted_keys.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"

namespace twinpath::trust {
namespace {

constexpr size_t kMaxKeyBytes = 64 << 10;
constexpr size_t kMaxKeys = 256;

absl::Status CheckOwned(int fd, const std::string& path, uid_t owner) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, Printable(path));
  if (info.st_uid != owner) {
    return absl::FailedPreconditionError(
        absl::StrCat(Printable(path), " belongs to user ", info.st_uid,
                     ", not to ", owner, "; what it says is not trusted"));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(Printable(path),
                     " may be written by its group or by others; take that "
                     "away with 'chmod go-w'"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadOwnedFile(const std::string& path,
                                          size_t max_bytes, uid_t owner) {
  TWINPATH_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path));
  TWINPATH_RETURN_IF_ERROR(CheckOwned(fd.get(), path, owner));
  TWINPATH_ASSIGN_OR_RETURN(std::string text,
                            PreadUpTo(fd.get(), 0, max_bytes + 1));
  if (text.size() > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(Printable(path), " is longer than ", max_bytes, " bytes"));
  }
  return text;
}

absl::StatusOr<std::vector<PublicKey>> LoadTrustedKeys(
    const std::string& folder, uid_t owner) {
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no key is trusted: ",
                     MessageOf(ErrnoStatus(errno, Printable(folder)))));
  }
  TWINPATH_RETURN_IF_ERROR(CheckOwned(fd.get(), folder, owner));
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            ListDirectory(folder));
  std::vector<PublicKey> keys;
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, ".pem") && !absl::EndsWith(name, ".pub")) {
      continue;
    }
    if (keys.size() == kMaxKeys) {
      return absl::FailedPreconditionError(absl::StrCat(
          Printable(folder), " holds more than ", kMaxKeys, " keys"));
    }
    const std::string path = JoinPath(folder, name);
    TWINPATH_ASSIGN_OR_RETURN(const std::string pem,
                              ReadOwnedFile(path, kMaxKeyBytes, owner));
    TWINPATH_ASSIGN_OR_RETURN_CTX(PublicKey key, PublicKey::FromPem(pem),
                                  Printable(path));
    keys.push_back(std::move(key));
  }
  if (keys.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no key is trusted: ", Printable(folder),
        " holds no *.pem or *.pub; put the public key of your releases there"));
  }
  return keys;
}

}  // namespace twinpath::trust
