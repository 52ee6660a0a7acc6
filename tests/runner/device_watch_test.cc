// The watch on GPUs around a run, against an NVML that is none
// (fake_cuda/settings.h).

#include "runner/device_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "base/file.h"
#include "base/status_matchers.h"
#include "runner/device_state.h"
#include "runner/unit_socket.h"

namespace twinpath::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kGpu[] = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f";

ProbeOptions Options(const std::string& driver, const std::string& words) {
  ProbeOptions options;
  const char* bin = std::getenv("TWINPATH_BIN_DIR");
  options.library_directory =
      JoinPath(JoinPath(bin == nullptr ? "." : bin, "fake_drivers"), driver);
  options.environment.push_back("TWINPATH_FAKE_NVML=" + words);
  return options;
}

std::string OwnUser() {
  const struct passwd* user = getpwuid(getuid());
  return user == nullptr ? "nobody" : user->pw_name;
}

v1::DeviceWatch Watch(const std::vector<std::string>& gpus,
                      const std::string& words,
                      const std::string& driver = "full") {
  DeviceWatcher watcher(gpus, Options(driver, words));
  return watcher.Finish();
}

TEST(DeviceWatch, StateBeforeAndAfter) {
  const v1::DeviceWatch watch =
      Watch({kGpu},
            "gpu=9.0,processes=3,uncorrected=2,corrected=7,remapped=1,"
            "remap-pending,temperature=61,throttle=0x21");
  EXPECT_EQ(watch.xid_watch().state(), v1::PROBE_STATE_OK)
      << watch.ShortDebugString();
  ASSERT_EQ(watch.before_size(), 1);
  ASSERT_EQ(watch.after_size(), 1);
  for (const v1::DeviceState* state : {&watch.before(0), &watch.after(0)}) {
    EXPECT_EQ(state->gpu_uuid(), kGpu);
    EXPECT_EQ(state->compute_processes(), 3u);
    EXPECT_EQ(state->uncorrected_errors(), 2u);
    EXPECT_EQ(state->corrected_errors(), 7u);
    EXPECT_EQ(state->remapped_rows(), 1u);
    EXPECT_TRUE(state->remapping_pending());
    EXPECT_FALSE(state->remapping_failed());
    EXPECT_EQ(state->temperature(), 61u);
    // 0x1 is an idle GPU, which is no reason.
    EXPECT_THAT(state->throttle_reasons(), ElementsAre("thermal"));
  }
  EXPECT_EQ(watch.xids_size(), 0);
}

TEST(DeviceWatch, WhatAPartDoesNotReportIsAbsent) {
  const v1::DeviceWatch watch = Watch({kGpu}, "gpu=12.1,integrated");
  ASSERT_EQ(watch.before_size(), 1);
  EXPECT_FALSE(watch.before(0).has_uncorrected_errors());
  EXPECT_FALSE(watch.before(0).has_remapped_rows());
  EXPECT_FALSE(watch.before(0).has_remapping_failed());
  EXPECT_TRUE(watch.before(0).has_temperature());
  EXPECT_EQ(watch.xid_watch().state(), v1::PROBE_STATE_OK);
}

TEST(DeviceWatch, XidsDuringTheRun) {
  const v1::DeviceWatch watch = Watch({kGpu}, "gpu=9.0;nvmlXid=79:48");
  ASSERT_EQ(watch.xids_size(), 2);
  EXPECT_EQ(watch.xids(0).xid(), 79u);
  EXPECT_EQ(watch.xids(0).gpu(), kGpu);
  EXPECT_EQ(watch.xids(1).xid(), 48u);
}

TEST(DeviceWatch, InstanceIsWatchedThroughItsGpu) {
  // The fake's first instance of its first GPU.
  const v1::DeviceWatch all = Watch({kGpu}, "gpu=9.0,mig=1");
  ASSERT_EQ(all.before_size(), 1);
  const std::string instance = "MIG-11111111-2222-3333-4444-555555555555";
  const v1::DeviceWatch watch = Watch({instance}, "gpu=9.0,mig=1;nvmlXid=94");
  ASSERT_EQ(watch.before_size(), 1) << watch.ShortDebugString();
  EXPECT_EQ(watch.before(0).gpu_uuid(), instance);
  ASSERT_EQ(watch.xids_size(), 1);
  EXPECT_EQ(watch.xids(0).gpu(), instance);
}

// Where the kernel's log can be read it takes NVML's place, so these hold for
// both.
TEST(DeviceWatch, WithoutEventsItSaysWhy) {
  const v1::DeviceWatch watch =
      Watch({kGpu}, "gpu=9.0;nvmlDeviceRegisterEvents=3");
  EXPECT_THAT(watch.xid_watch().error(),
              HasSubstr("nvmlDeviceRegisterEvents: NVML error 3"));
  EXPECT_EQ(watch.before_size(), 1);
}

TEST(DeviceWatch, WithoutNvmlItSaysWhy) {
  const v1::DeviceWatch watch = Watch({kGpu}, "", "cuda-only");
  EXPECT_THAT(watch.xid_watch().error(), HasSubstr("libnvidia-ml.so.1"));
  EXPECT_EQ(watch.before_size(), 0);
}

TEST(DeviceWatch, GpuThatIsNotThereIsNamed) {
  const v1::DeviceWatch watch = Watch({"GPU-nowhere"}, "gpu=9.0");
  EXPECT_THAT(watch.xid_watch().error(), HasSubstr("GPU-nowhere"));
}

TEST(DeviceWatch, DriverThatCrashesIsAFailedWatch) {
  const v1::DeviceWatch watch = Watch({kGpu}, "nvmlInit_v2=crash");
  EXPECT_EQ(watch.xid_watch().state(), v1::PROBE_STATE_FAILED);
  EXPECT_EQ(watch.before_size(), 0);
}

TEST(DeviceWatch, DriverThatCrashesAtTheEndKeepsWhatWasBefore) {
  const v1::DeviceWatch watch =
      Watch({kGpu}, "gpu=9.0;nvmlEventSetWait_v2=crash");
  EXPECT_EQ(watch.xid_watch().state(), v1::PROBE_STATE_FAILED);
  EXPECT_EQ(watch.before_size(), 1);
  EXPECT_EQ(watch.after_size(), 0);
}

TEST(DeviceWatch, WithoutGpusNothingIsStarted) {
  EXPECT_EQ(Watch({}, "nvmlInit_v2=crash").xid_watch().state(),
            v1::PROBE_STATE_UNSPECIFIED);
}

TEST(DeviceWatch, IsServedOnAConnectionOfTheProbeUnit) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd caller(ends[0]);
  UniqueFd unit(ends[1]);
  std::thread server([&unit] {
    EXPECT_THAT(ServeProbe(unit.get(), OwnUser(),
                           Options("full", "gpu=9.0;nvmlXid=119")),
                IsOk());
    unit.Close();
  });
  v1::ProbeRequest request;
  request.set_watch_devices(true);
  request.add_gpu_uuids(kGpu);
  const Patience patience = Patience::For(absl::Minutes(1));
  v1::DeviceWatch begin;
  v1::DeviceWatch end;
  EXPECT_THAT(WriteMessage(caller.get(), patience, request), IsOk());
  EXPECT_THAT(ReadMessage(caller.get(), patience, 1 << 20, begin), IsOk());
  EXPECT_THAT(WriteMessage(caller.get(), patience, v1::ProbeRequest()), IsOk());
  EXPECT_THAT(ReadMessage(caller.get(), patience, 1 << 20, end), IsOk());
  server.join();
  EXPECT_EQ(begin.before_size(), 1);
  ASSERT_EQ(end.xids_size(), 1);
  EXPECT_EQ(end.xids(0).xid(), 119u);
}

TEST(DeviceWatch, OfTheUnitEndsWithItsCaller) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd caller(ends[0]);
  UniqueFd unit(ends[1]);
  std::thread server([&unit] {
    (void)ServeProbe(unit.get(), OwnUser(), Options("full", "gpu=9.0"));
  });
  v1::ProbeRequest request;
  request.set_watch_devices(true);
  request.add_gpu_uuids(kGpu);
  const Patience patience = Patience::For(absl::Minutes(1));
  v1::DeviceWatch begin;
  EXPECT_THAT(WriteMessage(caller.get(), patience, request), IsOk());
  EXPECT_THAT(ReadMessage(caller.get(), patience, 1 << 20, begin), IsOk());
  caller.Close();
  server.join();  // Would never end.
}

// A hung driver leaves a process that may never go: one is enough.
TEST(DeviceWatch, AfterAHangNothingMoreIsStarted) {
  ProbeOptions options = Options("full", "gpu=9.0");
  const DeviceWatchStarter start = WatchesOf(options);
  EXPECT_EQ(start({kGpu})().xid_watch().state(), v1::PROBE_STATE_OK);
  EXPECT_EQ(start({kGpu})().xid_watch().state(), v1::PROBE_STATE_OK);
}

TEST(DeviceState, XidInARecordOfTheKernelsLog) {
  // As in NVIDIA's description of Xid messages, behind /dev/kmsg's prefix.
  const auto xid = XidOfRecord(
      "4,1234,98765432,-;NVRM: Xid (PCI:0000:0f:00): 79, pid='<unknown>', "
      "name=<unknown>, GPU has fallen off the bus.\n SUBSYSTEM=pci\n");
  ASSERT_TRUE(xid.has_value());
  EXPECT_EQ(xid->xid(), 79u);
  EXPECT_EQ(xid->gpu(), "PCI:0000:0f:00");
  EXPECT_THAT(xid->text(), HasSubstr("fallen off the bus."));
  EXPECT_THAT(xid->text(), ::testing::Not(HasSubstr("SUBSYSTEM")));
  EXPECT_FALSE(XidOfRecord("4,1,1,-;usb 1-1: new device").has_value());
  EXPECT_FALSE(XidOfRecord("NVRM: Xid (PCI:0000:0f:00): x").has_value());
  EXPECT_FALSE(XidOfRecord("NVRM: Xid (").has_value());
}

TEST(DeviceState, PciAddressesInEverySpelling) {
  EXPECT_EQ(PciKey("PCI:0000:0f:00"), "0:f:0");
  EXPECT_EQ(PciKey("0000:0F:00.0"), "0:f:0");
  EXPECT_EQ(PciKey("00000000:0F:00.0"), "0:f:0");
  EXPECT_EQ(PciKey("0000000F:01:00.0"), "f:1:0");
  EXPECT_EQ(PciKey("GPU-1234"), "");
  EXPECT_EQ(PciKey(""), "");
  EXPECT_EQ(PciKey("0:zz:0"), "");
}

}  // namespace
}  // namespace twinpath::runner
