// What the variables that a host's programs inherit do to predictions.

#include "compat/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

// Measured on an H200 (docs/gpu-runs.md): sm_90 alone passes natively and fails
// with 209 under the forced switch.
TEST(Environment, ForcedJitIsWhatUsersGet) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  Leak(facts, "CUDA_FORCE_PTX_JIT", "1");
  const v1::Prediction prediction = Ask(MakeArtifact({"sm_90"}), facts);
  EXPECT_EQ(Answers(prediction), "native | fails 209 | fails 209");
  EXPECT_THAT(FirstReason(prediction.paths(2)),
              HasSubstr("TP122 environment-decides-path: CUDA_FORCE_PTX_JIT=1 "
                        "in /etc/environment:3"));
  EXPECT_TRUE(HasReason(prediction.paths(2), "TP202"));
  EXPECT_EQ(Answer(prediction.files(0).paths(2)), "fails 209");
  EXPECT_EQ(Answers(Ask(MakeArtifact({"sm_90 compute_90"}), facts)),
            "native | jit | jit");
  // What fails anyway is not the switch's fault.
  const v1::Prediction other = Ask(MakeArtifact({"sm_100"}), facts);
  EXPECT_EQ(Answers(other), "fails 209 | fails 209 | fails 209");
  EXPECT_THAT(FirstReason(other.paths(2)), HasSubstr("TP201"));
  EXPECT_TRUE(HasReason(other.paths(2), "TP109"));
}

TEST(Environment, DisabledJitAndBoth) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  Leak(facts, "CUDA_DISABLE_JIT", "1");
  EXPECT_EQ(Answers(Ask(MakeArtifact({"compute_90"}), facts)),
            "fails 223 | jit | fails 223");
  EXPECT_EQ(Answers(Ask(MakeArtifact({"sm_90"}), facts)),
            "native | fails 209 | native");
  // Measured: both set give 223.
  Leak(facts, "CUDA_FORCE_JIT", "1");
  EXPECT_EQ(Answers(Ask(MakeArtifact({"sm_90 compute_90"}), facts)),
            "native | jit | fails 223");
  EXPECT_EQ(Answers(Ask(MakeArtifact({"sm_90"}), facts)),
            "native | fails 209 | fails 209");
}

// Measured with both switches: 223 (docs/gpu-runs.md). It is given as soon as
// the PTX's target fits, whatever its ISA or the missing compiler would say;
// 209 where none fits.
TEST(Environment, BothSwitchesGive223WhateverElseStopsTheCompiler) {
  const auto plain = [](const std::string& fatbin, const std::string& words,
                        bool jit_library_known = true) {
    v1::HostFacts facts = FakeHost(words);
    if (!jit_library_known) facts.mutable_driver()->clear_jit_library();
    Leak(facts, "CUDA_FORCE_PTX_JIT", "1");
    Leak(facts, "CUDA_DISABLE_PTX_JIT", "1");
    const v1::Prediction prediction = Ask(MakeArtifact({fatbin}), facts);
    EXPECT_EQ(prediction.paths(2).gaps(), 0u) << fatbin;
    EXPECT_EQ(prediction.paths(2).settled_by(), "") << fatbin;
    return Answer(prediction.paths(2));
  };
  EXPECT_EQ(plain("compute_90", "9.0 R580"), "fails 223");
  EXPECT_EQ(plain("sm_90 compute_90@9.3", "9.0 R580"), "fails 223");
  EXPECT_EQ(plain("compute_90@9.3", "9.0 R580"), "fails 223");
  EXPECT_EQ(plain("sm_90 compute_90", "9.0 R580 no-jit-library"), "fails 223");
  EXPECT_EQ(plain("sm_90 compute_90", "9.0 R580", false), "fails 223");
  EXPECT_EQ(plain("sm_90 compute_100", "9.0 R580"), "fails 209");
  EXPECT_EQ(plain("sm_121 compute_121", "9.0 R580"), "fails 209");
  // What fails anyway is not the switches' fault.
  v1::HostFacts facts = FakeHost("9.0 R580");
  Leak(facts, "CUDA_FORCE_PTX_JIT", "1");
  Leak(facts, "CUDA_DISABLE_PTX_JIT", "1");
  EXPECT_THAT(FirstReason(Ask(MakeArtifact({"sm_100"}), facts).paths(2)),
              HasSubstr("TP201"));
  // Of many fatbins some have no PTX: nothing is left over to be a gap.
  EXPECT_EQ(Ask(MakeArtifact({"a: sm_90 compute_90", "b: sm_90"}), facts)
                .paths(2)
                .gaps(),
            0u);
}

// Handed to the driver directly, machine code is not reached by the switches
// (measured).
TEST(Environment, BothSwitchesLeaveCubinsAlone) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  Leak(facts, "CUDA_FORCE_PTX_JIT", "1");
  Leak(facts, "CUDA_DISABLE_PTX_JIT", "1");
  EXPECT_EQ(
      Answers(Ask(MakeArtifactOf({MakeBareFile("a.cubin", "sm_90")}), facts)),
      "native | native | native");
}

TEST(Environment, OneServicesVariablesAreOnlySaid) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  Leak(facts, "CUDA_FORCE_PTX_JIT", "1", "/etc/systemd/system/mine.service");
  Leak(facts, "CUDA_DISABLE_PTX_JIT", "0");
  const v1::Prediction prediction = Ask(MakeArtifact({"sm_90"}), facts);
  EXPECT_EQ(Answers(prediction), "native | fails 209 | native");
  EXPECT_TRUE(HasReason(prediction.paths(2), "TP109"));
  EXPECT_FALSE(HasReason(prediction.paths(2), "TP122"));
}

// Twinpath's own runs start without the host's variables.
TEST(Environment, EntriesRunWithoutThem) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  Leak(facts, "CUDA_FORCE_PTX_JIT", "1");
  v1::FileReport app = MakeFile("app", {"sm_90"});
  app.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
  const v1::ArtifactReport report = MakeArtifactOf({app});
  v1::Entry entry;
  entry.add_command("app");
  const auto paths =
      PredictEntry(report, entry, facts, facts.gpus(0), TestTables());
  EXPECT_EQ(Answer(paths[2]), "native");
  EXPECT_TRUE(HasReason(paths[2], "TP109"));
  PredictOptions options;
  options.inherit_environment = false;
  EXPECT_EQ(
      Answers(Predict(report, facts, facts.gpus(0), TestTables(), options)),
      "native | fails 209 | native");
}

TEST(Environment, VisibleDevices) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  v1::Gpu& second = *facts.add_gpus();
  second = facts.gpus(0);
  second.set_uuid("GPU-00000000-0000-0000-0000-000000000002");
  v1::EnvironmentLeak& leak = Leak(facts, "CUDA_VISIBLE_DEVICES", "");
  const v1::ArtifactReport report = MakeArtifact({"sm_90 compute_90"});
  const auto plain = [&](const std::string& value, int gpu = 0) {
    leak.set_value(value);
    const v1::Prediction prediction =
        Predict(report, facts, facts.gpus(gpu), TestTables());
    return absl::StrCat(
        Answer(prediction.paths(2)),
        HasReason(prediction.paths(2), "TP123") ? " TP123" : "");
  };
  // The list ends at the first entry that names no device (Programming Guide);
  // measured: 100 for an empty value and for -1.
  for (const char* value :
       {"", "-1", "-1,0", "7", "GPU-ffff", "none", "GPU-"}) {
    EXPECT_EQ(plain(value), "fails 100 TP123") << value;
  }
  EXPECT_EQ(plain("0,1"), "native");
  EXPECT_EQ(plain("0,-1,1", 0), "native");
  EXPECT_EQ(plain("0,-1,1", 1), "native TP123");
  EXPECT_EQ(plain("1"), "native TP123");
  EXPECT_EQ(plain(facts.gpus(0).uuid()), "native");
  EXPECT_EQ(plain(facts.gpus(1).uuid()), "native TP123");
  // A beginning that fits both names neither.
  EXPECT_EQ(plain("GPU-00000000"), "fails 100 TP123");
  // Two models: an index means nothing without the order
  // (unslothai/unsloth#6352).
  facts.mutable_gpus(1)->set_name("GPU of another model");
  EXPECT_EQ(plain("0"), "native TP123");
  Leak(facts, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  EXPECT_EQ(plain("0"), "native");
}

TEST(Environment, InjectedLibrariesAreNamed) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  Leak(facts, "CUDA_INJECTION64_PATH", "/opt/tool/libinject.so");
  Leak(facts, "LD_PRELOAD", "/opt/tool/libpre.so");
  const v1::Prediction prediction = Ask(MakeArtifact({"sm_90"}), facts);
  EXPECT_EQ(Answer(prediction.paths(2)), "native");
  EXPECT_TRUE(HasReason(prediction.paths(2), "TP126"));
  EXPECT_FALSE(HasReason(prediction.paths(0), "TP126"));
}

// Images and profiles with the compat folder in LD_LIBRARY_PATH for good.
TEST(Environment, CompatFolderInTheLibraryPath) {
  const auto host = [](const std::string& words, const std::string& gpu) {
    v1::HostFacts facts = FakeHost(words);
    facts.mutable_gpus(0)->set_name(gpu);
    v1::ForwardCompatLibrary& library =
        *facts.mutable_driver()->add_forward_compat_libraries();
    library.set_path("/usr/local/cuda-13.0/compat/libcuda.so.580.95.05");
    library.set_libcuda_version("580.95.05");
    library.mutable_note()->mutable_cuda_version()->set_major(13);
    for (const uint32_t branch : {535, 550, 570, 575, 580}) {
      library.mutable_note()->add_driver_branches(branch);
    }
    Leak(facts, "LD_LIBRARY_PATH", "/opt/x:/usr/local/cuda/compat");
    return facts;
  };
  v1::ArtifactReport report = MakeArtifact({"sm_80 compute_80"});
  report.mutable_files(0)->mutable_elf()->mutable_cudart()->set_major(13);
  // The package brings CUDA 13.0 to an R535 host: users get it, runs do not.
  EXPECT_EQ(Answers(Ask(report, host("8.0 R535", "NVIDIA A100-SXM4-80GB"))),
            "fails 35 | fails 35 | native");
  const v1::Prediction newer =
      Ask(report, host("8.0 R595", "NVIDIA A100-SXM4-80GB"));
  EXPECT_EQ(Answers(newer), "native | jit | fails 803");
  EXPECT_THAT(FirstReason(newer.paths(2)), HasSubstr("in /etc/environment:3"));
  EXPECT_EQ(Answers(Ask(report, host("8.6 R580", "NVIDIA GeForce RTX 3060"))),
            "native | jit | fails 804");
}

// An R535 host with an A100 and packages, one a path.
v1::HostFacts HostWithPackages(const std::vector<std::string>& paths,
                               const std::string& library_path,
                               const std::string& words = "8.0 R535",
                               const std::string& gpu = "NVIDIA A100-PCIE") {
  v1::HostFacts facts = FakeHost(words);
  facts.mutable_gpus(0)->set_name(gpu);
  for (const std::string& path : paths) {
    v1::ForwardCompatLibrary& library =
        *facts.mutable_driver()->add_forward_compat_libraries();
    const bool newer = absl::StrContains(path, "590.44.01");
    library.set_path(path);
    library.set_libcuda_version(newer ? "590.44.01" : "580.95.05");
    library.mutable_note()->mutable_cuda_version()->set_major(13);
    library.mutable_note()->mutable_cuda_version()->set_minor(newer ? 1 : 0);
    for (const uint32_t branch : {535, 550, 570, 575, 580}) {
      library.mutable_note()->add_driver_branches(branch);
    }
    if (newer) library.mutable_note()->add_driver_branches(590);
  }
  Leak(facts, "LD_LIBRARY_PATH", library_path);
  return facts;
}

constexpr char kCompat130[] =
    "/usr/local/cuda-13.0/compat/libcuda.so.580.95.05";
constexpr char kCompat131[] =
    "/usr/local/cuda-13.1/compat/libcuda.so.590.44.01";

// PTX 9.1 needs the libcuda of CUDA 13.1; that of 13.0 gives 222.
std::string Plain91(const v1::HostFacts& facts) {
  return Answer(Ask(MakeArtifact({"compute_80@9.1"}), facts).paths(2));
}

// ld.so(8): LD_LIBRARY_PATH is searched from left to right.
TEST(Environment, TheFirstCompatFolderWins) {
  for (const auto& installed :
       {std::vector<std::string>{kCompat130, kCompat131},
        std::vector<std::string>{kCompat131, kCompat130}}) {
    const auto plain = [&installed](const std::string& path) {
      return Plain91(HostWithPackages(installed, path));
    };
    EXPECT_EQ(plain("/usr/local/cuda-13.0/compat:/usr/local/cuda-13.1/compat"),
              "fails 222");
    EXPECT_EQ(plain("/usr/local/cuda-13.1/compat:/usr/local/cuda-13.0/compat"),
              "jit");
    EXPECT_EQ(plain("/opt/x;/usr/local/cuda-13.1/lib64/../compat/"), "jit");
  }
}

// /usr/local/cuda and /usr/local/cuda-13 are links to one of the toolkits.
TEST(Environment, ALinkThatMayLeadToSeveralPackagesIsUnknown) {
  for (const char* path :
       {"/usr/local/cuda/compat", "/usr/local/cuda-13/compat/"}) {
    const v1::Prediction prediction =
        Ask(MakeArtifact({"compute_80@9.1"}),
            HostWithPackages({kCompat130, kCompat131}, path));
    const v1::PathPrediction& plain = prediction.paths(2);
    EXPECT_EQ(Answer(plain), "unknown") << path;
    EXPECT_THAT(FirstReason(plain), HasSubstr("TP124")) << path;
    EXPECT_EQ(plain.settled_by(), absl::StrCat("readlink -f ", path));
    EXPECT_EQ(Plain91(HostWithPackages({kCompat131}, path)), "jit") << path;
  }
  // Each of them is refused here, so it does not matter which it is.
  EXPECT_EQ(Plain91(HostWithPackages({kCompat130, kCompat131},
                                     "/usr/local/cuda/compat", "8.6 R535",
                                     "NVIDIA GeForce RTX 3060")),
            "fails 804");
  // Another major's link leads to none of them, nor does another folder.
  for (const char* path :
       {"/usr/local/cuda-12/compat", "/usr/local/cuda/compat_orin"}) {
    EXPECT_EQ(Plain91(HostWithPackages({kCompat131}, path)), "fails 222")
        << path;
  }
}

TEST(Environment, OtherFoldersAreNotThePackage) {
  for (const char* path : {"/opt/compatible/lib", "/opt/compat-tools",
                           "/opt/vendor/compat", "/home/me/stubs2"}) {
    const v1::Prediction driver = Ask(MakeArtifact({"compute_80@9.1"}),
                                      HostWithPackages({kCompat131}, path));
    EXPECT_EQ(Answer(driver.paths(2)), "fails 222") << path;
    EXPECT_EQ(HasReason(driver.paths(2), "TP122"),
              std::string(path) == "/opt/vendor/compat")
        << path;
    EXPECT_EQ(Plain91(HostWithPackages({kCompat131}, path, "8.6 R590",
                                       "NVIDIA GeForce RTX 3060")),
              "jit")
        << path;
  }
}

// What is certain stays so: a file for another CPU, a GPU without an image, a
// program whose libraries are missing.
TEST(Environment, CertainFailuresStay) {
  v1::HostFacts facts = HostWithPackages({kCompat131}, "/usr/local/cuda/compat",
                                         "8.6 R535", "NVIDIA RTX A6000");
  EXPECT_EQ(Answer(Ask(MakeArtifact({"sm_80"}), facts).paths(2)), "unknown");
  const v1::PathPrediction other =
      Ask(MakeArtifact({"sm_100"}), facts).paths(2);
  EXPECT_EQ(Answer(other), "fails 209");
  EXPECT_TRUE(HasReason(other, "TP124"));
  v1::FileReport arm = MakeFile("lib.so", {"sm_80"});
  arm.mutable_elf()->set_cpu_architecture(v1::CPU_ARCHITECTURE_AARCH64);
  v1::FileReport app = MakeFile("app", {"sm_80"});
  app.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
  app.mutable_elf()->add_needed("libcudart.so.12");
  facts.mutable_loader()->add_complete_for("libcudart");
  const auto first = [&facts](const v1::FileReport& file) {
    return FirstReason(Ask(MakeArtifactOf({file}), facts).paths(2));
  };
  EXPECT_THAT(first(arm), HasSubstr("TP208"));
  EXPECT_THAT(first(app), HasSubstr("TP231"));
  Leak(facts, "CUDA_VISIBLE_DEVICES", "");
  EXPECT_THAT(first(arm), HasSubstr("TP208"));
  EXPECT_THAT(first(app), HasSubstr("TP231"));
  // Without a driver there is nothing to hide: 35 as before.
  v1::HostFacts none = FakeHost("9.0");
  none.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_ABSENT);
  Leak(none, "CUDA_VISIBLE_DEVICES", "");
  EXPECT_EQ(Answer(Ask(MakeArtifact({"sm_90"}), none).paths(2)), "fails 35");
}
}  // namespace
}  // namespace twinpath::compat
