#include "base/exit_code.h"

#include <gtest/gtest.h>

namespace twinpath {
namespace {

// The table of base/exit_code.h.
TEST(ExitCode, FollowsTheStatusCode) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::AlreadyExistsError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::FailedPreconditionError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::OutOfRangeError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::ResourceExhaustedError("")), 2);
  EXPECT_EQ(ExitCodeOf(absl::CancelledError("")), 3);
  EXPECT_EQ(ExitCodeOf(absl::AbortedError("")), 3);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("")), 4);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("")), 4);
  EXPECT_EQ(ExitCodeOf(absl::PermissionDeniedError("")), 5);
  EXPECT_EQ(ExitCodeOf(absl::UnauthenticatedError("")), 5);
  EXPECT_EQ(ExitCodeOf(absl::DataLossError("")), 6);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("")), 70);
  EXPECT_EQ(ExitCodeOf(absl::UnknownError("")), 70);
  EXPECT_EQ(ExitCodeOf(absl::UnimplementedError("")), 70);
}

}  // namespace
}  // namespace twinpath
