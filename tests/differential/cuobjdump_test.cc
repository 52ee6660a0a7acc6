// What cuobjdump prints, read: needs no cuobjdump.

#include "tests/differential/cuobjdump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace twinpath::differential {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CuobjdumpOutput, SymbolsOfTwoImages) {
  const OracleListing listing = ParseSymbols(
      "\nFatbin elf code:\n================\narch = sm_90a\n"
      "code version = [1,8]\nhost = linux\ncompile_size = 64bit\ncompressed\n"
      "\nsymbols:\n"
      "FUNC          GLOBAL  DEFAULT    ENTRY         _Z2k2v\n"
      "FUNC          LOCAL   DEFAULT    -             helper\n"
      "FUNC          WEAK    DEFAULT    ENTRY         _Z2k1v\n"
      "CUDA_OBJECT   LOCAL   DEFAULT    GLOBAL        $str\n"
      "\nFatbin ptx code:\n================\narch = sm_120\n"
      "code version = [9,0]\nptxasOptions = \n"
      "\nFatbin nvvm code:\n================\narch = sm_70\n");
  ASSERT_EQ(listing.images.size(), 3u);
  EXPECT_EQ(listing.images[2].kind, "nvvm");
  EXPECT_EQ(listing.images[2].target, "sm_70");
  EXPECT_EQ(listing.images[0].kind, "elf");
  EXPECT_EQ(listing.images[0].target, "sm_90a");
  EXPECT_TRUE(listing.images[0].compressed);
  EXPECT_THAT(listing.images[0].kernels, ElementsAre("_Z2k1v", "_Z2k2v"));
  EXPECT_EQ(listing.images[1].kind, "ptx");
  EXPECT_EQ(listing.images[1].target, "sm_120");
  EXPECT_FALSE(listing.images[1].compressed);
}

TEST(CuobjdumpOutput, PtxKernelsAreDefinitions) {
  const auto kernels = ParsePtxKernels(
      "Fatbin ptx code:\n.version 9.0\n.target sm_120\n"
      ".visible .entry b(\n.param .u64 b_0\n)\n.maxntid 128\n{\nret;\n}\n"
      ".entry only_declared(.param .u64 x);\n"
      ".weak .entry a()\n{ ret; }\n"
      "\nFatbin ptx code:\n.version 9.0\n.func f()\n{ }\n");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_THAT(kernels[0], ElementsAre("a", "b"));
  EXPECT_THAT(kernels[1], IsEmpty());
}

}  // namespace
}  // namespace twinpath::differential
