// What an H200 with driver R580 was measured to do (docs/gpu-runs.md), as
// predictions, with the CUDA error of each failure. None may be unknown.

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "compat/predict.h"
#include "compat/profile.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

struct Row {
  const char* what;
  std::vector<std::string> fatbins;
  // native | ptx-jit | plain
  const char* answers;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.what; }

class TruthTable : public ::testing::TestWithParam<Row> {};

TEST_P(TruthTable, PredictsWhatTheDriverDid) {
  const Row& row = GetParam();
  const v1::HostFacts facts = FakeHost("9.0 R580");
  const v1::Prediction prediction =
      Predict(MakeArtifact(row.fatbins), facts, facts.gpus(0), TestTables());
  EXPECT_EQ(Answers(prediction), row.answers) << row.what;
  ASSERT_EQ(prediction.files_size(), 1);
  for (int path = 0; path < 3; ++path) {
    EXPECT_EQ(Answer(prediction.files(0).paths(path)),
              Answer(prediction.paths(path)));
    if (prediction.paths(path).outcome() == v1::OUTCOME_FAILS) {
      EXPECT_FALSE(prediction.paths(path).reasons(0).detail().empty());
    }
  }
}

// The same on the profile: simulated hosts give the measured answers too.
TEST_P(TruthTable, HoldsOnTheProfile) {
  const Row& row = GetParam();
  const auto facts = LoadProfile("h200");
  ASSERT_TRUE(facts.ok()) << facts.status();
  for (const v1::Gpu& gpu : facts->gpus()) {
    EXPECT_EQ(
        Answers(Predict(MakeArtifact(row.fatbins), *facts, gpu, TestTables())),
        row.answers);
  }
}

// The link stub that nvcc adds to every executable stands in each row.
const Row kRows[] = {
    {"sm_90 + compute_90",
     {"-: sm_90", "sm_90 compute_90"},
     "native | jit | native"},
    {"sm_90 only", {"-: sm_90", "sm_90"}, "native | fails 209 | native"},
    {"sm_90a only", {"-: sm_90a", "sm_90a"}, "native | fails 209 | native"},
    {"compute_90 only", {"compute_90"}, "fails 223 | jit | jit"},
    {"compute_90a only", {"compute_90a"}, "fails 223 | jit | jit"},
    {"compute_75 only", {"compute_75"}, "fails 223 | jit | jit"},
    {"sm_75 + compute_75, nvcc without a target",
     {"-: sm_75", "sm_75 compute_75"},
     "fails 223 | jit | jit"},
    {"sm_80 + compute_80", {"sm_80 compute_80"}, "fails 223 | jit | jit"},
    {"sm_80 only", {"sm_80"}, "fails 209 | fails 209 | fails 209"},
    {"sm_100 only", {"sm_100"}, "fails 209 | fails 209 | fails 209"},
    {"sm_121 + compute_121",
     {"sm_121 compute_121"},
     "fails 209 | fails 209 | fails 209"},
    {"compute_100 only", {"compute_100"}, "fails 209 | fails 209 | fails 209"},
    {"sm_90 and sm_90a side by side",
     {"sm_90 sm_90a"},
     "native | fails 209 | native"},
    {"a guarded kernel: compute_75 + sm_90",
     {"compute_75 sm_90"},
     "native | jit | native"},
    {"relocatable, sm_80 + compute_80, linked for sm_80",
     {"sm_80", "k0: rel:sm_80 rel:compute_80"},
     "fails 223 | jit | jit"},
    {"relocatable, sm_90 + compute_90, linked for sm_90",
     {"sm_90", "k0: rel:sm_90 rel:compute_90"},
     "native | jit | native"},
    {"device link for the wrong chip, relocatable sm_90 and sm_103 registered",
     {"-: sm_75", "k0: rel:sm_90 rel:sm_103"},
     "native | fails 209 | native"},
    {"every compression mode: zstd machine code and PTX",
     {"sm_90/zstd compute_90/zstd"},
     "native | jit | native"},
    {"a fatbin of LTO-IR alone",
     {"lto_90"},
     "fails 209 | fails 209 | fails 209"},
};

INSTANTIATE_TEST_SUITE_P(H200, TruthTable, ::testing::ValuesIn(kRows));

struct RawRow {
  const char* image;
  const char* answers;
};

void PrintTo(const RawRow& row, std::ostream* out) { *out << row.image; }

class RawTruthTable : public ::testing::TestWithParam<RawRow> {};

// Images a program gives to cuModuleLoadData itself: the JIT switches do not
// reach cubins, and PTX that cannot be compiled gives 218 or 222, not 209.
TEST_P(RawTruthTable, PredictsWhatTheDriverDid) {
  const v1::HostFacts facts = FakeHost("9.0 R580");
  const v1::ArtifactReport report =
      MakeArtifactOf({MakeBareFile("image", GetParam().image)});
  EXPECT_EQ(Answers(Predict(report, facts, facts.gpus(0), TestTables())),
            GetParam().answers)
      << GetParam().image;
}

const RawRow kRawRows[] = {
    {"compute_90@7.8", "fails 223 | jit | jit"},
    {"compute_90@8.8", "fails 223 | jit | jit"},
    {"compute_90@9.0", "fails 223 | jit | jit"},
    {"compute_90@9.1", "fails 223 | fails 222 | fails 222"},
    {"compute_90@9.9", "fails 223 | fails 222 | fails 222"},
    {"compute_90@10.0", "fails 223 | fails 222 | fails 222"},
    {"compute_90@6.0", "fails 223 | fails 218 | fails 218"},
    {"compute_100@9.0", "fails 223 | fails 218 | fails 218"},
    {"compute_121@9.1", "fails 223 | fails 222 | fails 222"},
    {"compute_80@9.0", "fails 223 | jit | jit"},
    {"compute_90a@9.0", "fails 223 | jit | jit"},
    {"sm_90", "native | native | native"},
    {"sm_90a", "native | native | native"},
    {"rel:sm_90", "native | native | native"},
    {"sm_75", "fails 209 | fails 209 | fails 209"},
    {"sm_80", "fails 209 | fails 209 | fails 209"},
    {"sm_89", "fails 209 | fails 209 | fails 209"},
    {"sm_100", "fails 209 | fails 209 | fails 209"},
    {"sm_121", "fails 209 | fails 209 | fails 209"},
};

INSTANTIATE_TEST_SUITE_P(H200, RawTruthTable, ::testing::ValuesIn(kRawRows));

}  // namespace
}  // namespace twinpath::compat
