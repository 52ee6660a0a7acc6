#include "cli/coverage_view.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <re2/re2.h>

#include <string>
#include <vector>

#include "base/status_matchers.h"

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// One kernel for sm_86, one for sm_80 alone, one as PTX, one for sm_90a, one
// for sm_90.
constexpr char kReport[] = R"pb(
  kernels_read: true
  fatbins {
    registration: REGISTRATION_REGISTERED
    images {
      kind: IMAGE_KIND_SASS
      target { number: 86 suffix: TARGET_SUFFIX_NONE }
      kernels_read: true
      kernels { name: "own" }
    }
    images {
      kind: IMAGE_KIND_SASS
      target { number: 80 suffix: TARGET_SUFFIX_NONE }
      kernels_read: true
      kernels { name: "older" }
    }
    images {
      kind: IMAGE_KIND_PTX
      target { number: 75 suffix: TARGET_SUFFIX_NONE }
      kernels_read: true
      kernels { name: "text" }
    }
  }
  fatbins {
    index: 1
    registration: REGISTRATION_REGISTERED
    images {
      kind: IMAGE_KIND_SASS
      target { number: 90 suffix: TARGET_SUFFIX_ARCH }
      kernels_read: true
      kernels { name: "special" }
    }
  }
  fatbins {
    index: 2
    registration: REGISTRATION_REGISTERED
    images {
      kind: IMAGE_KIND_SASS
      target { number: 90 suffix: TARGET_SUFFIX_NONE }
      kernels_read: true
      kernels { name: "newer" }
    }
  }
)pb";

class CoverageViewTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(
        google::protobuf::TextFormat::ParseFromString(kReport, &report_));
    report_.set_name("libx.so");
    kernels_ = inspect::CoverKernels({&report_});
    const absl::StatusOr<const compat::Tables*> tables =
        compat::Tables::Default();
    ASSERT_THAT(tables, IsOk());
    tables_ = *tables;
  }
  static TargetWords Words(const std::string& text) {
    const absl::StatusOr<TargetWords> words = ParseTargetWords({text});
    EXPECT_THAT(words, IsOk());
    return words.ok() ? *words : TargetWords();
  }

  v1::FileReport report_;
  std::vector<inspect::KernelCoverage> kernels_;
  const compat::Tables* tables_ = nullptr;
  // Wide enough for a line.
  const ViewOptions view_{400};
};

TEST_F(CoverageViewTest, OnlyWhatNothingServesIsAGap) {
  EXPECT_THAT(
      RenderCoverage(report_, Words("sm_86"), tables_, view_),
      HasSubstr("sm_86: 1 kernel, 2 more from other targets; nothing for 2 (1 "
                "specialised, 1 hole); nothing in 2 fatbins (1 specialised, 1 "
                "hole)\n"));
  EXPECT_THAT(
      RenderKernelGaps(kernels_, Words("sm_86"), tables_, nullptr, view_),
      AllOf(HasSubstr("nothing for sm_86\n"),
            HasSubstr("    special  specialised, has sm_90a\n"),
            HasSubstr("    newer  hole, has sm_90\n"), Not(HasSubstr("older")),
            Not(HasSubstr("text")), Not(HasSubstr("own"))));
}

TEST_F(CoverageViewTest, ProgramsGetTheSame) {
  const std::vector<v1::TargetCoverage> all =
      CoverageOf(report_, Words("sm_86"), tables_);
  ASSERT_THAT(all, SizeIs(1));
  v1::TargetCoverage expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "libx.so"
        target: "sm_86"
        kernels: 1
        served_by_others: 2
        specialised: 1
        holes: 1
        kernel_gaps { name: "newer" targets: "sm_90" kind: GAP_KIND_HOLE }
        kernel_gaps {
          name: "special"
          targets: "sm_90a"
          kind: GAP_KIND_SPECIALISED
        }
        fatbin_gaps { fatbin: 1 kind: GAP_KIND_SPECIALISED }
        fatbin_gaps { fatbin: 2 kind: GAP_KIND_HOLE }
      )pb",
      &expected));
  EXPECT_EQ(all[0].ShortDebugString(), expected.ShortDebugString());
  EXPECT_THAT(CoverageOf(v1::FileReport(), Words("sm_86"), tables_), IsEmpty());
}

// bitsandbytes: a library for each CUDA release, with the same kernels; only
// the newest have machine code for 10.0. None serves another.
TEST_F(CoverageViewTest, FilesDoNotServeEachOther) {
  v1::FileReport older = report_;
  older.mutable_fatbins(0)->mutable_images()->DeleteSubrange(1, 2);
  v1::Target& target =
      *older.mutable_fatbins(0)->mutable_images(0)->mutable_target();
  target.set_number(90);
  CoverageTotals totals(Words("sm_86"), tables_);
  EXPECT_THAT(totals.Add(report_), SizeIs(1));
  EXPECT_THAT(totals.Add(older), SizeIs(1));
  totals.Add(v1::FileReport());
  EXPECT_EQ(
      totals.Render(view_),
      "  coverage  sm_86: 1 kernel, 2 more from other targets; nothing "
      "for 2 (1 specialised, 1 hole); nothing in 2 fatbins (1 specialised, "
      "1 hole); 1 of 2 files has nothing for it\n");
  totals.Add(report_);
  const std::vector<v1::TargetCoverage> folder = totals.Messages("dist");
  ASSERT_THAT(folder, SizeIs(1));
  v1::TargetCoverage expected;
  // Only the counts.
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "dist"
        target: "sm_86"
        collection: true
        kernels: 2
        served_by_others: 4
        specialised: 2
        holes: 2
      )pb",
      &expected));
  EXPECT_EQ(folder[0].ShortDebugString(), expected.ShortDebugString());
}

// A file without anything for the GPU fails there as a whole, and says so by
// its counts.
TEST_F(CoverageViewTest, NothingServedIsSeenByTheCounts) {
  const std::vector<v1::TargetCoverage> all =
      CoverageOf(report_, Words("sm_60"), tables_);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].kernels() + all[0].served_by_others(), 0u);
  EXPECT_THAT(all[0].kernel_gaps(), IsEmpty());
}

TEST_F(CoverageViewTest, MatchNarrowsTheList) {
  const re2::RE2 match("^spec");
  EXPECT_THAT(
      RenderKernelGaps(kernels_, Words("sm_86"), tables_, &match, view_),
      AllOf(HasSubstr("special"), Not(HasSubstr("newer"))));
}

// A file without anything for the GPU fails there as a whole: no gaps.
TEST_F(CoverageViewTest, NoGapsWhereNothingIsServed) {
  EXPECT_THAT(
      RenderKernelGaps(kernels_, Words("sm_60"), tables_, nullptr, view_),
      IsEmpty());
  EXPECT_THAT(RenderCoverage(report_, Words("sm_60"), tables_, view_),
              HasSubstr("sm_60: 0 kernels\n"));
}

TEST_F(CoverageViewTest, WithoutTablesOnlyTheOwnTargetServes) {
  EXPECT_THAT(
      RenderCoverage(report_, Words("sm_80"), nullptr, view_),
      HasSubstr("sm_80: 1 kernel; nothing for 4 (1 specialised, 3 holes);"));
}

TEST_F(CoverageViewTest, SelfLoadedCodeIsSaidToBe) {
  for (v1::Fatbin& fatbin : *report_.mutable_fatbins()) {
    fatbin.set_registration(v1::REGISTRATION_SELF_LOADED);
  }
  EXPECT_THAT(RenderCoverage(report_, Words("sm_86"), tables_, view_),
              HasSubstr("self-loaded code: the file picks by itself"));
}

}  // namespace
}  // namespace twinpath::cli
