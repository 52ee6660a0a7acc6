// Commands that need no coordinator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;
using ::testing::Not;
using ::testing::StartsWith;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// What inspect says of files that are read well: nothing where the reader is
// confined wholly. A sanitizer's run-time library needs what is forbidden, and
// a kernel may lack Landlock; every other warning is a fault.
Matcher<std::string> SaysNoMoreThanItsConfinement() {
  if (kSanitized) {
    return AllOf(StartsWith("warning: TP244 "),
                 HasSubstr("built with a sanitizer"),
                 ContainsRegex("^[^\n]*\n$"));
  }
  constexpr long kLandlockCreateRuleset = 444;
  constexpr unsigned kLandlockCreateVersion = 1;
  if (syscall(kLandlockCreateRuleset, nullptr, size_t{0},
              kLandlockCreateVersion) >= 1) {
    return IsEmpty();
  }
  return AllOf(StartsWith("warning: TP244 "), HasSubstr(": Landlock: "),
               Not(HasSubstr("; ")), ContainsRegex("^[^\n]*\n$"));
}

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
  EXPECT_THAT(result.err, SaysNoMoreThanItsConfinement());
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

TEST_F(LocalTest, InspectExpectsTargets) {
  // The sample is PTX for compute_75.
  EXPECT_EQ(Cli({"inspect", "--expect", "ptx", "kernel.ptx"}).exit_code, 0);
  EXPECT_EQ(
      Cli({"inspect", "--expect", "compute_75,ptx", "kernel.ptx"}).exit_code,
      0);
  const CliResult missing =
      Cli({"inspect", "--expect", "ptx,sm_90", "kernel.ptx"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.out, AllOf(HasSubstr("TP238"),
                                 HasSubstr("kernel.ptx: no image for sm_90; "
                                           "there is compute_75")));
  // Machines get it as a problem of the file.
  const CliResult json =
      Cli({"inspect", "--expect", "sm_90", "kernel.ptx", "--format", "json"});
  EXPECT_EQ(json.exit_code, 1);
  v1::ArtifactReport report;
  ASSERT_THAT(cli::FromJson(json.out, "out", &report), IsOk());
  ASSERT_EQ(report.files(0).problems_size(), 1);
  EXPECT_EQ(report.files(0).problems(0).code(), "TP238");
  const CliResult nonsense =
      Cli({"inspect", "--expect", "hopper", "kernel.ptx"});
  EXPECT_EQ(nonsense.exit_code, 2);
  EXPECT_THAT(nonsense.err, HasSubstr("--expect"));
}

TEST_F(LocalTest, InspectMatchesKernels) {
  EXPECT_THAT(Cli({"inspect", "--match", "^_Z1k", "kernel.ptx"}).out,
              HasSubstr("_Z1kv"));
  EXPECT_THAT(Cli({"inspect", "--match", "gemm", "kernel.ptx"}).out,
              Not(HasSubstr("_Z1kv")));
  const CliResult wrong = Cli({"inspect", "--match", "(", "kernel.ptx"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--match"));
}

TEST_F(LocalTest, InspectWalksFoldersOfFilesScriptsAndLinks) {
  const std::string tree = JoinPath(folder_->path(), "tree");
  ASSERT_THAT(MakeDirectories(JoinPath(tree, "sub"), 0755), IsOk());
  ASSERT_THAT(Write("tree/a.ptx", SamplePtx()), IsOk());
  ASSERT_THAT(Write("tree/sub/b.ptx", SamplePtx("_Z1bv")), IsOk());
  ASSERT_THAT(Write("tree/run.sh", "#!/bin/sh\n"), IsOk());
  ASSERT_EQ(symlink("a.ptx", JoinPath(tree, "link.ptx").c_str()), 0);
  ASSERT_EQ(symlink("..", JoinPath(tree, "sub/loop").c_str()), 0);
  const CliResult result =
      Cli({"inspect", "--expect", "ptx", "--kernels", "tree"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("tree: folder, 3 files"),
                    HasSubstr("2 with device code, 1 other file"),
                    HasSubstr("sub/b.ptx"), HasSubstr("_Z1bv"),
                    HasSubstr("ptx in 2 of 2 files"), Not(HasSubstr("run.sh")),
                    Not(HasSubstr("link.ptx"))));
  EXPECT_THAT(result.err, SaysNoMoreThanItsConfinement());
  EXPECT_EQ(Cli({"inspect", "--expect-each", "sm_90", "tree"}).exit_code, 1);
  // The same file is not a success on its own.
  EXPECT_EQ(Cli({"inspect", "tree/run.sh"}).exit_code, 2);

  const CliResult json = Cli({"inspect", "--format", "json", "tree"});
  v1::ArtifactReport report;
  ASSERT_THAT(cli::FromJson(json.out, "out", &report), IsOk());
  ASSERT_EQ(report.files_size(), 3);
  EXPECT_EQ(report.files(0).name(), "tree/a.ptx");

  EXPECT_EQ(Cli({"predict", "--host", "h200", "tree/sub"}).exit_code, 0);

  // What is wrong with one file is the folder's.
  ASSERT_THAT(Write("tree/broken.so", std::string("\x7f"
                                                  "ELF",
                                                  4)),
              IsOk());
  const CliResult broken = Cli({"inspect", "tree"});
  EXPECT_NE(broken.exit_code, 0);
  EXPECT_THAT(broken.out, HasSubstr("broken.so"));
}

TEST_F(LocalTest, InspectOpensWheels) {
  if (access("/usr/bin/python3", X_OK) != 0) {
    GTEST_SKIP() << "needs /usr/bin/python3 to make a wheel";
  }
  ASSERT_THAT(
      Write("make.py",
            "import zipfile\n"
            "z = zipfile.ZipFile('pkg-1.0-py3-none-any.whl', 'w',"
            " zipfile.ZIP_DEFLATED)\n"
            "z.write('kernel.ptx', 'pkg/kernel.ptx')\n"
            "z.writestr('pkg/__init__.py', 'import os\\n')\n"
            "z.writestr('pkg-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\n"
            "Root-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
            "z.writestr('pkg-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\n"
            "Name: pkg\\nVersion: 1.0\\n')\n"
            "z.close()\n"),
      IsOk());
  const CliResult made =
      Cli({"record", "-o", "r.json", "--output", "pkg-1.0-py3-none-any.whl",
           "--", "/usr/bin/python3", "make.py"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::string wheel = "pkg-1.0-py3-none-any.whl";
  const CliResult result = Cli({"inspect", "--expect", "ptx", wheel});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr(": wheel, "), HasSubstr("pkg/kernel.ptx"),
                    HasSubstr("1 with device code")));
  EXPECT_EQ(Cli({"inspect", "--expect", "sm_121", wheel}).exit_code, 1);
  EXPECT_THAT(Cli({"inspect", "--members", "--kernels", wheel}).out,
              AllOf(HasSubstr(wheel + "!/pkg/kernel.ptx: PTX text"),
                    HasSubstr("_Z1kv")));
  v1::ArtifactReport report;
  ASSERT_THAT(cli::FromJson(Cli({"inspect", "--format", "json", wheel}).out,
                            "out", &report),
              IsOk());
  ASSERT_EQ(report.files_size(), 2);
  EXPECT_EQ(report.files(0).carrier().format(), "wheel");
  EXPECT_EQ(report.files(1).member_of(), wheel);
  EXPECT_EQ(Cli({"predict", "--host", "h200", wheel}).exit_code, 0);
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

// A fleet as a folder of facts, hosts that differ only in name, and the same
// after an upgrade. PTX of kernel.ptx needs no newer driver than R570.
TEST_F(LocalTest, PredictGroupsAFleetAndAssumesAnUpgrade) {
  const CliResult one =
      Cli({"predict", "--host", "h200", "--format", "json", "kernel.ptx"});
  v1::PredictOutput host;
  ASSERT_THAT(cli::FromJson(one.out, "out", &host), IsOk());
  v1::HostFacts facts = host.hosts(0).facts();
  facts.clear_profile();
  ASSERT_THAT(MakeDirectories(JoinPath(folder_->path(), "fleet"), 0755),
              IsOk());
  for (const char* name : {"n1", "n2", "n3"}) {
    facts.set_host_name(name);
    const absl::StatusOr<std::string> json = cli::ToJson(facts);
    ASSERT_THAT(json, IsOk());
    ASSERT_THAT(Write(absl::StrCat("fleet/", name, ".json"), *json), IsOk());
  }
  const CliResult fleet =
      Cli({"predict", "kernel.ptx", "--fleet", "fleet", "--format", "json"});
  v1::PredictOutput output;
  ASSERT_THAT(cli::FromJson(fleet.out, "out", &output), IsOk());
  ASSERT_EQ(output.groups_size(), 1);
  EXPECT_EQ(output.groups(0).hosts(), 3u);
  EXPECT_EQ(output.groups(0).gpus(), 24u);
  EXPECT_EQ(fleet.exit_code, 0);
  // R470 is older than the GPU itself.
  const CliResult old = Cli(
      {"predict", "kernel.ptx", "--fleet", "fleet", "--assume", "driver=R470"});
  EXPECT_THAT(old.out, HasSubstr("jit -> fails 100 TP251"));
  EXPECT_THAT(old.out, HasSubstr("changes on 3 hosts of 3"));
  EXPECT_EQ(old.exit_code, 1);
  EXPECT_EQ(Cli({"predict", "kernel.ptx", "--host", "h200", "--assume", "x=1"})
                .exit_code,
            2);
}

TEST_F(LocalTest, PredictMatrixIsBoundedAndHasEveryGpu) {
  const CliResult result =
      Cli({"predict", "--matrix", "--format", "json", "kernel.ptx"});
  v1::PredictOutput output;
  ASSERT_THAT(cli::FromJson(result.out, "out", &output), IsOk());
  EXPECT_EQ(output.hosts_size(), 0);
  EXPECT_GE(output.reach().gpus_size(), 20);
  EXPECT_LT(result.out.size(), 1024u * 1024u);
  EXPECT_EQ(
      Cli({"predict", "--matrix", "--format", "junit", "kernel.ptx"}).exit_code,
      2);
  EXPECT_THAT(
      Cli({"predict", "--host", "h200", "--format", "junit", "kernel.ptx"}).out,
      HasSubstr("<testsuites"));
}

TEST_F(LocalTest, PredictProfilesHasEveryProfile) {
  const CliResult result =
      Cli({"predict", "--profiles", "--format", "json", "kernel.ptx"});
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

TEST_F(LocalTest, ExplainReadsLogsAsStreams) {
  EXPECT_THAT(Cli({"explain", "NVML", "18"}).out,
              HasSubstr("NVML_ERROR_LIB_RM_VERSION_MISMATCH"));
  std::string log;
  for (int i = 0; i < 50000; ++i) {
    log += "step " + std::to_string(i) + ": loss 0.1\n";
  }
  ASSERT_THAT(Write("quiet.log", log), IsOk());
  const CliResult quiet = Cli({"explain", "quiet.log"});
  EXPECT_EQ(quiet.exit_code, 3) << quiet.err;
  EXPECT_THAT(quiet.err, HasSubstr("read 50000 lines"));
  log +=
      "CUDA error: no kernel image is available for execution on the "
      "device\n";
  ASSERT_THAT(Write("loud.log", log), IsOk());
  const CliResult loud = Cli({"explain", "loud.log", "--format", "json"});
  EXPECT_EQ(loud.exit_code, 0) << loud.err;
  v1::ExplainOutput output;
  ASSERT_THAT(cli::FromJson(loud.out, "output", &output), IsOk());
  ASSERT_EQ(output.explanations_size(), 1);
  EXPECT_EQ(output.lines(), 50001u);
  EXPECT_EQ(output.explanations(0).code(), "209");
  EXPECT_EQ(output.explanations(0).line_number(), 50001u);
  // Words of our own are text in JSON, too.
  EXPECT_THAT(loud.out, HasSubstr("No image fits the device"));
  // Compressed logs and folders say what to do.
  ASSERT_THAT(Write("old.log.gz", "\x1f\x8b\x08 rest"), IsOk());
  EXPECT_THAT(Cli({"explain", "old.log.gz"}).err, HasSubstr("zcat"));
  EXPECT_EQ(Cli({"explain", "."}).exit_code, 2);
}

TEST_F(LocalTest, TablesAreCheckedAndShown) {
  const CliResult own = Cli({"tables", "check"});
  EXPECT_EQ(own.exit_code, 0) << own.out << own.err;
  EXPECT_THAT(own.out, AllOf(HasSubstr("drivers"), HasSubstr("sources")));
  EXPECT_THAT(Cli({"tables", "show", "drivers"}).out, HasSubstr("580"));
  EXPECT_THAT(Cli({"tables", "show", "errors", "--format", "json"}).out,
              HasSubstr("CUDA_ERROR_NO_BINARY_FOR_GPU"));
  EXPECT_EQ(Cli({"tables", "check", "nowhere"}).exit_code, 2);
  EXPECT_EQ(Cli({"tables", "show", "nothing"}).exit_code, 2);
  ASSERT_EQ(mkdir((folder_->path() + "/t").c_str(), 0700), 0);
  ASSERT_THAT(Write("t/gpus.yaml", "gpus: 7\n"), IsOk());
  const CliResult broken = Cli({"tables", "check", "t"});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(broken.err, HasSubstr("gpus.yaml:1"));
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
