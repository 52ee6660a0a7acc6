// What people see of image loads: nothing that differs is lost among thousands
// that do not.

#include "cli/images_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::ImageLoadGroup& Add(v1::ImageLoadReport& loads, const std::string& file,
                        v1::ImageKind kind, uint32_t target,
                        v1::Outcome predicted, v1::LoadState state,
                        uint32_t error, uint32_t images) {
  v1::ImageLoadGroup& group = *loads.add_groups();
  group.set_file(file);
  group.set_kind(kind);
  group.mutable_target()->set_number(target);
  group.mutable_target()->set_suffix(v1::TARGET_SUFFIX_NONE);
  group.set_predicted(predicted);
  group.set_state(state);
  group.set_cuda_error(error);
  group.set_images(images);
  return group;
}

v1::ImageLoadReport Loads() {
  v1::ImageLoadReport loads;
  Add(loads, "lib.so", v1::IMAGE_KIND_SASS, 80, v1::OUTCOME_FAILS,
      v1::LOAD_STATE_REFUSED, 209, 12);
  Add(loads, "lib.so", v1::IMAGE_KIND_SASS, 90, v1::OUTCOME_NATIVE,
      v1::LOAD_STATE_LOADED, 0, 448)
      .set_functions(21742);
  Add(loads, "lib.so", v1::IMAGE_KIND_RELOCATABLE_SASS, 90, v1::OUTCOME_NATIVE,
      v1::LOAD_STATE_REFUSED, 300, 5);
  loads.set_tried(465);
  loads.set_loaded(448);
  loads.set_kernels(21742);
  loads.set_peak_device_bytes(732 << 20);
  return loads;
}

TEST(ImagesView, SaysWhatWasTriedWhatLoadedAndWhatWasPredicted) {
  const std::string text = RenderImageLoads(Loads(), ViewOptions{120, false});
  EXPECT_THAT(text, HasSubstr("sm_90"));
  EXPECT_THAT(text, HasSubstr("21742"));
  EXPECT_THAT(text, HasSubstr("CUDA error 209"));
  EXPECT_THAT(text, HasSubstr("link input (300)"));
  EXPECT_THAT(text, HasSubstr("465 images given to the driver, 448 loaded with "
                              "21742 functions"));
  EXPECT_THAT(text, HasSubstr("0 not as predicted"));
  // What loaded stands before what is for other GPUs.
  EXPECT_LT(text.find("loaded"), text.find("CUDA error 209"));
}

TEST(ImagesView, WhatContradictsStandsFirstAndOneByOne) {
  v1::ImageLoadReport loads = Loads();
  Add(loads, "lib.so", v1::IMAGE_KIND_SASS, 90, v1::OUTCOME_NATIVE,
      v1::LOAD_STATE_REFUSED, 200, 1);
  loads.set_contradicted(1);
  v1::ImageLoad& load = *loads.add_images();
  load.set_file("lib.so");
  load.set_fatbin(7);
  load.set_image(2);
  load.set_kind(v1::IMAGE_KIND_SASS);
  load.mutable_target()->set_number(90);
  load.set_predicted(v1::OUTCOME_NATIVE);
  load.set_state(v1::LOAD_STATE_REFUSED);
  load.set_cuda_error(200);
  load.set_log("a log\x1b[31m of the driver");
  const std::string text = RenderImageLoads(loads, ViewOptions{120, false});
  EXPECT_LT(text.find("CUDA error 200"), text.find("448"));
  EXPECT_THAT(text, HasSubstr("fatbin 7, image 2, sm_90: CUDA error 200"));
  EXPECT_THAT(text, AllOf(HasSubstr("a log"), Not(HasSubstr("\x1b"))));
}

TEST(ImagesView, ManyAreCutAndCounted) {
  v1::ImageLoadReport loads = Loads();
  for (int i = 0; i < 50; ++i) {
    v1::ImageLoad& load = *loads.add_images();
    load.set_predicted(v1::OUTCOME_NATIVE);
    load.set_state(v1::LOAD_STATE_DIED);
  }
  EXPECT_THAT(RenderImageLoads(loads, ViewOptions{120, false}),
              HasSubstr("and 30 more"));
}

TEST(ImagesView, ACellOfTheMatrix) {
  v1::Cell cell;
  *cell.mutable_result()->mutable_image_loads() = Loads();
  cell.mutable_verdict()->set_kind(v1::VERDICT_KIND_PASS);
  // Link inputs and what is for other GPUs were not due.
  EXPECT_EQ(ViewImagesCell(cell).text, "+ images 448 of 448");
  Add(*cell.mutable_result()->mutable_image_loads(), "lib.so",
      v1::IMAGE_KIND_SASS, 90, v1::OUTCOME_NATIVE, v1::LOAD_STATE_DIED, 0, 2);
  cell.mutable_result()->mutable_image_loads()->set_contradicted(3);
  cell.mutable_verdict()->set_kind(v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(ViewImagesCell(cell).text, "? images 448 of 450, 3 contradict");
}

}  // namespace
}  // namespace twinpath::cli
