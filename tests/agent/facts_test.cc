#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "agent/environment.h"
#include "agent/facts_keeper.h"
#include "base/fake_clock.h"
#include "base/subprocess.h"
#include "runner/paths.h"

namespace twinpath::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// I9: no daemon ever inherits or exports the JIT switches.
TEST(Environment, JitVariablesAreRemovedAndThoseSwitchedOnReported) {
  for (const absl::string_view name : runner::JitVariables()) {
    setenv(std::string(name).c_str(), "1", 1);
  }
  setenv("CUDA_FORCE_PTX_JIT", "0", 1);
  setenv("LD_PRELOAD", "", 1);
  setenv("TWINPATH_TEST_KEEPS", "1", 1);

  std::vector<std::string> reported;
  for (const v1::EnvironmentLeak& leak : ScrubEnvironment()) {
    EXPECT_EQ(leak.origin(), "process");
    reported.push_back(leak.variable());
  }

  for (const absl::string_view name : runner::JitVariables()) {
    EXPECT_EQ(getenv(std::string(name).c_str()), nullptr) << name;
  }
  EXPECT_STREQ(getenv("TWINPATH_TEST_KEEPS"), "1");
  // "0" is off and no leak.
  EXPECT_THAT(
      reported,
      ::testing::Not(::testing::Contains(std::string("CUDA_FORCE_PTX_JIT"))));
  EXPECT_THAT(reported, ::testing::IsSupersetOf(
                            {"CUDA_DISABLE_PTX_JIT", "CUDA_CACHE_DISABLE"}));
  EXPECT_THAT(ScrubEnvironment(), IsEmpty());
}

class FactsKeeperTest : public ::testing::Test {
 protected:
  FactsKeeperTest() {
    full_.mutable_driver()->set_kernel_module_version("580.95.05");
    full_.mutable_driver()->set_jit_cache_built("Apr 29 2026 17:12:06");
    full_.mutable_driver()->mutable_ptx_isa_ceiling()->set_major(9);
    full_.mutable_driver()->mutable_ptx_isa_probe()->set_state(
        v1::PROBE_STATE_OK);
    full_.add_toolkits()->set_nvcc_version("13.0.88");
    full_.add_gpus()->set_uuid("GPU-1");
    quick_.mutable_driver()->set_kernel_module_version("580.95.05");
    quick_.add_gpus()->set_uuid("GPU-1");
  }

  FakeClock clock_;
  v1::HostFacts full_;
  v1::HostFacts quick_;
  std::vector<FactsScope> asked_;
  v1::EnvironmentLeak leak_ = [] {
    v1::EnvironmentLeak leak;
    leak.set_variable("CUDA_FORCE_PTX_JIT");
    return leak;
  }();
  FactsKeeper keeper_{[this](FactsScope scope) {
                        asked_.push_back(scope);
                        return scope == FactsScope::kFull ? full_ : quick_;
                      },
                      {leak_},
                      clock_};
};

TEST_F(FactsKeeperTest, AQuickLookKeepsWhatOnlyAFullOneTells) {
  EXPECT_FALSE(keeper_.Latest());
  keeper_.Refresh();
  const v1::HostFacts facts = keeper_.Look();
  EXPECT_EQ(facts.toolkits_size(), 1);
  EXPECT_EQ(facts.driver().ptx_isa_ceiling().major(), 9u);
  EXPECT_EQ(facts.driver().jit_cache_built(), "Apr 29 2026 17:12:06");
  ASSERT_EQ(facts.leaks_size(), 1);
  EXPECT_EQ(facts.leaks(0).variable(), "CUDA_FORCE_PTX_JIT");
}

TEST_F(FactsKeeperTest, ANewDriverHasNoOldCeiling) {
  keeper_.Refresh();
  quick_.mutable_driver()->set_kernel_module_version("590.1");
  const v1::HostFacts facts = keeper_.Look();
  EXPECT_EQ(facts.driver().kernel_module_version(), "590.1");
  EXPECT_FALSE(facts.driver().has_ptx_isa_ceiling());
  EXPECT_EQ(facts.driver().jit_cache_built(), "");
}

TEST_F(FactsKeeperTest, ADriverThatHangsIsLeftAloneForLongerAndLonger) {
  quick_.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_HUNG);
  keeper_.Refresh();
  keeper_.Look();
  ASSERT_EQ(asked_.size(), 2u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(keeper_.Look().driver().probe().state(), v1::PROBE_STATE_HUNG);
  }
  EXPECT_EQ(asked_.size(), 2u);
  clock_.Advance(absl::Minutes(10));
  keeper_.Look();
  EXPECT_EQ(asked_.size(), 3u);
  clock_.Advance(absl::Minutes(19));
  keeper_.Look();
  EXPECT_EQ(asked_.size(), 3u) << "twice as long after the second time";
  clock_.Advance(absl::Minutes(1));
  quick_.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_OK);
  EXPECT_EQ(keeper_.Look().driver().probe().state(), v1::PROBE_STATE_OK);
  keeper_.Look();
  EXPECT_EQ(asked_.size(), 5u);
}

}  // namespace
}  // namespace twinpath::agent
