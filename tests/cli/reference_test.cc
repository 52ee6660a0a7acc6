#include "cli/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "cli/check_results.h"
#include "cli/difference_view.h"
#include "tests/verdict/results.h"
#include "verdict/judge.h"

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using verdict::GoodSweep;
using verdict::SetOutput;

// Hosts that all print `text` on every path.
v1::Sweep Printing(absl::string_view text, int hosts = 1) {
  v1::Sweep sweep = GoodSweep(hosts);
  sweep.mutable_spec()
      ->mutable_release()
      ->mutable_entries(0)
      ->clear_expected_output();
  for (v1::Cell& cell : *sweep.mutable_cells()) {
    for (v1::Observation& run :
         *cell.mutable_result()->mutable_observations()) {
      SetOutput(run, text);
      run.mutable_start_time()->set_seconds(1'700'000'000);
    }
  }
  return sweep;
}

v1::Entry& EntryOf(v1::Sweep& sweep) {
  return *sweep.mutable_spec()->mutable_release()->mutable_entries(0);
}

TEST(Reference, IsWrittenAndReadAgain) {
  const absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  v1::Sweep sweep = Printing("loss 0.5\n");
  EntryOf(sweep).add_expected_files()->set_name("out.bin");
  for (v1::Observation& run :
       *sweep.mutable_cells(0)->mutable_result()->mutable_observations()) {
    v1::OutputFile& file = *run.add_files();
    file.set_name("out.bin");
    file.mutable_content()->set_head(std::string("\0\1", 2));
    file.mutable_content()->set_total_bytes(2);
    file.mutable_content()->mutable_digest()->set_sha256(
        Sha256Of(std::string("\0\1", 2)).Raw());
  }
  const absl::StatusOr<v1::Reference> made = MakeReference(sweep, {});
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->stdout(), "loss 0.5\n");
  EXPECT_EQ(made->files(0).content(), std::string("\0\1", 2));
  EXPECT_EQ(made->origin(),
            "entry check, native on spark-1, NVIDIA GB10, driver 580.95.05 "
            "(CUDA 13.0)");
  const std::string path = JoinPath(folder->path(), "ref.json");
  ASSERT_THAT(WriteReference(path, *made), IsOk());
  const absl::StatusOr<v1::Reference> read = LoadReference(path);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->SerializeAsString(), made->SerializeAsString());
  EXPECT_THAT(RenderReference(*read),
              AllOf(HasSubstr("2023-11-14 22:13:20Z"),
                    HasSubstr(Sha256Of("loss 0.5\n").Hex()),
                    HasSubstr("out.bin"), Not(HasSubstr("digest only"))));

  // Judged against its own reference the sweep passes, and not otherwise.
  *EntryOf(sweep).mutable_reference() = *read;
  verdict::JudgeSweep(sweep, {});
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_PASS);
  EntryOf(sweep)
      .mutable_reference()
      ->mutable_files(0)
      ->mutable_digest()
      ->set_sha256(Sha256Of("other").Raw());
  verdict::JudgeSweep(sweep, {});
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_FAIL);
}

TEST(Reference, OfTheEntryAndHostThatAreNamed) {
  v1::Sweep sweep = Printing("42\n", 2);
  SetOutput(*sweep.mutable_cells(1)->mutable_result()->mutable_observations(0),
            "43\n");
  EXPECT_THAT(MakeReference(sweep, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("spark-1"), HasSubstr("spark-2"),
                             HasSubstr("--host"))));
  ReferenceChoice choice;
  choice.host = "spark-2";
  EXPECT_EQ(MakeReference(sweep, choice)->stdout(), "43\n");
  choice.path = v1::PATH_PLAIN;
  EXPECT_EQ(MakeReference(sweep, choice)->stdout(), "42\n");
  choice.host = "spark-9";
  EXPECT_THAT(MakeReference(sweep, choice),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("spark-9")));
  choice = {};
  choice.entry = "chekc";
  EXPECT_THAT(MakeReference(sweep, choice),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("check")));
  v1::Entry& second = *sweep.mutable_spec()->mutable_release()->add_entries();
  second.set_name("other");
  EXPECT_THAT(MakeReference(sweep, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("name one: check, other")));
}

TEST(Reference, HostsThatAgreeWithinTheToleranceAgree) {
  v1::Sweep sweep = Printing("1.0\n", 2);
  SetOutput(*sweep.mutable_cells(1)->mutable_result()->mutable_observations(0),
            "1.25\n");
  EXPECT_THAT(MakeReference(sweep, {}), Not(IsOk()));
  v1::Comparison& compare = *EntryOf(sweep).mutable_compare();
  compare.set_as(v1::COMPARE_AS_NUMBERS);
  compare.mutable_tolerance()->set_absolute(0.25);
  EXPECT_EQ(MakeReference(sweep, {})->stdout(), "1.0\n");
}

// A reference is positive evidence or none.
TEST(Reference, OfNoRunThatIsLessThanGood) {
  const auto refused = [](const v1::Sweep& sweep) {
    EXPECT_THAT(MakeReference(sweep, {}),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("nothing less")));
  };
  v1::Sweep simulated = Printing("42\n");
  simulated.mutable_cells(0)->set_simulated(true);
  refused(simulated);
  v1::Sweep failed = Printing("42\n");
  for (v1::Observation& run :
       *failed.mutable_cells(0)->mutable_result()->mutable_observations()) {
    run.set_exit_code(1);
  }
  refused(failed);
  v1::Sweep wrong = Printing("42\n");
  EntryOf(wrong).mutable_expected_output()->set_exact("43\n");
  refused(wrong);
  v1::Sweep missing = Printing("42\n");
  EntryOf(missing).add_expected_files()->set_name("out");
  refused(missing);
  // Only native failed: the plain run is taken.
  v1::Sweep plain = Printing("42\n");
  plain.mutable_cells(0)
      ->mutable_result()
      ->mutable_observations(0)
      ->set_exit_code(1);
  EXPECT_THAT(MakeReference(plain, {})->origin(), HasSubstr("plain"));
}

TEST(Reference, LongOutputIsKeptByDigest) {
  v1::Sweep sweep = Printing(std::string(600 << 10, 'x'));
  const absl::StatusOr<v1::Reference> made = MakeReference(sweep, {});
  ASSERT_THAT(made, IsOk());
  EXPECT_FALSE(made->has_stdout());
  EXPECT_THAT(RenderReference(*made), HasSubstr("digest only"));
}

TEST(Reference, FileIsReadStrictly) {
  const absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const std::string path = JoinPath(folder->path(), "ref.json");
  const auto load = [&path](absl::string_view text) {
    EXPECT_THAT(WriteFileAtomic(path, text), IsOk());
    return LoadReference(path).status();
  };
  const std::string digest =
      "{\"sha256\": \"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\"}";
  EXPECT_THAT(load(absl::StrCat("{\"stdout_digest\": ", digest, "}")), IsOk());
  for (const std::string& text : {
           std::string("{}"),
           std::string(""),
           std::string("[]"),
           std::string("{\"stdout_digest\": {\"sha256\": \"AAAA\"}}"),
           absl::StrCat("{\"stdout_digest\": ", digest, ", \"more\": 1}"),
           absl::StrCat("{\"stdout_digest\": ", digest,
                        ", \"files\": [{\"name\": \"Li4vYQ==\", \"digest\": ",
                        digest, "}]}"),
           absl::StrCat("{\"stdout_digest\": ", digest, ", \"files\": [{}]}"),
       }) {
    EXPECT_THAT(load(text), StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
  }
}

TEST(CheckResults, BecomeRulesOfTheEntry) {
  const absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const std::string golden = JoinPath(folder->path(), "golden.txt");
  ASSERT_THAT(WriteFileAtomic(golden, "1.5\n"), IsOk());
  CheckResultOptions options;
  options.expect_numbers = golden;
  options.compare = "numbers";
  options.absolute = "1e-3";
  options.files = {"out/a"};
  v1::Entry entry;
  entry.add_command("app");
  ASSERT_THAT(AddResultRules(options, entry), IsOk());
  EXPECT_EQ(entry.expected_output().numbers().text(), "1.5\n");
  EXPECT_EQ(entry.expected_output().numbers().tolerance().absolute(), 1e-3);
  EXPECT_EQ(entry.compare().tolerance().absolute(), 1e-3);
  EXPECT_EQ(entry.expected_files(0).name(), "out/a");

  const auto refused = [](const CheckResultOptions& bad,
                          absl::string_view says) {
    v1::Entry other;
    other.add_command("app");
    EXPECT_THAT(AddResultRules(bad, other),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(std::string(says))));
  };
  CheckResultOptions bad;
  bad.absolute = "1e-3";
  refused(bad, "need --compare numbers");
  bad.compare = "numbers";
  bad.absolute = "-1";
  refused(bad, "--absolute");
  bad = {};
  bad.files = {"../a"};
  refused(bad, "--output-file");
}

TEST(DifferenceView, SaysWhichWordDiffers) {
  v1::Sweep sweep = Printing("step 1\nloss 0.5 ok\n");
  v1::Comparison& compare = *EntryOf(sweep).mutable_compare();
  compare.set_as(v1::COMPARE_AS_NUMBERS);
  compare.mutable_tolerance()->set_absolute(0.125);
  EXPECT_EQ(RenderDifferences(sweep, {}), "");
  SetOutput(*sweep.mutable_cells(0)->mutable_result()->mutable_observations(1),
            "step 1\nloss 0.75 ok\n");
  const std::string view = RenderDifferences(sweep, {});
  EXPECT_THAT(
      view, AllOf(HasSubstr("ptx-jit"), HasSubstr("native"),
                  HasSubstr("standard output"), HasSubstr("0.5"),
                  HasSubstr("0.75"), HasSubstr("0.25"), HasSubstr("spark-1")));
  // What a program prints cannot steer the terminal.
  SetOutput(*sweep.mutable_cells(0)->mutable_result()->mutable_observations(1),
            "step \x1b[2J\n");
  EXPECT_THAT(RenderDifferences(sweep, {}), Not(HasSubstr("\x1b[2J")));
}

TEST(DifferenceView, HostsAgainstEachOther) {
  v1::Sweep sweep = Printing("norm 1.0\n", 3);
  for (v1::Observation& run :
       *sweep.mutable_cells(0)->mutable_result()->mutable_observations()) {
    SetOutput(run, "norm 1.5\n");
  }
  verdict::JudgeSweep(sweep, {});
  const std::string view = RenderDifferences(sweep, {});
  EXPECT_THAT(view, AllOf(HasSubstr("spark-1"), HasSubstr("spark-2"),
                          HasSubstr("1.5"), HasSubstr("0.5")));
  EXPECT_THAT(view, Not(HasSubstr("spark-3")));
}

}  // namespace
}  // namespace twinpath::cli
