#include "compat/predict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compat/reason.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

using ::testing::HasSubstr;

v1::Prediction On(const std::string& host, const v1::ArtifactReport& report,
                  const PredictOptions& options = {}) {
  const v1::HostFacts facts = FakeHost(host);
  return Predict(report, facts, facts.gpus(0), TestTables(), options);
}

std::string EntryAnswers(const v1::ArtifactReport& report,
                         const v1::Entry& entry, const std::string& host) {
  const v1::HostFacts facts = FakeHost(host);
  v1::Prediction prediction;
  for (auto& path :
       PredictEntry(report, entry, facts, facts.gpus(0), TestTables())) {
    *prediction.add_paths() = path;
  }
  return Answers(prediction);
}

// Files of every kind that hold no device code, and those that hide it.
TEST(Predict, FilesWithoutDeviceCode) {
  const auto one = [](v1::FileReport file) {
    return Answers(On("9.0 R580", MakeArtifactOf({std::move(file)})));
  };
  EXPECT_EQ(one(MakeFile("host.so", {})),
            "no-device-code | no-device-code | no-device-code");
  v1::FileReport packed = MakeFile("packed", {});
  packed.set_kind(v1::FILE_KIND_PACKED);
  EXPECT_EQ(one(packed), "unknown | unknown | unknown");
  v1::FileReport damaged = MakeFile("cut", {"sm_90"});
  damaged.set_kind(v1::FILE_KIND_DAMAGED_ELF);
  EXPECT_EQ(one(damaged), "unknown | unknown | unknown");
  v1::FileReport archive = MakeFile("x.zip", {});
  archive.set_kind(v1::FILE_KIND_ARCHIVE);
  EXPECT_EQ(one(archive), "unknown | unknown | unknown");
  // One that was opened: its members speak for themselves, unless some could
  // not be read.
  archive.mutable_carrier()->set_format("zip");
  EXPECT_EQ(one(archive), "no-device-code | no-device-code | no-device-code");
  archive.add_problems()->set_code("TP232");
  EXPECT_EQ(one(archive), "unknown | unknown | unknown");
  // The link stub alone: no kernel, no claim.
  EXPECT_EQ(one(MakeFile("stub", {"-: sm_90"})),
            "no-device-code | no-device-code | no-device-code");
}

TEST(Predict, ACarrierLeavesTheAnswerToItsMembers) {
  v1::FileReport wheel = MakeFile("x.whl", {});
  wheel.set_kind(v1::FILE_KIND_ARCHIVE);
  wheel.mutable_carrier()->set_format("wheel");
  v1::FileReport member = MakeFile("x.whl!/pkg/_c.so", {"sm_90 compute_90"});
  member.set_member_of("x.whl");
  EXPECT_EQ(Answers(On("9.0 R580", MakeArtifactOf({wheel, member}))),
            Answers(On("9.0 R580", MakeArtifactOf({member}))));
}

TEST(Predict, AnEmptyArtifactHoldsNothing) {
  EXPECT_EQ(Answers(On("9.0 R580", v1::ArtifactReport())),
            "no-device-code | no-device-code | no-device-code");
}

TEST(Predict, WrapperThatPointsAtNothingGives200) {
  v1::FileReport file = MakeFile("app", {"sm_90 compute_90"});
  v1::Wrapper& wrapper = *file.add_wrappers();
  wrapper.set_version(1);
  wrapper.set_resolved(false);
  const v1::Prediction prediction = On("9.0 R580", MakeArtifactOf({file}));
  EXPECT_EQ(Answers(prediction), "fails 200 | fails 200 | fails 200");
  EXPECT_EQ(prediction.paths(0).reasons(0).code(), "TP230");
}

TEST(Predict, DamagedFatbinIsUnknown) {
  v1::FileReport file = MakeFile("app", {"sm_90"});
  file.mutable_fatbins(0)->set_damaged(true);
  const v1::Prediction prediction = On("9.0 R580", MakeArtifactOf({file}));
  EXPECT_EQ(Answers(prediction), "unknown | unknown | unknown");
  EXPECT_EQ(prediction.paths(0).reasons(0).code(), "TP229");
}

TEST(Predict, UnknownKindsMatterOnlyWhereNothingKnownFits) {
  EXPECT_EQ(Answers(On("9.0 R580", MakeArtifact({"sm_90 other512"}))),
            "native | unknown | native");
  EXPECT_EQ(Answers(On("9.0 R580", MakeArtifact({"compute_90 other512"}))),
            "unknown | jit | jit");
  EXPECT_EQ(Answers(On("9.0 R580", MakeArtifact({"other512"}))),
            "unknown | unknown | unknown");
}

TEST(Predict, OpaquePayloadIsUnknown) {
  v1::FileReport file = MakeFile("app", {"sm_90"});
  file.mutable_fatbins(0)->mutable_images(0)->set_compression(
      v1::COMPRESSION_OPAQUE);
  EXPECT_EQ(Answers(On("9.0 R580", MakeArtifactOf({file}))),
            "unknown | fails 209 | unknown");
}

// A file that was not read whole does not fail by what is missing.
TEST(Predict, IncompleteReportDoesNotFail) {
  v1::FileReport file = MakeFile("app", {"sm_80"});
  *file.add_problems() = MakeReason("TP232", "image 7 is larger than the cap");
  const v1::Prediction prediction = On("9.0 R580", MakeArtifactOf({file}));
  EXPECT_EQ(Answers(prediction), "unknown | unknown | unknown");
  EXPECT_EQ(prediction.paths(0).reasons(0).code(), "TP232");
}

// Findings about what was read leave nothing unread.
TEST(Predict, FindingsAreNoGaps) {
  v1::FileReport file = MakeFile("app", {"sm_80"});
  const std::string plain = Answers(On("9.0 R580", MakeArtifactOf({file})));
  for (const char* code : {"TP234", "TP236", "TP240"}) {
    *file.add_problems() = MakeReason(code, "something to know");
  }
  EXPECT_EQ(Answers(On("9.0 R580", MakeArtifactOf({file}))), plain);
}

// The chosen PTX is the nearest target, whatever its ISA; there is no second
// try with an older one.
TEST(Predict, NearestPtxIsChosen) {
  EXPECT_EQ(
      Answers(On("9.0 R580", MakeArtifact({"compute_75@8.0 compute_90@9.2"}))),
      "fails 223 | fails 222 | fails 222");
  EXPECT_EQ(
      Answers(On("9.0 R580", MakeArtifact({"compute_90@9.0 compute_100@9.2"}))),
      "fails 223 | jit | jit");
}

// The measured ceiling beats the table.
TEST(Predict, MeasuredCeilingWins) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  facts.mutable_driver()->mutable_ptx_isa_ceiling()->set_major(9);
  facts.mutable_driver()->mutable_ptx_isa_ceiling()->set_minor(2);
  facts.mutable_driver()->mutable_ptx_isa_probe()->set_state(
      v1::PROBE_STATE_OK);
  EXPECT_EQ(Answers(Predict(MakeArtifact({"compute_90@9.2"}), facts,
                            facts.gpus(0), TestTables())),
            "fails 223 | jit | jit");
}

// A driver newer than the tables: what older ones take is sure, the rest open.
TEST(Predict, DriverNewerThanTheTables) {
  EXPECT_EQ(Answers(On("9.0 CUDA14.0", MakeArtifact({"sm_90 compute_90@9.0"}))),
            "native | jit | native");
  EXPECT_EQ(Answers(On("9.0 CUDA14.0", MakeArtifact({"compute_90@9.9"}))),
            "fails 223 | unknown | unknown");
}

TEST(Predict, MixedFatbinsAreJitWithBothReasons) {
  const v1::Prediction prediction =
      On("9.0 R580", MakeArtifact({"sm_90", "compute_90"}));
  EXPECT_EQ(Answers(prediction), "native | jit | jit");
  EXPECT_TRUE(HasReason(prediction.paths(2), "TP206"));
  EXPECT_TRUE(HasReason(prediction.paths(2), "TP200"));
  EXPECT_EQ(prediction.paths(0).gaps(), 1u);
  EXPECT_EQ(prediction.paths(1).gaps(), 1u);
  EXPECT_EQ(prediction.paths(2).gaps(), 0u);
  // The greater part names the outcome; the rest stays visible.
  const v1::Prediction mostly =
      On("9.0 R580", MakeArtifact({"sm_90", "sm_90", "compute_90"}));
  EXPECT_EQ(Answers(mostly), "native | jit | native");
  EXPECT_TRUE(HasReason(mostly.paths(2), "TP206"));
  EXPECT_TRUE(HasReason(mostly.paths(2), "TP235"));
}

TEST(Predict, KernelsThatDifferAreListed) {
  const v1::ArtifactReport report =
      MakeArtifact({"both: sm_90 compute_90", "ptx: compute_90", "old: sm_80"});
  const v1::Prediction prediction = On("9.0 R580", report);
  ASSERT_EQ(prediction.files(0).kernels_size(), 3);
  const auto& kernels = prediction.files(0).kernels();
  EXPECT_EQ(kernels[0].kernel(), "both");  // native on plain, the file is jit
  EXPECT_EQ(Answer(kernels[1].paths(0)), "fails 223");
  EXPECT_EQ(Answer(kernels[2].paths(2)), "fails 209");
  PredictOptions options;
  options.max_kernels = 1;
  EXPECT_EQ(On("9.0 R580", report, options).files(0).kernels_size(), 1);
  options.all_kernels = true;
  EXPECT_EQ(On("9.0 R580", report, options).files(0).kernels_size(), 3);
}

TEST(Predict, ImagesOnRequest) {
  PredictOptions options;
  options.all_images = true;
  const v1::Prediction prediction =
      On("9.0 R580", MakeArtifact({"sm_80 sm_90 compute_120"}), options);
  ASSERT_EQ(prediction.files(0).images_size(), 3);
  EXPECT_EQ(Answer(prediction.files(0).images(0).paths(0)), "fails 209");
  EXPECT_EQ(Answer(prediction.files(0).images(1).paths(0)), "native");
  EXPECT_EQ(Answer(prediction.files(0).images(2).paths(1)), "fails 209");
  EXPECT_EQ(On("9.0 R580", MakeArtifact({"sm_80"})).files(0).images_size(), 0);
}

TEST(Predict, NeededKernelWithoutImageFails) {
  const v1::ArtifactReport report =
      MakeArtifact({"a: sm_90 compute_90", "b: sm_80"});
  EXPECT_EQ(Answers(On("9.0 R580", report)), "native | jit | native");
  PredictOptions options;
  options.needed_kernels = {"b"};
  const v1::Prediction failing = On("9.0 R580", report, options);
  EXPECT_EQ(Answers(failing), "fails 209 | fails 209 | fails 209");
  EXPECT_EQ(failing.paths(0).reasons(0).code(), "TP227");
  EXPECT_THAT(failing.paths(0).reasons(0).detail(), HasSubstr("kernel b"));
  options.needed_kernels = {"a"};
  EXPECT_EQ(Answers(On("9.0 R580", report, options)), "native | jit | native");
  options.needed_kernels = {"absent"};
  EXPECT_EQ(Answers(On("9.0 R580", report, options)),
            "fails 500 | fails 500 | fails 500");
}

TEST(Predict, TheWorstMemberIsNamed) {
  const v1::Prediction prediction =
      On("9.0 R580", MakeArtifactOf({MakeFile("good.so", {"sm_90 compute_90"}),
                                     MakeFile("bad.so", {"sm_80"})}));
  EXPECT_EQ(Answers(prediction), "fails 209 | fails 209 | fails 209");
  EXPECT_THAT(prediction.paths(2).reasons(0).detail(), HasSubstr("bad.so: "));
  // Only kernels of bad.so fail.
  EXPECT_EQ(prediction.paths(2).gaps(), 1u);
  EXPECT_EQ(prediction.model_version(), TestTables().version());
}

// One artifact for hosts of both CPUs: a host is judged by the files for it.
TEST(Predict, FilesForTheOtherCpuAreNotJudged) {
  v1::FileReport here = MakeFile("x86/libk.so", {"sm_90 compute_90"});
  v1::FileReport there = MakeFile("arm/libk.so", {"sm_90 compute_90"});
  there.mutable_elf()->set_cpu_architecture(v1::CPU_ARCHITECTURE_AARCH64);
  const v1::ArtifactReport both = MakeArtifactOf({there, here});
  const v1::Prediction prediction = On("9.0 R580", both);
  EXPECT_EQ(Answers(prediction), "native | jit | native");
  EXPECT_EQ(prediction.paths(2).gaps(), 0u);
  // What is left out is said.
  EXPECT_TRUE(HasReason(prediction.paths(2), "TP208"));
  EXPECT_EQ(Answers(On("9.0 R580 aarch64", both)), "native | jit | native");
  // Alone it fails.
  EXPECT_EQ(Answers(On("9.0 R580", MakeArtifactOf({there}))),
            "fails 0 | fails 0 | fails 0");

  // A failure among the files for this CPU still decides.
  v1::FileReport old = MakeFile("x86/old.so", {"sm_80"});
  EXPECT_EQ(Answers(On("9.0 R580", MakeArtifactOf({there, here, old}))),
            "fails 209 | fails 209 | fails 209");
}

TEST(PredictEntry, TakesLibrariesForTheProgramsCpu) {
  v1::FileReport app = MakeFile("x86/app", {"sm_90 compute_90"});
  app.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
  app.mutable_elf()->add_needed("libk.so");
  v1::FileReport here = MakeFile("x86/libk.so", {"k: sm_90 compute_90"});
  v1::FileReport there = MakeFile("arm/libk.so", {"k: sm_90 compute_90"});
  there.mutable_elf()->set_cpu_architecture(v1::CPU_ARCHITECTURE_AARCH64);
  const v1::ArtifactReport report = MakeArtifactOf({there, here, app});
  v1::Entry entry;
  entry.add_command("x86/app");
  EXPECT_EQ(EntryAnswers(report, entry, "9.0 R580"), "native | jit | native");
  // The program itself decides on a host of the other CPU.
  EXPECT_EQ(EntryAnswers(report, entry, "9.0 R580 aarch64"),
            "fails 0 | fails 0 | fails 0");
  entry.set_command(0, "/bin/sh");
  EXPECT_EQ(EntryAnswers(report, entry, "9.0 R580"), "native | jit | native");
}

// NVIDIA's libraries of the host are not in the report; under forced
// compilation they may fail where the files themselves do not.
TEST(PredictEntry, NamesVendorLibrariesOfTheHost) {
  v1::FileReport app = MakeFile("app", {"sm_90 compute_90"});
  app.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
  app.mutable_elf()->add_needed("libcublas.so.13");
  v1::Entry entry;
  entry.add_command("app");
  const v1::HostFacts facts = FakeHost("9.0 R580");
  const auto paths = [&](const v1::ArtifactReport& report) {
    return PredictEntry(report, entry, facts, facts.gpus(0), TestTables());
  };
  const auto outside = paths(MakeArtifactOf({app}));
  EXPECT_EQ(outside[1].outcome(), v1::OUTCOME_JIT);
  EXPECT_TRUE(HasReason(outside[1], "TP222"));
  EXPECT_FALSE(HasReason(outside[0], "TP222"));
  EXPECT_FALSE(HasReason(outside[2], "TP222"));
  // Among the files it is judged: it cannot follow, which is no fault of the
  // program, whose own code compiles.
  const auto inside = paths(MakeArtifactOf(
      {app, MakeFile("libcublas.so.13", {"sm_90 compute_120@9.0"})}));
  EXPECT_EQ(inside[1].outcome(), v1::OUTCOME_JIT);
  EXPECT_TRUE(HasReason(inside[1], "TP222"));
}

TEST(Predict, RunTimeCompilers) {
  v1::FileReport host = MakeFile("gen.so", {});
  host.add_runtime_compilers()->set_name("nvrtc");
  host.mutable_runtime_compilers(0)->set_evidence("libnvrtc.so.13");
  // Alone: what it makes cannot be seen.
  EXPECT_EQ(Answers(On("9.0 R580", MakeArtifactOf({host}))),
            "unknown | unknown | unknown");
  // Beside code that can be judged it is a warning, not the answer.
  const v1::Prediction both =
      On("9.0 R580",
         MakeArtifactOf({host, MakeFile("lib.so", {"sm_90 compute_90"})}));
  EXPECT_EQ(Answers(both), "native | jit | native");
  EXPECT_TRUE(HasReason(both.paths(2), "TP214"));
  // The compiler itself holds no code of its own.
  v1::FileReport compiler = MakeFile("lib/libnvrtc.so.13", {});
  *compiler.add_runtime_compilers() = host.runtime_compilers(0);
  EXPECT_EQ(Answers(On("9.0 R580", MakeArtifactOf({compiler}))),
            "no-device-code | no-device-code | no-device-code");
}

TEST(Predict, LeakedSwitchIsAWarningOnPlain) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  Leak(facts, "CUDA_FORCE_PTX_JIT", "1");
  v1::EnvironmentLeak& off = *facts.add_leaks();
  off.set_variable("CUDA_DISABLE_PTX_JIT");
  off.set_value("0");
  const v1::Prediction prediction =
      Predict(MakeArtifact({"sm_90"}), facts, facts.gpus(0), TestTables());
  int warnings = 0;
  for (const v1::Reason& reason : prediction.paths(2).reasons()) {
    if (reason.code() != "TP109") continue;
    ++warnings;
    EXPECT_THAT(reason.detail(), HasSubstr("/etc/environment:3"));
  }
  EXPECT_EQ(warnings, 1);
}

TEST(PredictEntry, TakesTheProgramAndWhatItNeeds) {
  v1::FileReport app = MakeFile("bin/app", {"sm_90 compute_90"});
  app.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
  app.mutable_elf()->add_needed("libgood.so.1");
  v1::FileReport good = MakeFile("lib/libgood.so.1.2", {"g: sm_90 compute_90"});
  good.mutable_elf()->set_soname("libgood.so.1");
  v1::FileReport plugin = MakeFile("lib/plugin.so", {"p: sm_80"});
  const v1::ArtifactReport report = MakeArtifactOf({app, good, plugin});
  v1::Entry entry;
  entry.add_command("bin/app");
  EXPECT_EQ(EntryAnswers(report, entry, "9.0 R580"), "native | jit | native");
  // The whole artifact is not the entry.
  EXPECT_EQ(Answers(On("9.0 R580", report)),
            "fails 209 | fails 209 | fails 209");

  // A file or kernel it covers counts too.
  v1::Entry covers = entry;
  covers.add_covers("lib/plugin.so");
  EXPECT_EQ(EntryAnswers(report, covers, "9.0 R580"),
            "fails 209 | fails 209 | fails 209");
  v1::Entry launches = entry;
  launches.add_must_launch("p");
  EXPECT_EQ(EntryAnswers(report, launches, "9.0 R580"),
            "fails 209 | fails 209 | fails 209");
  // A kernel of a library outside the artifact is not judged here.
  v1::Entry foreign = entry;
  foreign.add_must_launch("cublas_kernel");
  EXPECT_EQ(EntryAnswers(report, foreign, "9.0 R580"), "native | jit | native");

  // A program of the host: everything in the artifact counts.
  v1::Entry python;
  python.add_command("/usr/bin/python3");
  EXPECT_EQ(EntryAnswers(report, python, "9.0 R580"),
            "fails 209 | fails 209 | fails 209");
}

// Adding an image never turns a path red; adding PTX never changes native.
TEST(PredictProperty, AddingAnImageNeverHurts) {
  const std::vector<std::string> images = {
      "sm_75",       "sm_80",       "sm_86",       "sm_90",      "sm_90a",
      "sm_100f",     "sm_120",      "sm_121",      "compute_75", "compute_90",
      "compute_90a", "compute_120", "compute_100f"};
  const std::vector<std::string> hosts = {"7.5 R580",  "8.0 R580",  "8.9 R580",
                                          "9.0 R580",  "10.0 R580", "10.3 R580",
                                          "12.0 R580", "12.1 R580"};
  const auto good = [](const v1::PathPrediction& path) {
    return path.outcome() == v1::OUTCOME_NATIVE ||
           path.outcome() == v1::OUTCOME_JIT;
  };
  for (const std::string& host : hosts) {
    for (size_t first = 0; first < images.size(); ++first) {
      for (size_t second = 0; second < images.size(); ++second) {
        if (first == second) continue;
        const std::string pair = images[first] + " " + images[second];
        const v1::Prediction alone = On(host, MakeArtifact({images[first]}));
        const v1::Prediction both = On(host, MakeArtifact({pair}));
        for (int path = 0; path < 3; ++path) {
          EXPECT_TRUE(!good(alone.paths(path)) || good(both.paths(path)))
              << pair << " on " << host << " path " << path;
          EXPECT_NE(both.paths(path).outcome(), v1::OUTCOME_UNKNOWN);
        }
        if (images[second].rfind("compute", 0) == 0) {
          EXPECT_EQ(good(alone.paths(0)), good(both.paths(0)))
              << pair << " on " << host;
        }
      }
    }
  }
}

// A newer driver of the same major never turns green to red.
TEST(PredictProperty, NewerDriverNeverHurts) {
  for (const char* image : {"sm_90", "compute_90@8.0", "compute_90@8.8",
                            "compute_90@9.0", "sm_80/zstd compute_80@8.4"}) {
    bool was_good = false;
    for (const char* host : {"9.0 R525", "9.0 R535", "9.0 R550", "9.0 R565",
                             "9.0 R570", "9.0 R580", "9.0 R595"}) {
      const v1::Prediction prediction = On(host, MakeArtifact({image}));
      const bool good = prediction.paths(2).outcome() != v1::OUTCOME_FAILS;
      EXPECT_TRUE(good || !was_good) << image << " on " << host;
      was_good = good;
    }
    EXPECT_TRUE(was_good) << image;
  }
}

}  // namespace
}  // namespace twinpath::compat
