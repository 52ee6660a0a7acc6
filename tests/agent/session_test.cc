// What is said on the stream, without a stream: hello first, fencing, results
// until they are acknowledged.

#include "agent/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/backoff.h"
#include "base/fake_clock.h"
#include "base/status_matchers.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;

class FakeHandler final : public SessionHandler {
 public:
  void OnLease(const v1::Lease& lease) override {
    leases.push_back(lease.id());
  }
  void OnCancel(const std::string& cell) override { cancelled.push_back(cell); }
  void OnFactsRequest() override { ++facts_requests; }
  void OnAcknowledged() override { ++acknowledged; }
  std::vector<std::string> HeldCells() override { return held; }
  std::optional<std::string> RefusesLeases() override { return refuses; }
  std::vector<v1::LeaseRefusal> TakeRefusals() override {
    return std::exchange(refusals, {});
  }

  std::vector<std::string> leases;
  std::vector<std::string> cancelled;
  int facts_requests = 0;
  int acknowledged = 0;
  std::vector<std::string> held;
  std::optional<std::string> refuses;
  std::vector<v1::LeaseRefusal> refusals;
};

class SessionTest : public ::testing::Test {
 protected:
  // Opens a stream, says hello and gets the answer.
  uint64_t Greet(uint64_t number) {
    const uint64_t stream = session_.Open("boot-1");
    EXPECT_TRUE(session_.Next(stream)->has_hello());
    v1::CoordinatorMessage ack;
    ack.mutable_hello_ack()->set_protocol(1);
    ack.mutable_hello_ack()->set_session(number);
    ack.mutable_hello_ack()->mutable_heartbeat_interval()->set_seconds(40);
    session_.OnMessage(stream, ack);
    return stream;
  }
  // Kinds of all messages that are ready, results with their id.
  std::vector<std::string> Drain(uint64_t stream) {
    std::vector<std::string> kinds;
    while (const auto message = session_.Next(stream)) {
      switch (message->message_case()) {
        case v1::AgentMessage::kResult:
          kinds.push_back("result " + message->result().result_id());
          break;
        case v1::AgentMessage::kHello:
          kinds.push_back("hello");
          break;
        case v1::AgentMessage::kFacts:
          kinds.push_back("facts");
          break;
        case v1::AgentMessage::kHeartbeat:
          kinds.push_back("heartbeat");
          break;
        case v1::AgentMessage::kProgress:
          kinds.push_back("progress " + message->progress().text());
          break;
        case v1::AgentMessage::kRefusal:
          kinds.push_back("refusal " + message->refusal().lease_id());
          break;
        default:
          kinds.push_back("?");
      }
    }
    return kinds;
  }
  void AddResult(const std::string& id) {
    v1::CellResult result;
    result.set_result_id(id);
    result.set_cell_id("cell-" + id);
    ASSERT_THAT(spool_->Add(result), IsOk());
  }
  void Acknowledge(uint64_t stream, const std::string& id) {
    v1::CoordinatorMessage ack;
    ack.mutable_result_ack()->set_result_id(id);
    session_.OnMessage(stream, ack);
  }
  static v1::CoordinatorMessage LeaseMessage(const std::string& id) {
    v1::CoordinatorMessage message;
    message.mutable_lease()->set_id(id);
    return message;
  }

  const TempDirectory temp_ = MakeTemp();
  FakeClock clock_;
  std::unique_ptr<Spool> spool_ =
      std::move(Spool::Open(temp_.path(), {})).value();
  FakeHandler handler_;
  Session session_{{.agent_version = "0.1.0", .max_unacknowledged = 2},
                   {"host-1", "secret", false},
                   clock_,
                   *spool_,
                   handler_};
};

TEST_F(SessionTest, HelloComesFirstAndNothingBeforeItsAnswer) {
  handler_.held = {"cell-a", "cell-b"};
  AddResult("aa");
  session_.SetFacts(v1::HostFacts());
  const uint64_t stream = session_.Open("boot-1");
  const auto hello = session_.Next(stream);
  ASSERT_TRUE(hello && hello->has_hello());
  EXPECT_EQ(hello->hello().host_id(), "host-1");
  EXPECT_EQ(hello->hello().secret(), "secret");
  EXPECT_EQ(hello->hello().boot_id(), "boot-1");
  EXPECT_EQ(hello->hello().protocol_min(), 1u);
  EXPECT_EQ(hello->hello().clock().seconds(), 1'700'000'000);
  EXPECT_THAT(hello->hello().held_cell_ids(), ElementsAre("cell-a", "cell-b"));
  EXPECT_THAT(Drain(stream), IsEmpty());
}

TEST_F(SessionTest, ThenFactsHeartbeatAndResults) {
  AddResult("aa");
  session_.SetFacts(v1::HostFacts());
  const uint64_t stream = Greet(7);
  EXPECT_EQ(session_.session(), 7u);
  EXPECT_THAT(Drain(stream), ElementsAre("facts", "heartbeat", "result aa"));
  clock_.Advance(absl::Seconds(39));
  EXPECT_THAT(Drain(stream), IsEmpty());
  EXPECT_EQ(session_.UntilDue(), absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Drain(stream), ElementsAre("heartbeat"));
}

TEST_F(SessionTest, ResultsAreSentAgainUntilAcknowledged) {
  AddResult("aa");
  AddResult("bb");
  AddResult("cc");
  uint64_t stream = Greet(1);
  // Two ahead of their acknowledgement, no more.
  EXPECT_THAT(Drain(stream),
              ElementsAre("heartbeat", "result aa", "result bb"));
  Acknowledge(stream, "aa");
  EXPECT_THAT(Drain(stream), ElementsAre("result cc"));

  // The stream breaks: what was not acknowledged comes again on the next.
  session_.OnClosed(stream);
  EXPECT_THAT(Drain(stream), IsEmpty());
  stream = Greet(2);
  EXPECT_THAT(Drain(stream),
              ElementsAre("heartbeat", "result bb", "result cc"));
  Acknowledge(stream, "bb");
  Acknowledge(stream, "cc");
  EXPECT_EQ(spool_->size(), 0u);
  EXPECT_EQ(handler_.acknowledged, 3);

  // And on the same stream when the answer does not come.
  AddResult("dd");
  EXPECT_THAT(Drain(stream), ElementsAre("result dd"));
  clock_.Advance(absl::Minutes(2));
  EXPECT_THAT(Drain(stream), ElementsAre("heartbeat", "result dd"));
}

TEST_F(SessionTest, AnOlderStreamHasNoSay) {
  const uint64_t old_stream = Greet(1);
  const uint64_t stream = Greet(2);
  session_.OnMessage(old_stream, LeaseMessage("stale"));
  AddResult("aa");
  EXPECT_THAT(Drain(old_stream), IsEmpty());
  Acknowledge(old_stream, "aa");
  EXPECT_EQ(spool_->size(), 1u);
  session_.OnClosed(old_stream);
  EXPECT_TRUE(session_.ready());
  session_.OnMessage(stream, LeaseMessage("good"));
  EXPECT_THAT(handler_.leases, ElementsAre("good"));
  EXPECT_THAT(session_.MustEnd(old_stream),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(SessionTest, AMessageBeforeHelloAckEndsTheStream) {
  const uint64_t stream = session_.Open("boot-1");
  ASSERT_TRUE(session_.Next(stream));
  session_.OnMessage(stream, LeaseMessage("early"));
  EXPECT_THAT(handler_.leases, IsEmpty());
  EXPECT_THAT(session_.MustEnd(stream),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(SessionTest, AnotherProtocolEndsTheStreamWithBothVersions) {
  const uint64_t stream = session_.Open("boot-1");
  ASSERT_TRUE(session_.Next(stream));
  v1::CoordinatorMessage ack;
  ack.mutable_hello_ack()->set_protocol(9);
  session_.OnMessage(stream, ack);
  EXPECT_FALSE(session_.ready());
  EXPECT_THAT(
      session_.MustEnd(stream),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("protocol 9"), HasSubstr("speaks 1 to 1"))));
}

TEST_F(SessionTest, SilenceBehindHelloEndsTheStream) {
  const uint64_t stream = session_.Open("boot-1");
  ASSERT_TRUE(session_.Next(stream));
  clock_.Advance(absl::Seconds(29));
  EXPECT_THAT(session_.MustEnd(stream), IsOk());
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(session_.MustEnd(stream),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(SessionTest, FactsAreSentAgainOnlyWhenTheyChanged) {
  v1::HostFacts facts;
  facts.set_host_name("spark-1");
  facts.add_gpus()->set_uuid("GPU-1");
  session_.SetFacts(facts);
  const uint64_t stream = Greet(1);
  EXPECT_THAT(Drain(stream), ElementsAre("facts", "heartbeat"));
  facts.mutable_collected_time()->set_seconds(5);
  facts.mutable_gpus(0)->set_compute_processes(3);
  session_.SetFacts(facts);
  EXPECT_THAT(Drain(stream), IsEmpty());
  facts.mutable_driver()->set_kernel_module_version("580.95.05");
  session_.SetFacts(facts);
  EXPECT_THAT(Drain(stream), ElementsAre("facts"));
  session_.ResendFacts();
  EXPECT_THAT(Drain(stream), ElementsAre("facts"));
}

TEST_F(SessionTest, OnlyTheLatestWordOfEachCellIsKept) {
  const uint64_t stream = Greet(1);
  Drain(stream);
  for (int i = 0; i < 1000; ++i) {
    v1::Progress progress;
    progress.set_cell_id("cell-a");
    progress.set_text(absl::StrCat(i));
    session_.SetProgress(progress);
  }
  EXPECT_THAT(Drain(stream), ElementsAre("progress 999"));
}

TEST_F(SessionTest, RefusalsAndReadinessAreToldAtOnce) {
  const uint64_t stream = Greet(1);
  Drain(stream);
  int woken = 0;
  session_.SetWake([&] { ++woken; });
  handler_.refusals.emplace_back().set_lease_id("lease-a");
  handler_.refuses = "the spool is full";
  session_.Poke(/*heartbeat=*/true);
  EXPECT_EQ(woken, 1);
  const auto refusal = session_.Next(stream);
  ASSERT_TRUE(refusal && refusal->has_refusal());
  const auto heartbeat = session_.Next(stream);
  ASSERT_TRUE(heartbeat && heartbeat->has_heartbeat());
  EXPECT_TRUE(heartbeat->heartbeat().refuses_leases());
  EXPECT_EQ(heartbeat->heartbeat().refusal_reason(), "the spool is full");
}

TEST_F(SessionTest, RequestsReachTheAgent) {
  const uint64_t stream = Greet(1);
  v1::CoordinatorMessage message;
  message.mutable_facts_request();
  session_.OnMessage(stream, message);
  message.mutable_cancel()->set_cell_id("cell-a");
  session_.OnMessage(stream, message);
  session_.OnMessage(stream, v1::CoordinatorMessage());  // from the future
  EXPECT_EQ(handler_.facts_requests, 1);
  EXPECT_THAT(handler_.cancelled, ElementsAre("cell-a"));
  EXPECT_TRUE(session_.ready());
}

TEST_F(SessionTest, ADrainedStreamSaysNothingMore) {
  const uint64_t stream = Greet(1);
  Drain(stream);
  v1::CoordinatorMessage message;
  message.mutable_drain()->mutable_retry_after()->set_seconds(20);
  session_.OnMessage(stream, message);
  AddResult("aa");
  EXPECT_THAT(Drain(stream), IsEmpty());
  EXPECT_EQ(session_.drained(), absl::Seconds(20));
  EXPECT_EQ(spool_->size(), 1u);
}

TEST_F(SessionTest, AStrangeHeartbeatIntervalIsKeptInBounds) {
  const uint64_t stream = session_.Open("boot-1");
  ASSERT_TRUE(session_.Next(stream));
  v1::CoordinatorMessage ack;
  ack.mutable_hello_ack()->set_protocol(1);
  ack.mutable_hello_ack()->mutable_heartbeat_interval()->set_seconds(-1);
  session_.OnMessage(stream, ack);
  EXPECT_THAT(Drain(stream), ElementsAre("heartbeat"));
  EXPECT_EQ(session_.UntilDue(), absl::Milliseconds(100));
}

TEST(Backoff, GrowsToAMinuteWithFullJitter) {
  double random = 1.0;
  Backoff backoff({}, [&] { return random; });
  const absl::Status lost = absl::UnavailableError("lost");
  std::vector<int64_t> seconds;
  for (int i = 0; i < 8; ++i) {
    seconds.push_back(
        absl::ToInt64Seconds(backoff.After(lost, absl::ZeroDuration())));
  }
  EXPECT_THAT(seconds, ElementsAre(1, 2, 4, 8, 16, 32, 60, 60));
  random = 0;
  EXPECT_EQ(backoff.After(lost, absl::ZeroDuration()), absl::ZeroDuration());
  // A session that lasted shows that the coordinator is well.
  random = 1.0;
  EXPECT_EQ(backoff.After(lost, absl::Minutes(2)), absl::Seconds(1));
  EXPECT_EQ(backoff.After(lost, absl::Seconds(119)), absl::Seconds(2));
}

TEST(Backoff, WhatCannotHealIsTriedSlowly) {
  Backoff backoff({}, [] { return 0.5; });
  for (const absl::Status& status :
       {absl::UnauthenticatedError(""), absl::FailedPreconditionError(""),
        absl::UnimplementedError(""), absl::PermissionDeniedError("")}) {
    EXPECT_THAT(backoff.After(status, absl::ZeroDuration()),
                AllOf(Ge(absl::Minutes(2.5)), Le(absl::Minutes(5))));
  }
  EXPECT_THAT(backoff.After(absl::AbortedError(""), absl::ZeroDuration()),
              AllOf(Ge(absl::Seconds(30)), Le(absl::Minutes(1))));
}

TEST(Backoff, ADrainIsObeyedAndSpread) {
  double random = 0;
  Backoff backoff({}, [&] { return random; });
  EXPECT_EQ(backoff.AfterDrain(absl::Seconds(20)), absl::Seconds(20));
  random = 0.5;
  EXPECT_EQ(backoff.AfterDrain(absl::Seconds(20)), absl::Seconds(30));
  EXPECT_EQ(backoff.AfterDrain(absl::ZeroDuration()), absl::Milliseconds(500));
  EXPECT_LE(backoff.AfterDrain(absl::InfiniteDuration()), absl::Hours(2));
}

}  // namespace
}  // namespace twinpath::agent
