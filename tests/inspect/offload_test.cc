#include "inspect/offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status_matchers.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"
#include "tests/inspect/offload_builder.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const char kNvptx[] = "nvptx64-nvidia-cuda";

TEST(Offload, EveryKindOfEntryIsReadByItsContent) {
  const std::string bundle = BuildOffloadBundle(
      {{3, 2, kNvptx, "sm_90a", BuildCubin({.sm = 90, .suffix = 'a'})},
       {5, 2, kNvptx, "sm_80", BuildPtx({.target = "sm_80"})},
       {4, 2, kNvptx, "sm_80", BuildFatbin({SassEntry({.sm = 80})})},
       {2, 2, kNvptx, "sm_86", "BC\xC0\xDE bitcode"},
       {1, 1, kNvptx, "sm_75", BuildCubin({.sm = 75})},
       {1, 4, "amdgcn-amd-amdhsa", "gfx90a", std::string(80, '\1')}});
  const v1::FileReport report = InspectBytes(bundle);
  EXPECT_EQ(report.kind(), v1::FILE_KIND_OFFLOAD_BUNDLE);
  std::vector<std::pair<v1::ImageKind, uint32_t>> images;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    EXPECT_EQ(fatbin.bare(), fatbin.index() != 2);
    for (const v1::Image& image : fatbin.images()) {
      images.push_back({image.kind(), image.target().number()});
    }
  }
  using Pair = std::pair<v1::ImageKind, uint32_t>;
  EXPECT_THAT(images, ElementsAre(Pair{v1::IMAGE_KIND_SASS, 90},
                                  Pair{v1::IMAGE_KIND_PTX, 80},
                                  Pair{v1::IMAGE_KIND_SASS, 80},
                                  Pair{v1::IMAGE_KIND_LTO_IR, 86},
                                  Pair{v1::IMAGE_KIND_SASS, 75},
                                  Pair{v1::IMAGE_KIND_OTHER, 0}));
  ASSERT_EQ(report.fatbins_size(), 6);
  EXPECT_EQ(report.fatbins(0).images(0).target().suffix(),
            v1::TARGET_SUFFIX_ARCH);
  EXPECT_EQ(report.fatbins(3).images(0).name(),
            "CUDA LLVM bitcode for nvptx64-nvidia-cuda sm_86");
  EXPECT_THAT(report.fatbins(5).images(0).problem(), HasSubstr("HIP object"));
  // What is not for these GPUs is no gap of theirs.
  EXPECT_EQ(report.fatbins(5).registration(), v1::REGISTRATION_LEFT_OVER);
}

TEST(Offload, BundlesInAHostFileAreFoundBackToBack) {
  const std::string one =
      BuildOffloadBundle({{3, 2, kNvptx, "sm_80", BuildCubin({.sm = 80})}}, 1);
  const v1::FileReport report = InspectBytes(
      BuildElf({.type = 1, .rodata = one + one + std::string(16, '\0')}));
  EXPECT_EQ(report.fatbins_size(), 2);
  EXPECT_THAT(ProblemCodes(report), IsEmpty());
}

TEST(Offload, ABrokenBundleIsNamedAndItsImagesAreFoundByThemselves) {
  std::string bundle =
      BuildOffloadBundle({{3, 2, kNvptx, "sm_80", BuildCubin({.sm = 80})}});
  // The image's size.
  Patch<uint64_t>(bundle, 32 + 32, uint64_t{1} << 40);
  const v1::FileReport report = InspectBytes(bundle);
  EXPECT_THAT(ProblemCodes(report), ElementsAre("TP232"));
  ASSERT_EQ(report.fatbins_size(), 1);
  EXPECT_EQ(report.fatbins(0).images(0).target().number(), 80);
}

TEST(Offload, FalseBeginningsAreNone) {
  ProbeBudget budget;
  for (const uint32_t version : {0u, 4u, 0xffffffffu}) {
    std::string bytes = BuildOffloadBundle({{3, 2, kNvptx, "sm_80", "x"}});
    Patch<uint32_t>(bytes, 4, version);
    const MemorySource source(bytes);
    const auto found = ReadOffloadBundle(source, 0, bytes.size(), budget);
    ASSERT_THAT(found, IsOk());
    EXPECT_FALSE(found->has_value());
  }
}

TEST(Offload, AFileOfLtoIrIsOneImage) {
  const v1::FileReport report =
      InspectBytes(std::string("\xED\x43\x4E\x7F", 4) + std::string(100, '\1'));
  EXPECT_EQ(report.kind(), v1::FILE_KIND_LTO_IR);
  ASSERT_EQ(report.fatbins_size(), 1);
  EXPECT_EQ(report.fatbins(0).images(0).kind(), v1::IMAGE_KIND_LTO_IR);
}

}  // namespace
}  // namespace twinpath::inspect
