// Libraries full of harmless gaps: not red on a GPU they support.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compat/predict.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

v1::Prediction On(const std::string& host, const v1::FileReport& file) {
  const v1::HostFacts facts = FakeHost(host);
  return Predict(MakeArtifactOf({file}), facts, facts.gpus(0), TestTables());
}

// The shape of libcublas.so.13: nearly every fatbin has machine code for every
// target and PTX for the newest; a few are made for one.
v1::FileReport CublasLike() {
  std::vector<std::string> fatbins;
  for (int i = 0; i < 20; ++i) {
    fatbins.push_back("sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120@9.1");
  }
  fatbins.push_back("sm_90a");
  fatbins.push_back("sm_100f");
  return MakeFile("libcublas.so.13", fatbins);
}

TEST(Gaps, CublasIsNativeWithGaps) {
  for (const char* host :
       {"7.5 R580", "8.0 R580", "8.6 R580", "8.9 R580", "9.0 R580", "10.0 R580",
        "10.3 R580", "12.0 R580", "12.1 R580"}) {
    const v1::Prediction prediction = On(host, CublasLike());
    EXPECT_EQ(prediction.paths(0).outcome(), v1::OUTCOME_NATIVE) << host;
    EXPECT_EQ(prediction.paths(2).outcome(), v1::OUTCOME_NATIVE) << host;
    EXPECT_GT(prediction.paths(2).gaps(), 0u) << host;
    EXPECT_TRUE(HasReason(prediction.paths(2), "TP220")) << host;
    EXPECT_FALSE(HasReason(prediction.paths(2), "TP221")) << host;
    for (const v1::Gap& gap : prediction.files(0).gaps()) {
      EXPECT_EQ(gap.kind(), v1::GAP_KIND_SPECIALISED);
    }
  }
}

// PTX is for the newest target: on an H200 a forced JIT run fails inside the
// library, on GB10 it compiles (here ISA 9.1 needs R590).
TEST(Gaps, VendorLibraryUnderForcedJit) {
  const v1::Prediction h200 = On("9.0 R580", CublasLike());
  EXPECT_EQ(Answer(h200.paths(1)), "fails 209");
  EXPECT_TRUE(HasReason(h200.paths(1), "TP222"));
  EXPECT_EQ(Answer(On("12.1 R580", CublasLike()).paths(1)), "fails 222");
  EXPECT_EQ(Answer(On("12.1 R590", CublasLike()).paths(1)), "jit");
}

// Where the toolkit's major has no driver the library does not start.
TEST(Gaps, RuntimeOfTheLibraryCounts) {
  v1::FileReport file = CublasLike();
  file.mutable_elf()->mutable_cudart()->set_major(13);
  EXPECT_EQ(Answers(On("9.0 R570", file)), "fails 35 | fails 35 | fails 35");
}

// The shape of libcublasLt: one fatbin a GPU generation, many of them.
TEST(Gaps, OneFatbinAGeneration) {
  std::vector<std::string> fatbins;
  for (int i = 0; i < 10; ++i) {
    for (const char* target : {"sm_80", "sm_90a", "sm_100f", "sm_120f"}) {
      fatbins.push_back(target);
    }
  }
  const v1::Prediction prediction =
      On("12.1 R580", MakeFile("libcublasLt.so.13", fatbins));
  EXPECT_EQ(Answer(prediction.paths(2)), "native");
  EXPECT_EQ(prediction.paths(2).gaps(), 30u);
  EXPECT_EQ(prediction.files(0).gaps_size(), 30);
  EXPECT_FALSE(HasReason(prediction.paths(2), "TP221"));
}

// cuFFT loads its fatbins itself; PTX for its own linker does not make it
// "runs by JIT".
TEST(Gaps, SelfLoadedPtxIsNoVerdict) {
  v1::FileReport file = MakeFile(
      "libcufft.so.12",
      {"sm_75 sm_80 sm_90 sm_100 sm_120", "lto_75 compute_75@8.0", "lto_75"});
  for (v1::Fatbin& fatbin : *file.mutable_fatbins()) {
    fatbin.set_registration(v1::REGISTRATION_SELF_LOADED);
  }
  const v1::Prediction prediction = On("9.0 R580", file);
  EXPECT_EQ(Answer(prediction.paths(2)), "native");
  EXPECT_TRUE(HasReason(prediction.paths(2), "TP235"));
}

// One object forgotten in a small library is a hole, and is named.
TEST(Gaps, AForgottenObjectIsAHole) {
  const v1::Prediction prediction =
      On("12.0 R580", MakeFile("ext.so", {"sm_80 sm_90 sm_120", "sm_80 sm_90",
                                          "sm_80 sm_120"}));
  ASSERT_EQ(prediction.files(0).gaps_size(), 1);
  EXPECT_EQ(prediction.files(0).gaps(0).fatbin(), 1u);
  EXPECT_EQ(prediction.files(0).gaps(0).kind(), v1::GAP_KIND_HOLE);
  EXPECT_TRUE(HasReason(prediction.paths(2), "TP221"));
}

// The same kernels in another fatbin cover a gap.
TEST(Gaps, CoveredKernelsAreNoGap) {
  const v1::Prediction prediction =
      On("9.0 R580", MakeFile("ext.so", {"k: sm_80", "k: sm_90", "j: sm_90"}));
  EXPECT_EQ(prediction.paths(2).gaps(), 0u);
  EXPECT_EQ(Answer(prediction.paths(2)), "native");
}

// Kernels not read: judged per fatbin; the small link stub is still known by
// its wrapper.
TEST(Gaps, WithoutKernelsTheStubIsKnownByItsWrapper) {
  v1::FileReport file = MakeFile("app", {"?: sm_75", "?: sm_90 compute_90"});
  file.mutable_fatbins(0)->mutable_images(0)->set_stored_bytes(1400);
  v1::Wrapper& wrapper = *file.add_wrappers();
  wrapper.set_version(2);
  wrapper.set_resolved(true);
  wrapper.set_fatbin_offset(file.fatbins(0).offset());
  const v1::Prediction prediction = On("9.0 R580", file);
  EXPECT_EQ(Answers(prediction), "native | jit | native");
  EXPECT_EQ(prediction.paths(2).gaps(), 0u);
}

}  // namespace
}  // namespace twinpath::compat
