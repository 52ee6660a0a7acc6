#include "verdict/run_compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/verdict/results.h"
#include "verdict/compare.h"
#include "verdict/judge.h"
#include "verdict/output.h"
#include "verdict/path_status.h"
#include "verdict/results_equal.h"

namespace twinpath::verdict {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::CapturedOutput Whole(absl::string_view text) {
  v1::CapturedOutput output;
  output.set_head(std::string(text));
  output.set_total_bytes(text.size());
  *output.mutable_digest() = DigestOf(text);
  return output;
}

// The first bytes kept, and the digest of everything.
v1::CapturedOutput Cut(absl::string_view text, size_t kept) {
  v1::CapturedOutput output = Whole(text);
  output.set_head(std::string(text.substr(0, kept)));
  return output;
}

v1::OutputFile& AddFile(v1::Observation& run, absl::string_view name,
                        const v1::CapturedOutput& content) {
  v1::OutputFile& file = *run.add_files();
  file.set_name(std::string(name));
  *file.mutable_content() = content;
  return file;
}

v1::Observation Printed(absl::string_view text) {
  v1::Observation run;
  *run.mutable_stdout() = Whole(text);
  return run;
}

v1::Entry Numbers(double absolute) {
  v1::Entry entry;
  entry.mutable_compare()->set_as(v1::COMPARE_AS_NUMBERS);
  entry.mutable_compare()->mutable_tolerance()->set_absolute(absolute);
  return entry;
}

TEST(CompareRuns, ExactByDefault) {
  EXPECT_THAT(CompareRuns({}, Printed("1.0"), Printed("1.0")), IsEmpty());
  const auto parts = CompareRuns({}, Printed("a 1.0"), Printed("a 1.00"));
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_TRUE(parts[0].differs);
  EXPECT_EQ(parts[0].part, kStandardOutput);
  EXPECT_EQ(parts[0].why, "standard output differs");
  ASSERT_TRUE(parts[0].place.has_value());
  EXPECT_EQ(parts[0].place->expected, "1.0");
  EXPECT_EQ(parts[0].place->seen, "1.00");
}

TEST(CompareRuns, SaysWhereOnlyNumbersDiffer) {
  EXPECT_TRUE(CompareRuns({}, Printed("a 1"), Printed("a 2"))[0].only_numbers);
  EXPECT_FALSE(CompareRuns({}, Printed("a 1"), Printed("b 2"))[0].only_numbers);
  EXPECT_FALSE(
      CompareRuns({}, Printed("a 1"), Printed("a inf"))[0].only_numbers);
}

TEST(CompareRuns, NumbersWithinTheTolerance) {
  EXPECT_THAT(CompareRuns(Numbers(0.1), Printed("a 1.0"), Printed("a 1.05")),
              IsEmpty());
  const auto parts =
      CompareRuns(Numbers(0.1), Printed("a 1.0"), Printed("a 1.5"));
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_TRUE(parts[0].differs);
}

TEST(CompareRuns, OffComparesNothing) {
  v1::Entry entry;
  entry.mutable_compare()->set_as(v1::COMPARE_AS_OFF);
  EXPECT_THAT(CompareRuns(entry, Printed("a"), Printed("b")), IsEmpty());
}

TEST(CompareRuns, CutOutputGoesByDigestWhenExact) {
  v1::Observation a = Printed("");
  v1::Observation b = Printed("");
  *a.mutable_stdout() = Cut("same start, one end", 4);
  *b.mutable_stdout() = Cut("same start, one end", 4);
  EXPECT_THAT(CompareRuns({}, a, b), IsEmpty());
  *b.mutable_stdout() = Cut("same start, other end", 4);
  const auto parts = CompareRuns({}, a, b);
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_TRUE(parts[0].differs);
  EXPECT_FALSE(parts[0].place.has_value());
  b.mutable_stdout()->clear_digest();
  EXPECT_FALSE(CompareRuns({}, a, b)[0].differs);
}

TEST(CompareRuns, CutNumbersAreUnknownAndNeverEqual) {
  v1::Observation a = Printed("");
  v1::Observation b = Printed("");
  *a.mutable_stdout() = Cut("1.0 2.0 3.0 4.0", 8);
  *b.mutable_stdout() = Cut("1.0 2.0 3.0 4.1", 8);
  const auto parts = CompareRuns(Numbers(1), a, b);
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_FALSE(parts[0].differs);
  EXPECT_THAT(parts[0].why, HasSubstr("not kept whole"));
  // Equal bytes are equal, kept or not.
  *b.mutable_stdout() = *a.mutable_stdout();
  EXPECT_THAT(CompareRuns(Numbers(1), a, b), IsEmpty());
  // A difference in what was kept is one.
  *b.mutable_stdout() = Cut("1.0 9.0 3.0 4.1", 8);
  EXPECT_TRUE(CompareRuns(Numbers(1), a, b)[0].differs);
}

TEST(CompareRuns, EqualBytesAreEqualWithNanToo) {
  EXPECT_THAT(CompareRuns(Numbers(1), Printed("nan 1"), Printed("nan 1")),
              IsEmpty());
  EXPECT_THAT(CompareRuns(Numbers(1), Printed("nan 1"), Printed("nan 1.5")),
              SizeIs(1));
}

TEST(CompareRuns, FilesInTheirOrder) {
  v1::Entry entry;
  entry.add_expected_files()->set_name("a");
  entry.add_expected_files()->set_name("b");
  entry.add_expected_files()->set_name("c");
  v1::Observation one = Printed("x");
  AddFile(one, "a", Whole("1"));
  AddFile(one, "b", Whole("1"));
  one.add_files()->set_name("c");
  one.mutable_files(2)->set_problem("is missing");
  v1::Observation two = one;
  EXPECT_THAT(CompareRuns(entry, one, two), IsEmpty());
  *two.mutable_files(0)->mutable_content() = Whole("2");
  two.mutable_files(2)->clear_problem();
  const auto parts = CompareRuns(entry, one, two);
  ASSERT_THAT(parts, SizeIs(2));
  EXPECT_EQ(parts[0].why, "file a differs");
  EXPECT_EQ(parts[1].part, 2);
  EXPECT_FALSE(parts[1].differs);
  // An agent that delivers no files has compared none.
  two.clear_files();
  EXPECT_THAT(CompareRuns(entry, one, two), SizeIs(3));
}

// What was not recorded was taken for empty: equal to a run that printed
// nothing, and to another one without a record.
TEST(CompareRuns, WhatWasNotRecordedIsNotEmpty) {
  for (const v1::Observation& other : {v1::Observation(), Printed("")}) {
    const auto parts = CompareRuns({}, {}, other);
    ASSERT_THAT(parts, SizeIs(1));
    EXPECT_FALSE(parts[0].differs);
    EXPECT_EQ(parts[0].why, "standard output was not recorded");
  }
  EXPECT_THAT(CompareRuns({}, Printed(""), Printed("")), IsEmpty());

  v1::Entry entry;
  entry.add_expected_files()->set_name("a");
  v1::Observation empty = Printed("x");
  AddFile(empty, "a", Whole(""));
  v1::Observation without = empty;
  without.mutable_files(0)->clear_content();
  for (const v1::Observation* other : {&empty, &without}) {
    const auto parts = CompareRuns(entry, *other, without);
    ASSERT_THAT(parts, SizeIs(1));
    EXPECT_FALSE(parts[0].differs);
    EXPECT_EQ(parts[0].why, "file a was not recorded");
  }
}

TEST(CompareRuns, AWayOfALaterVersionIsUnknown) {
  v1::Entry entry;
  entry.mutable_compare()->set_as(static_cast<v1::CompareAs>(99));
  const auto parts = CompareRuns(entry, Printed("a"), Printed("b"));
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_FALSE(parts[0].differs);
}

v1::Entry WithReference(absl::string_view text, bool kept) {
  v1::Entry entry;
  *entry.mutable_reference()->mutable_stdout_digest() = DigestOf(text);
  if (kept) entry.mutable_reference()->set_stdout(std::string(text));
  return entry;
}

TEST(CompareWithReference, BytesAndDigests) {
  EXPECT_THAT(CompareWithReference({}, Printed("x")), IsEmpty());
  EXPECT_THAT(CompareWithReference(WithReference("x", false), Printed("x")),
              IsEmpty());
  EXPECT_TRUE(
      CompareWithReference(WithReference("x", false), Printed("y"))[0].differs);
  v1::Entry numbers = WithReference("1.0", true);
  *numbers.mutable_compare() = Numbers(0.5).compare();
  EXPECT_THAT(CompareWithReference(numbers, Printed("1.25")), IsEmpty());
  EXPECT_TRUE(CompareWithReference(numbers, Printed("2"))[0].differs);
  numbers.mutable_reference()->clear_stdout();
  EXPECT_FALSE(CompareWithReference(numbers, Printed("1.25"))[0].differs);
}

// An empty reference was met by a run of which nothing was recorded.
TEST(CompareWithReference, WhatWasNotRecordedIsNotEmpty) {
  const auto parts = CompareWithReference(WithReference("", true), {});
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_FALSE(parts[0].differs);
}

TEST(CompareWithReference, FilesItDoesNotHold) {
  v1::Entry entry = WithReference("x", true);
  entry.add_expected_files()->set_name("out");
  v1::Observation run = Printed("x");
  AddFile(run, "out", Whole("1"));
  const auto missing = CompareWithReference(entry, run);
  ASSERT_THAT(missing, SizeIs(1));
  EXPECT_EQ(missing[0].why, "file out is not in the reference");
  v1::ReferenceFile& file = *entry.mutable_reference()->add_files();
  file.set_name("out");
  *file.mutable_digest() = DigestOf("1");
  EXPECT_THAT(CompareWithReference(entry, run), IsEmpty());
}

TEST(JudgeOutput, FilesOfTheEntry) {
  v1::Entry entry;
  v1::ExpectedFile& expected = *entry.add_expected_files();
  expected.set_name("out");
  v1::Observation run = Printed("x");
  EXPECT_EQ(JudgeOutput(entry, run).match, OutputMatch::kUnknown);
  v1::OutputFile& file = AddFile(run, "out", Whole("1.0\n"));
  EXPECT_EQ(JudgeOutput(entry, run).match, OutputMatch::kNotJudged);
  v1::ExpectedNumbers& numbers = *expected.mutable_content()->mutable_numbers();
  numbers.set_text("1.5");
  EXPECT_EQ(JudgeOutput(entry, run).match, OutputMatch::kDiffers);
  EXPECT_EQ(JudgeOutput(entry, run).code, "TP303");
  numbers.mutable_tolerance()->set_absolute(0.5);
  EXPECT_EQ(JudgeOutput(entry, run).match, OutputMatch::kMatches);
  file.set_problem("is a symbolic link");
  EXPECT_EQ(JudgeOutput(entry, run).match, OutputMatch::kDiffers);
  EXPECT_EQ(JudgeOutput(entry, run).code, "TP338");
  EXPECT_EQ(JudgeOutput(entry, run).why, "file out is a symbolic link");
  file.set_problem("could not be read: it is larger than is read");
  EXPECT_EQ(JudgeOutput(entry, run).match, OutputMatch::kUnknown);
}

// A file without its content met every rule that an empty one meets.
TEST(JudgeOutput, FileWithoutContentIsUnknown) {
  v1::Entry entry;
  v1::ExpectedFile& expected = *entry.add_expected_files();
  expected.set_name("out");
  expected.mutable_content()->set_exact("");
  v1::Observation run = Printed("x");
  v1::OutputFile& file = AddFile(run, "out", Whole(""));
  EXPECT_EQ(JudgeOutput(entry, run).match, OutputMatch::kMatches);
  file.clear_content();
  EXPECT_EQ(JudgeOutput(entry, run).match, OutputMatch::kUnknown);
}

TEST(JudgeOutput, NumbersAndDigest) {
  v1::Entry entry;
  v1::ExpectedNumbers& numbers =
      *entry.mutable_expected_output()->mutable_numbers();
  numbers.set_text("loss 0.5");
  EXPECT_EQ(JudgeOutput(entry, Printed("loss 0.50\n")).match,
            OutputMatch::kMatches);
  EXPECT_EQ(JudgeOutput(entry, Printed("loss 0.6")).match,
            OutputMatch::kDiffers);
  v1::Observation cut = Printed("");
  *cut.mutable_stdout() = Cut("loss 0.5 and more", 10);
  // What goes on behind the expected text differs for certain.
  EXPECT_EQ(JudgeOutput(entry, cut).match, OutputMatch::kUnknown);
  *cut.mutable_stdout() = Cut("loss 0.6 and more", 10);
  EXPECT_EQ(JudgeOutput(entry, cut).match, OutputMatch::kDiffers);
  *entry.mutable_expected_output()->mutable_digest() = DigestOf("x");
  EXPECT_EQ(JudgeOutput(entry, Printed("x")).match, OutputMatch::kMatches);
  EXPECT_EQ(JudgeOutput(entry, Printed("y")).match, OutputMatch::kDiffers);
}

// One entry over several hosts, all paths printing `text` there.
void SetAllOutput(v1::Cell& cell, absl::string_view text) {
  for (v1::Observation& run : *cell.mutable_result()->mutable_observations()) {
    SetOutput(run, text);
  }
}

v1::Entry& EntryOf(v1::Sweep& sweep) {
  v1::Entry& entry =
      *sweep.mutable_spec()->mutable_release()->mutable_entries(0);
  entry.clear_expected_output();
  return entry;
}

std::vector<v1::Finding> Of(const v1::Sweep& sweep, absl::string_view code) {
  std::vector<v1::Finding> found;
  for (const v1::Finding& finding : sweep.findings()) {
    if (finding.reason().code() == code) found.push_back(finding);
  }
  return found;
}

TEST(JudgeSweep, ReferenceThatDiffersFails) {
  v1::Sweep sweep = GoodSweep(3);
  v1::Entry& entry = EntryOf(sweep);
  *entry.mutable_reference()->mutable_stdout_digest() = DigestOf("PASS\n");
  JudgeSweep(sweep, {});
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_PASS);
  // Two hosts that agree with each other and not with the reference.
  SetAllOutput(*sweep.mutable_cells(0), "43\n");
  SetAllOutput(*sweep.mutable_cells(1), "43\n");
  JudgeSweep(sweep, {});
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_FAIL);
  EXPECT_EQ(sweep.cells(0).verdict().kind(), v1::VERDICT_KIND_FAIL);
  const auto findings = Of(sweep, "TP432");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].hosts(), ElementsAre("spark-1", "spark-2"));
  EXPECT_EQ(findings[0].reason().detail(),
            "native, ptx-jit, plain: standard output differs from the "
            "reference");
  EXPECT_TRUE(findings[0].mismatch());
}

TEST(JudgeSweep, ReferenceWithinTheToleranceAndWithout) {
  v1::Sweep sweep = GoodSweep(1);
  v1::Entry& entry = EntryOf(sweep);
  *entry.mutable_reference()->mutable_stdout_digest() = DigestOf("1.0\n");
  entry.mutable_reference()->set_stdout("1.0\n");
  *entry.mutable_compare() = Numbers(0.125).compare();
  SetAllOutput(*sweep.mutable_cells(0), "1.125\n");
  JudgeSweep(sweep, {});
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_PASS);
  entry.mutable_compare()->mutable_tolerance()->set_absolute(0.0625);
  JudgeSweep(sweep, {});
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_FAIL);
  // Without its bytes nothing can be said, and that is no pass.
  entry.mutable_reference()->clear_stdout();
  JudgeSweep(sweep, {});
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_THAT(Of(sweep, "TP434"), SizeIs(1));
}

TEST(JudgeSweep, ClassesThatDifferAreAWarningUnlessTheEntryStatesIt) {
  v1::Sweep sweep = GoodSweep(500);
  EntryOf(sweep);
  for (int i = 0; i < 100; ++i) {
    *sweep.mutable_cells(i)->mutable_class_digest() = DigestOf("other class");
    SetAllOutput(*sweep.mutable_cells(i), "1.0001\n");
  }
  for (int i = 100; i < 500; ++i) {
    SetAllOutput(*sweep.mutable_cells(i), "1.0000\n");
  }
  JudgeSweep(sweep, {});
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_PASS);
  auto findings = Of(sweep, "TP433");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].hosts_size(), 100);
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_WARNING);
  EXPECT_THAT(Of(sweep, "TP403"), IsEmpty());

  v1::Entry& entry =
      *sweep.mutable_spec()->mutable_release()->mutable_entries(0);
  *entry.mutable_compare() = Numbers(1e-3).compare();
  JudgeSweep(sweep, {});
  EXPECT_THAT(Of(sweep, "TP433"), IsEmpty());
  entry.mutable_compare()->mutable_tolerance()->set_absolute(1e-5);
  JudgeSweep(sweep, {});
  findings = Of(sweep, "TP433");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_ERROR);
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
}

// 0.9 is not within the tolerance of 1.1, and both are of what most print.
TEST(JudgeSweep, UsualNumbersAreThoseMostAreNear) {
  v1::Sweep sweep = GoodSweep(5);
  *EntryOf(sweep).mutable_compare() = Numbers(0.15).compare();
  const char* kValues[] = {"0.9", "1.0", "1.1", "1.0", "2.0"};
  for (int i = 0; i < 5; ++i) {
    SetAllOutput(*sweep.mutable_cells(i), kValues[i]);
  }
  JudgeSweep(sweep, {});
  auto findings = Of(sweep, "TP403");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].hosts(), ElementsAre("spark-5"));
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_ERROR);
  // Nobody's numbers are usual.
  for (int i = 0; i < 5; ++i) {
    SetAllOutput(*sweep.mutable_cells(i), absl::StrCat(i));
  }
  JudgeSweep(sweep, {});
  findings = Of(sweep, "TP403");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].hosts_size(), 5);
}

TEST(JudgeSweep, EqualGpusOfOneHostAreComparedWhereItsClassIsUnknown) {
  v1::Sweep sweep = GoodSweep(3);
  EntryOf(sweep);
  for (v1::Cell& cell : *sweep.mutable_cells()) {
    cell.set_host_id("id-1");
    cell.set_host_name("spark-1");
    cell.clear_class_digest();
  }
  SetAllOutput(*sweep.mutable_cells(2), "43\n");
  JudgeSweep(sweep, {});
  const auto findings = Of(sweep, "TP403");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity(), v1::SEVERITY_ERROR);
}

TEST(JudgeSweep, FilesOfThePathsAreCompared) {
  v1::Sweep sweep = GoodSweep(1);
  EntryOf(sweep).add_expected_files()->set_name("out.bin");
  v1::CellResult& result = *sweep.mutable_cells(0)->mutable_result();
  for (v1::Observation& run : *result.mutable_observations()) {
    AddFile(run, "out.bin",
            Whole(run.path() == v1::PATH_PTX_JIT ? "compiled" : "native"));
  }
  JudgeSweep(sweep, {});
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_FAIL);
  const auto findings = Of(sweep, "TP402");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].reason().detail(), HasSubstr("file out.bin differs"));
  // A file that is missing fails its path, and nothing is compared.
  result.mutable_observations(0)->mutable_files(0)->set_problem("is missing");
  JudgeSweep(sweep, {});
  EXPECT_THAT(Of(sweep, "TP402"), IsEmpty());
  ASSERT_THAT(Of(sweep, "TP338"), SizeIs(1));
  EXPECT_EQ(Of(sweep, "TP338")[0].reason().detail(),
            "native: file out.bin is missing");
}

TEST(JudgeSweep, PathsThatAgreeWithinTheTolerancePass) {
  v1::Sweep sweep = GoodSweep(1);
  v1::Entry& entry = EntryOf(sweep);
  v1::CellResult& result = *sweep.mutable_cells(0)->mutable_result();
  SetOutput(RunOf(result, v1::PATH_PTX_JIT), "1.25\n");
  SetOutput(RunOf(result, v1::PATH_PTX_JIT, true), "1.25\n");
  SetOutput(RunOf(result, v1::PATH_NATIVE), "1.0\n");
  SetOutput(RunOf(result, v1::PATH_PLAIN), "1.0\n");
  JudgeSweep(sweep, {});
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_FAIL);
  *entry.mutable_compare() = Numbers(0.25).compare();
  JudgeSweep(sweep, {});
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_PASS);
  *entry.mutable_compare() = Numbers(0.125).compare();
  JudgeSweep(sweep, {});
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_FAIL);
  entry.mutable_compare()->set_as(v1::COMPARE_AS_OFF);
  JudgeSweep(sweep, {});
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_PASS);
}

TEST(ResultsEqual, AsTheEntryCompares) {
  v1::CellResult a = GoodResult();
  v1::CellResult b = GoodResult();
  for (v1::Observation& run : *a.mutable_observations()) SetOutput(run, "1.0");
  for (v1::Observation& run : *b.mutable_observations()) SetOutput(run, "1.1");
  EXPECT_FALSE(ResultsEqual(a, b));
  const v1::Entry close = Numbers(0.5);
  EXPECT_TRUE(ResultsEqual(a, b, &close));
  const v1::Entry near = Numbers(0.01);
  EXPECT_FALSE(ResultsEqual(a, b, &near));
  v1::Entry off;
  off.mutable_compare()->set_as(v1::COMPARE_AS_OFF);
  EXPECT_TRUE(ResultsEqual(a, b, &off));
  // What cannot be compared is not equal.
  *a.mutable_observations(0)->mutable_stdout() = Cut("1.0 2.0", 2);
  *b.mutable_observations(0)->mutable_stdout() = Cut("1.0 2.1", 2);
  EXPECT_FALSE(ResultsEqual(a, b, &close));
}

}  // namespace
}  // namespace twinpath::verdict
