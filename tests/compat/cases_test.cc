// Public failure reports as data (tests/compat/cases): what the file held, and
// what each host should have been told before the rollout.

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "case.pb.h"
#include "compat/predict.h"
#include "compat/reason.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

std::string CasesDir() {
  const char* source = std::getenv("TWINPATH_SOURCE_DIR");
  return absl::StrCat(source == nullptr ? "." : source, "/tests/compat/cases");
}

std::vector<std::string> CaseNames() {
  std::vector<std::string> names;
  const auto files = ListDirectory(CasesDir());
  if (!files.ok()) return {"missing"};
  for (const std::string& file : *files) {
    if (absl::EndsWith(file, ".txtpb")) {
      names.push_back(file.substr(0, file.size() - 6));
    }
  }
  return names;
}

// "fails 209 TP201": outcome, error, then codes among the reasons.
void Check(const v1::PathPrediction& path, const std::string& expected,
           const std::string& where) {
  std::string outcome;
  for (const std::string& word :
       std::vector<std::string>(absl::StrSplit(expected, ' '))) {
    if (!absl::StartsWith(word, "TP")) {
      absl::StrAppend(&outcome, outcome.empty() ? "" : " ", word);
    }
  }
  std::string reasons;
  for (const v1::Reason& reason : path.reasons()) {
    absl::StrAppend(&reasons, "\n    ", DescribeReason(reason));
  }
  EXPECT_EQ(Answer(path), outcome) << where << reasons;
  for (const std::string& word :
       std::vector<std::string>(absl::StrSplit(expected, ' '))) {
    if (absl::StartsWith(word, "TP")) {
      EXPECT_TRUE(HasReason(path, word)) << where << ": no " << word << reasons;
    }
  }
}

class Cases : public ::testing::TestWithParam<std::string> {};

TEST_P(Cases, AnswersAsTheThreadFound) {
  const auto text =
      ReadFile(absl::StrCat(CasesDir(), "/", GetParam(), ".txtpb"), 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  test::Case parsed;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(*text, &parsed));
  EXPECT_GT(parsed.threads_size(), 0) << "every case cites its thread";
  ASSERT_GT(parsed.expected_size(), 0);
  const Predictor predictor(parsed.report());
  for (const test::Expected& expected : parsed.expected()) {
    const v1::HostFacts facts = FakeHost(expected.on());
    const v1::Prediction prediction =
        predictor.Predict(facts, facts.gpus(0), TestTables());
    Check(prediction.paths(0), expected.native(), expected.on() + " native");
    Check(prediction.paths(1), expected.ptx_jit(), expected.on() + " ptx-jit");
    Check(prediction.paths(2), expected.plain(), expected.on() + " plain");
    if (!expected.fix().empty()) {
      std::string fixes;
      for (const v1::Reason& reason : prediction.paths(2).reasons()) {
        absl::StrAppend(&fixes, reason.fix(), "\n");
      }
      EXPECT_TRUE(absl::StrContains(fixes, expected.fix()))
          << expected.on() << ": \"" << expected.fix() << "\" is in no fix:\n"
          << fixes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Cases, ::testing::ValuesIn(CaseNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace twinpath::compat
