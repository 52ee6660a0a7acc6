// What the driver takes from one fatbin, and what comes of it: the rules of
// docs/compat-model.md section 4 that no H200 run shows, row by row. Rows
// marked "precedence" are those of bechirBOUALI/cuda-fatbin-precedence,
// measured on a GPU of 8.9 with driver 597.06 (CUDA 13.2).

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "compat/predict.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

std::string On(const std::string& host, const v1::ArtifactReport& report) {
  const v1::HostFacts facts = FakeHost(host);
  return Answers(Predict(report, facts, facts.gpus(0), TestTables()));
}

std::string On(const std::string& host,
               const std::vector<std::string>& fatbins) {
  return On(host, MakeArtifact(fatbins));
}

v1::Prediction PredictionOf(const std::string& host,
                            const v1::ArtifactReport& report) {
  const v1::HostFacts facts = FakeHost(host);
  return Predict(report, facts, facts.gpus(0), TestTables());
}

constexpr char kAda[] = "8.9 R595";

// Of two images of one target: whether the first or the second was taken, seen
// by making one of them unreadable: then the choice, which is final, is
// unknown.
std::string Taken(const std::string& images, uint64_t first_flags = 0,
                  uint64_t second_flags = 0) {
  std::string taken;
  for (int broken = 0; broken < 2; ++broken) {
    v1::FileReport file = MakeFile("app", {images});
    file.mutable_fatbins(0)->mutable_images(broken)->set_problem("cut off");
    file.mutable_fatbins(0)->mutable_images(0)->set_flags(first_flags);
    file.mutable_fatbins(0)->mutable_images(1)->set_flags(second_flags);
    const v1::Prediction prediction =
        PredictionOf(kAda, MakeArtifactOf({file}));
    if (prediction.paths(2).outcome() == v1::OUTCOME_UNKNOWN) {
      taken += broken == 0 ? "first" : "second";
    }
  }
  return taken;
}

// Minor version compatibility is promised within a major (CUDA Compatibility
// guide); CUDA 11 drivers refused cubins of CUDA 12's ptxas with 200
// (triton-lang/triton#2971, triton-lang/triton#3001).
TEST(Selection, MachineCodeOfANewerMajorIsNotPromised) {
  v1::FileReport file =
      MakeFile("libcufft.so.12", {"self-loaded sm_80 compute_80@8.0"});
  const auto made_by = [&](uint32_t major) {
    file.mutable_fatbins(0)
        ->mutable_images(0)
        ->mutable_producer()
        ->mutable_toolkit()
        ->set_major(major);
    return MakeArtifactOf({file});
  };
  EXPECT_EQ(On("8.0 R570", made_by(12)).substr(0, 6), "native");
  EXPECT_EQ(On("8.0 R570", made_by(0)).substr(0, 6), "native");
  EXPECT_EQ(On("8.0 R580", made_by(13)).substr(0, 6), "native");
  const v1::Prediction prediction = PredictionOf("8.0 R570", made_by(13));
  for (const int path : {0, 2}) {
    EXPECT_EQ(prediction.paths(path).outcome(), v1::OUTCOME_UNKNOWN);
    ASSERT_TRUE(HasReason(prediction.paths(path), "TP259"));
    const v1::Reason& reason = prediction.paths(path).reasons(0);
    EXPECT_EQ(reason.detail(),
              "sm_80 was made by CUDA 13; the driver is CUDA 12.8");
    EXPECT_EQ(reason.fix(),
              "driver 580 or later; or build with CUDA 12 or older");
    EXPECT_FALSE(prediction.paths(path).settled_by().empty());
  }
}

TEST(Selection, TiesAndNearness) {  // precedence
  constexpr uint64_t kBit24 = 0x1000000;
  EXPECT_EQ(Taken("sm_89 sm_89"), "first");
  EXPECT_EQ(Taken("compute_89 compute_89"), "second");
  EXPECT_EQ(Taken("sm_89 sm_86"), "first");
  EXPECT_EQ(Taken("sm_86 sm_89"), "second");
  EXPECT_EQ(Taken("sm_80 sm_86"), "second");
  EXPECT_EQ(Taken("sm_86 sm_80"), "first");
  EXPECT_EQ(Taken("sm_75 compute_75"), "second");
  EXPECT_EQ(Taken("compute_75 sm_75"), "first");
  EXPECT_EQ(Taken("compute_89 sm_89"), "second");
  EXPECT_EQ(Taken("sm_86 compute_89"), "first");
  EXPECT_EQ(Taken("compute_89 sm_86"), "second");
  EXPECT_EQ(Taken("sm_89 sm_89", kBit24, 0), "second");
  EXPECT_EQ(Taken("sm_89 sm_89", 0, kBit24), "first");
}

// Entry and payload state different targets: the choice is by the entry, the
// load by the payload.
std::string WithPayload(const std::string& entry, uint32_t payload,
                        const std::string& beside = "") {
  v1::FileReport file =
      MakeFile("app", {beside.empty() ? entry : entry + " " + beside});
  v1::Image& image = *file.mutable_fatbins(0)->mutable_images(0);
  image.set_payload_target(payload);
  image.set_problem("the entry says another target");
  return On(kAda, MakeArtifactOf({file}));
}

TEST(Selection, TheTargetIsStatedTwice) {  // precedence
  EXPECT_EQ(WithPayload("sm_89", 86), "native | fails 209 | native");
  EXPECT_EQ(WithPayload("sm_86", 89), "native | fails 209 | native");
  EXPECT_EQ(WithPayload("sm_89", 75), "fails 300 | fails 209 | fails 300");
  EXPECT_EQ(WithPayload("sm_75", 89), "fails 209 | fails 209 | fails 209");
  // No second try.
  EXPECT_EQ(WithPayload("sm_89", 75, "sm_86"),
            "fails 300 | fails 209 | fails 300");
  EXPECT_EQ(WithPayload("sm_89", 75, "compute_75"),
            "fails 300 | jit | fails 300");
}

// A suffix the number does not have names a target that no GPU is.
TEST(Selection, SuffixesOfNoTarget) {  // precedence
  EXPECT_EQ(On(kAda, {"sm_89a"}), "fails 209 | fails 209 | fails 209");
  EXPECT_EQ(On(kAda, {"sm_89f"}), "fails 209 | fails 209 | fails 209");
  EXPECT_EQ(On(kAda, {"sm_89a compute_75"}), "fails 223 | jit | jit");
  EXPECT_EQ(On("9.0 R580", {"sm_90f"}), "fails 209 | fails 209 | fails 209");
}

// Kind 0x10, machine code that the driver finishes at load: ranked between
// machine code and PTX; whether it loads is not known. Forced JIT takes PTX
// alone.
TEST(Selection, UnfinishedMachineCode) {
  EXPECT_EQ(On("9.0 R580", {"sm_90 other16"}), "native | fails 209 | native");
  EXPECT_EQ(On("9.0 R580", {"compute_90 other16"}), "unknown | jit | unknown");
  EXPECT_EQ(On("9.0 R580", {"other16"}), "unknown | fails 209 | unknown");
  // For another major: as if it were not there.
  EXPECT_EQ(On("12.0 R580", {"compute_90 other16"}), "fails 223 | jit | jit");
  EXPECT_EQ(On("12.0 R580", {"other16"}), "fails 209 | fails 209 | fails 209");
}

// Tile IR: below PTX; compiled by libnvidia-tileiras from CUDA 13.1 on, error
// 221 before (NVIDIA/cutile-python#44, JuliaGPU/cuTile.jl#9).
TEST(Selection, TileIr) {
  EXPECT_EQ(On("9.0 R580", {"other128"}), "fails 221 | fails 209 | fails 221");
  EXPECT_EQ(On("9.0 R595", {"other128"}), "unknown | fails 209 | unknown");
  EXPECT_EQ(On("9.0 R580", {"sm_90 other128"}), "native | fails 209 | native");
  EXPECT_EQ(On("9.0 R580", {"compute_90 other128"}), "fails 223 | jit | jit");
  const v1::Prediction prediction =
      PredictionOf("9.0 R595", MakeArtifact({"other128"}));
  EXPECT_EQ(prediction.paths(2).settled_by(),
            "ldconfig -p | grep libnvidia-tileiras");
  EXPECT_EQ(prediction.paths(2).reasons(0).code(), "TP255");
}

// An index, a concatenated entry, a kind nobody knows: none beats machine code
// or PTX that fits; alone each is unknown.
TEST(Selection, OtherKinds) {
  for (const char* kind : {"other32", "other256", "other512"}) {
    const std::string word = kind;
    EXPECT_EQ(On("9.0 R580", {"sm_90 compute_90 " + word}),
              "native | jit | native");
    EXPECT_EQ(On("9.0 R580", {word}), word == "other32"
                                          ? "unknown | fails 209 | unknown"
                                          : "unknown | unknown | unknown");
  }
  // It may hold machine code, so native is open; plain is green either way.
  EXPECT_EQ(On("9.0 R580", {"compute_90 other256"}), "unknown | jit | jit");
  EXPECT_EQ(On("9.0 R580", {"compute_90 other32"}), "unknown | jit | jit");
}

// LTO-IR is no image for a driver: measured alone (209), and beside others it
// changes nothing.
TEST(Selection, LtoIr) {
  EXPECT_EQ(On("9.0 R580", {"lto_90"}), "fails 209 | fails 209 | fails 209");
  EXPECT_EQ(On("9.0 R580", {"lto_90 sm_90"}), "native | fails 209 | native");
  EXPECT_EQ(On("9.0 R580", {"lto_90 compute_80"}), "fails 223 | jit | jit");
}

// Obfuscated PTX: error 218 up to the driver it was measured with.
TEST(Selection, ObfuscatedPtx) {
  v1::FileReport file = MakeFile("app", {"compute_80@8.0"});
  file.mutable_fatbins(0)->mutable_images(0)->set_compression(
      v1::COMPRESSION_OPAQUE);
  EXPECT_EQ(On(kAda, MakeArtifactOf({file})),
            "fails 223 | fails 218 | fails 218");
  EXPECT_EQ(On("8.9 R610", MakeArtifactOf({file})),
            "fails 223 | unknown | unknown");
}

// After the choice nothing else is tried.
TEST(Selection, TheChoiceIsFinal) {
  EXPECT_EQ(On("9.0 R580", {"compute_90@9.3 compute_80@9.0"}),
            "fails 223 | fails 222 | fails 222");
  EXPECT_EQ(On("9.0 R535", {"sm_90/zstd compute_90@8.0"}),
            "fails 200 | jit | fails 200");
}

// Forced JIT on a file of machine code alone: 209, measured for sm_90, sm_90a
// and registered relocatable code. 300 is the answer of a link that fails:
// programs with the device runtime, whose PTX is for newer GPUs.
TEST(Selection, ForcedJitOnMachineCodeAlone) {
  EXPECT_EQ(On("9.0 R580", {"sm_90"}), "native | fails 209 | native");
  EXPECT_EQ(On("9.0 R580", {"rel:sm_90"}), "native | fails 209 | native");
}

TEST(Selection, DeviceRuntimeWithoutPtx) {
  // As nvcc 13.0 makes it for sm_90 and compute_90 with -rdc=true and
  // -lcudadevrt: the linked image, the program's piece, the library's.
  const std::string runtime =
      "__nv_static_52__f4510a67_22_cuda_device_runtime_cu_3ecce0c0_2317245__"
      "Z16memset_3d_deviceIjLi0ELi0ELi0EEv12MemsetParamsIT_E";
  const std::vector<std::string> program = {
      "parent,child," + runtime + ": sm_90",
      "parent,child: rel:sm_90 rel:compute_90",
      runtime + ": rel:sm_75 rel:sm_90 rel:sm_121 rel:compute_121"};
  const v1::Prediction prediction =
      PredictionOf("9.0 R580", MakeArtifact(program));
  EXPECT_EQ(Answers(prediction), "native | fails 300 | native");
  EXPECT_EQ(prediction.paths(1).reasons(0).code(), "TP258");
  // On 12.1 the library has both; the program's own piece has PTX alone, and
  // what the library has does not make the program native.
  EXPECT_EQ(On("12.1 R580", MakeArtifact(program)), "fails 223 | jit | jit");
  // A program that links nothing of it is not touched: measured, a piece
  // without PTX whose function is not called.
  EXPECT_EQ(On("9.0 R580",
               {"k: sm_90", "k: rel:sm_90 rel:compute_90", "other: rel:sm_90"}),
            "native | jit | native");
}

// Every program built with -rdc=true has its relocatable pieces beside what
// device link made of them. What the driver links at load is said where it has
// to.
TEST(Selection, LinkedAtLoadIsSaidWhereTheAnswerRestsOnIt) {
  const auto says = [](const std::vector<std::string>& fatbins) {
    const v1::Prediction prediction =
        PredictionOf("9.0 R580", MakeArtifact(fatbins));
    return std::pair(HasReason(prediction.paths(0), "TP217"),
                     HasReason(prediction.paths(1), "TP216"));
  };
  using Said = std::pair<bool, bool>;
  const std::string pieces = "rel:sm_80 rel:sm_90 rel:compute_90";
  EXPECT_EQ(says({"k: sm_80 sm_90 compute_90", "k: " + pieces}),
            Said(false, false));
  // Device link was for another GPU, and made no PTX.
  EXPECT_EQ(says({"k: sm_80", "k: " + pieces}), Said(true, true));
  EXPECT_EQ(says({"k: sm_80 sm_90", "k: " + pieces}), Said(false, true));
  EXPECT_EQ(says({"k: " + pieces}), Said(true, true));
  // A kernel that nothing launches is left out by device link.
  EXPECT_EQ(says({"k: sm_80 sm_90 compute_90", "k,unused: " + pieces}),
            Said(false, false));
  // One of two device links.
  EXPECT_EQ(says({"a: sm_90", "b: sm_80", "b: rel:sm_80 rel:sm_90"}),
            Said(true, false));
}

// Thor was 10.1 before CUDA 13 named it 11.0.
TEST(Selection, OldNameOfThor) {
  EXPECT_EQ(On("11.0 CUDA13.0", {"compute_101@8.8"}), "fails 223 | jit | jit");
  EXPECT_EQ(On("11.0 CUDA13.0", {"compute_101a@8.8"}), "fails 223 | jit | jit");
  EXPECT_EQ(On("11.0 CUDA13.0", {"sm_101"}), "unknown | fails 209 | unknown");
  EXPECT_EQ(On("10.1 CUDA12.9", {"sm_101"}), "native | fails 209 | native");
  EXPECT_EQ(On("12.0 R580", {"compute_101@8.8"}), "fails 223 | jit | jit");
}

// sm_88 is a target of nvcc 13.0 without a product; 10.4 and 13.0 are none yet.
TEST(Selection, TargetsAndDevicesAheadOfTheTables) {
  EXPECT_EQ(On("8.8 R580", {"sm_88"}), "native | fails 209 | native");
  EXPECT_EQ(On("8.8 R580", {"sm_86"}), "unknown | fails 209 | unknown");
  EXPECT_EQ(On("9.0 R580", {"sm_130"}), "fails 209 | fails 209 | fails 209");
  EXPECT_EQ(On("9.0 R580", {"compute_130@9.0 compute_80@9.0"}),
            "fails 223 | jit | jit");
  EXPECT_EQ(On("13.0 CUDA13.5", {"sm_130"}), "native | fails 209 | native");
  EXPECT_EQ(On("13.0 CUDA13.5", {"compute_90"}), "fails 223 | jit | jit");
  EXPECT_EQ(On("13.1 CUDA13.5", {"sm_130"}), "unknown | fails 209 | unknown");
  EXPECT_EQ(On("10.4 CUDA13.5", {"sm_100f"}), "unknown | fails 209 | unknown");
}

}  // namespace
}  // namespace twinpath::compat
