#include "agent/pause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::HasSubstr;

class PauseTest : public ::testing::Test {
 protected:
  const TempDirectory temp_ = MakeTemp();
  const std::string path_ = JoinPath(temp_.path(), "paused");
  const absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
};

TEST_F(PauseTest, NothingIsNoPause) {
  EXPECT_FALSE(ReadPause(path_, now_));
  EXPECT_THAT(RemovePause(path_), IsOk());
}

TEST_F(PauseTest, HoldsUntilItsEndAndNoLonger) {
  Pause pause;
  pause.until = now_ + absl::Hours(2);
  pause.reason = "training run";
  pause.now = true;
  ASSERT_THAT(WritePause(path_, pause), IsOk());
  EXPECT_EQ(ReadPause(path_, now_), pause);
  EXPECT_EQ(ReadPause(path_, now_ + absl::Hours(2) - absl::Seconds(1)), pause);
  EXPECT_FALSE(ReadPause(path_, now_ + absl::Hours(2)));
  EXPECT_EQ(Describe(pause),
            "paused on its host until 2027-01-15T10:00:00Z: training run");
}

TEST_F(PauseTest, WithoutEndHoldsUntilItIsTakenBack) {
  ASSERT_THAT(WritePause(path_, Pause()), IsOk());
  EXPECT_EQ(ReadPause(path_, now_ + absl::Hours(24 * 3650)), Pause());
  EXPECT_EQ(Describe(Pause()), "paused on its host");
  ASSERT_THAT(RemovePause(path_), IsOk());
  EXPECT_FALSE(ReadPause(path_, now_));
}

// Older agents left an empty file; and whoever put something else there meant
// to pause.
TEST_F(PauseTest, FileThatCannotBeUnderstoodPauses) {
  Spit(path_, "", 0600);
  EXPECT_EQ(ReadPause(path_, now_), Pause());
  Spit(path_, "until tomorrow\nwhat is this\n", 0600);
  EXPECT_EQ(ReadPause(path_, now_), Pause());
  Spit(path_, std::string(100'000, 'x'), 0600);
  EXPECT_EQ(ReadPause(path_, now_), Pause());
  ASSERT_THAT(RemovePause(path_), IsOk());
  // A reader of a FIFO would wait for ever.
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(ReadPause(path_, now_), Pause());
}

TEST_F(PauseTest, ReasonsAreOneShortLine) {
  Pause pause;
  pause.reason = "a\nuntil 1\n" + std::string(1000, 'x');
  ASSERT_THAT(WritePause(path_, pause), IsOk());
  const auto read = ReadPause(path_, now_);
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->until);
  EXPECT_THAT(read->reason, HasSubstr("a\\x0auntil 1"));
  EXPECT_LE(read->reason.size(), kMaxPauseReason);
}

TEST_F(PauseTest, WithoutAStateFolderItIsAnError) {
  EXPECT_THAT(WritePause(JoinPath(temp_.path(), "none/paused"), Pause()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("--state")));
}

}  // namespace
}  // namespace twinpath::agent
