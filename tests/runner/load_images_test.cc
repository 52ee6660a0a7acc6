// The image loader against drivers that are none: what they answer, and what
// they do instead of answering.

#include "runner/load_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/runner/known_errors.h"
#include "tests/runner/load_fixture.h"

namespace twinpath::runner {
namespace {

using State = LoadAnswer::State;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using LoadImagesTest = LoadFixture;

TEST_F(LoadImagesTest, PtxIsCompiledAndItsKernelsAreRead) {
  Add(Kernel(80), 80);
  Add(Kernel(90, "other"), 90);
  const LoadOutcome outcome = Load();
  EXPECT_TRUE(outcome.hello.up) << outcome.hello.text;
  EXPECT_EQ(outcome.hello.device, 90u);
  EXPECT_EQ(outcome.deaths, 0u);
  // One image at a time in each of two workers, each of 1 MiB.
  EXPECT_LE(outcome.peak_device_bytes, uint64_t{2} << 20);
  for (const LoadAnswer& answer : answers_) {
    EXPECT_EQ(answer.state, State::kLoaded) << answer.log;
    EXPECT_EQ(answer.functions, 1u);
    EXPECT_EQ(answer.kernels, 1u);
    EXPECT_THAT(answer.odd, IsEmpty());
    EXPECT_EQ(answer.device_bytes, uint64_t{1} << 20);
  }
}

// Compiled for another device than the one there is: not what PTX gives.
TEST_F(LoadImagesTest, KernelsOfAnotherVersionAreListed) {
  Add(Kernel(80, "k"), 90);
  Load();
  ASSERT_EQ(answers_[0].odd.size(), 1u);
  EXPECT_EQ(answers_[0].odd[0].name, "k");
  EXPECT_EQ(answers_[0].odd[0].ptx_version, 80u);
  EXPECT_EQ(answers_[0].odd[0].binary_version, 90u);
}

TEST_F(LoadImagesTest, ARefusalHasTheDriversLog) {
  Add(".version 9.1\n.target sm_90\n.address_size 64\n", 90);
  Add(Kernel(100), 100);
  Add("no image at all", 90);
  Load();
  EXPECT_EQ(answers_[0].state, State::kRefused);
  EXPECT_EQ(answers_[0].cuda_error, 222);
  EXPECT_THAT(answers_[0].log, HasSubstr("current version is '9.0'"));
  EXPECT_EQ(answers_[1].cuda_error, 218);
  EXPECT_EQ(answers_[2].cuda_error, 200);
  EXPECT_THAT(answers_[2].log, HasSubstr("CUDA_ERROR_INVALID_IMAGE"));
}

TEST_F(LoadImagesTest, EveryErrorOfTheTableIsReportedAsItIs) {
  const std::vector<KnownError> errors = KnownErrors();
  ASSERT_GT(errors.size(), 100u);
  Add(Kernel(90), 90);
  list_.workers = 1;
  std::set<int> seen;
  for (const KnownError& error : errors) {
    if (!seen.insert(error.code).second) continue;
    // "compute_90" only, so that nothing else is in its way. Without a log of
    // the compiler the loader names the error.
    Drive(absl::StrCat("gpu=9.0 nolog image:compute_90=", error.code));
    Load();
    EXPECT_EQ(answers_[0].state, State::kRefused) << error.code;
    EXPECT_EQ(answers_[0].cuda_error, error.code);
    EXPECT_THAT(answers_[0].log, HasSubstr(error.name)) << error.code;
  }
}

TEST_F(LoadImagesTest, ADriverThatDoesNotStart) {
  Add(Kernel(90), 90);
  for (const auto& [words, code, error, text] :
       std::vector<std::tuple<std::string, std::string, int, std::string>>{
           {"gpu=9.0 cuInit=803", "TP102", 803,
            "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
           {"cuInit=100", "TP106", 100, "cuInit"},
           {"cuInit=34", "TP105", 34, "cuInit"},
           // Any GPU's instances are gone: CUDA has no device.
           {"gpu=9.0,mig=0", "TP106", 100, "CUDA_ERROR_NO_DEVICE"},
           {"cuDevicePrimaryCtxRetain=2", "TP102", 2,
            "cuDevicePrimaryCtxRetain"},
           {"cuDeviceGetAttribute=999", "TP102", 999, "cuDeviceGetAttribute"},
           {"cuInit=crash", "TP102", 0, "signal 6"},
           {"cuCtxSetCurrent=segv", "TP102", 0, "signal 11"},
           {"cuInit=exit", "TP102", 0, "exit 0"}}) {
    Drive(words);
    const LoadOutcome outcome = Load();
    EXPECT_FALSE(outcome.hello.up) << words;
    EXPECT_EQ(outcome.hello.code, code) << words;
    EXPECT_EQ(outcome.hello.cuda_error, error) << words;
    EXPECT_THAT(outcome.hello.text, HasSubstr(text)) << words;
    EXPECT_EQ(answers_[0].state, State::kWaiting) << words;
  }
}

TEST_F(LoadImagesTest, ADriverThatHangsAtItsStart) {
  Add(Kernel(90), 90);
  for (const char* call : {"cuInit", "cuCtxSetCurrent"}) {
    Drive(absl::StrCat("gpu=9.0 ", call, "=hang"));
    options_.start_limit = absl::Seconds(1);
    const LoadOutcome outcome = Load();
    EXPECT_FALSE(outcome.hello.up);
    EXPECT_EQ(outcome.hello.code, "TP103");
    EXPECT_EQ(answers_[0].state, State::kWaiting);
  }
}

TEST_F(LoadImagesTest, WhatKillsItsProcessIsNamedAndTheRestStillTried) {
  for (const int target : {60, 70, 75, 80, 90}) Add(Kernel(target), target);
  for (const auto& [action, how] :
       std::vector<std::pair<std::string, std::string>>{
           {"crash", "signal 6"}, {"segv", "signal 11"}, {"exit", "exit 0"}}) {
    Drive(absl::StrCat("gpu=9.0 image:compute_75=", action,
                       " image:compute_70=", action));
    const LoadOutcome outcome = Load();
    EXPECT_EQ(outcome.deaths, 2u);
    for (const size_t died : {1u, 2u}) {
      EXPECT_EQ(answers_[died].state, State::kDied);
      EXPECT_THAT(answers_[died].log, HasSubstr(how));
    }
    for (const size_t alive : {0u, 3u, 4u}) {
      EXPECT_EQ(answers_[alive].state, State::kLoaded) << answers_[alive].log;
    }
  }
}

TEST_F(LoadImagesTest, WhatHangsIsEndedAndTheRestStillTried) {
  for (const int target : {70, 80, 90}) Add(Kernel(target), target);
  Drive("gpu=9.0 image:compute_80=hang");
  list_.compile_limit = absl::Seconds(2);
  const LoadOutcome outcome = Load();
  EXPECT_EQ(outcome.deaths, 0u);
  EXPECT_EQ(answers_[1].state, State::kSlow);
  EXPECT_THAT(answers_[1].log, HasSubstr("2s"));
  EXPECT_EQ(answers_[0].state, State::kLoaded);
  EXPECT_EQ(answers_[2].state, State::kLoaded);
}

TEST_F(LoadImagesTest, WhatFindsNoTimeStaysWithoutAnAnswer) {
  Add(Kernel(90), 90);
  options_.deadline = absl::InfinitePast();
  const LoadOutcome outcome = Load();
  EXPECT_FALSE(outcome.hello.up);
  EXPECT_EQ(answers_[0].state, State::kWaiting);
}

TEST_F(LoadImagesTest, ADriverWithoutNewerCallsLoadsAllTheSame) {
  Add(Kernel(90), 90);
  Drive("gpu=9.0", "old");
  EXPECT_TRUE(Load().hello.up);
  EXPECT_EQ(answers_[0].state, State::kLoaded) << answers_[0].log;
  EXPECT_EQ(answers_[0].functions, 0u);
  EXPECT_EQ(answers_[0].kernels, 0u);
  EXPECT_EQ(answers_[0].device_bytes, 0u);
}

TEST_F(LoadImagesTest, ADriverWithoutNeededCallsIsNamed) {
  Add(Kernel(90), 90);
  Drive("gpu=9.0", "minimal");
  EXPECT_THAT(Load().hello.text, HasSubstr("no cuDeviceGet"));
  Drive("gpu=9.0", "empty");
  EXPECT_THAT(Load().hello.text, HasSubstr("no cuInit"));
}

TEST_F(LoadImagesTest, AFileThatCannotBeReadIsNoFaultOfTheDriver) {
  Add(Kernel(90), 90);
  LoadImage& beyond = Add(Kernel(80), 80);
  beyond.job.offset = 1 << 20;
  EXPECT_TRUE(Load().hello.up);
  EXPECT_EQ(answers_[0].state, State::kLoaded);
  EXPECT_EQ(answers_[1].state, State::kUnread);
  list_.files[0] = "/nowhere/file";
  answers_.assign(2, LoadAnswer());
  const LoadOutcome outcome = LoadImages(
      list_, options_,
      [this](const LoadAnswer& answer) { answers_[answer.id] = answer; });
  EXPECT_TRUE(outcome.hello.up);
  EXPECT_EQ(outcome.deaths, 0u);
  for (const LoadAnswer& answer : answers_) {
    EXPECT_EQ(answer.state, State::kUnread);
    EXPECT_THAT(answer.log, HasSubstr("/nowhere/file"));
  }
}

TEST_F(LoadImagesTest, TheGpuNamedIsTheGpuAsked) {
  Add(Kernel(100), 100);
  const std::string mixed = "gpu=9.0 gpu=12.1";
  Drive(mixed, "full", "GPU-01020304-0506-0708-090a-0b0c0d0e0f10");
  EXPECT_EQ(Load().hello.device, 121u);
  EXPECT_EQ(answers_[0].state, State::kLoaded);
  Drive(mixed, "full", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  EXPECT_EQ(Load().hello.device, 90u);
  EXPECT_EQ(answers_[0].cuda_error, 218);
  // The second instance of a GPU in MIG mode.
  Drive("gpu=8.0,mig=2", "full", "MIG-11111112-2222-3333-4444-555555555555");
  EXPECT_EQ(Load().hello.device, 80u);
}

TEST_F(LoadImagesTest, DeviceMemoryIsNotTakenBeyondWhatIsAllowed) {
  Add(Kernel(80), 80);
  LoadImage& large = Add(Kernel(90), 90);
  large.job.expanded = uint64_t{3} << 30;
  list_.memory_bytes = uint64_t{1} << 30;
  Load();
  EXPECT_EQ(answers_[0].state, State::kLoaded);
  EXPECT_EQ(answers_[1].state, State::kTooLarge);
  EXPECT_THAT(answers_[1].log, HasSubstr("3.2 GB"));
}

TEST_F(LoadImagesTest, OutOfMemoryIsTriedOnceMoreAlone) {
  for (int i = 0; i < 4; ++i) Add(Kernel(90), 90);
  Drive("gpu=9.0,memory=4 image:compute_90=memory:8");
  Load();
  for (const LoadAnswer& answer : answers_) {
    EXPECT_EQ(answer.state, State::kRefused);
    EXPECT_EQ(answer.cuda_error, 2);
  }
}

class LinkTest : public LoadFixture {
 protected:
  void AddPiece(const std::string& body, int target = 90) {
    Add(Ptx(target, body), target).relocatable = true;
  }
  static constexpr char kCaller[] =
      ".extern .func helper\n();\n.visible .entry k() { call helper; ret; }\n";
  static constexpr char kHelper[] = ".visible .func helper() { ret; }\n";
};

TEST_F(LinkTest, PiecesThatNeedEachOtherAreLinkedTogether) {
  AddPiece(kCaller);
  AddPiece(kHelper);
  Load();
  for (const LoadAnswer& answer : answers_) {
    EXPECT_EQ(answer.state, State::kLoaded) << answer.log;
    EXPECT_TRUE(answer.linked);
  }
  // Counted once.
  EXPECT_EQ(answers_[0].functions + answers_[1].functions, 1u);
}

TEST_F(LinkTest, APieceThatOthersCompleteIsRefusedAlone) {
  AddPiece(kCaller);
  AddPiece(".visible .entry whole() { ret; }\n");
  Load();
  EXPECT_EQ(answers_[0].state, State::kRefused);
  EXPECT_EQ(answers_[0].cuda_error, 300);
  EXPECT_THAT(answers_[0].log, HasSubstr("Undefined reference to 'helper'"));
  EXPECT_THAT(answers_[0].log, HasSubstr("linked with 1 others"));
  EXPECT_EQ(answers_[1].state, State::kLoaded);
}

// Objects of an archive that cannot all be in one program.
TEST_F(LinkTest, PiecesThatExcludeEachOtherAreLinkedAlone) {
  AddPiece(".visible .entry k() { ret; }\n");
  AddPiece(".visible .entry k() { ret; }\n");
  Load();
  EXPECT_EQ(answers_[0].state, State::kLoaded) << answers_[0].log;
  EXPECT_EQ(answers_[1].state, State::kLoaded) << answers_[1].log;
}

TEST_F(LinkTest, OfEachFatbinTheBestPieceIsTaken) {
  AddPiece(kCaller, 90);
  AddPiece(kHelper, 90);
  AddPiece(kCaller, 80);
  list_.images[2].fatbin = 0;
  Load();
  for (const LoadAnswer& answer : answers_) {
    EXPECT_EQ(answer.state, State::kLoaded) << answer.log;
  }
}

TEST_F(LinkTest, PiecesForOtherGpusAreNotLinked) {
  AddPiece(kHelper, 100);
  Load();
  EXPECT_EQ(answers_[0].cuda_error, 218);
  EXPECT_FALSE(answers_[0].linked);
}

TEST_F(LinkTest, ALinkThatKillsItsProcessLeavesTheOthers) {
  AddPiece(kHelper);
  Add(Kernel(80), 80);
  Drive("gpu=9.0 cuLinkComplete=segv");
  const LoadOutcome outcome = Load();
  EXPECT_EQ(answers_[0].state, State::kDied);
  EXPECT_EQ(answers_[1].state, State::kLoaded);
  EXPECT_EQ(outcome.deaths, 1u);
}

TEST_F(LinkTest, WithoutALinkerPiecesAreLoadedAsTheyAre) {
  AddPiece(kHelper);
  AddPiece(kCaller);
  Drive("gpu=9.0", "old");
  Load();
  EXPECT_EQ(answers_[0].state, State::kLoaded) << answers_[0].log;
  EXPECT_FALSE(answers_[0].linked);
  EXPECT_EQ(answers_[1].cuda_error, 218);
}

}  // namespace
}  // namespace twinpath::runner
