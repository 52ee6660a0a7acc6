// Results as users compare them: numbers, files and references, through the
// command, on a host whose driver is none. The program is a shell that acts as
// a numerical program would, other digits where compilation is forced.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "cli/reference.h"
#include "tests/e2e/fake_gpu_host.h"

namespace twinpath::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHost[] = "gpu=9.0,memory=8192,processes=0 ";

// Prints a number and writes one; `forced` where compilation is forced.
std::string Solver(const std::string& native, const std::string& forced) {
  return absl::StrCat("x=", native,
                      "; [ -n \"$CUDA_FORCE_PTX_JIT\" ] && x=", forced,
                      "; echo norm $x; echo sum $x > sums.txt");
}

class ResultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<FakeGpuHost> host = FakeGpuHost::Make(kHost);
    if (!host.ok()) {
      GTEST_SKIP() << "no user namespaces for a host of its own: "
                   << host.status();
    }
    host_.emplace(*std::move(host));
    const absl::StatusOr<std::string> shell = ReadFile("/bin/sh", 16 << 20);
    ASSERT_THAT(shell, IsOk());
    ASSERT_THAT(WriteFileAtomic(At("solver"), *shell, 0755), IsOk());
  }
  std::string At(const std::string& name) const {
    return JoinPath(host_->folder(), name);
  }
  CliResult Check(std::vector<std::string> options, const std::string& script) {
    std::vector<std::string> args = {"check", "--output-file", "sums.txt"};
    args.insert(args.end(), options.begin(), options.end());
    for (const char* word : {"solver", "--", "-c"}) args.push_back(word);
    args.push_back(script);
    return host_->Run("twinpath", args);
  }

  std::optional<FakeGpuHost> host_;
};

TEST_F(ResultsTest, ReferenceIsSavedShownAndComparedWith) {
  const CliResult saved =
      Check({"--save-reference", "ref.json"}, Solver("0.5", "0.5"));
  ASSERT_THAT(saved.err, HasSubstr("reference written to ref.json"))
      << saved.out;
  const absl::StatusOr<v1::Reference> reference =
      cli::LoadReference(At("ref.json"));
  ASSERT_THAT(reference, IsOk());
  EXPECT_EQ(reference->stdout(), "norm 0.5\n");
  ASSERT_EQ(reference->files_size(), 1);
  EXPECT_EQ(reference->files(0).content(), "sum 0.5\n");
  const CliResult shown =
      host_->Run("twinpath", {"reference", "show", "ref.json"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("recorded from entry check, native"),
                               HasSubstr("sums.txt")));

  const CliResult same =
      Check({"--reference", "ref.json"}, Solver("0.5", "0.5"));
  EXPECT_THAT(same.out, Not(HasSubstr("TP432")));
  EXPECT_THAT(same.out, Not(HasSubstr("DIFFERS")));

  const CliResult other =
      Check({"--reference", "ref.json"}, Solver("0.75", "0.75"));
  EXPECT_EQ(other.exit_code, 1) << other.out << other.err;
  EXPECT_THAT(other.out, AllOf(HasSubstr("TP432 reference-differs"),
                               HasSubstr("DIFFERS"), HasSubstr("the reference"),
                               HasSubstr("0.75"), HasSubstr("file sums.txt")));
}

TEST_F(ResultsTest, PathsAgreeWithinAToleranceOrNot) {
  const std::string solver = Solver("0.500", "0.501");
  const CliResult exact = Check({}, solver);
  EXPECT_EQ(exact.exit_code, 1) << exact.out << exact.err;
  EXPECT_THAT(exact.out, AllOf(HasSubstr("TP402 paths-differ"),
                               HasSubstr("Only numbers differ"),
                               HasSubstr("0.501"), HasSubstr("0.001")));
  const CliResult near =
      Check({"--compare", "numbers", "--absolute", "0.01"}, solver);
  EXPECT_THAT(near.out, Not(HasSubstr("TP402")));
  const CliResult far =
      Check({"--compare", "numbers", "--absolute", "1e-4"}, solver);
  EXPECT_EQ(far.exit_code, 1);
  EXPECT_THAT(far.out, HasSubstr("differs by more than is allowed"));
  const CliResult off = Check({"--compare", "off"}, solver);
  EXPECT_THAT(off.out, Not(HasSubstr("TP402")));
}

TEST_F(ResultsTest, ExpectedNumbersAndAMissingFile) {
  ASSERT_THAT(WriteFileAtomic(At("golden.txt"), "norm 0.5\n"), IsOk());
  const CliResult wrong =
      Check({"--expect-numbers", "golden.txt", "--relative", "0.1"},
            Solver("0.75", "0.75"));
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  EXPECT_THAT(wrong.out, AllOf(HasSubstr("TP303 output-unexpected"),
                               HasSubstr("what is expected")));
  const CliResult missing = Check({}, "echo norm 0.5");
  EXPECT_EQ(missing.exit_code, 1) << missing.out << missing.err;
  EXPECT_THAT(missing.out, HasSubstr("file sums.txt is missing"));
  const CliResult link = Check({}, "ln -s /etc/passwd sums.txt");
  EXPECT_EQ(link.exit_code, 1);
  EXPECT_THAT(link.out, AllOf(HasSubstr("file sums.txt is a symbolic link"),
                              Not(HasSubstr("root:"))));
}

TEST_F(ResultsTest, NoReferenceOfARunThatFails) {
  const CliResult failed =
      Check({"--save-reference", "ref.json"}, "echo x > sums.txt; exit 3");
  EXPECT_NE(failed.exit_code, 0);
  EXPECT_THAT(failed.err, HasSubstr("no run of a real GPU is proven"));
  EXPECT_THAT(ReadFile(At("ref.json"), 1 << 20), Not(IsOk()));
}

}  // namespace
}  // namespace twinpath::e2e
