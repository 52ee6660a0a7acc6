// What on the host stops everything, and that a host's fault is not taken for
// the artifact's.

#include "compat/host_check.h"

#include <gtest/gtest.h>

#include <string>

#include "compat/predict.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

struct Answered {
  std::string answers;
  std::string code;
};

Answered Ask(const v1::HostFacts& facts) {
  const v1::Prediction prediction = Predict(MakeArtifact({"sm_90 compute_90"}),
                                            facts, facts.gpus(0), TestTables());
  return {Answers(prediction), prediction.paths(0).reasons_size() == 0
                                   ? ""
                                   : prediction.paths(0).reasons(0).code()};
}

TEST(HostCheck, HealthyHostStopsNothing) {
  const v1::HostFacts facts = FakeHost("9.0 R580");
  const HostView view = LookAtHost(facts, facts.gpus(0), TestTables());
  EXPECT_FALSE(view.blocker.has_value());
  EXPECT_EQ(view.device, 90u);
  EXPECT_EQ(view.ptx_ceiling.ToString(), "9.0");
  EXPECT_TRUE(view.ceiling_exact);
  EXPECT_TRUE(view.reads_zstd);
}

TEST(HostCheck, NoDriverGives35) {
  v1::HostFacts facts = FakeHost("9.0");
  facts.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_ABSENT);
  const Answered answered = Ask(facts);
  EXPECT_EQ(answered.answers, "fails 35 | fails 35 | fails 35");
  EXPECT_EQ(answered.code, "TP101");
}

TEST(HostCheck, StubDriverGives34) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  facts.mutable_driver()->set_libcuda_is_stub(true);
  const Answered answered = Ask(facts);
  EXPECT_EQ(answered.answers, "fails 34 | fails 34 | fails 34");
  EXPECT_EQ(answered.code, "TP105");
}

// Faults of the host leave the artifact unknown, not failed.
TEST(HostCheck, HostFaultsAreUnknown) {
  v1::HostFacts hung = FakeHost("9.0 R580");
  hung.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_HUNG);
  EXPECT_EQ(Ask(hung).answers, "unknown | unknown | unknown");
  EXPECT_EQ(Ask(hung).code, "TP103");

  v1::HostFacts halves = FakeHost("9.0 R580");
  halves.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_FAILED);
  halves.mutable_driver()->mutable_probe()->set_cuda_error(803);
  EXPECT_EQ(Ask(halves).answers, "unknown | unknown | unknown");
  EXPECT_EQ(Ask(halves).code, "TP104");

  v1::HostFacts failed = FakeHost("9.0 R580");
  failed.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_FAILED);
  failed.mutable_driver()->mutable_probe()->set_cuda_error(999);
  EXPECT_EQ(Ask(failed).code, "TP102");
}

// A failed query never becomes a number.
TEST(HostCheck, FailedCapabilityQueryIsUnknown) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  facts.mutable_gpus(0)->mutable_capability_probe()->set_state(
      v1::PROBE_STATE_FAILED);
  EXPECT_EQ(Ask(facts).answers, "unknown | unknown | unknown");
  EXPECT_EQ(Ask(facts).code, "TP107");
}

TEST(HostCheck, MissingFactsNameTheCommand) {
  const v1::HostFacts no_version = FakeHost("9.0");
  EXPECT_EQ(Ask(no_version).answers, "unknown | unknown | unknown");
  EXPECT_EQ(Ask(no_version).code, "TP118");

  v1::HostFacts no_jit = FakeHost("9.0 R580");
  no_jit.mutable_driver()->clear_jit_library();
  EXPECT_EQ(Ask(no_jit).answers, "native | unknown | native");

  v1::HostFacts no_cpu = FakeHost("9.0 R580");
  no_cpu.clear_cpu_architecture();
  EXPECT_EQ(Ask(no_cpu).code, "TP119");
}

// The branch alone tells the CUDA version.
TEST(HostCheck, BranchIsEnough) {
  v1::HostFacts facts = FakeHost("9.0 R550");
  facts.mutable_driver()->clear_cuda_version();
  const HostView view = LookAtHost(facts, facts.gpus(0), TestTables());
  EXPECT_EQ(view.cuda->ToString(), "12.4");
  EXPECT_EQ(view.ptx_ceiling.ToString(), "8.4");
}

TEST(HostCheck, ZstdFloorInsideTheBranch) {
  v1::HostFacts facts = FakeHost("9.0 R550");
  facts.mutable_driver()->set_kernel_module_version("550.40.07");
  EXPECT_FALSE(LookAtHost(facts, facts.gpus(0), TestTables()).reads_zstd);
  facts.mutable_driver()->set_kernel_module_version("550.54.14");
  EXPECT_TRUE(LookAtHost(facts, facts.gpus(0), TestTables()).reads_zstd);
}

TEST(HostCheck, MigWithoutInstance) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  facts.mutable_gpus(0)->set_mig_mode(v1::MIG_MODE_ENABLED);
  EXPECT_EQ(Ask(facts).answers, "fails 100 | fails 100 | fails 100");
  EXPECT_EQ(Ask(facts).code, "TP112");
  v1::Gpu& instance = *facts.add_gpus();
  instance = facts.gpus(0);
  instance.set_uuid("MIG-1");
  instance.set_parent_uuid(facts.gpus(0).uuid());
  EXPECT_EQ(Ask(facts).answers, "native | jit | native");
}

// A GPU whose UUID could not be read is not its own instance.
TEST(HostCheck, MigWithoutInstanceAndWithoutUuid) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  facts.mutable_gpus(0)->set_mig_mode(v1::MIG_MODE_ENABLED);
  facts.mutable_gpus(0)->clear_uuid();
  EXPECT_EQ(Ask(facts).answers, "fails 100 | fails 100 | fails 100");
  EXPECT_EQ(Ask(facts).code, "TP112");
}

TEST(HostCheck, DroppedGpu) {
  const v1::HostFacts volta = FakeHost("7.0 R590");
  EXPECT_EQ(Ask(volta).answers, "fails 100 | fails 100 | fails 100");
  EXPECT_EQ(Ask(volta).code, "TP117");
  EXPECT_EQ(Ask(FakeHost("7.5 R590")).code, "TP201");
}

// A program built with -gencode code=compute_75 by nvcc 13.0 holds no cubin and
// so no tool note; its runtime still is of the toolkit that wrote PTX ISA 9.0.
// libcudart 13.0 answers 35 to every driver below 13000 (docs/compat-model.md).
TEST(HostCheck, StaticRuntimeOfAPtxOnlyProgramShowsInItsPtx) {
  v1::FileReport file = MakeFile("check", {"compute_75@9.0"});
  file.mutable_elf()->set_static_cudart(true);
  const auto answers = [&file](const std::string& host) {
    const v1::HostFacts facts = FakeHost(host);
    return Answers(
        Predict(MakeArtifactOf({file}), facts, facts.gpus(0), TestTables()));
  };
  EXPECT_EQ(answers("12.0 R570"), "fails 35 | fails 35 | fails 35");
  EXPECT_EQ(answers("12.0 R580"), "fails 223 | jit | jit");
  // Without a runtime of its own only the PTX counts.
  file.mutable_elf()->set_static_cudart(false);
  EXPECT_EQ(answers("12.0 R570"), "fails 223 | fails 222 | fails 222");
}

}  // namespace
}  // namespace twinpath::compat
