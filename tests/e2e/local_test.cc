// Commands that need no coordinator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "cli/json.h"
#include "tests/e2e/fleet.h"
#include "twinpath/v1/artifact.pb.h"
#include "twinpath/v1/cli.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class LocalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
    ASSERT_THAT(Write("kernel.ptx", SamplePtx()), IsOk());
  }
  absl::Status Write(const std::string& name, absl::string_view text) {
    return WriteFileAtomic(JoinPath(folder_->path(), name), text, 0644);
  }
  CliResult Cli(const std::vector<std::string>& args,
                const std::string& input = "") {
    return RunCli(args, "127.0.0.1:1", folder_->path(), input);
  }
  std::optional<TempDirectory> folder_;
};

TEST_F(LocalTest, InspectShowsTargetAndKernel) {
  const CliResult result = Cli({"inspect", "--kernels", "kernel.ptx"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("PTX text"), HasSubstr("compute_75"),
                                HasSubstr("6.3"), HasSubstr("_Z1kv")));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(LocalTest, InspectOfAnImageThatCannotBeReadIsNoSuccess) {
  // A container with one entry, PTX said to be zstd, whose payload is not.
  std::string entry(64, '\0');
  const auto put = [&entry](size_t at, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      entry[at + i] = static_cast<char>(value >> (8 * i));
    }
  };
  put(0x00, 1, 2);
  put(0x02, 0x0101, 2);
  put(0x04, 64, 4);
  put(0x08, 8, 8);
  put(0x10, 8, 4);
  put(0x1A, 8, 2);
  put(0x1C, 90, 4);
  put(0x28, 0x8011, 8);
  put(0x38, 100, 8);
  entry += "nonsense";
  std::string bytes("\x50\xED\x55\xBA\x01\x00\x10\x00", 8);
  bytes += static_cast<char>(entry.size());
  bytes.append(7, '\0');
  bytes += entry;
  ASSERT_THAT(Write("broken.fatbin", bytes), IsOk());
  const CliResult result = Cli({"inspect", "broken.fatbin"});
  EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("does not decode"));
}

TEST_F(LocalTest, InspectAsJsonIsTheReport) {
  const CliResult result = Cli({"inspect", "kernel.ptx", "--format", "json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  v1::ArtifactReport report;
  ASSERT_THAT(cli::FromJson(result.out, "out", &report), IsOk());
  ASSERT_EQ(report.files_size(), 1);
  EXPECT_EQ(report.files(0).kind(), v1::FILE_KIND_PTX);
  EXPECT_EQ(report.files(0).digest().sha256(), Sha256Of(SamplePtx()).Raw());
}

TEST_F(LocalTest, PredictNamesReasonAndFix) {
  const CliResult result =
      Cli({"predict", "--host", "h200", "--require", "native", "kernel.ptx"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("h200"), HasSubstr("fails 223"),
                                HasSubstr("TP205"), HasSubstr("fix: ")));
  // The plain run compiles, and that works.
  EXPECT_EQ(Cli({"predict", "--host", "h200", "kernel.ptx"}).exit_code, 0);
}

TEST_F(LocalTest, AnOptionTakesOneValueWhateverFollows) {
  const CliResult result =
      Cli({"predict", "--host", "h200", "--host", "dgx-spark", "kernel.ptx",
           "--require", "ptx-jit", "--width", "100"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Cli({"predict", "--require", "plain", "--host", "h200", "--require",
                 "ptx-jit", "kernel.ptx", "--no-color"})
                .exit_code,
            0);
}

TEST_F(LocalTest, AWrongCallIsToldHowToSpellIt) {
  EXPECT_THAT(Cli({"record", "cc", "-o", "app", "app.c"}).err,
              HasSubstr("stands behind --"));
  EXPECT_THAT(Cli({"check", "app", "--size", "64"}).err,
              HasSubstr("stand behind --"));
  EXPECT_EQ(Cli({"hosts", "--label", "lab"}).exit_code, 2);
  EXPECT_EQ(Cli({"--version"}).out, Cli({"version"}).out);
}

TEST_F(LocalTest, PredictMatrixHasEveryProfile) {
  const CliResult result =
      Cli({"predict", "--matrix", "--format", "json", "kernel.ptx"});
  v1::PredictOutput output;
  ASSERT_THAT(cli::FromJson(result.out, "out", &output), IsOk());
  EXPECT_GE(output.hosts_size(), 10);
  for (const v1::HostPrediction& host : output.hosts()) {
    EXPECT_TRUE(host.facts().simulated()) << host.facts().profile();
    EXPECT_GT(host.predictions_size(), 0) << host.facts().profile();
  }
}

TEST_F(LocalTest, PredictTakesFactsFromAFile) {
  const CliResult all =
      Cli({"predict", "--host", "dgx-spark", "--format", "json", "kernel.ptx"});
  v1::PredictOutput output;
  ASSERT_THAT(cli::FromJson(all.out, "out", &output), IsOk());
  const absl::StatusOr<std::string> json = cli::ToJson(output.hosts(0).facts());
  ASSERT_THAT(json, IsOk());
  ASSERT_THAT(Write("facts.json", *json), IsOk());
  const CliResult result =
      Cli({"predict", "--host", "facts.json", "kernel.ptx"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("NVIDIA GB10 12.1"));
}

TEST_F(LocalTest, ExplainKnowsCodesErrorsTextsAndLogs) {
  EXPECT_THAT(Cli({"explain", "TP204"}).out,
              HasSubstr("ptx-newer-than-driver"));
  EXPECT_THAT(Cli({"explain", "209"}).out,
              HasSubstr("CUDA_ERROR_NO_BINARY_FOR_GPU"));
  const CliResult piped =
      Cli({"explain", "-"},
          "starting\nerror: no kernel image is available for execution on the "
          "device\n");
  EXPECT_EQ(piped.exit_code, 0) << piped.err;
  EXPECT_THAT(piped.out, HasSubstr("209"));
  ASSERT_THAT(Write("app.log", "CUDA error 222 in cuModuleLoadData\n"), IsOk());
  EXPECT_EQ(Cli({"explain", "app.log"}).exit_code, 0);
  EXPECT_EQ(Cli({"explain", "all", "is", "well"}).exit_code, 2);
  EXPECT_THAT(Cli({"explain", "209", "TP204"}).out,
              AllOf(HasSubstr("CUDA error 209"), HasSubstr("TP204")));
  EXPECT_EQ(Cli({"explain", "209", "files"}).exit_code, 2);
  EXPECT_THAT(Cli({"explain", "gone.log"}).err, HasSubstr("no such file"));
}

TEST_F(LocalTest, RecordPassesTheExitCodeOnAndWritesNothingForAFailure) {
  EXPECT_EQ(Cli({"record", "-o", "r.json", "--", "/bin/sh", "-c", "exit 7"})
                .exit_code,
            7);
  EXPECT_THAT(ReadFile(JoinPath(folder_->path(), "r.json"), 1 << 20),
              StatusIs(absl::StatusCode::kNotFound));
  const CliResult good = Cli({"record", "-o", "r.json", "--", "/bin/sh", "-c",
                              "printf x > made -- -o ignored"});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  v1::BuildRecord record;
  ASSERT_THAT(cli::LoadJson(JoinPath(folder_->path(), "r.json"), &record),
              IsOk());
  ASSERT_EQ(record.outputs_size(), 1);
  EXPECT_EQ(record.outputs(0).path(), "made");
}

TEST_F(LocalTest, CheckOnAHostWithoutGpuSaysSoAndIsInconclusive) {
  struct stat info {};
  if (stat("/dev/nvidiactl", &info) == 0) {
    GTEST_SKIP() << "needs a host without an NVIDIA driver";
  }
  ASSERT_THAT(Write("app", "#!/bin/sh\nexit 0\n"), IsOk());
  const CliResult result = Cli({"check", "app", "--", "--anything"});
  EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("TP101"), HasSubstr("verdict: inconclusive"),
                    Not(HasSubstr("verdict: pass"))));
}

TEST_F(LocalTest, HelpIsThereForEveryCommandAndShowsExamplesFirst) {
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"inspect"},
                                             {"predict"},
                                             {"check"},
                                             {"record"},
                                             {"doctor"},
                                             {"explain"},
                                             {"up"},
                                             {"hosts"},
                                             {"artifact", "push"},
                                             {"sweep", "start"},
                                             {"gate"}}) {
    std::vector<std::string> args = command;
    args.push_back("--help");
    const CliResult result = Cli(args);
    EXPECT_EQ(result.exit_code, 0) << command[0];
    const size_t example = result.out.find("\n  twinpath ");
    const size_t usage = result.out.find("Usage:");
    EXPECT_NE(example, std::string::npos) << command[0];
    EXPECT_LT(example, usage) << command[0];
  }
}

TEST_F(LocalTest, JsonOfVersionAndDoctorParse) {
  v1::VersionOutput version;
  EXPECT_THAT(
      cli::FromJson(Cli({"version", "--format", "json"}).out, "out", &version),
      IsOk());
  EXPECT_EQ(version.protocol_max(), 1u);
  v1::DoctorOutput doctor;
  EXPECT_THAT(
      cli::FromJson(Cli({"doctor", "--format", "json"}).out, "out", &doctor),
      IsOk());
  EXPECT_NE(doctor.facts().host_name(), "");
}

}  // namespace
}  // namespace twinpath::e2e
