#include "inspect/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Names(const std::vector<ImageTarget>& targets) {
  std::vector<std::string> names;
  for (const ImageTarget& target : targets) names.push_back(TargetName(target));
  return names;
}

ImageFits Sm(uint32_t number) {
  return [number](const v1::Image& image) {
    return image.kind() == v1::IMAGE_KIND_SASS &&
           image.target().number() == number;
  };
}

TEST(Summary, CountsImagesByTarget) {
  const v1::FileReport report = InspectBytes(
      BuildFatbin({SassEntry({.sm = 90, .suffix = 'a'}), SassEntry({.sm = 90}),
                   SassEntry({.sm = 80}), PtxEntry({.target = "sm_90"})}) +
      BuildFatbin({SassEntry({.sm = 80})}));
  const std::vector<TargetCount> counts = CountTargets(report);
  ASSERT_EQ(counts.size(), 4);
  EXPECT_EQ(TargetName(counts[0].target), "sm_80");
  EXPECT_EQ(counts[0].images, 2);
  EXPECT_EQ(counts[0].kernels, 2);
  EXPECT_EQ(TargetName(counts[1].target), "sm_90");
  EXPECT_EQ(TargetName(counts[2].target), "sm_90a");
  EXPECT_EQ(TargetName(counts[3].target), "compute_90");
  EXPECT_EQ(CountImages(report), 5);
}

TEST(Summary, CoversKernelsOverFiles) {
  const v1::FileReport one = InspectBytes(
      BuildFatbin({SassEntry({.sm = 80, .kernels = {{.name = "a"}}}),
                   PtxEntry({.target = "sm_80", .kernels = {"a", "b"}})}));
  const v1::FileReport two = InspectBytes(
      BuildFatbin({SassEntry({.sm = 90, .kernels = {{.name = "b"}}})}));
  const std::vector<KernelCoverage> cover = CoverKernels({&one, &two});
  ASSERT_EQ(cover.size(), 2);
  EXPECT_EQ(cover[0].name, "a");
  EXPECT_THAT(Names(cover[0].targets), ElementsAre("sm_80", "compute_80"));
  EXPECT_EQ(cover[1].name, "b");
  EXPECT_THAT(Names(cover[1].targets), ElementsAre("sm_90", "compute_80"));
}

TEST(Summary, LeftOversCoverNothing) {
  const v1::FileReport report =
      InspectBytes(BuildElf({.relocatable_fatbins = {BuildFatbin(
                                 {SassEntry({.sm = 80, .relocatable = true})})},
                             .registered = false}));
  EXPECT_THAT(CoverKernels({&report}), IsEmpty());
}

TEST(Summary, TellsHolesFromSpecialisedFatbins) {
  const std::string full =
      BuildFatbin({SassEntry({.sm = 80, .kernels = {{.name = "a"}}}),
                   SassEntry({.sm = 90, .kernels = {{.name = "a"}}})});
  const std::string hole =
      BuildFatbin({SassEntry({.sm = 90, .kernels = {{.name = "b"}}})});
  const std::string specific = BuildFatbin(
      {SassEntry({.sm = 90, .suffix = 'a', .kernels = {{.name = "c"}}})});
  const std::string covered =
      BuildFatbin({SassEntry({.sm = 90, .kernels = {{.name = "a"}}})});
  const std::string stub = BuildFatbin({SassEntry({.sm = 90, .kernels = {}})});
  EntrySpec lto_ir;
  lto_ir.kind = 8;
  lto_ir.arch = 75;
  lto_ir.payload = "scrambled";
  lto_ir.compression = v1::COMPRESSION_OPAQUE;
  const v1::FileReport report = InspectBytes(full + hole + specific + covered +
                                             stub + BuildFatbin({lto_ir}));
  const std::vector<Gap> gaps = FindGaps(report, Sm(80));
  ASSERT_EQ(gaps.size(), 3);
  EXPECT_EQ(gaps[0].fatbin, 1);
  EXPECT_EQ(gaps[0].kind, GapKind::kHole);
  EXPECT_EQ(gaps[1].fatbin, 2);
  EXPECT_EQ(gaps[1].kind, GapKind::kSpecialised);
  EXPECT_EQ(gaps[2].fatbin, 3);
  EXPECT_EQ(gaps[2].kind, GapKind::kSpecialised);
  EXPECT_THAT(FindGaps(report, Sm(75)), IsEmpty())
      << "the file as a whole fails there";
  EXPECT_THAT(FindGaps(report, Sm(90)), IsEmpty());
}

// A device link for a target that no object has leaves an image without kernels
// beside the others; it runs nothing there.
TEST(Summary, ImagesWithoutKernelsServeNothing) {
  const std::string full =
      BuildFatbin({SassEntry({.sm = 80, .kernels = {{.name = "a"}}}),
                   SassEntry({.sm = 90, .kernels = {{.name = "a"}}})});
  const std::string linked =
      BuildFatbin({SassEntry({.sm = 80, .kernels = {}}),
                   SassEntry({.sm = 90, .kernels = {{.name = "b"}}})});
  const v1::FileReport report = InspectBytes(full + linked);
  const std::vector<Gap> gaps = FindGaps(report, Sm(80));
  ASSERT_EQ(gaps.size(), 1);
  EXPECT_EQ(gaps[0].fatbin, 1);
  EXPECT_EQ(gaps[0].kind, GapKind::kHole);
  const std::vector<KernelCoverage> cover = CoverKernels({&report});
  ASSERT_EQ(cover.size(), 2);
  EXPECT_THAT(Names(cover[1].targets), ElementsAre("sm_90"));
}

bool Runs86(const ImageTarget& target) { return target.number == 86; }

// nerfstudio-project/gsplat#741: one extension of a bundle is for the builder's
// GPU only.
TEST(Summary, KernelsThatNothingServes) {
  const v1::FileReport broad = InspectBytes(
      BuildFatbin({SassEntry({.sm = 86, .kernels = {{.name = "a"}}}),
                   SassEntry({.sm = 89, .kernels = {{.name = "a"}}})}));
  const v1::FileReport odd = InspectBytes(
      BuildFatbin({SassEntry({.sm = 89, .kernels = {{.name = "b"}}})}) +
      BuildFatbin(
          {SassEntry({.sm = 90, .suffix = 'a', .kernels = {{.name = "c"}}})}));
  const std::vector<KernelGap> gaps =
      FindKernelGaps(CoverKernels({&broad, &odd}), Runs86);
  ASSERT_EQ(gaps.size(), 2);
  EXPECT_EQ(gaps[0].kernel.name, "b");
  EXPECT_EQ(gaps[0].kind, GapKind::kHole);
  EXPECT_EQ(gaps[1].kernel.name, "c");
  EXPECT_EQ(gaps[1].kind, GapKind::kSpecialised);
  EXPECT_THAT(FindKernelGaps(CoverKernels({&odd}), Runs86), IsEmpty())
      << "the file as a whole fails there";
}

}  // namespace
}  // namespace twinpath::inspect
