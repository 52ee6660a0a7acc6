#include "agent/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "agent/endpoint.h"
#include "base/file.h"
#include "base/status_matchers.h"

namespace twinpath::agent {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Config, TheExampleIsReadAndSaysTheDefaults) {
  const char* source = std::getenv("TWINPATH_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "TWINPATH_SOURCE_DIR is not set";
  AgentOptions options;
  const AgentOptions defaults;
  ASSERT_THAT(LoadConfig(JoinPath(source, "config/agent.yaml"), &options),
              IsOk());
  EXPECT_EQ(options.state_directory, defaults.state_directory);
  EXPECT_EQ(options.coordinator, defaults.coordinator);
  EXPECT_EQ(options.cache.max_bytes, defaults.cache.max_bytes);
  EXPECT_EQ(options.spool.max_bytes, defaults.spool.max_bytes);
  EXPECT_EQ(options.spool.max_results, defaults.spool.max_results);
  EXPECT_EQ(options.facts_interval, defaults.facts_interval);
  EXPECT_EQ(options.gpu_policy, defaults.gpu_policy);
  EXPECT_FALSE(options.allow_unsigned_runs);
  EXPECT_FALSE(defaults.allow_unsigned_runs);
  EXPECT_THAT(options.labels, ElementsAre("site=lab"));
}

TEST(Config, UnsignedRunsAreAllowedByTheWordOnly) {
  AgentOptions options;
  EXPECT_THAT(
      ParseConfig("allow_unsigned_runs: true\n", "agent.yaml", &options),
      IsOk());
  EXPECT_TRUE(options.allow_unsigned_runs);
  EXPECT_FALSE(
      ParseConfig("allow_unsigned_runs: maybe\n", "agent.yaml", &options).ok());
}

TEST(Config, TheHostsOwnCommandsReserveAndRelease) {
  AgentOptions options;
  EXPECT_THAT(ParseConfig("gpu_use: reserved\n"
                          "gpu_reserve: [/opt/slurm/reserve, --exclusive]\n"
                          "gpu_release: [/opt/slurm/release]\n"
                          "gpu_command_timeout: 2m\n",
                          "agent.yaml", &options),
              IsOk());
  EXPECT_EQ(options.gpu_policy, GpuPolicy::kReserved);
  EXPECT_EQ(options.reservation.reserve,
            (std::vector<std::string>{"/opt/slurm/reserve", "--exclusive"}));
  EXPECT_EQ(options.reservation.release,
            std::vector<std::string>{"/opt/slurm/release"});
  EXPECT_EQ(options.reservation.timeout, absl::Minutes(2));
}

TEST(Config, ReservedNeedsBothCommandsAndTheyNeedReserved) {
  for (const char* text :
       {"gpu_use: reserved\n", "gpu_use: reserved\ngpu_reserve: [/a]\n",
        "gpu_use: reserved\ngpu_reserve: [a]\ngpu_release: [/b]\n",
        "gpu_use: reserved\ngpu_reserve: /a\ngpu_release: [/b]\n",
        "gpu_use: reserved\ngpu_reserve: []\ngpu_release: [/b]\n",
        "gpu_use: idle\ngpu_reserve: [/a]\n", "gpu_release: [/a]\n",
        "gpu_command_timeout: 1h\n", "gpu_use: sometimes\n"}) {
    AgentOptions options;
    EXPECT_FALSE(ParseConfig(text, "agent.yaml", &options).ok()) << text;
  }
}

TEST(Config, AllMistakesAreToldAtOnce) {
  AgentOptions options;
  EXPECT_THAT(
      ParseConfig("coordinater: 127.0.0.1:1\n"
                  "coordinator: example.org:7711\n"
                  "gpu_use: sometimes\n"
                  "spool: {max_results: 0}\n"
                  "facts_interval: 1s\n"
                  "labels: {\"a b\": c}\n",
                  "agent.yaml", &options),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("agent.yaml:1:"), HasSubstr("coordinator"),
                     HasSubstr("loopback"), HasSubstr("agent.yaml:3:"),
                     HasSubstr("idle"), HasSubstr("agent.yaml:4:"),
                     HasSubstr("at least 10s"), HasSubstr("key=value"))));
}

TEST(Config, ASpoolThatItsCoordinatorCouldNotListIsRefused) {
  AgentOptions options;
  EXPECT_THAT(
      ParseConfig("spool: {max_results: 20000}\n", "agent.yaml", &options),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("agent.yaml:1:"), HasSubstr("9000"))));
}

TEST(Config, AMissingFileIsNamed) {
  AgentOptions options;
  EXPECT_THAT(LoadConfig("/nonexistent/agent.yaml", &options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("agent.yaml")));
}

TEST(Endpoint, LoopbackOnly) {
  for (const std::string good :
       {"127.0.0.1:7711", "127.1.2.3:1", "localhost:65535", "[::1]:7711"}) {
    EXPECT_THAT(CheckLoopbackEndpoint(good), IsOk()) << good;
  }
  for (const std::string bad :
       {"", "127.0.0.1", ":7711", "127.0.0.1:0", "127.0.0.1:65536",
        "10.0.0.1:7711", "example.org:7711", "0.0.0.0:7711", "[::]:7711",
        "localhost.example.org:7711", "127.0.0.1.example.org:7711"}) {
    EXPECT_THAT(CheckLoopbackEndpoint(bad),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << bad;
  }
}

}  // namespace
}  // namespace twinpath::agent
