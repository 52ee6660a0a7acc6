#include "coordinator/enrolment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/coordinator/fixture.h"

namespace twinpath::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EnrolmentTest : public CoordinatorTest {
 protected:
  std::string MakeToken(uint32_t uses, int64_t seconds = 3600) {
    v1::CreateJoinTokenRequest request;
    request.set_uses(uses);
    request.mutable_lifetime()->set_seconds(seconds);
    return coordinator_->enrolment().CreateJoinToken(request)->join_token();
  }
  absl::StatusOr<v1::EnrolResponse> Try(const std::string& token,
                                        const std::string& name,
                                        const std::string& machine,
                                        bool simulated = false) {
    v1::EnrolRequest request;
    request.set_join_token(token);
    request.set_host_name(name);
    request.set_machine_id(machine);
    request.set_simulated(simulated);
    request.add_labels("site=b");
    request.add_labels("rack=1");
    request.add_labels("site=b");
    return coordinator_->enrolment().Enrol(request);
  }
};

TEST_F(EnrolmentTest, TokenHoldsForItsUses) {
  const std::string token = MakeToken(2);
  EXPECT_THAT(Try(token, "a", "m1"), IsOk());
  EXPECT_THAT(Try(token, "b", "m2"), IsOk());
  EXPECT_THAT(Try(token, "c", "m3"),
              StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(EnrolmentTest, TokenExpiresByTheStoresClock) {
  const std::string token = MakeToken(10, 60);
  clock_.Advance(absl::Seconds(59));
  EXPECT_THAT(Try(token, "a", "m1"), IsOk());
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Try(token, "b", "m2"),
              StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(EnrolmentTest, UnknownTokenSaysNothingElse) {
  EXPECT_THAT(Try("nonsense", "a", "m1"),
              StatusIs(absl::StatusCode::kUnauthenticated,
                       HasSubstr("unknown, used up or expired")));
}

TEST_F(EnrolmentTest, SecretAndTokenAreNotStored) {
  const std::string token = MakeToken(1);
  const auto identity = Try(token, "a", "m1");
  ASSERT_THAT(identity, IsOk());
  coordinator_.reset();
  const auto names = ListDirectory(folder_.path());
  for (const std::string& name : *names) {
    const auto content =
        ReadFile(JoinPath(folder_.path(), name), uint64_t{64} << 20);
    if (!content.ok()) continue;  // A folder.
    EXPECT_THAT(*content, ::testing::Not(HasSubstr(identity->secret())));
    EXPECT_THAT(*content, ::testing::Not(HasSubstr(token)));
  }
}

TEST_F(EnrolmentTest, SameMachineKeepsItsIdAndGetsANewSecret) {
  const std::string token = MakeToken(3);
  const auto first = Try(token, "a", "m1");
  const auto second = Try(token, "a", "m1");
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(first->host_id(), second->host_id());
  EXPECT_NE(first->secret(), second->secret());
  EXPECT_THAT(coordinator_->store().Read([&](const StoreView& view) {
    EXPECT_THAT(Authenticate(view, first->host_id(), first->secret()),
                StatusIs(absl::StatusCode::kUnauthenticated));
    EXPECT_THAT(Authenticate(view, first->host_id(), second->secret()), IsOk());
    EXPECT_THAT(view.GetHost(first->host_id())->labels,
                ElementsAre("rack=1", "site=b"));
    return absl::OkStatus();
  }),
              IsOk());
}

TEST_F(EnrolmentTest, ANameBelongsToItsMachineAndKind) {
  const std::string token = MakeToken(2);
  EXPECT_THAT(Try(token, "a", "m1"), IsOk());
  EXPECT_THAT(Try(token, "a", "m2"),
              StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(Try(token, "a", "m1", /*simulated=*/true),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("real")));
  // The refusals used nothing up.
  EXPECT_THAT(Try(token, "b", "m2"), IsOk());
}

TEST_F(EnrolmentTest, BadNamesAndLabelsAreRefused) {
  const std::string token = MakeToken(1);
  for (const char* name : {"", "a b", "../x", "-x", ".x", "a/b", "a\n"}) {
    EXPECT_THAT(Try(token, name, "m1"),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(Try(token, std::string(65, 'a'), "m1"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CheckLabel("noequals"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CheckLabel("a=b\nc=d"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CheckLabel("key=any value"), IsOk());
}

TEST_F(EnrolmentTest, TokenLifetimeHasBounds) {
  v1::CreateJoinTokenRequest request;
  request.mutable_lifetime()->set_seconds(0);
  EXPECT_THAT(coordinator_->enrolment().CreateJoinToken(request),
              StatusIs(absl::StatusCode::kInvalidArgument));
  request.mutable_lifetime()->set_seconds(int64_t{400} * 86400);
  EXPECT_THAT(coordinator_->enrolment().CreateJoinToken(request),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ConstantTimeEqualTest, ComparesBytes) {
  EXPECT_TRUE(ConstantTimeEqual("abc", "abc"));
  EXPECT_FALSE(ConstantTimeEqual("abc", "abd"));
  EXPECT_FALSE(ConstantTimeEqual("abc", "ab"));
  EXPECT_TRUE(ConstantTimeEqual("", ""));
}

}  // namespace
}  // namespace twinpath::coordinator
