// Image loading as its users meet it: the command and a sweep, on a host whose
// driver is none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "cli/json.h"
#include "tests/e2e/fake_gpu_host.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::e2e {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class ImagesTest : public ::testing::Test {
 protected:
  // False: skipped.
  bool Host(const std::string& words) {
    absl::StatusOr<FakeGpuHost> host = FakeGpuHost::Make(words);
    if (!host.ok()) return false;
    host_.emplace(*std::move(host));
    const char* source = std::getenv("TWINPATH_SOURCE_DIR");
    for (const char* sample :
         {"libcheck.so", "check-90.fatbin", "check-sass-90.fatbin"}) {
      const auto bytes =
          ReadFile(JoinPath(source == nullptr ? "." : source,
                            absl::StrCat("tests/data/samples/", sample)),
                   16 << 20);
      EXPECT_THAT(bytes, IsOk());
      EXPECT_THAT(WriteFileAtomic(JoinPath(host_->folder(), sample),
                                  bytes.value_or(""), 0644),
                  IsOk());
    }
    return true;
  }

  static std::vector<std::string> CodesOf(const CliResult& result) {
    v1::Sweep sweep;
    EXPECT_THAT(cli::FromJson(result.out, "out", &sweep), IsOk()) << result.err;
    std::vector<std::string> codes;
    for (const v1::Cell& cell : sweep.cells()) {
      for (const v1::Reason& reason : cell.verdict().reasons()) {
        codes.push_back(reason.code());
      }
    }
    return codes;
  }

  std::optional<FakeGpuHost> host_;
};

#define ON_HOST(words)                                           \
  if (!Host(words)) {                                            \
    GTEST_SKIP() << "no user namespaces for a host of its own: " \
                 << FakeGpuHost::Make(words).status();           \
  }

constexpr char kHopper[] = "gpu=9.0,memory=8192,processes=0 ";

TEST_F(ImagesTest, EverythingThatShouldLoadsAndPasses) {
  ON_HOST(kHopper);
  // sm_90, sm_120 and compute_75 in one, sm_90 and compute_90 in the other.
  const CliResult result = host_->Run(
      "twinpath", {"check", "--images", "libcheck.so", "check-90.fatbin"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("5 images given to the driver, 4 loaded"));
  EXPECT_THAT(result.out, HasSubstr("0 not as predicted"));
  EXPECT_THAT(result.out, HasSubstr("verdict: pass"));
}

TEST_F(ImagesTest, AWholeFolder) {
  ON_HOST(kHopper);
  const std::string lib = JoinPath(host_->folder(), "lib/deep");
  ASSERT_THAT(MakeDirectories(lib, 0755), IsOk());
  std::filesystem::copy(JoinPath(host_->folder(), "libcheck.so"), lib);
  const CliResult result = host_->Run("twinpath", {"check", "--images", "lib"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("deep/libcheck.so"));
}

TEST_F(ImagesTest, ARefusedImageFailsAndTheContradictionIsNamed) {
  ON_HOST(absl::StrCat(kHopper, "image:sm_90=200"));
  const CliResult result = host_->Run(
      "twinpath", {"check", "--images", "--format", "json", "libcheck.so"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(CodesOf(result), AllOf(Contains("TP335"), Contains("TP430")));
}

TEST_F(ImagesTest, ADriverThatDiesAtAnImageLeavesItOpen) {
  ON_HOST(absl::StrCat(kHopper, "image:sm_90=segv"));
  const CliResult result = host_->Run(
      "twinpath", {"check", "--images", "--format", "json", "libcheck.so"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(CodesOf(result),
              AllOf(Contains("TP336"), Not(Contains("TP335"))));
}

TEST_F(ImagesTest, ADriverThatHangsAtAnImageLeavesItOpen) {
  // PTX of another target than the probe's own.
  ON_HOST(absl::StrCat(kHopper, "image:compute_90=hang"));
  const CliResult result = host_->Run(
      "twinpath", {"check", "--images", "--timeout", "12s", "check-90.fatbin"});
  EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("too slow"));
  EXPECT_THAT(result.out, HasSubstr("TP336"));
}

TEST_F(ImagesTest, ImagesForOtherGpusFail) {
  ON_HOST("gpu=8.0,memory=8192,processes=0");
  const CliResult result =
      host_->Run("twinpath", {"check", "--images", "check-sass-90.fatbin"});
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("none of 1 image loads on this GPU"));
}

TEST_F(ImagesTest, EachModelOfAMixedHostIsAsked) {
  ON_HOST(
      "gpu=9.0,name=One,memory=8192,processes=0 "
      "gpu=12.0,name=Other,memory=8192,processes=0");
  const CliResult result =
      host_->Run("twinpath", {"check", "--images", "libcheck.so"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("One\n"), HasSubstr("Other\n")));
}

TEST_F(ImagesTest, WhatBelongsToRunsIsRefused) {
  ON_HOST(kHopper);
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"check", "--images", "libcheck.so", "--",
                                 "argument"},
        {"check", "--images", "--expect-exit", "1", "libcheck.so"},
        {"check", "--images", "--ptx-jit", "skip", "libcheck.so"}}) {
    const CliResult result = host_->Run("twinpath", args);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr("--images"));
  }
}

TEST_F(ImagesTest, AnEntryOfASweep) {
  ON_HOST(kHopper);
  ASSERT_THAT(WriteFileAtomic(JoinPath(host_->folder(), "sweep.yaml"),
                              "name: images\n"
                              "artifact:\n"
                              "  files: [libcheck.so]\n"
                              "entries:\n"
                              "  - {name: loads, kind: images}\n"
                              "deadline: 3m\n",
                              0644),
              IsOk());
  const CliResult result = host_->Script(R"(
    twinpath up --state state --listen 127.0.0.1:0 --ready-file ready \
      >up.log 2>&1 &
    up=$!
    while [ ! -s ready ]; do
      kill -0 $up 2>/dev/null || { cat up.log >&2; exit 99; }
      sleep 0.1
    done
    TWINPATH_COORDINATOR=$(cat ready) twinpath sweep start --watch sweep.yaml
    code=$?
    kill -TERM $up
    wait $up
    exit $code
  )");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("images 2 of 2"));
  EXPECT_THAT(result.out, HasSubstr("3 images given to the driver, 2 loaded"));
}

}  // namespace
}  // namespace twinpath::e2e
