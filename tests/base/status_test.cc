#include "base/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "absl/strings/cord.h"
#include "base/status_matchers.h"

namespace twinpath {
namespace {

using ::testing::HasSubstr;

TEST(WithContext, KeepsCodeAndPayloads) {
  absl::Status status = absl::NotFoundError("no row");
  status.SetPayload("twinpath/x", absl::Cord("value"));
  const absl::Status result = WithContext(status, "reading host n1");
  EXPECT_THAT(result,
              StatusIs(absl::StatusCode::kNotFound, "reading host n1: no row"));
  EXPECT_EQ(result.GetPayload("twinpath/x"), absl::Cord("value"));
}

TEST(WithContext, LeavesOkAlone) {
  EXPECT_THAT(WithContext(absl::OkStatus(), "x"), IsOk());
  EXPECT_THAT(WithContext(absl::Status(absl::StatusCode::kAborted, ""), "x"),
              StatusIs(absl::StatusCode::kAborted, "x"));
}

TEST(ErrnoStatus, MapsToTheCodesPromised) {
  const std::pair<int, absl::StatusCode> kRows[] = {
      {ENOENT, absl::StatusCode::kNotFound},
      {EACCES, absl::StatusCode::kPermissionDenied},
      {EPERM, absl::StatusCode::kPermissionDenied},
      {EROFS, absl::StatusCode::kPermissionDenied},
      {ENOSPC, absl::StatusCode::kResourceExhausted},
      {EDQUOT, absl::StatusCode::kResourceExhausted},
      {EFBIG, absl::StatusCode::kResourceExhausted},
      {EMFILE, absl::StatusCode::kResourceExhausted},
      {ENFILE, absl::StatusCode::kResourceExhausted},
      {ENOMEM, absl::StatusCode::kResourceExhausted},
      {EEXIST, absl::StatusCode::kAlreadyExists},
      {EISDIR, absl::StatusCode::kInvalidArgument},
      {ENOTDIR, absl::StatusCode::kInvalidArgument},
      {EINVAL, absl::StatusCode::kInvalidArgument},
      {ENAMETOOLONG, absl::StatusCode::kInvalidArgument},
      {ELOOP, absl::StatusCode::kInvalidArgument},
      {ENOEXEC, absl::StatusCode::kInvalidArgument},
      {ETIMEDOUT, absl::StatusCode::kDeadlineExceeded},
      {EAGAIN, absl::StatusCode::kUnavailable},
      {ECONNREFUSED, absl::StatusCode::kUnavailable},
      {ECONNRESET, absl::StatusCode::kUnavailable},
      {EHOSTUNREACH, absl::StatusCode::kUnavailable},
      {ENETUNREACH, absl::StatusCode::kUnavailable},
      {EIO, absl::StatusCode::kUnknown},
      {98765, absl::StatusCode::kUnknown}};
  for (const auto& [error, code] : kRows) {
    EXPECT_EQ(ErrnoStatus(error, "x").code(), code) << error;
  }
}

TEST(ErrnoStatus, SaysWhatAndWhy) {
  EXPECT_EQ(MessageOf(ErrnoStatus(ENOENT, "open /x")),
            "open /x: No such file or directory");
  EXPECT_THAT(std::string(MessageOf(ErrnoStatus(98765, "open /x"))),
              HasSubstr("98765"));
}

TEST(MessageOf, NeverIsEmpty) {
  for (int code = 0; code <= 16; ++code) {
    EXPECT_NE(MessageOf(absl::Status(static_cast<absl::StatusCode>(code), "")),
              "")
        << code;
  }
}

absl::Status Check(bool good) {
  return good ? absl::OkStatus() : absl::AbortedError("bad");
}
absl::StatusOr<std::unique_ptr<int>> Make(bool good) {
  if (!good) return absl::AbortedError("bad");
  return std::make_unique<int>(7);
}

absl::StatusOr<int> UseMacros(bool check, bool check_with_context, bool make,
                              bool make_with_context) {
  TWINPATH_RETURN_IF_ERROR(Check(check));
  TWINPATH_RETURN_IF_ERROR_CTX(Check(check_with_context), "checking");
  TWINPATH_ASSIGN_OR_RETURN(const std::unique_ptr<int> a, Make(make));
  std::unique_ptr<int> b;
  TWINPATH_ASSIGN_OR_RETURN_CTX(b, Make(make_with_context), "making");
  return *a + *b;
}

TEST(StatusMacros, ReturnEarlyWithTheError) {
  EXPECT_THAT(UseMacros(true, true, true, true), IsOkAndHolds(14));
  EXPECT_THAT(UseMacros(false, true, true, true),
              StatusIs(absl::StatusCode::kAborted, "bad"));
  EXPECT_THAT(UseMacros(true, false, true, true),
              StatusIs(absl::StatusCode::kAborted, "checking: bad"));
  EXPECT_THAT(UseMacros(true, true, false, true),
              StatusIs(absl::StatusCode::kAborted, "bad"));
  EXPECT_THAT(UseMacros(true, true, true, false),
              StatusIs(absl::StatusCode::kAborted, "making: bad"));
}

}  // namespace
}  // namespace twinpath
