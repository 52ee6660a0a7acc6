#include "inspect/device_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/inspect/inspect_fixture.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void AddImage(v1::FileReport& report, v1::ImageKind kind,
              const std::string& tool, uint32_t sm, uint32_t virtual_arch) {
  v1::Image& image = *report.add_fatbins()->add_images();
  image.set_kind(kind);
  image.mutable_target()->set_number(sm);
  image.mutable_target()->set_suffix(v1::TARGET_SUFFIX_NONE);
  image.set_virtual_architecture(virtual_arch);
  image.mutable_producer()->set_tool(tool);
  image.add_kernels()->set_name("_Z1kv");
}

// Seen with nvcc 13.0: objects for compute_86 and compute_90, both compiled to
// sm_90, linked for sm_90; the linked image says 86.
TEST(DeviceLink, LowestInputCounts) {
  v1::FileReport report;
  AddImage(report, v1::IMAGE_KIND_SASS, "nvlink", 90, 86);
  AddImage(report, v1::IMAGE_KIND_RELOCATABLE_SASS, "ptxas", 90, 86);
  AddImage(report, v1::IMAGE_KIND_RELOCATABLE_SASS, "ptxas", 90, 90);
  AddClampedImages(report);
  ASSERT_THAT(ProblemCodes(report), ElementsAre("TP234"));
  EXPECT_THAT(report.problems(0).detail(),
              HasSubstr("sm_90 is linked for compute_86; inputs of the link "
                        "were compiled for compute_90"));
}

TEST(DeviceLink, WhatIsNoClamp) {
  v1::FileReport report;
  // All inputs are for the lower one; inputs for another target; no link.
  AddImage(report, v1::IMAGE_KIND_SASS, "nvlink", 89, 80);
  AddImage(report, v1::IMAGE_KIND_RELOCATABLE_SASS, "ptxas", 89, 80);
  AddImage(report, v1::IMAGE_KIND_RELOCATABLE_SASS, "ptxas", 90, 90);
  AddImage(report, v1::IMAGE_KIND_SASS, "ptxas", 90, 80);
  AddImage(report, v1::IMAGE_KIND_SASS, "nvlink", 90, 90);
  AddClampedImages(report);
  EXPECT_THAT(report.problems(), IsEmpty());
}

}  // namespace
}  // namespace twinpath::inspect
