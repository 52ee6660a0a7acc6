#include "runner/ptx_ceiling.h"

#include <gtest/gtest.h>

#include "runner/driver_probe.h"

namespace twinpath::runner {
namespace {

TEST(PtxCeiling, ReadsTheVersionFromTheCompilersLog) {
  // Text of driver 580.159.04 for PTX of version 9.1.
  const auto version = CurrentVersionOf(
      "ptxas application ptx input, line 1; fatal   : Unsupported .version "
      "9.1; current version is '9.0'\n");
  ASSERT_TRUE(version.has_value());
  EXPECT_EQ(version->major(), 9u);
  EXPECT_EQ(version->minor(), 0u);
}

TEST(PtxCeiling, RefusesWhatIsNoVersion) {
  for (const char* log : {"", "current version is '", "current version is '9'",
                          "current version is '9.x'", "current version is '9.0",
                          "current version is '99999.1'"}) {
    EXPECT_FALSE(CurrentVersionOf(log).has_value()) << log;
  }
}

TEST(KernelModuleVersion, OfBothKindsOfModule) {
  EXPECT_EQ(
      KernelModuleVersionOf(
          "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  "
          "580.95.05  Release Build  (dvs-builder@U22)\nGCC version:  gcc "
          "version 13.3.0\n"),
      "580.95.05");
  EXPECT_EQ(
      KernelModuleVersionOf(
          "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.42.01  Tue "
          "Jun 15 21:26:37 UTC 2021\n"),
      "470.42.01");
  EXPECT_EQ(KernelModuleVersionOf("GCC version: 13.3.0\n"), "");
}

}  // namespace
}  // namespace twinpath::runner
