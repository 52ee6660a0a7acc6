// All targets against all GPUs, compared with what NVIDIA's own tools accept
// (tests/compat/data). Where our rules differ, the exception is named.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "compat/predict.h"
#include "compat/target.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

struct Matrix {
  std::vector<std::string> columns;
  // row target -> column target -> accepted
  std::map<std::string, std::map<std::string, bool>> accepted;
};

Matrix Load(const std::string& name) {
  const char* source = std::getenv("TWINPATH_SOURCE_DIR");
  const auto text =
      ReadFile(absl::StrCat(source, "/tests/compat/data/", name), 1 << 20);
  EXPECT_TRUE(text.ok()) << text.status();
  Matrix matrix;
  if (!text.ok()) return matrix;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (matrix.columns.empty()) {
      matrix.columns.assign(words.begin() + 1, words.end());
      continue;
    }
    EXPECT_EQ(words.size(), matrix.columns.size() + 1);
    for (size_t i = 1; i < words.size(); ++i) {
      matrix.accepted[words[0]][matrix.columns[i - 1]] = words[i] == "Y";
    }
  }
  return matrix;
}

v1::Target Target(const std::string& name) { return ParseTarget(name).value(); }

// The strongest target of a device: code for it may use all the device has.
std::string StrongestColumn(const Matrix& matrix, uint32_t device) {
  const std::string base = absl::StrCat("sm_", device);
  for (const std::string& column : matrix.columns) {
    if (column == base + "a") return column;
  }
  return base;
}

std::set<uint32_t> Devices(const Matrix& matrix) {
  std::set<uint32_t> devices;
  for (const std::string& column : matrix.columns) {
    devices.insert(Target(column).number());
  }
  return devices;
}

TEST(TargetMatrix, PtxEqualsPtxas) {
  const Matrix matrix = Load("ptxas_target_matrix.txt");
  ASSERT_EQ(matrix.accepted.size(), 23u);
  for (const auto& [row, columns] : matrix.accepted) {
    for (const uint32_t device : Devices(matrix)) {
      // Exception "a on its own base": ptxas refuses .target sm_90a for -arch
      // sm_90; the driver compiles for the device, which is sm_90a.
      const bool expected = columns.at(StrongestColumn(matrix, device));
      const Fit fit = PtxFits(Target(row), device, TestTables());
      EXPECT_EQ(fit == Fit::kYes, expected) << row << " on " << device;
      EXPECT_NE(fit, Fit::kUnknown) << row << " on " << device;
    }
  }
}

TEST(TargetMatrix, SassEqualsNvlinkButForTegra) {
  const Matrix matrix = Load("nvlink_matrix.txt");
  ASSERT_EQ(matrix.accepted.size(), 23u);
  std::set<std::string> exceptions;
  for (const auto& [row, columns] : matrix.accepted) {
    for (const uint32_t device : Devices(matrix)) {
      const bool expected = columns.at(absl::StrCat("sm_", device));
      const Fit fit = SassFits(Target(row), device, TestTables());
      EXPECT_NE(fit, Fit::kUnknown) << row << " on " << device;
      EXPECT_EQ(fit == Fit::kYes, expected) << row << " on " << device;
      if (fit == Fit::kTegraUnpromised) {
        exceptions.insert(absl::StrCat(row, " on ", device));
      }
    }
  }
  // The same-major rule allows these and nvlink refuses them; one side of each
  // is a Tegra part (8.7, 8.8), where nothing is promised.
  EXPECT_EQ(exceptions,
            (std::set<std::string>{"sm_80 on 87", "sm_80 on 88", "sm_86 on 87",
                                   "sm_86 on 88", "sm_87 on 88", "sm_87 on 89",
                                   "sm_88 on 89"}));
}

// nvlink accepts the same inputs whatever suffix the link target has, but that
// an a target is one chip: what a device takes does not depend on it.
TEST(TargetMatrix, NvlinkColumnsOfOneDeviceAgree) {
  const Matrix matrix = Load("nvlink_matrix.txt");
  for (const auto& [row, columns] : matrix.accepted) {
    for (const auto& [column, accepted] : columns) {
      const std::string base = absl::StrCat("sm_", Target(column).number());
      EXPECT_EQ(accepted, columns.at(base)) << row << " for " << column;
    }
  }
}

// The same as predictions: every target and suffix as the only image of a file
// on every device, with the newest driver of the tables.
class MatrixPrediction : public ::testing::Test {
 protected:
  static std::string On(const std::string& image, uint32_t device) {
    const v1::HostFacts facts =
        FakeHost(absl::StrCat(device / 10, ".", device % 10, " R",
                              TestTables().drivers().back().branch));
    return Answers(
        Predict(MakeArtifact({image}), facts, facts.gpus(0), TestTables()));
  }
};

TEST_F(MatrixPrediction, MachineCodeEqualsNvlink) {
  const Matrix matrix = Load("nvlink_matrix.txt");
  int pairs = 0;
  std::set<std::string> unknown;
  for (const auto& [row, columns] : matrix.accepted) {
    for (const uint32_t device : Devices(matrix)) {
      ++pairs;
      const std::string answers = On(row, device);
      if (absl::StartsWith(answers, "unknown")) {
        unknown.insert(absl::StrCat(row, " on ", device));
        EXPECT_EQ(answers, "unknown | fails 209 | unknown");
        continue;
      }
      EXPECT_EQ(answers, columns.at(absl::StrCat("sm_", device))
                             ? "native | fails 209 | native"
                             : "fails 209 | fails 209 | fails 209")
          << row << " on " << device;
    }
  }
  EXPECT_EQ(pairs, 23 * 12);
  // Tegra pairs that the same-major rule allows and nvlink refuses.
  EXPECT_EQ(unknown,
            (std::set<std::string>{"sm_80 on 87", "sm_80 on 88", "sm_86 on 87",
                                   "sm_86 on 88", "sm_87 on 88", "sm_87 on 89",
                                   "sm_88 on 89"}));
}

TEST_F(MatrixPrediction, PtxEqualsPtxas) {
  const Matrix matrix = Load("ptxas_target_matrix.txt");
  int pairs = 0;
  for (const auto& [row, columns] : matrix.accepted) {
    for (const uint32_t device : Devices(matrix)) {
      ++pairs;
      const std::string ptx = absl::StrCat("compute_", row.substr(3));
      EXPECT_EQ(On(ptx, device), columns.at(StrongestColumn(matrix, device))
                                     ? "fails 223 | jit | jit"
                                     : "fails 209 | fails 209 | fails 209")
          << ptx << " on " << device;
    }
  }
  EXPECT_EQ(pairs, 23 * 12);
}

}  // namespace
}  // namespace twinpath::compat
