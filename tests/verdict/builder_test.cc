#include "verdict/builder.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace twinpath::verdict {
namespace {

v1::Reason MakeReason(const std::string& code, const std::string& detail) {
  v1::Reason reason;
  reason.set_code(code);
  reason.set_detail(detail);
  return reason;
}

TEST(VerdictBuilder, EachReasonStandsOnceInItsFirstPlace) {
  VerdictBuilder builder;
  builder.Note(MakeReason("TP1", "a"));
  builder.Warn(MakeReason("TP1", "a"));
  builder.Inconclusive(MakeReason("TP1", "a"));
  builder.Inconclusive(MakeReason("TP2", "a"));
  builder.Fail(MakeReason("TP1", "b"));
  builder.Fail(MakeReason("TP1", "b"));
  builder.Fail(MakeReason("TP1", "c"));
  const v1::Verdict verdict = builder.Build(/*strict=*/false, "");
  EXPECT_EQ(verdict.kind(), v1::VERDICT_KIND_FAIL);
  std::string order;
  for (const v1::Reason& reason : verdict.reasons()) {
    absl::StrAppend(&order, reason.code(), reason.detail(), " ");
  }
  EXPECT_EQ(order, "TP1b TP1c TP1a TP2a ");
}

// Searching the verdict for each of them would not end within a test's limit.
TEST(VerdictBuilder, VeryManyReasonsAreNoTrouble) {
  constexpr int kMany = 300'000;
  VerdictBuilder builder;
  for (int i = 0; i < kMany; ++i) {
    builder.Warn(MakeReason("TP314", absl::StrCat("the same beginning, ", i)));
  }
  builder.Proven();
  EXPECT_EQ(builder.Build(/*strict=*/false, "all").reasons_size(), kMany + 1);
}

}  // namespace
}  // namespace twinpath::verdict
