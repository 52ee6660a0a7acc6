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

TEST(ReportView, ForeignNamesCannotSteerTheTerminal) {
  v1::FileReport report = Report();
  report.set_name("\x1b]0;x\x07");
  report.mutable_elf()->set_needed(0, "\x1b[4J");
  EXPECT_THAT(RenderFileSummary(report, {}), Not(HasSubstr("\x1b")));
}

TEST(ReportView, CarrierSaysFormatMembersAndPromise) {
  v1::FileReport report;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "pkg.whl"
        size_bytes: 1000
        kind: FILE_KIND_ARCHIVE
        carrier {
          format: "wheel"
          members: 12
          reported: 2
          passed_over: 10
          expanded_bytes: 4000
          promise {
            kind: "wheel"
            name: "pkg"
            version: "1.0"
            cpu_architectures: CPU_ARCHITECTURE_AARCH64
            cuda_major: 13
            targets: "sm_121"
            evidence: "tag py3-none-manylinux_2_28_aarch64"
          }
        }
        problems { code: "TP239" detail: "CUDA 12 and 13" }
      )pb",
      &report));
  const std::string text = RenderFileSummary(report, {});
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("pkg.whl: wheel, 1.0 kB"),
            HasSubstr("12 files, 2 reported, 10 passed over; 4.0 kB unpacked"),
            HasSubstr("pkg 1.0, host CPU aarch64, CUDA 13, targets sm_121, by "
                      "tag py3-none-manylinux_2_28_aarch64"),
            HasSubstr("TP239"), Not(HasSubstr("no device code"))));
}

TEST(ReportView, ManyProblemsAreCut) {
  v1::FileReport report;
  for (int i = 0; i < 25; ++i) {
    v1::Reason* problem = report.add_problems();
    problem->set_code("TP232");
    problem->set_detail("place " + std::to_string(i));
  }
  EXPECT_THAT(RenderFileSummary(report, {}),
              AllOf(HasSubstr("place 9"), Not(HasSubstr("place 10")),
                    HasSubstr("and 15 more")));
}

// ld.so(8): DT_RPATH goes before LD_LIBRARY_PATH, DT_RUNPATH behind it, and
// with the second the first does not count.
TEST(ReportView, SearchPathsHaveTheirOwnNames) {
  v1::FileReport report = Report();
  report.mutable_elf()->add_rpath("$ORIGIN/old");
  EXPECT_THAT(
      RenderFileSummary(report, {}),
      AllOf(HasSubstr("  rpath     $ORIGIN/old\n"), Not(HasSubstr("runpath"))));
  report.mutable_elf()->add_runpath("$ORIGIN/new");
  EXPECT_THAT(RenderFileSummary(report, {}),
              AllOf(HasSubstr("  runpath   $ORIGIN/new\n"),
                    Not(HasSubstr("  rpath")), Not(HasSubstr("old"))));
}

TEST(ReportView, KernelsThatCountTwiceAreExplained) {
  v1::FileReport report = Report();
  EXPECT_THAT(RenderFileSummary(report, {}), Not(HasSubstr("several fatbins")));
  *report.add_fatbins() = report.fatbins(0);
  EXPECT_THAT(RenderFileSummary(report, {}),
              HasSubstr("a kernel that several fatbins hold counts in each"));
}

TEST(ReportView, ABareImageIsNoFatbin) {
  v1::FileReport report = Report();
  report.mutable_fatbins(0)->set_bare(true);
  report.mutable_fatbins(0)->mutable_images()->RemoveLast();
  EXPECT_THAT(RenderFileSummary(report, {}), HasSubstr(" 1 image, 1 kernel\n"));
  *report.add_fatbins() = Report().fatbins(0);
  EXPECT_THAT(
      RenderFileSummary(report, {}),
      HasSubstr("1 fatbin (1 registered), 3 images (1 outside fatbins)"));
}

TEST(ReportView, RelocatableCodeThatServesAloneIsNamed) {
  v1::FileReport report = Report();
  report.mutable_fatbins(0)->mutable_images(1)->set_kind(
      v1::IMAGE_KIND_RELOCATABLE_PTX);
  EXPECT_THAT(RenderFileSummary(report, {}),
              HasSubstr("only relocatable code, which the driver links at load "
                        "(TP216, TP217), is for compute_90"));
  report.mutable_fatbins(0)->set_registration(v1::REGISTRATION_LEFT_OVER);
  EXPECT_THAT(RenderFileSummary(report, {}),
              Not(HasSubstr("only relocatable")));
}

TEST(ReportView, NoDeviceCodeIsSaid) {
  v1::FileReport report;
  report.set_name("libfoo.so");
  report.set_kind(v1::FILE_KIND_ELF_SHARED);
  EXPECT_THAT(RenderFileSummary(report, {}), HasSubstr("no device code"));
}

}  // namespace
}  // namespace twinpath::cli
