// A Predictor gives each host of a fleet what Predict gives it alone, whatever
// was asked before and from however many threads.

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compat/predict.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/generator.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

// Hosts that differ in all that an answer may depend on, and in what it must
// not.
std::vector<v1::HostFacts> Fleet() {
  std::vector<v1::HostFacts> fleet;
  for (const char* words :
       {"9.0 R580", "9.0 R580", "9.0 R535", "9.0 R580 no-jit-library",
        "12.1 R580 aarch64", "12.0 R580", "8.7 CUDA12.6 aarch64 tegra",
        "7.0 R590", "9.0 R525", "9.0 R620"}) {
    v1::HostFacts facts = FakeHost(words);
    facts.mutable_gpus(0)->set_uuid(absl::StrCat("GPU-", fleet.size()));
    fleet.push_back(facts);
  }
  v1::HostFacts named = FakeHost("9.0 R580");
  named.mutable_gpus(0)->set_name("NVIDIA H200");
  fleet.push_back(named);
  v1::HostFacts measured = FakeHost("9.0 R580");
  measured.mutable_driver()->mutable_ptx_isa_probe()->set_state(
      v1::PROBE_STATE_OK);
  measured.mutable_driver()->mutable_ptx_isa_ceiling()->set_major(8);
  measured.mutable_driver()->mutable_ptx_isa_ceiling()->set_minor(7);
  fleet.push_back(measured);
  v1::HostFacts hung = FakeHost("9.0 R580");
  hung.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_HUNG);
  fleet.push_back(hung);
  v1::HostFacts leaking = FakeHost("9.0 R580");
  Leak(leaking, "CUDA_FORCE_PTX_JIT", "1");
  fleet.push_back(leaking);
  return fleet;
}

v1::ArtifactReport Report() {
  v1::ArtifactReport report = MakeArtifactOf(
      {MakeFile("bin/app", {"sm_90 compute_90", "sm_80/zstd compute_80@8.7",
                            "sm_90 compute_90", "compute_90@9.3"}),
       MakeFile("lib/libx.so", {"sm_120f sm_90a", "sm_75 compute_75"})});
  return report;
}

v1::Entry Program(const std::string& kernel) {
  v1::Entry entry;
  entry.add_command("bin/app");
  if (!kernel.empty()) entry.add_must_launch(kernel);
  return entry;
}

std::string Text(const std::vector<v1::PathPrediction>& paths) {
  std::string text;
  for (const auto& path : paths) text += path.DebugString();
  return text;
}

TEST(Predictor, GivesEachHostWhatPredictGives) {
  const v1::ArtifactReport report = Report();
  const Predictor predictor(report);
  PredictOptions all;
  all.all_kernels = true;
  all.all_images = true;
  PredictOptions needed;
  needed.needed_kernels = {"k1"};
  for (int round = 0; round < 2; ++round) {
    for (const v1::HostFacts& facts : Fleet()) {
      for (const PredictOptions& options : {PredictOptions{}, all, needed}) {
        EXPECT_EQ(predictor.Predict(facts, facts.gpus(0), TestTables(), options)
                      .DebugString(),
                  Predict(report, facts, facts.gpus(0), TestTables(), options)
                      .DebugString());
      }
      for (const v1::Entry& entry : {Program(""), Program("k2")}) {
        EXPECT_EQ(Text(predictor.PredictEntry(entry, facts, facts.gpus(0),
                                              TestTables())),
                  Text(PredictEntry(report, entry, facts, facts.gpus(0),
                                    TestTables())));
      }
    }
  }
}

TEST(Predictor, ManyThreads) {
  const v1::ArtifactReport report = Report();
  const Predictor predictor(report);
  const std::vector<v1::HostFacts> fleet = Fleet();
  std::vector<std::string> expected;
  for (const v1::HostFacts& facts : fleet) {
    expected.push_back(
        Predict(report, facts, facts.gpus(0), TestTables()).DebugString());
  }
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 4 * fleet.size(); ++i) {
        const size_t host = (i * (t + 1)) % fleet.size();
        EXPECT_EQ(
            predictor.Predict(fleet[host], fleet[host].gpus(0), TestTables())
                .DebugString(),
            expected[host]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// One kernel in 20,000 fatbins, no two alike, as a generator of kernels or an
// attacker writes them: work is in proportion to what is there.
TEST(Predictor, AKernelInManyUnlikeFatbins) {
  std::vector<std::string> fatbins;
  for (int i = 0; i < 20000; ++i) {
    fatbins.push_back(
        absl::StrCat("k: sm_", 100 + i % 200, " sm_", 400 + i / 200));
  }
  fatbins.push_back("k: sm_90");
  const v1::ArtifactReport report = MakeArtifact(fatbins);
  const v1::HostFacts facts = FakeHost("9.0 R580");
  const v1::Prediction prediction =
      Predict(report, facts, facts.gpus(0), TestTables());
  EXPECT_EQ(Answer(prediction.paths(0)), "native");
}

}  // namespace
}  // namespace twinpath::compat
