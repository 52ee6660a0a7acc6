// Status helpers: early return with context, and the one place where code
// outside the project (errno) becomes an absl::Status.
//
//   TWINPATH_RETURN_IF_ERROR(Check(x));
//   TWINPATH_RETURN_IF_ERROR_CTX(Check(x), absl::StrCat("reading ", name));
//   TWINPATH_ASSIGN_OR_RETURN(const Thing thing, MakeThing());
//
// The shape follows Abseil's later status macros, so that a swap is a rename.

#ifndef TWINPATH_BASE_STATUS_H_
#define TWINPATH_BASE_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace twinpath {

// Returns `status` with "context: " before its message; OK stays OK. Code and
// payloads are kept.
absl::Status WithContext(const absl::Status& status, absl::string_view context);

// Returns a status for `error_number` (an errno value) whose message is
// "context: strerror". ENOENT -> NOT_FOUND, EACCES/EPERM/EROFS ->
// PERMISSION_DENIED, ENOSPC/EDQUOT/EFBIG/EMFILE/ENFILE/ENOMEM ->
// RESOURCE_EXHAUSTED, EEXIST -> ALREADY_EXISTS, EISDIR/ENOTDIR/EINVAL/
// ENAMETOOLONG/ELOOP/ENOEXEC -> INVALID_ARGUMENT, ETIMEDOUT ->
// DEADLINE_EXCEEDED, EAGAIN/ECONNREFUSED/ECONNRESET/EHOSTUNREACH/ENETUNREACH ->
// UNAVAILABLE, else UNKNOWN.
absl::Status ErrnoStatus(int error_number, absl::string_view context);

// Returns the message a person should read: "what failed: why", without the
// code's name.
absl::string_view MessageOf(const absl::Status& status);

}  // namespace twinpath

#define TWINPATH_STATUS_CONCAT_INNER_(a, b) a##b
#define TWINPATH_STATUS_CONCAT_(a, b) TWINPATH_STATUS_CONCAT_INNER_(a, b)

// Returns from the enclosing function if `expr` is not OK.
#define TWINPATH_RETURN_IF_ERROR(expr)                                \
  do {                                                                \
    if (absl::Status twinpath_status = (expr); !twinpath_status.ok()) \
      return twinpath_status;                                         \
  } while (false)

// The same with context before the message.
#define TWINPATH_RETURN_IF_ERROR_CTX(expr, context)                   \
  do {                                                                \
    if (absl::Status twinpath_status = (expr); !twinpath_status.ok()) \
      return ::twinpath::WithContext(twinpath_status, (context));     \
  } while (false)

// NOLINTBEGIN(bugprone-macro-parentheses): `decl` is a declaration.
// Declares or assigns `decl` from the StatusOr `expr`, or returns its status.
#define TWINPATH_ASSIGN_OR_RETURN(decl, expr)                             \
  TWINPATH_ASSIGN_OR_RETURN_IMPL_(                                        \
      TWINPATH_STATUS_CONCAT_(twinpath_status_or_, __LINE__), decl, expr, \
      _status)
#define TWINPATH_ASSIGN_OR_RETURN_CTX(decl, expr, context)                \
  TWINPATH_ASSIGN_OR_RETURN_IMPL_(                                        \
      TWINPATH_STATUS_CONCAT_(twinpath_status_or_, __LINE__), decl, expr, \
      ::twinpath::WithContext(_status, (context)))
#define TWINPATH_ASSIGN_OR_RETURN_IMPL_(var, decl, expr, result) \
  auto var = (expr);                                             \
  if (!var.ok()) {                                               \
    const absl::Status& _status = var.status();                  \
    return result;                                               \
  }                                                              \
  decl = std::move(var).value()
// NOLINTEND(bugprone-macro-parentheses)

#endif  // TWINPATH_BASE_STATUS_H_
