#include "base/status.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace twinpath {
namespace {

absl::StatusCode CodeOfErrno(int error_number) {
  switch (error_number) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::StatusCode::kResourceExhausted;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EISDIR:
    case ENOTDIR:
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
    case ENOEXEC:
      return absl::StatusCode::kInvalidArgument;
    case ETIMEDOUT:
      return absl::StatusCode::kDeadlineExceeded;
    case EAGAIN:
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kUnknown;
  }
}

}  // namespace

absl::Status WithContext(const absl::Status& status,
                         absl::string_view context) {
  if (status.ok()) return status;
  absl::Status result(status.code(),
                      status.message().empty()
                          ? std::string(context)
                          : absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload(
      [&result](absl::string_view type_url, const absl::Cord& payload) {
        result.SetPayload(type_url, payload);
      });
  return result;
}

absl::Status ErrnoStatus(int error_number, absl::string_view context) {
  char buffer[256];
  // The GNU form of strerror_r: the text returned is not always in `buffer`.
  const char* text = strerror_r(error_number, buffer, sizeof(buffer));
  return absl::Status(CodeOfErrno(error_number),
                      absl::StrCat(context, ": ", text));
}

absl::string_view MessageOf(const absl::Status& status) {
  if (status.ok()) return "OK";
  if (!status.message().empty()) return status.message();
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
      return "cancelled";
    case absl::StatusCode::kInvalidArgument:
      return "invalid argument";
    case absl::StatusCode::kDeadlineExceeded:
      return "deadline exceeded";
    case absl::StatusCode::kNotFound:
      return "not found";
    case absl::StatusCode::kAlreadyExists:
      return "exists already";
    case absl::StatusCode::kPermissionDenied:
      return "permission denied";
    case absl::StatusCode::kResourceExhausted:
      return "resource exhausted";
    case absl::StatusCode::kFailedPrecondition:
      return "failed precondition";
    case absl::StatusCode::kAborted:
      return "aborted";
    case absl::StatusCode::kOutOfRange:
      return "out of range";
    case absl::StatusCode::kUnimplemented:
      return "not implemented";
    case absl::StatusCode::kInternal:
      return "internal error";
    case absl::StatusCode::kUnavailable:
      return "unavailable";
    case absl::StatusCode::kDataLoss:
      return "data loss";
    case absl::StatusCode::kUnauthenticated:
      return "unauthenticated";
    default:
      return "unknown error";
  }
}

}  // namespace twinpath
