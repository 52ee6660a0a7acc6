#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "base/file.h"
#include "base/status_matchers.h"

namespace twinpath {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Sets a variable of the environment for one test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name); old != nullptr) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (old_.has_value()) {
      setenv(name_, old_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(FindCompanion, LooksBesideTheExecutable) {
  const ScopedVariable none("TWINPATH_LIBEXEC", "");
  const absl::StatusOr<std::string> path = FindCompanion("base_test_child");
  ASSERT_THAT(path, IsOk());
  EXPECT_TRUE(absl::EndsWith(*path, "/bin/base_test_child"));
}

TEST(FindCompanion, LooksWhereTheVariableSaysFirst) {
  absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const ScopedVariable named("TWINPATH_LIBEXEC", folder->path());
  const std::string own = JoinPath(folder->path(), "base_test_child");
  // A file that may not be run is no program.
  ASSERT_THAT(WriteFileAtomic(own, "x", 0600), IsOk());
  EXPECT_THAT(FindCompanion("base_test_child"),
              IsOkAndHolds(::testing::Ne(own)));
  ASSERT_THAT(WriteFileAtomic(own, "x", 0700), IsOk());
  EXPECT_THAT(FindCompanion("base_test_child"), IsOkAndHolds(own));
}

TEST(FindCompanion, NamesAllPlaces) {
  const ScopedVariable named("TWINPATH_LIBEXEC", "/opt/x");
  EXPECT_THAT(FindCompanion("no-such-program"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("/opt/x/no-such-program"),
                             HasSubstr("libexec/twinpath/no-such-program"),
                             HasSubstr("TWINPATH_LIBEXEC"))));
  EXPECT_THAT(FindCompanion("../sh"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(FindCompanion(""), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(FindData, LooksInTheSourceTreeOfABuild) {
  const ScopedVariable none("TWINPATH_DATA", "");
  const absl::StatusOr<std::string> path = FindData("base/reason.h");
  ASSERT_THAT(path, IsOk());
  EXPECT_THAT(ReadFile(*path, 1 << 20), IsOkAndHolds(HasSubstr("TP204")));
}

TEST(FindData, LooksWhereTheVariableSaysFirst) {
  absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const ScopedVariable named("TWINPATH_DATA", folder->path());
  ASSERT_THAT(MakeDirectories(JoinPath(folder->path(), "base")), IsOk());
  const std::string own = JoinPath(folder->path(), "base/reason.h");
  ASSERT_THAT(WriteFileAtomic(own, "x"), IsOk());
  EXPECT_THAT(FindData("base/reason.h"), IsOkAndHolds(own));
}

TEST(FindData, StaysBelowItsFolder) {
  for (const char* bad : {"", "/etc/passwd", "../x", "a/../../x", "a//b"}) {
    EXPECT_THAT(FindData(bad), StatusIs(absl::StatusCode::kInvalidArgument))
        << bad;
  }
  EXPECT_THAT(FindData("no/such/file"), StatusIs(absl::StatusCode::kNotFound,
                                                 HasSubstr("TWINPATH_DATA")));
}

}  // namespace
}  // namespace twinpath
