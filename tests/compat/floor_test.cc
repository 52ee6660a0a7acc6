#include "compat/floor.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compat/reach.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

v1::Floor Of(const v1::ArtifactReport& report) {
  return ReachOf(report, Predictor(report), TestTables()).floor();
}

v1::ArtifactReport WithRuntime(const std::vector<std::string>& fatbins,
                               uint32_t major) {
  v1::FileReport file = MakeFile("app", fatbins);
  file.mutable_elf()->set_static_cudart(true);
  file.mutable_elf()->mutable_cudart()->set_major(major);
  return MakeArtifactOf({file});
}

// "R525 (CUDA 12.0)", with the dotted version where there is one.
std::string Text(const v1::DriverPoint& point) {
  std::string out =
      point.branch() == 0 ? "" : absl::StrCat("R", point.branch());
  if (!point.version().empty()) absl::StrAppend(&out, " ", point.version());
  return absl::StrCat(out, " (CUDA ",
                      TwoPart::From(point.cuda_version()).ToString(), ")");
}

std::string Native(const v1::Floor& floor) {
  return floor.paths(0).has_oldest() ? Text(floor.paths(0).oldest()) : "none";
}

std::string Jit(const v1::Floor& floor) {
  return floor.paths(1).has_oldest() ? Text(floor.paths(1).oldest()) : "none";
}

// Minor-version compatibility: 450.80.02, 525 and 580 for 11, 12 and 13 (CUDA
// Compatibility, minor-version compatibility).
TEST(Floor, TheRuntimeSetsTheNativeFloor) {
  EXPECT_EQ(Native(Of(WithRuntime({"sm_75"}, 11))),
            "R450 450.80.02 (CUDA 11.0)");
  EXPECT_EQ(Native(Of(WithRuntime({"sm_75"}, 12))), "R525 (CUDA 12.0)");
  const v1::Floor floor = Of(WithRuntime({"sm_75"}, 13));
  EXPECT_EQ(Native(floor), "R580 (CUDA 13.0)");
  EXPECT_EQ(floor.runtime_major(), 13u);
  EXPECT_EQ(Text(floor.runtime()), "R580 (CUDA 13.0)");
  EXPECT_FALSE(floor.has_ptx());
  EXPECT_FALSE(floor.has_compression());
}

// ollama/ollama PR #12000: machine code from R525, PTX of CUDA 12.8 (ISA 8.7)
// from R570.
TEST(Floor, PtxSetsAFloorOfItsOwn) {
  const v1::Floor floor = Of(WithRuntime({"sm_80 compute_80@8.7"}, 12));
  EXPECT_EQ(Native(floor), "R525 (CUDA 12.0)");
  EXPECT_EQ(Jit(floor), "R570 (CUDA 12.8)");
  EXPECT_EQ(Text(floor.ptx()), "R570 (CUDA 12.8)");
  EXPECT_EQ(floor.ptx_isa().major(), 8u);
  EXPECT_EQ(floor.ptx_isa().minor(), 7u);
}

// ollama/ollama PR #12258: zstd images need the reader of 550.54.14 (CUDA
// 12.4), although minor-version compatibility starts at 525.
TEST(Floor, CompressionRaisesTheFloor) {
  const v1::Floor floor = Of(WithRuntime({"sm_75/zstd"}, 12));
  EXPECT_EQ(Native(floor), "R550 550.54.14 (CUDA 12.4)");
  EXPECT_EQ(Text(floor.compression()), "R550 550.54.14 (CUDA 12.4)");
  EXPECT_EQ(Text(floor.runtime()), "R525 (CUDA 12.0)");
}

// A GPU that came with R570 does not make R570 the floor of the others.
TEST(Floor, ANewGpuRaisesNothing) {
  EXPECT_EQ(Native(Of(WithRuntime({"sm_80 sm_100"}, 12))), "R525 (CUDA 12.0)");
  EXPECT_EQ(Native(Of(WithRuntime({"sm_100"}, 12))), "R570 (CUDA 12.8)");
}

TEST(Floor, WhatNoPathServesHasNone) {
  const v1::Floor floor = Of(WithRuntime({"sm_90"}, 12));
  EXPECT_EQ(Jit(floor), "none");
  EXPECT_EQ(Native(Of(WithRuntime({"compute_90@8.0"}, 12))), "none");
  EXPECT_EQ(Jit(Of(WithRuntime({"compute_90@8.0"}, 12))), "R525 (CUDA 12.0)");
}

// PTX newer than every driver known.
TEST(Floor, PtxOfNoKnownDriver) {
  const v1::Floor floor = Of(WithRuntime({"sm_80 compute_80@9.9"}, 13));
  EXPECT_FALSE(floor.has_ptx());
  EXPECT_EQ(floor.ptx_isa().minor(), 9u);
  EXPECT_EQ(Jit(floor), "none");
}

// A Jetson library is served by JetPack releases, not by branches.
TEST(Floor, TegraAloneHasACudaVersion) {
  v1::FileReport file = MakeFile("app", {"sm_87"});
  file.mutable_elf()->set_cpu_architecture(v1::CPU_ARCHITECTURE_AARCH64);
  EXPECT_EQ(Native(Of(MakeArtifactOf({file}))), " (CUDA 11.4)");
}

}  // namespace
}  // namespace twinpath::compat
