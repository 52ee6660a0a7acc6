// Files of an artifact that nothing starts, and hosts whose programs inherit
// another libcuda: what is said, and that it is said once.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "compat/predict.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

v1::Prediction Ask(const v1::ArtifactReport& report,
                   const v1::HostFacts& facts) {
  return Predict(report, facts, facts.gpus(0), TestTables());
}

v1::FileReport Arm(const std::string& name) {
  v1::FileReport file = MakeFile(name, {"sm_90"});
  file.mutable_elf()->set_cpu_architecture(v1::CPU_ARCHITECTURE_AARCH64);
  return file;
}

// What no program loads by itself makes nothing fail but itself.
TEST(NotStarted, APluginForJetsonIsOnlySaid) {
  const v1::HostFacts gh200 = FakeHost("9.0 R580 aarch64");
  v1::FileReport app = Arm("app");
  app.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
  v1::FileReport plugin = Arm("libjetson.so");
  plugin.mutable_elf()->add_needed("libnvrm_gpu.so");
  for (const bool has_code : {true, false}) {
    v1::FileReport file = plugin;
    if (!has_code) file.clear_fatbins();
    const v1::Prediction prediction = Ask(MakeArtifactOf({app, file}), gh200);
    EXPECT_EQ(Answer(prediction.paths(0)), "native");
    EXPECT_TRUE(HasReason(prediction.paths(0), "TP249"));
    EXPECT_FALSE(HasReason(prediction.paths(0), "TP209"));
    EXPECT_EQ(Answer(prediction.files(1).paths(0)), "fails 0");
  }
  // A program that needs it does not start.
  app.mutable_elf()->add_needed("libjetson.so");
  app.mutable_elf()->add_rpath("$ORIGIN");
  EXPECT_EQ(Answers(Ask(MakeArtifactOf({app, plugin}), gh200)),
            "fails 0 | fails 0 | fails 0");
  // All code in such files.
  v1::FileReport second = plugin;
  second.set_name("libsecond.so");
  EXPECT_EQ(Answers(Ask(MakeArtifactOf({plugin, second}), gh200)),
            "fails 0 | fails 0 | fails 0");
}

// The loader takes what the process has loaded already (ld.so(8)): an
// extension's own libcuda counts only where nothing loaded the host's before.
TEST(NotStarted, ALibrarysOwnDriverIsOnlySaid) {
  v1::FileReport library = MakeFile("libext.so", {"sm_90"});
  library.mutable_elf()->add_needed("libcuda.so.1");
  library.mutable_elf()->add_rpath("$ORIGIN/lib");
  v1::FileReport copy = MakeFile("lib/libcuda.so.550.54.14", {});
  copy.mutable_elf()->set_soname("libcuda.so.1");
  copy.set_size_bytes(28 << 20);
  const v1::HostFacts facts = FakeHost("9.0 R580");
  const v1::Prediction by_itself = Ask(MakeArtifactOf({library, copy}), facts);
  EXPECT_EQ(Answer(by_itself.paths(0)), "native");
  EXPECT_TRUE(HasReason(by_itself.paths(0), "TP242"));
  EXPECT_EQ(Answer(by_itself.files(0).paths(0)), "native");
  library.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
  EXPECT_EQ(Answers(Ask(MakeArtifactOf({library, copy}), facts)),
            "fails 803 | fails 803 | fails 803");
}

// The package of LD_LIBRARY_PATH changes `plain`; what else the host does to
// it is said once.
TEST(Inherited, AnInheritedPackageDoesNotSayThingsTwice) {
  v1::HostFacts facts = FakeHost("8.0 R535");
  facts.mutable_gpus(0)->set_name("NVIDIA A100-SXM4-80GB");
  facts.mutable_loader()->add_complete_for("libcublas");
  v1::ForwardCompatLibrary& package =
      *facts.mutable_driver()->add_forward_compat_libraries();
  package.set_path("/usr/local/cuda-13.0/compat/libcuda.so.580.95.05");
  package.set_libcuda_version("580.95.05");
  package.mutable_note()->mutable_cuda_version()->set_major(13);
  package.mutable_note()->add_driver_branches(535);
  Leak(facts, "LD_LIBRARY_PATH", "/usr/local/cuda-13.0/compat");
  v1::FileReport library = MakeFile("libext.so", {"sm_80"});
  library.mutable_elf()->add_needed("libcublas.so.13");
  const v1::Prediction prediction = Ask(MakeArtifactOf({library}), facts);
  const v1::PathPrediction& plain = prediction.paths(2);
  for (const char* code : {"TP246", "TP120", "TP122"}) {
    EXPECT_EQ(std::count_if(
                  plain.reasons().begin(), plain.reasons().end(),
                  [code](const auto& reason) { return reason.code() == code; }),
              1)
        << code << "\n"
        << plain.DebugString();
  }
}

// Names come from the artifact; the command that settles is pasted.
TEST(SettledBy, AFilesNameIsOneWord) {
  const auto command = [](const std::string& name) {
    v1::FileReport file = MakeFile(name, {"sm_90"});
    file.set_kind(v1::FILE_KIND_PACKED);
    return Ask(MakeArtifactOf({file}), FakeHost("9.0 R580"))
        .paths(0)
        .settled_by();
  };
  const std::string host = " on a host with GPU 9.0 (9.0)";
  EXPECT_EQ(command("lib/a-1.0+cu12.so"),
            "twinpath check lib/a-1.0+cu12.so" + host);
  EXPECT_EQ(command("a b;id"), "twinpath check 'a b;id'" + host);
  EXPECT_EQ(command("a'b"), "twinpath check 'a'\\''b'" + host);
  EXPECT_EQ(command("--help"), "twinpath check ./--help" + host);
}

}  // namespace
}  // namespace twinpath::compat
