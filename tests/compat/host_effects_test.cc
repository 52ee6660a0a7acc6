// What the rest of a host adds to predictions: its loader, its platform, and
// all its GPUs together.

#include "compat/host_effects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "compat/host_answer.h"
#include "compat/predict.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

v1::Prediction Ask(const v1::ArtifactReport& report,
                   const v1::HostFacts& facts) {
  return Predict(report, facts, facts.gpus(0), TestTables());
}

v1::ArtifactReport Arm(const std::string& fatbin, uint32_t cudart = 0) {
  v1::FileReport file = MakeFile("lib.so", {fatbin});
  file.mutable_elf()->set_cpu_architecture(v1::CPU_ARCHITECTURE_AARCH64);
  if (cudart > 0) file.mutable_elf()->mutable_cudart()->set_major(cudart);
  return MakeArtifactOf({file});
}

TEST(Platform, ServerBuildOnAJetson) {
  const v1::HostFacts orin = FakeHost("8.7 CUDA12.6 aarch64 tegra");
  // Nothing could load: the platform is the finding, not a missing target.
  const v1::Prediction hopper = Ask(Arm("sm_90", 12), orin);
  EXPECT_EQ(Answers(hopper), "fails 209 | fails 209 | fails 209");
  EXPECT_THAT(FirstReason(hopper.paths(0)),
              HasSubstr("TP209 platform-mismatch: holds sm_90: a build for Arm "
                        "servers, and the host is a Jetson"));
  EXPECT_TRUE(HasReason(hopper.paths(0), "TP201"));
  // sm_80 was seen to run on Orin (bitsandbytes-foundation/bitsandbytes#1930).
  const v1::Prediction ampere = Ask(Arm("sm_80 sm_90", 12), orin);
  EXPECT_EQ(Answer(ampere.paths(0)), "unknown");
  EXPECT_TRUE(HasReason(ampere.paths(0), "TP210"));
  EXPECT_TRUE(HasReason(ampere.paths(0), "TP249"));
  // A build with code for Orin is one for Jetson, whatever else it holds.
  EXPECT_EQ(Answer(Ask(Arm("sm_80 sm_87", 12), orin).paths(0)), "native");
  // From CUDA 13 on there is one toolkit for Arm.
  const v1::Prediction thor =
      Ask(Arm("sm_90", 13), FakeHost("11.0 R580 aarch64 tegra"));
  EXPECT_FALSE(HasReason(thor.paths(0), "TP209"));
}

TEST(Platform, JetsonBuildOnAnArmServer) {
  const v1::HostFacts gh200 = FakeHost("9.0 R580 aarch64");
  const v1::Prediction orin = Ask(Arm("sm_72 sm_87", 12), gh200);
  EXPECT_EQ(Answers(orin), "fails 209 | fails 209 | fails 209");
  EXPECT_THAT(FirstReason(orin.paths(2)), HasSubstr("a build for Jetson"));
  v1::ArtifactReport l4t = Arm("sm_90");
  l4t.mutable_files(0)->mutable_elf()->add_needed("libnvrm_gpu.so");
  EXPECT_EQ(Answers(Ask(l4t, gh200)), "fails 0 | fails 0 | fails 0");
  EXPECT_EQ(Answers(Ask(l4t, FakeHost("8.7 CUDA12.6 aarch64 tegra"))),
            "fails 209 | fails 209 | fails 209");
  // x86-64 files are another matter.
  EXPECT_FALSE(HasReason(
      Ask(MakeArtifact({"sm_87"}), FakeHost("9.0 R580")).paths(0), "TP209"));
}

// Which targets are Tegra's is said by the tables, and by nothing else: here
// by some that call 9.0 a Tegra part.
TEST(Platform, TablesSayWhatIsTegra) {
  const auto folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const char* source = std::getenv("TWINPATH_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  std::filesystem::copy(absl::StrCat(source, "/compat/tables"), folder->path(),
                        std::filesystem::copy_options::recursive);
  const std::string path = JoinPath(folder->path(), "gpus.yaml");
  auto text = ReadFile(path, 1 << 20);
  ASSERT_THAT(text, IsOk());
  const size_t row = text->find("- capability: \"9.0\"");
  const size_t word = text->find("discrete", row);
  ASSERT_NE(word, std::string::npos);
  text->replace(word, 8, "tegra");
  ASSERT_THAT(WriteFileAtomic(path, *text, 0644), IsOk());
  const auto tables = Tables::Load(folder->path());
  ASSERT_THAT(tables, IsOk());
  const v1::HostFacts server = FakeHost("10.0 R580 aarch64");
  const auto first = [&server](const Tables& which) {
    return FirstReason(
        Predict(Arm("sm_90", 12), server, server.gpus(0), which).paths(0));
  };
  EXPECT_THAT(first(TestTables()), HasSubstr("TP201"));
  EXPECT_THAT(first(*tables), HasSubstr("TP209"));
}

TEST(Platform, WindowsIsNamedWhereItsDriverIsTheMatter) {
  v1::HostFacts wsl = FakeHost("8.9 R570");
  wsl.set_platform(v1::PLATFORM_WSL);
  EXPECT_FALSE(HasReason(Ask(MakeArtifact({"sm_89"}), wsl).paths(2), "TP125"));
  EXPECT_TRUE(
      HasReason(Ask(MakeArtifact({"compute_80@9.3"}), wsl).paths(2), "TP125"));
}

TEST(Loading, AProgramThatDoesNotStartFailsWhateverItsCode) {
  v1::FileReport app = MakeFile("bin/app", {"sm_90 compute_90"});
  app.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
  app.mutable_elf()->add_needed("libcudart.so.12");
  app.mutable_elf()->mutable_cudart()->set_major(12);
  v1::HostFacts facts = FakeHost("9.0 R580");
  facts.mutable_loader()->add_complete_for("libcudart");
  const v1::Prediction prediction =
      Ask(MakeArtifactOf({app, MakeFile("lib/a.so", {"sm_90"})}), facts);
  EXPECT_EQ(Answers(prediction), "fails 0 | fails 0 | fails 0");
  EXPECT_THAT(FirstReason(prediction.paths(0)),
              HasSubstr("TP231 library-missing: bin/app: libcudart.so.12"));
  EXPECT_EQ(Answer(prediction.files(0).paths(0)), "fails 0");
  EXPECT_EQ(Answer(prediction.files(1).paths(0)), "native");
  ASSERT_THAT(prediction.libraries(), SizeIs(1));
  EXPECT_EQ(prediction.libraries(0).source(), v1::LIBRARY_SOURCE_NONE);
  v1::Entry entry;
  entry.add_command("bin/app");
  EXPECT_EQ(Answer(PredictEntry(MakeArtifactOf({app}), entry, facts,
                                facts.gpus(0), TestTables())[0]),
            "fails 0");
}

// Runs start without the host's LD_LIBRARY_PATH (docs/compat-model.md): what
// only it leads to serves users' programs alone.
TEST(Loading, TheLibraryPathServesUsersAlone) {
  v1::FileReport app = MakeFile("bin/app", {"sm_90 compute_90"});
  app.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
  app.mutable_elf()->add_needed("libcudart.so.13");
  const v1::ArtifactReport report = MakeArtifactOf({app});
  v1::HostFacts facts = FakeHost("9.0 R580");
  facts.mutable_loader()->add_complete_for("libcudart");
  facts.mutable_loader()->add_library_path()->set_path("/opt/cuda/lib64");
  v1::Library& library = *facts.add_libraries();
  library.set_soname("libcudart.so.13");
  library.set_path("/opt/cuda/lib64/libcudart.so.13");
  library.set_place(v1::LIBRARY_PLACE_LIBRARY_PATH);
  const v1::Prediction prediction = Ask(report, facts);
  EXPECT_EQ(Answers(prediction), "fails 0 | fails 0 | native");
  EXPECT_EQ(Answer(prediction.files(0).paths(0)), "fails 0");
  EXPECT_EQ(Answer(prediction.files(0).paths(2)), "native");
  EXPECT_THAT(FirstReason(prediction.paths(0)),
              HasSubstr("only LD_LIBRARY_PATH, which runs start without"));
  ASSERT_THAT(prediction.libraries(), SizeIs(1));
  EXPECT_EQ(prediction.libraries(0).found_by(), "LD_LIBRARY_PATH");
  v1::Entry entry;
  entry.add_command("bin/app");
  for (const v1::PathPrediction& path :
       PredictEntry(report, entry, facts, facts.gpus(0), TestTables())) {
    EXPECT_EQ(Answer(path), "fails 0");
    EXPECT_TRUE(HasReason(path, "TP231"));
  }
  // The library's RUNPATH copy is what runs take; users get the other one.
  v1::FileReport own = app;
  own.mutable_elf()->add_runpath("$ORIGIN/../lib");
  v1::FileReport cudart = MakeFile("lib/libcudart.so.13", {});
  cudart.mutable_elf()->set_soname("libcudart.so.13");
  const v1::Prediction bundled = Ask(MakeArtifactOf({own, cudart}), facts);
  EXPECT_EQ(Answers(bundled), "native | jit | native");
  EXPECT_FALSE(HasReason(bundled.paths(0), "TP127"));
  EXPECT_TRUE(HasReason(bundled.paths(2), "TP127"));
}

// A program that finds a compat package's libcuda of its own before the
// driver's has that one's CUDA version: a runtime 13 starts on R535, which by
// itself gives 35 (docs/compat-model.md).
TEST(Loading, ABundledCompatDriverSetsTheCudaVersion) {
  v1::FileReport app = MakeFile("app", {"sm_90 compute_90@9.1"});
  app.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
  app.mutable_elf()->set_static_cudart(true);
  app.mutable_elf()->mutable_cudart()->set_major(13);
  app.mutable_elf()->add_rpath("$ORIGIN/compat");
  v1::FileReport driver = MakeFile("compat/libcuda.so.590.44.01", {});
  driver.set_size_bytes(30 << 20);
  driver.mutable_elf()->set_soname("libcuda.so.1");
  v1::ForwardCompatNote& note = *driver.mutable_elf()->mutable_forward_compat();
  note.mutable_cuda_version()->set_major(13);
  note.mutable_cuda_version()->set_minor(1);
  note.add_driver_branches(535);
  const v1::ArtifactReport report = MakeArtifactOf({app, driver});
  v1::HostFacts facts = FakeHost("9.0 R535");
  facts.mutable_gpus(0)->set_name("NVIDIA H100 80GB HBM3");
  EXPECT_EQ(Answers(Ask(MakeArtifactOf({app}), facts)),
            "fails 35 | fails 35 | fails 35");
  const v1::Prediction prediction = Ask(report, facts);
  EXPECT_EQ(Answers(prediction), "native | jit | native");
  EXPECT_TRUE(HasReason(prediction.paths(0), "TP120"));
  v1::Entry entry;
  entry.add_command("app");
  EXPECT_EQ(Answer(PredictEntry(report, entry, facts, facts.gpus(0),
                                TestTables())[1]),
            "jit");
  // A second program without it still meets the driver.
  v1::FileReport other = app;
  other.set_name("other");
  other.mutable_elf()->clear_rpath();
  const v1::Prediction both = Ask(MakeArtifactOf({app, driver, other}), facts);
  EXPECT_EQ(Answer(both.paths(0)), "fails 35");
  EXPECT_EQ(Answer(both.files(0).paths(0)), "native");
  EXPECT_EQ(Answer(both.files(2).paths(0)), "fails 35");
  // Refused and undecided ones stop the program.
  facts.mutable_gpus(0)->set_name("NVIDIA GeForce RTX 5090");
  EXPECT_EQ(Answers(Ask(report, facts)), "fails 804 | fails 804 | fails 804");
}

// A public project's test of the PTX path failed inside cuFFT, whose code is
// machine code alone; its own kernels compiled. Measured for cuBLAS and cuFFT
// on an H200 (docs/gpu-runs.md).
TEST(ForcedJit, LibrariesThatCannotFollowAreNamedAndNotTheArtifactsFault) {
  const v1::ArtifactReport report =
      MakeArtifactOf({MakeFile("app", {"sm_90 compute_90"}),
                      MakeFile("libcufft.so.12", {"a: sm_90", "b: sm_90"})});
  const v1::Prediction prediction = Ask(report, FakeHost("9.0 R580"));
  EXPECT_EQ(Answers(prediction), "native | jit | native");
  bool named = false;
  for (const v1::Reason& reason : prediction.paths(1).reasons()) {
    named |= reason.code() == "TP222" &&
             absl::StrContains(reason.detail(), "libcufft.so.12 cannot follow");
    EXPECT_NE(reason.code(), "TP202");
  }
  EXPECT_TRUE(named);
  // By itself it is what was asked about.
  EXPECT_EQ(
      Answers(Ask(MakeArtifactOf({report.files(1)}), FakeHost("9.0 R580"))),
      "native | fails 209 | native");
  // With PTX for the GPU it follows.
  EXPECT_EQ(
      Answers(Ask(
          MakeArtifactOf({report.files(0),
                          MakeFile("libcublas.so.13", {"sm_120 compute_120"})}),
          FakeHost("12.0 R580"))),
      "fails 223 | jit | jit");
}

TEST(HostAnswer, TheWorstGpuSpeaksForTheHost) {
  v1::HostFacts facts = FakeHost("10.0 R580");
  v1::Gpu& old = *facts.add_gpus();
  old = facts.gpus(0);
  old.set_uuid("GPU-00000000-0000-0000-0000-0000000000aa");
  old.set_name("Tesla V100");
  old.mutable_compute_capability()->set_major(7);
  *facts.add_gpus() = facts.gpus(0);
  google::protobuf::RepeatedPtrField<v1::Prediction> predictions;
  for (const v1::Gpu* gpu : UsableGpus(facts)) {
    *predictions.Add() =
        Predict(MakeArtifact({"sm_100"}), facts, *gpu, TestTables());
  }
  const auto host = CombineGpus(predictions);
  ASSERT_THAT(host, SizeIs(3));
  EXPECT_EQ(Answer(host[0].prediction()), "fails 209");
  EXPECT_EQ(host[0].gpu_uuid(), old.uuid());
  EXPECT_EQ(host[0].gpu_name(), "Tesla V100");
  EXPECT_EQ(host[0].gpus(), 3u);
  EXPECT_EQ(host[0].gpus_alike(), 1u);
  // On ptx-jit none does better.
  EXPECT_EQ(host[1].gpus_alike(), 3u);
  EXPECT_TRUE(CombineGpus({}).empty());
}

// nanoporetech/dorado#1586: programs see slices, not the parent.
TEST(HostAnswer, MigInstancesStandForTheirParent) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  facts.mutable_gpus(0)->set_mig_mode(v1::MIG_MODE_ENABLED);
  EXPECT_THAT(UsableGpus(facts), SizeIs(1));
  for (const char* uuid : {"MIG-1", "MIG-2"}) {
    v1::Gpu& instance = *facts.add_gpus();
    instance = facts.gpus(0);
    instance.set_uuid(uuid);
    instance.set_parent_uuid(facts.gpus(0).uuid());
  }
  const auto usable = UsableGpus(facts);
  ASSERT_THAT(usable, SizeIs(2));
  EXPECT_EQ(usable[0]->uuid(), "MIG-1");
  const v1::Prediction prediction =
      Predict(MakeArtifact({"sm_90"}), facts, *usable[1], TestTables());
  EXPECT_EQ(Answer(prediction.paths(0)), "native");
  EXPECT_EQ(prediction.gpu_uuid(), "MIG-2");
}

}  // namespace
}  // namespace twinpath::compat
