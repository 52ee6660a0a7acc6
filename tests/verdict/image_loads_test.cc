// Image loads held against predictions, and what a cell of kind IMAGES comes
// to: never silently green, never silently red.

#include "verdict/image_loads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compat/tables.h"
#include "tests/verdict/results.h"
#include "verdict/judge.h"

namespace twinpath::verdict {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::ImageLoad Load(v1::ImageKind kind, v1::Outcome predicted,
                   v1::LoadState state, uint32_t error = 0,
                   uint32_t predicted_error = 0) {
  v1::ImageLoad load;
  load.set_kind(kind);
  load.set_predicted(predicted);
  load.set_predicted_error(predicted_error);
  load.set_state(state);
  load.set_cuda_error(error);
  return load;
}

constexpr auto kSass = v1::IMAGE_KIND_SASS;
constexpr auto kPiece = v1::IMAGE_KIND_RELOCATABLE_SASS;
constexpr auto kLoaded = v1::LOAD_STATE_LOADED;
constexpr auto kRefused = v1::LOAD_STATE_REFUSED;

TEST(ImageLoads, WhatContradictsAPrediction) {
  EXPECT_FALSE(Contradicts(Load(kSass, v1::OUTCOME_NATIVE, kLoaded)));
  EXPECT_FALSE(Contradicts(Load(kSass, v1::OUTCOME_JIT, kLoaded)));
  EXPECT_TRUE(Contradicts(Load(kSass, v1::OUTCOME_NATIVE, kRefused, 209)));
  EXPECT_TRUE(Contradicts(Load(kSass, v1::OUTCOME_FAILS, kLoaded, 0, 209)));
  EXPECT_FALSE(Contradicts(Load(kSass, v1::OUTCOME_FAILS, kRefused, 209, 209)));
  EXPECT_TRUE(Contradicts(Load(kSass, v1::OUTCOME_FAILS, kRefused, 200, 209)));
  // A failure without a number was predicted.
  EXPECT_FALSE(Contradicts(Load(kSass, v1::OUTCOME_FAILS, kRefused, 200, 0)));
  // Nothing was predicted, or nothing was answered.
  EXPECT_FALSE(Contradicts(Load(kSass, v1::OUTCOME_UNKNOWN, kRefused, 200)));
  EXPECT_FALSE(Contradicts(Load(kSass, v1::OUTCOME_UNKNOWN, kLoaded)));
  EXPECT_FALSE(
      Contradicts(Load(kSass, v1::OUTCOME_NATIVE, v1::LOAD_STATE_DIED)));
  EXPECT_FALSE(
      Contradicts(Load(kSass, v1::OUTCOME_NATIVE, v1::LOAD_STATE_NOT_TRIED)));
  // Too little memory says nothing about the image.
  EXPECT_FALSE(Contradicts(Load(kSass, v1::OUTCOME_NATIVE, kRefused, 2)));
}

// Measured: docs/gpu-runs.md, relocatable pieces.
TEST(ImageLoads, PiecesThatOthersCompleteAreNoContradiction) {
  for (const uint32_t error : {218u, 300u, 500u}) {
    EXPECT_FALSE(
        Contradicts(Load(kPiece, v1::OUTCOME_NATIVE, kRefused, error)));
    EXPECT_TRUE(IsLinkInput(kPiece, kRefused, error));
    EXPECT_TRUE(IsLinkInput(v1::IMAGE_KIND_RELOCATABLE_PTX, kRefused, error));
    EXPECT_FALSE(IsLinkInput(kSass, kRefused, error));
    EXPECT_TRUE(Contradicts(Load(kSass, v1::OUTCOME_NATIVE, kRefused, error)));
  }
  EXPECT_TRUE(Contradicts(Load(kPiece, v1::OUTCOME_NATIVE, kRefused, 200)));
  EXPECT_TRUE(Contradicts(Load(kPiece, v1::OUTCOME_NATIVE, kRefused, 209)));
}

class JudgeImages : public ::testing::Test {
 protected:
  v1::ImageLoadGroup& Add(v1::ImageKind kind, v1::Outcome predicted,
                          v1::LoadState state, uint32_t error = 0,
                          uint32_t images = 1) {
    v1::ImageLoadGroup& group = *loads_.add_groups();
    group.set_file("lib.so");
    group.set_kind(kind);
    group.mutable_target()->set_number(90);
    group.mutable_target()->set_suffix(v1::TARGET_SUFFIX_NONE);
    group.set_predicted(predicted);
    group.set_state(state);
    group.set_cuda_error(error);
    group.set_images(images);
    return group;
  }

  v1::Verdict Judge() const {
    v1::Cell cell;
    cell.set_state(v1::CELL_STATE_DONE);
    cell.set_gpu_uuid(kGpu);
    *cell.mutable_conditions_digest() = ConditionsNamed("580").digest();
    v1::CellResult& result = *cell.mutable_result();
    *result.add_observations() = run_;
    *result.mutable_image_loads() = loads_;
    result.mutable_image_loads()->set_gpu_uuid(gpu_);
    result.set_complete(true);
    v1::Entry entry;
    entry.set_kind(v1::ENTRY_KIND_IMAGES);
    return JudgeCell(cell, entry, v1::Policy());
  }

  static std::vector<std::string> Codes(const v1::Verdict& verdict) {
    std::vector<std::string> codes;
    for (const v1::Reason& reason : verdict.reasons()) {
      codes.push_back(reason.code());
    }
    return codes;
  }

  v1::ImageLoadReport loads_;
  v1::Observation run_ = GoodRun(v1::PATH_PLAIN);
  std::string gpu_ = kGpu;
};

TEST_F(JudgeImages, LoadsOnAnotherGpuAreNoEvidence) {
  Add(kSass, v1::OUTCOME_NATIVE, kLoaded);
  gpu_ = "GPU-2";
  EXPECT_EQ(Judge().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
}

TEST_F(JudgeImages, ASimulatedHostSaysNothing) {
  v1::Cell cell;
  cell.set_simulated(true);
  cell.set_state(v1::CELL_STATE_DONE);
  cell.set_gpu_uuid(kGpu);
  cell.mutable_result()->set_complete(true);
  v1::PathPrediction& jit = *cell.add_predictions();
  jit.set_path(v1::PATH_PTX_JIT);
  jit.set_outcome(v1::OUTCOME_FAILS);
  jit.add_reasons()->set_code("TP202");
  v1::Entry entry;
  entry.set_kind(v1::ENTRY_KIND_IMAGES);
  // A library without PTX is no failure of its images.
  EXPECT_EQ(JudgeCell(cell, entry, v1::Policy()).kind(),
            v1::VERDICT_KIND_INCONCLUSIVE);
}

TEST_F(JudgeImages, EverythingThatShouldLoadedPasses) {
  Add(kSass, v1::OUTCOME_NATIVE, kLoaded, 0, 448);
  Add(v1::IMAGE_KIND_PTX, v1::OUTCOME_JIT, kLoaded, 0, 3);
  Add(kSass, v1::OUTCOME_FAILS, kRefused, 209, 1000);
  EXPECT_EQ(Judge().kind(), v1::VERDICT_KIND_PASS);
  EXPECT_THAT(Codes(Judge()), ElementsAre("TP420"));
}

TEST_F(JudgeImages, OneThatShouldAndDoesNotFails) {
  Add(kSass, v1::OUTCOME_NATIVE, kLoaded, 0, 448);
  Add(kSass, v1::OUTCOME_NATIVE, kRefused, 200);
  const v1::Verdict verdict = Judge();
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_FAIL);
  EXPECT_EQ(verdict.reasons(0).code(), "TP335");
  EXPECT_EQ(verdict.reasons(0).cuda_error(), 200u);
  EXPECT_THAT(verdict.reasons(0).detail(), HasSubstr("lib.so: sm_90: 1 image"));
}

TEST_F(JudgeImages, OneThatShouldNotAndDoesIsNoPass) {
  Add(kSass, v1::OUTCOME_NATIVE, kLoaded, 0, 448);
  Add(kSass, v1::OUTCOME_FAILS, kLoaded);
  EXPECT_EQ(Judge().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Codes(Judge()), Contains("TP430"));
}

// The number that the host counted holds where the groups do not show it
// (another error than predicted), and where the listed ones were cut.
TEST_F(JudgeImages, CountedContradictionsAreNoPass) {
  Add(kSass, v1::OUTCOME_NATIVE, kLoaded);
  Add(kSass, v1::OUTCOME_FAILS, kRefused, 200);
  loads_.set_contradicted(1);
  EXPECT_EQ(Judge().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  v1::ImageLoad& load = *loads_.add_images() =
      Load(kSass, v1::OUTCOME_FAILS, kRefused, 200, 209);
  load.set_file("lib.so");
  load.mutable_target()->set_number(90);
  const v1::Verdict verdict = Judge();
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(verdict.reasons(0).detail(),
              HasSubstr("predicted CUDA error 209, seen CUDA error 200"));
}

TEST_F(JudgeImages, OneWithoutAnAnswerLeavesItOpen) {
  for (const auto state : {v1::LOAD_STATE_DIED, v1::LOAD_STATE_SLOW,
                           v1::LOAD_STATE_NOT_TRIED, v1::LoadState(99)}) {
    loads_.Clear();
    Add(kSass, v1::OUTCOME_NATIVE, kLoaded, 0, 448);
    Add(kSass, v1::OUTCOME_NATIVE, state);
    EXPECT_EQ(Judge().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
    EXPECT_THAT(Codes(Judge()), Contains("TP336"));
  }
}

// Cubins of a newer CUDA major are predicted unknown, and drivers were seen to
// refuse them: that is no pass because another image loads.
TEST_F(JudgeImages, OneThatIsRefusedAndNotPredictedLeavesItOpen) {
  Add(kSass, v1::OUTCOME_NATIVE, kLoaded, 0, 448);
  Add(kSass, v1::OUTCOME_UNKNOWN, kRefused, 200, 12);
  const v1::Verdict verdict = Judge();
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Codes(verdict), Contains("TP336"));
}

// A file fails on a GPU where nothing in it loads.
TEST_F(JudgeImages, AFileOfWhichNothingLoadsFailsBesideOthers) {
  Add(kSass, v1::OUTCOME_NATIVE, kLoaded, 0, 448);
  Add(kSass, v1::OUTCOME_FAILS, kRefused, 209, 3).set_file("other.so");
  const v1::Verdict verdict = Judge();
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_FAIL);
  EXPECT_THAT(verdict.reasons(0).detail(),
              HasSubstr("other.so: none of 3 images loads"));
}

TEST_F(JudgeImages, ConditionsAreRecordedAndStayTheSame) {
  Add(kSass, v1::OUTCOME_NATIVE, kLoaded);
  run_.clear_conditions_after();
  EXPECT_EQ(Judge().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Codes(Judge()), Contains("TP418"));
  *run_.mutable_conditions_after() = ConditionsNamed("590");
  EXPECT_EQ(Judge().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Codes(Judge()), Contains("TP315"));
}

TEST_F(JudgeImages, WhatIsForOtherGpusNeedNotBeTried) {
  Add(kSass, v1::OUTCOME_NATIVE, kLoaded);
  Add(kSass, v1::OUTCOME_FAILS, v1::LOAD_STATE_NOT_TRIED);
  EXPECT_EQ(Judge().kind(), v1::VERDICT_KIND_PASS);
}

TEST_F(JudgeImages, TooLittleMemoryLeavesItOpen) {
  Add(kSass, v1::OUTCOME_NATIVE, kLoaded);
  Add(kSass, v1::OUTCOME_NATIVE, kRefused, 2);
  EXPECT_EQ(Judge().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Codes(Judge()), Contains("TP313"));
}

TEST_F(JudgeImages, LinkInputsAreNamedAndNoFailure) {
  Add(kSass, v1::OUTCOME_NATIVE, kLoaded);
  Add(kPiece, v1::OUTCOME_NATIVE, kRefused, 300, 40);
  Add(kPiece, v1::OUTCOME_NATIVE, kRefused, 500, 2);
  const v1::Verdict verdict = Judge();
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_PASS);
  EXPECT_THAT(Codes(verdict), Contains("TP337"));
  EXPECT_THAT(verdict.reasons(verdict.reasons_size() - 1).detail(),
              HasSubstr("42 relocatable"));
}

TEST_F(JudgeImages, NothingLoadedIsNoPass) {
  EXPECT_EQ(Judge().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  Add(kPiece, v1::OUTCOME_NATIVE, kRefused, 300);
  EXPECT_EQ(Judge().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  loads_.Clear();
  Add(kSass, v1::OUTCOME_FAILS, kRefused, 209, 12);
  const v1::Verdict verdict = Judge();
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_FAIL);
  EXPECT_EQ(verdict.reasons(0).code(), "TP335");
}

TEST_F(JudgeImages, AProblemOfTheLoaderLeavesItOpen) {
  Add(kSass, v1::OUTCOME_NATIVE, kLoaded);
  loads_.add_problems()->set_code("TP103");
  EXPECT_EQ(Judge().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Codes(Judge()), Contains("TP103"));
}

TEST_F(JudgeImages, KernelsOfAnotherVersionAreAWarning) {
  Add(kSass, v1::OUTCOME_NATIVE, kLoaded);
  v1::ImageLoad& load = *loads_.add_images() =
      Load(kSass, v1::OUTCOME_NATIVE, kLoaded);
  load.add_kernels()->set_name("k");
  const v1::Verdict verdict = Judge();
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_PASS);
  EXPECT_THAT(Codes(verdict), Contains("TP430"));
}

// The policy's paths say nothing about images.
TEST_F(JudgeImages, PathsAreNotAskedFor) {
  Add(kSass, v1::OUTCOME_NATIVE, kLoaded);
  EXPECT_THAT(Codes(Judge()), Not(Contains("TP418")));
}

class AddPredictions : public ::testing::Test {
 protected:
  void SetUp() override {
    auto tables = compat::Tables::Default();
    ASSERT_TRUE(tables.ok()) << tables.status();
    tables_ = *tables;
    facts_.set_cpu_architecture(v1::CPU_ARCHITECTURE_X86_64);
    facts_.mutable_gpu_probe()->set_state(v1::PROBE_STATE_OK);
    v1::Driver& driver = *facts_.mutable_driver();
    driver.set_kernel_module_version("580.95.05");
    driver.set_branch("R580");
    driver.mutable_cuda_version()->set_major(13);
    driver.mutable_probe()->set_state(v1::PROBE_STATE_OK);
    driver.mutable_jit_library()->set_state(v1::PROBE_STATE_OK);
    driver.mutable_ptx_isa_probe()->set_state(v1::PROBE_STATE_OK);
    driver.mutable_ptx_isa_ceiling()->set_major(9);
    gpu_.set_uuid(kGpu);
    gpu_.mutable_capability_probe()->set_state(v1::PROBE_STATE_OK);
    gpu_.mutable_compute_capability()->set_major(9);
    *facts_.add_gpus() = gpu_;
    v1::FileReport& file = *report_.add_files();
    file.set_name("lib.so");
    file.set_kind(v1::FILE_KIND_FATBIN);
    v1::Fatbin& fatbin = *file.add_fatbins();
    fatbin.set_registration(v1::REGISTRATION_NOT_APPLICABLE);
    for (const uint32_t target : {90u, 80u}) {
      v1::Image& image = *fatbin.add_images();
      image.set_index(static_cast<uint32_t>(fatbin.images_size() - 1));
      image.set_kind(kSass);
      image.mutable_target()->set_number(target);
      image.mutable_target()->set_suffix(v1::TARGET_SUFFIX_NONE);
      image.set_compression(v1::COMPRESSION_NONE);
      image.set_kernels_read(true);
      image.add_kernels()->set_name("k");
    }
  }

  // The driver's answers to the two images.
  void See(v1::LoadState first, v1::LoadState second, uint32_t error) {
    loads_.Clear();
    for (int i = 0; i < 2; ++i) {
      v1::ImageLoad& load = *loads_.add_images();
      load.set_file("lib.so");
      load.set_fatbin(0);
      load.set_image(static_cast<uint32_t>(i));
      load.set_kind(kSass);
      *load.mutable_target() = report_.files(0).fatbins(0).images(i).target();
      load.set_state(i == 0 ? first : second);
      if (load.state() == kRefused) load.set_cuda_error(error);
    }
  }

  void Predict(bool keep_all) {
    AddImagePredictions(report_, facts_, gpu_, *tables_, keep_all, loads_);
  }

  const compat::Tables* tables_ = nullptr;
  v1::HostFacts facts_;
  v1::Gpu gpu_;
  v1::ArtifactReport report_;
  v1::ImageLoadReport loads_;
};

TEST_F(AddPredictions, EachImageHasItsOwn) {
  See(kLoaded, kRefused, 209);
  Predict(/*keep_all=*/true);
  ASSERT_EQ(loads_.images_size(), 2);
  EXPECT_EQ(loads_.images(0).predicted(), v1::OUTCOME_NATIVE);
  EXPECT_EQ(loads_.images(1).predicted(), v1::OUTCOME_FAILS);
  EXPECT_EQ(loads_.images(1).predicted_error(), 209u);
  EXPECT_EQ(loads_.contradicted(), 0u);
  EXPECT_EQ(loads_.groups_size(), 2);
}

TEST_F(AddPredictions, WhatIsAsPredictedAndLoadedIsOnlyCounted) {
  See(kLoaded, kRefused, 209);
  Predict(/*keep_all=*/false);
  ASSERT_EQ(loads_.images_size(), 1);
  EXPECT_EQ(loads_.images(0).image(), 1u);
  EXPECT_EQ(loads_.groups_size(), 2);
}

TEST_F(AddPredictions, ContradictionsAreCountedAndListedFirst) {
  See(kRefused, kLoaded, 209);
  Predict(/*keep_all=*/false);
  EXPECT_EQ(loads_.contradicted(), 2u);
  EXPECT_EQ(loads_.images_size(), 2);
}

// A report of other files: nothing is known, and so nothing contradicts.
TEST_F(AddPredictions, ImagesThatTheReportLacksAreUnknown) {
  See(kLoaded, kRefused, 209);
  report_.Clear();
  Predict(/*keep_all=*/true);
  EXPECT_EQ(loads_.images(0).predicted(), v1::OUTCOME_UNKNOWN);
  EXPECT_EQ(loads_.contradicted(), 0u);
}

TEST_F(AddPredictions, ManyImagesAreCut) {
  See(kRefused, kRefused, 209);
  const v1::ImageLoad one = loads_.images(1);
  for (int i = 0; i < 2000; ++i) *loads_.add_images() = one;
  Predict(/*keep_all=*/false);
  EXPECT_EQ(static_cast<size_t>(loads_.images_size()), kMostImagesListed);
  EXPECT_EQ(loads_.images(0).image(), 0u);
  uint64_t counted = 0;
  for (const v1::ImageLoadGroup& group : loads_.groups()) {
    counted += group.images();
  }
  EXPECT_EQ(counted, 2002u);
}

}  // namespace
}  // namespace twinpath::verdict
