#include "cli/report_view.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kReport[] = R"pb(
  name: "app"
  size_bytes: 4096
  kind: FILE_KIND_ELF_EXECUTABLE
  elf {
    cpu_architecture: CPU_ARCHITECTURE_AARCH64
    needed: "libc.so.6"
    static_cudart: true
    cudart { major: 13 }
  }
  kernels_read: true
  fatbins {
    registration: REGISTRATION_REGISTERED
    images {
      kind: IMAGE_KIND_SASS
      target { number: 121 suffix: TARGET_SUFFIX_NONE }
      kernels { name: "_Z5writePi" }
      kernels_read: true
      stored_bytes: 1000
      expanded_bytes: 1000
    }
    images {
      index: 1
      kind: IMAGE_KIND_PTX
      target { number: 90 suffix: TARGET_SUFFIX_NONE }
      ptx_isa { major: 9 }
      kernels { name: "_Z5writePi" }
      kernels_read: true
      problem: "payload is cut short"
    }
  }
  problems { code: "TP229" detail: "fatbin at 64: entry 2 lies outside" }
)pb";

v1::FileReport Report() {
  v1::FileReport report;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kReport, &report));
  return report;
}

TEST(ReportView, HostCpuAndGpuTargetsStandApart) {
  const std::string text = RenderFileSummary(Report(), {});
  EXPECT_THAT(text, AllOf(HasSubstr("ELF executable, host CPU aarch64"),
                          HasSubstr("sm_121"), HasSubstr("compute_90"),
                          HasSubstr("1 fatbin (1 registered), 2 images, 1 "
                                    "kernel\n"),
                          HasSubstr("linked in statically, release 13.0")));
}

TEST(ReportView, ProblemsCarryCodeFixAndPlace) {
  const std::string text = RenderFileSummary(Report(), {});
  EXPECT_THAT(text, AllOf(HasSubstr("TP229 damaged-fatbin: fatbin at 64"),
                          HasSubstr("fix: "),
                          HasSubstr("image 1 (compute_90): payload is cut")));
}

TEST(ReportView, KernelsAreListedWithTheirTargets) {
  EXPECT_THAT(RenderKernels(Report(), {}),
              HasSubstr("_Z5writePi  sm_121 compute_90"));
}

TEST(ReportView, ForeignNamesCannotSteerTheTerminal) {
  v1::FileReport report = Report();
  report.set_name("\x1b]0;x\x07");
  report.mutable_fatbins(0)->mutable_images(0)->mutable_kernels(0)->set_name(
      "\x1b[2J");
  report.mutable_fatbins(0)->mutable_images(0)->set_name("\x1b[3J");
  report.mutable_elf()->set_needed(0, "\x1b[4J");
  EXPECT_THAT(RenderFileSummary(report, {}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(RenderKernels(report, {}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(RenderImages(report, {}), Not(HasSubstr("\x1b")));
}

TEST(ReportView, NoDeviceCodeIsSaid) {
  v1::FileReport report;
  report.set_name("libfoo.so");
  report.set_kind(v1::FILE_KIND_ELF_SHARED);
  EXPECT_THAT(RenderFileSummary(report, {}), HasSubstr("no device code"));
}

}  // namespace
}  // namespace twinpath::cli
