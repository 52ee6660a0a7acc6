#include "coordinator/sane_times.h"

#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/observation.pb.h"

namespace twinpath::coordinator {
namespace {

bool PrintsAsJson(const google::protobuf::Message& message) {
  std::string json;
  return google::protobuf::util::MessageToJsonString(message, &json).ok();
}

TEST(SaneTimes, ImpossibleOnesAreClearedHoweverDeep) {
  for (const int64_t seconds :
       {std::numeric_limits<int64_t>::min(), int64_t{-62'135'596'801},
        int64_t{253'402'300'800}, std::numeric_limits<int64_t>::max()}) {
    v1::CellResult result;
    result.mutable_finish_time()->set_seconds(seconds);
    v1::Observation& run = *result.add_observations();
    run.set_attempt_id("a1");
    run.mutable_start_time()->set_seconds(seconds);
    run.mutable_duration()->set_seconds(seconds);
    EXPECT_FALSE(PrintsAsJson(result)) << "nothing to protect from";
    ClearImpossibleTimes(result);
    EXPECT_FALSE(result.has_finish_time());
    EXPECT_FALSE(result.observations(0).has_start_time());
    EXPECT_EQ(result.observations(0).attempt_id(), "a1");
    // A duration of 253,402,300,800 s is odd and possible.
    EXPECT_EQ(result.observations(0).has_duration(),
              seconds == 253'402'300'800 || seconds == -62'135'596'801);
    EXPECT_TRUE(PrintsAsJson(result));
  }
}

TEST(SaneTimes, NanosecondsCountToo) {
  v1::HostFacts facts;
  facts.mutable_collected_time()->set_nanos(-1);
  ClearImpossibleTimes(facts);
  EXPECT_FALSE(facts.has_collected_time());
  facts.mutable_collected_time()->set_nanos(1'000'000'000);
  ClearImpossibleTimes(facts);
  EXPECT_FALSE(facts.has_collected_time());
  v1::Observation run;
  run.mutable_duration()->set_seconds(1);
  run.mutable_duration()->set_nanos(-1);
  ClearImpossibleTimes(run);
  EXPECT_FALSE(run.has_duration());
}

TEST(SaneTimes, PossibleOnesStay) {
  v1::HostFacts facts;
  facts.set_host_name("a");
  for (const int64_t seconds :
       {int64_t{-62'135'596'800}, int64_t{0}, int64_t{253'402'300'799}}) {
    facts.mutable_collected_time()->set_seconds(seconds);
    facts.mutable_collected_time()->set_nanos(999'999'999);
    const std::string before = facts.SerializeAsString();
    ClearImpossibleTimes(facts);
    EXPECT_EQ(facts.SerializeAsString(), before);
    EXPECT_TRUE(PrintsAsJson(facts));
  }
}

}  // namespace
}  // namespace twinpath::coordinator
