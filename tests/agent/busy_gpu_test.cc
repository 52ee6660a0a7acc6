// A busy GPU as the probe sees it, asked through a fake NVML
// (tests/runner/fake_cuda/settings.h): the cell waits, and goes on or back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "agent/facts_keeper.h"
#include "agent/host_processor.h"
#include "base/fake_clock.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "runner/facts.h"
#include "tests/agent/fake_blob_source.h"
#include "tests/agent/fake_control.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr char kGpu[] = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f";

class BusyGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* bin = std::getenv("TWINPATH_BIN_DIR");
    driver_ = JoinPath(bin == nullptr ? "." : bin, "fake_drivers/full");
    if (!ListDirectory(driver_).ok()) {
      GTEST_SKIP() << "no fake driver in TWINPATH_BIN_DIR";
    }
    for (const char* folder : {"work", "journal", "cache"}) {
      ASSERT_THAT(MakeDirectories(JoinPath(temp_.path(), folder)), IsOk());
    }
    cache_ =
        std::move(BlobCache::Open(JoinPath(temp_.path(), "cache"), {1 << 20}))
            .value();
    claimed_.lease.set_id("lease-1");
    claimed_.lease.set_cell_id("cell-1");
    claimed_.lease.set_gpu_uuid(kGpu);
    claimed_.lease.add_paths(v1::PATH_NATIVE);
    claimed_.gpu_uuids = {kGpu};
    v1::ArtifactFile& file = *claimed_.lease.mutable_artifact()->add_files();
    file.set_name("check");
    file.set_type(v1::FILE_TYPE_REGULAR);
    file.set_mode(0755);
    file.set_size_bytes(7);
    file.mutable_digest()->set_sha256(source_.Add("program").Raw());
  }

  CellOutcome Process(GpuPolicy policy) {
    HostProcessorOptions options;
    options.work_directory = JoinPath(temp_.path(), "work");
    options.gpu_policy = policy;
    options.allow_unsigned_runs = true;
    options.run_entry = [this](const v1::Entry&, const std::vector<v1::Path>&,
                               const std::vector<std::string>&,
                               const std::string&,
                               const runner::AttemptHooks&) {
      ++runs_;
      v1::CellResult result;
      result.set_complete(true);
      return result;
    };
    HostProcessor processor(options, *cache_, source_, journal_, facts_,
                            clock_);
    return processor.Process(claimed_, control_);
  }

  const TempDirectory temp_ = MakeTemp();
  FakeClock clock_;
  FakeBlobSource source_;
  std::unique_ptr<BlobCache> cache_;
  Journal journal_{JoinPath(temp_.path(), "journal")};
  std::string driver_;
  int processes_ = 2;
  FactsKeeper facts_{
      [this](FactsScope) {
        runner::FactsOptions options;
        options.ptx_isa_ceiling = false;
        options.toolkits = false;
        options.libraries = false;
        options.inventory = false;
        options.probe.library_directory = driver_;
        options.probe.environment = {
            absl::StrCat("TWINPATH_FAKE_CUDA=gpu=9.0,processes=", processes_)};
        return runner::CollectFacts(options);
      },
      {},
      clock_};
  FakeControl control_;
  ClaimedLease claimed_;
  int runs_ = 0;
};

TEST_F(BusyGpuTest, IsWaitedForUntilItsProcessesAreGone) {
  control_.on_wait = [this] { --processes_; };
  const CellOutcome outcome = Process(GpuPolicy::kIdle);
  ASSERT_TRUE(outcome.result);
  EXPECT_TRUE(outcome.result->complete());
  EXPECT_EQ(control_.waits, 2);
  EXPECT_EQ(runs_, 1);
  EXPECT_THAT(control_.progress, Contains(HasSubstr("2 compute process")));
}

TEST_F(BusyGpuTest, AtTheLeasesEndItGoesBackAsBusyAndIsNoFailure) {
  control_.on_wait = [this] { control_.may_start = control_.waits < 3; };
  const CellOutcome outcome = Process(GpuPolicy::kIdle);
  EXPECT_FALSE(outcome.result);
  ASSERT_TRUE(outcome.refusal);
  EXPECT_EQ(outcome.refusal->code(), "TP111");
  EXPECT_EQ(runs_, 0);
}

TEST_F(BusyGpuTest, IsUsedWhereTheHostSaysAlways) {
  EXPECT_TRUE(Process(GpuPolicy::kAlways).result);
  EXPECT_EQ(control_.waits, 0);
  EXPECT_EQ(runs_, 1);
}

}  // namespace
}  // namespace twinpath::agent
