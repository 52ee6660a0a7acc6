// The agent puts its predictions beside what the driver did with images.

#include "agent/image_predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/file.h"
#include "inspect/manifest.h"

namespace twinpath::agent {
namespace {

using ::testing::HasSubstr;

std::string Samples() {
  const char* source = std::getenv("TWINPATH_SOURCE_DIR");
  return JoinPath(source == nullptr ? "." : source, "tests/data/samples");
}

v1::HostFacts Hopper() {
  v1::HostFacts facts;
  facts.set_cpu_architecture(v1::CPU_ARCHITECTURE_X86_64);
  facts.mutable_gpu_probe()->set_state(v1::PROBE_STATE_OK);
  v1::Driver& driver = *facts.mutable_driver();
  driver.set_kernel_module_version("580.95.05");
  driver.set_branch("R580");
  driver.mutable_cuda_version()->set_major(13);
  driver.mutable_probe()->set_state(v1::PROBE_STATE_OK);
  driver.mutable_jit_library()->set_state(v1::PROBE_STATE_OK);
  driver.mutable_ptx_isa_probe()->set_state(v1::PROBE_STATE_OK);
  driver.mutable_ptx_isa_ceiling()->set_major(9);
  v1::Gpu& gpu = *facts.add_gpus();
  gpu.set_uuid("GPU-1");
  gpu.mutable_capability_probe()->set_state(v1::PROBE_STATE_OK);
  gpu.mutable_compute_capability()->set_major(9);
  return facts;
}

// Of check.fatbin, sm_90 and compute_75: both loaded.
v1::ImageLoadReport Loads() {
  v1::ImageLoadReport loads;
  loads.set_gpu_uuid("GPU-1");
  for (uint32_t i = 0; i < 2; ++i) {
    v1::ImageLoad& load = *loads.add_images();
    load.set_file("check.fatbin");
    load.set_fatbin(0);
    load.set_image(i);
    load.set_state(v1::LOAD_STATE_LOADED);
  }
  return loads;
}

TEST(ImagePredictions, EachImageIsPredictedAndCounted) {
  const auto artifact =
      inspect::ScanArtifact({JoinPath(Samples(), "check.fatbin")}, "");
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  v1::ImageLoadReport loads = Loads();
  PredictImageLoads(*artifact, Samples(), Hopper(), loads);
  EXPECT_TRUE(loads.problems().empty()) << loads.DebugString();
  ASSERT_EQ(loads.groups_size(), 2);
  EXPECT_EQ(loads.contradicted(), 0u);
  // In the order of outcomes.
  EXPECT_EQ(loads.groups(0).predicted(), v1::OUTCOME_NATIVE);
  EXPECT_EQ(loads.groups(1).predicted(), v1::OUTCOME_JIT);
  // What was as predicted is only counted.
  EXPECT_EQ(loads.images_size(), 0);
}

TEST(ImagePredictions, FilesThatCannotBeReadAreNotGuessedAt) {
  v1::Artifact artifact;
  v1::ArtifactFile& file = *artifact.add_files();
  file.set_name("check.fatbin");
  file.set_type(v1::FILE_TYPE_REGULAR);
  v1::ImageLoadReport loads = Loads();
  PredictImageLoads(artifact, "/nowhere", Hopper(), loads);
  ASSERT_EQ(loads.problems_size(), 1);
  EXPECT_EQ(loads.problems(0).code(), "TP336");
  EXPECT_THAT(loads.problems(0).detail(), HasSubstr("nothing was predicted"));
  ASSERT_EQ(loads.groups_size(), 1);
  EXPECT_EQ(loads.groups(0).predicted(), v1::OUTCOME_UNKNOWN);
}

}  // namespace
}  // namespace twinpath::agent
