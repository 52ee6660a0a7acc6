// What the coordinator does with peers that are wrong: another protocol
// version, a wrong secret, a blob that is not what it says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/version.h"
#include "cli/client.h"
#include "tests/e2e/fleet.h"
#include "tests/e2e/scripted_agent.h"

namespace twinpath::e2e {
namespace {

using ::testing::HasSubstr;

class WireTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Fleet>> fleet = Fleet::Start();
    ASSERT_THAT(fleet, IsOk());
    fleet_ = *std::move(fleet);
  }
  std::unique_ptr<Fleet> fleet_;
};

TEST_F(WireTest, AnAgentOfAnotherProtocolIsTurnedAway) {
  EXPECT_THAT(
      TryHello(fleet_->address(), fleet_->JoinTokenFile(), "old",
               kProtocolMax + 1, kProtocolMax + 1),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("protocol")));
  // A wider range that holds ours is welcome.
  EXPECT_THAT(TryHello(fleet_->address(), fleet_->JoinTokenFile(), "new",
                       kProtocolMin, kProtocolMax + 5),
              IsOk());
}

TEST_F(WireTest, AWrongSecretIsTurnedAway) {
  EXPECT_THAT(TryHello(fleet_->address(), fleet_->JoinTokenFile(), "thief",
                       kProtocolMin, kProtocolMax, std::string(64, '0')),
              StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(WireTest, AWrongTokenIsTurnedAway) {
  ASSERT_THAT(fleet_->Write("token", "nonsense\n"), IsOk());
  EXPECT_THAT(TryHello(fleet_->address(), JoinPath(fleet_->folder(), "token"),
                       "thief", kProtocolMin, kProtocolMax),
              StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(WireTest, ABlobWithTheWrongDigestIsNotKept) {
  const std::string digest = Sha256Of("promised").Raw();
  EXPECT_THAT(PutRaw(fleet_->address(), digest, "swapped!"),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(HasBlob(fleet_->address(), digest), IsOkAndHolds(false));
  // Nothing of the bad upload is in the way of a good one.
  EXPECT_THAT(PutRaw(fleet_->address(), digest, "promised"), IsOk());
  EXPECT_THAT(HasBlob(fleet_->address(), digest), IsOkAndHolds(true));
}

TEST_F(WireTest, AFileThatChangesWhileItIsPushedIsAnIntegrityError) {
  ASSERT_THAT(fleet_->Write("file", "swapped!"), IsOk());
  const absl::StatusOr<UniqueFd> fd =
      OpenRegularFile(JoinPath(fleet_->folder(), "file"));
  ASSERT_THAT(fd, IsOk());
  EXPECT_THAT(fleet_->client().PutBlob(Sha256Of("promised"), fd->get(), 8,
                                       [](uint64_t) {}),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(WireTest, AFileThatBecomesShorterIsNoticed) {
  ASSERT_THAT(fleet_->Write("file", "short"), IsOk());
  const absl::StatusOr<UniqueFd> fd =
      OpenRegularFile(JoinPath(fleet_->folder(), "file"));
  ASSERT_THAT(fd, IsOk());
  EXPECT_THAT(fleet_->client().PutBlob(Sha256Of("short and more"), fd->get(),
                                       14, [](uint64_t) {}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("shorter")));
}

TEST_F(WireTest, AnUploadGoesOnWhereItEnded) {
  // Larger than one chunk, so that a first part can be there already.
  const std::string data(600 << 10, 'x');
  ASSERT_THAT(fleet_->Write("file", data), IsOk());
  const absl::StatusOr<UniqueFd> fd =
      OpenRegularFile(JoinPath(fleet_->folder(), "file"));
  ASSERT_THAT(fd, IsOk());
  EXPECT_THAT(PutPart(fleet_->address(), Sha256Of(data).Raw(), data.size(),
                      data.substr(0, 256 << 10)),
              ::testing::Not(IsOk()));
  uint64_t first = 0;
  ASSERT_THAT(fleet_->client().PutBlob(Sha256Of(data), fd->get(), data.size(),
                                       [&](uint64_t sent) {
                                         if (first == 0) first = sent;
                                       }),
              IsOk());
  // The first chunk sent now ends behind the part that was there.
  EXPECT_GT(first, uint64_t{256} << 10);
}

}  // namespace
}  // namespace twinpath::e2e
