#include "cli/sweep_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFull[] = R"(
name: vector-search-1.4
artifact:
  name: vector-search
  files:
    - bin/search
    - path: /opt/lib/libindex.so
      as: lib/libindex.so.1
build:
  declared: nvcc -gencode arch=compute_90,code=sm_90 -o search search.cu
source_revision: 3f2a91c
expect:
  sass: [sm_90, sm_120a]
  ptx: [compute_90]
  ptx_isa: {min: "7.8", max: "9.0"}
  kernels:
    - _Z6searchPf
    - pattern: _Z.*topk.*
      targets: [sm_90]
      ptx: true
entries:
  - name: small
    command: bin/search --size 64 --label 'two words'
    environment: {OMP_NUM_THREADS: 4}
    gpus: 2
    expect: {exit: 3, contains: "recall 1.0"}
    covers: [lib/libindex.so.1]
    timeout: 90s
    jit_timeout: 20m
    must_launch: [_Z6searchPf]
    memory: 2GiB
  - name: all
    command: [bin/search, --all]
    gpus: all
hosts:
  names: [spark-01]
  labels: {site: lab}
policy: {native: required, ptx_jit: optional, plain: skip, strict: true}
deadline: 30m
)";

TEST(SweepFile, ReadsEveryKey) {
  const absl::StatusOr<SweepFile> file =
      ParseSweepFile(kFull, "s.yaml", "/project/here");
  ASSERT_THAT(file, IsOk());

  EXPECT_EQ(file->spec.name(), "vector-search-1.4");
  EXPECT_EQ(file->spec.release().artifact().name(), "vector-search");
  ASSERT_EQ(file->sources.size(), 2u);
  EXPECT_EQ(file->sources[0].path, "/project/here/bin/search");
  EXPECT_EQ(file->sources[0].name, "");
  EXPECT_EQ(file->sources[1].path, "/opt/lib/libindex.so");
  EXPECT_EQ(file->sources[1].name, "lib/libindex.so.1");
  EXPECT_TRUE(file->spec.release().build().declared());
  EXPECT_EQ(file->spec.release().source_revision(), "3f2a91c");

  const v1::Expectation& expect = file->spec.release().expect();
  ASSERT_EQ(expect.sass_targets_size(), 2);
  EXPECT_EQ(expect.sass_targets(1).number(), 120u);
  EXPECT_EQ(expect.sass_targets(1).suffix(), v1::TARGET_SUFFIX_ARCH);
  EXPECT_EQ(expect.ptx_targets(0).number(), 90u);
  EXPECT_EQ(expect.ptx_isa_min().minor(), 8u);
  EXPECT_EQ(expect.ptx_isa_max().major(), 9u);
  ASSERT_EQ(expect.kernels_size(), 2);
  EXPECT_FALSE(expect.kernels(0).is_pattern());
  EXPECT_TRUE(expect.kernels(1).is_pattern());
  EXPECT_TRUE(expect.kernels(1).ptx());

  ASSERT_EQ(file->spec.release().entries_size(), 2);
  const v1::Entry& small = file->spec.release().entries(0);
  EXPECT_THAT(small.command(), ElementsAre("bin/search", "--size", "64",
                                           "--label", "two words"));
  EXPECT_EQ(small.environment(0).value(), "4");
  EXPECT_EQ(small.gpus().count(), 2u);
  EXPECT_EQ(small.expected_exit(), 3);
  EXPECT_EQ(small.expected_output().contains(), "recall 1.0");
  EXPECT_EQ(small.timeout().seconds(), 90);
  EXPECT_EQ(small.jit_timeout().seconds(), 1200);
  EXPECT_EQ(small.memory_bytes(), uint64_t{2} << 30);
  EXPECT_TRUE(file->spec.release().entries(1).gpus().all());

  EXPECT_THAT(file->spec.selector().hosts(), ElementsAre("spark-01"));
  EXPECT_THAT(file->spec.selector().labels(), ElementsAre("site=lab"));
  EXPECT_EQ(file->spec.policy().ptx_jit(), v1::PATH_RULE_OPTIONAL);
  EXPECT_EQ(file->spec.policy().plain(), v1::PATH_RULE_SKIPPED);
  EXPECT_TRUE(file->spec.policy().strict());
  EXPECT_EQ(file->spec.deadline().seconds(), 1800);
}

TEST(SweepFile, DefaultsAreRequiredPathsAndEveryHost) {
  const absl::StatusOr<SweepFile> file = ParseSweepFile(
      "name: a\n"
      "artifact: {files: [app]}\n"
      "entries: [{name: e, command: app}]\n",
      "s.yaml", "/x");
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->spec.policy().native(), v1::PATH_RULE_REQUIRED);
  EXPECT_EQ(file->spec.policy().ptx_jit(), v1::PATH_RULE_REQUIRED);
  EXPECT_EQ(file->spec.policy().plain(), v1::PATH_RULE_REQUIRED);
  EXPECT_EQ(file->spec.selector().hosts_size(), 0);
  EXPECT_FALSE(file->spec.has_deadline());
}

TEST(SweepFile, ReportsAllMistakesAtOnceWithPlaceAndNearestKey) {
  const absl::StatusOr<SweepFile> file = ParseSweepFile(
      "name: a\n"
      "artifact:\n"
      "  files: [app]\n"
      "  rot: dist\n"
      "entries:\n"
      "  - name: e\n"
      "    comand: app\n"
      "    timeout: 90\n"
      "    gpus: some\n"
      "  - name: e\n"
      "    command: app | tee log\n"
      "deadlin: 5m\n",
      "s.yaml", "/x");
  ASSERT_THAT(file, StatusIs(absl::StatusCode::kInvalidArgument));
  const std::string text(file.status().message());
  EXPECT_THAT(text, HasSubstr("s.yaml:4:3: "));
  EXPECT_THAT(text, HasSubstr("root"));
  EXPECT_THAT(text, HasSubstr("s.yaml:7:"));
  EXPECT_THAT(text, HasSubstr("command"));
  EXPECT_THAT(text, HasSubstr("s.yaml:8:"));
  EXPECT_THAT(text, HasSubstr("1 to 1024, or all"));
  EXPECT_THAT(text, HasSubstr("another entry is named \"e\""));
  EXPECT_THAT(text, HasSubstr("no shell is used"));
  EXPECT_THAT(text, HasSubstr("s.yaml:12:1: "));
  EXPECT_THAT(text, HasSubstr("deadline"));
}

std::string WithEntry(absl::string_view lines) {
  return absl::StrCat(
      "name: a\nartifact: {files: [app]}\nentries:\n  - name: e\n"
      "    command: app\n",
      lines);
}

TEST(SweepFile, RefusesVariablesThatDecideWhatARunProves) {
  for (const char* name :
       {"LD_PRELOAD", "LD_LIBRARY_PATH", "CUDA_FORCE_PTX_JIT",
        "CUDA_DISABLE_PTX_JIT", "CUDA_FORCE_JIT", "CUDA_DISABLE_JIT",
        "CUDA_CACHE_DISABLE", "CUDA_CACHE_PATH", "CUDA_CACHE_MAXSIZE",
        "CUDA_VISIBLE_DEVICES", "CUDA_INJECTION64_PATH", "CUDA_MODULE_LOADING",
        "CUDA_LOG_FILE", "CUDA_DEVICE_ORDER"}) {
    const absl::StatusOr<SweepFile> file = ParseSweepFile(
        WithEntry(absl::StrCat("    environment: {", name, ": x}\n")), "s.yaml",
        "/x");
    EXPECT_THAT(file, StatusIs(absl::StatusCode::kInvalidArgument,
                               AllOf(HasSubstr(name), HasSubstr("s.yaml:6:"))))
        << name;
  }
  EXPECT_THAT(ParseSweepFile(WithEntry("    environment: {MODE: fast}\n"),
                             "s.yaml", "/x"),
              IsOk());
}

struct Mistake {
  const char* lines;
  const char* says;
};

// A case's name in listings is its text, not its address.
void PrintTo(const Mistake& mistake, std::ostream* out) {
  *out << mistake.says;
}

class SweepFileMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(SweepFileMistake, IsNamed) {
  EXPECT_THAT(ParseSweepFile(GetParam().lines, "s.yaml", "/x"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("s.yaml:"), HasSubstr(GetParam().says))))
      << GetParam().lines;
}

INSTANTIATE_TEST_SUITE_P(
    All, SweepFileMistake,
    ::testing::Values(
        Mistake{"name: a\nname: b\n", "name"}, Mistake{"name: [a\n", ""},
        Mistake{"name: a b\nartifact: {files: [x]}\n"
                "entries: [{name: e, command: x}]\n",
                "letters, digits"},
        Mistake{"name: a\nartifact: {files: []}\n"
                "entries: [{name: e, command: x}]\n",
                "at least one file"},
        Mistake{"name: a\nartifact: {files: [x]}\nentries: []\n",
                "at least one entry"},
        Mistake{"name: a\nartifact: {files: [{path: x, as: ../y}]}\n"
                "entries: [{name: e, command: x}]\n",
                "relative name"},
        Mistake{"name: a\nartifact: {files: [{path: x, as: y}], root: z}\n"
                "entries: [{name: e, command: x}]\n",
                "exclude each other"},
        Mistake{"name: a\nartifact: {files: [x]}\n"
                "build: {record: r, declared: d}\n"
                "entries: [{name: e, command: x}]\n",
                "exactly one of"},
        Mistake{"name: a\nartifact: {files: [x]}\nexpect: {sass: [sm_9x]}\n"
                "entries: [{name: e, command: x}]\n",
                "sm_9x"},
        Mistake{
            "name: a\nartifact: {files: [x]}\nexpect: {sass: [compute_90]}\n"
            "entries: [{name: e, command: x}]\n",
            "machine code target"},
        Mistake{"name: a\nartifact: {files: [x]}\n"
                "expect: {ptx_isa: {min: nine}}\n"
                "entries: [{name: e, command: x}]\n",
                "PTX ISA version"},
        Mistake{"name: a\nartifact: {files: [x]}\n"
                "entries: [{name: e, command: x, expect: {pattern: '('}}]\n",
                "regular expression"},
        Mistake{"name: a\nartifact: {files: [x]}\n"
                "entries: [{name: e, command: x, expect: {contains: ''}}]\n",
                "an empty one"},
        Mistake{"name: a\nartifact: {files: [x]}\n"
                "entries: [{name: e, command: x, expect: {pattern: \"\"}}]\n",
                "an empty one"},
        Mistake{"name: a\nartifact: {files: [x]}\n"
                "entries: [{name: e, command: x, expect: {exit: 256}}]\n",
                "255"},
        Mistake{"name: a\nartifact: {files: [x]}\n"
                "entries: [{name: e, command: x,"
                " expect: {output: a, contains: b}}]\n",
                "at most one of"},
        Mistake{"name: a\nartifact: {files: [x]}\n"
                "entries: [{name: e, command: x}]\npolicy: {native: requird}\n",
                "required"},
        Mistake{"name: a\nartifact: {files: [x]}\n"
                "entries: [{name: e, command: x}]\n"
                "policy: {native: skip, ptx_jit: skip, plain: skip}\n",
                "nothing would be run"},
        Mistake{"name: a\nartifact: {files: [x]}\n"
                "entries: [{name: e, command: x}]\nhosts: {labels: [lab]}\n",
                "key=value"},
        Mistake{"name: a\nartifact: {files: [x]}\n"
                "entries: [{name: e, command: x}]\ndeadline: 0s\n",
                "positive duration"},
        Mistake{"name: a\nartifact: {files: [x]}\n"
                "entries: [{name: e, command: x, environment: {LD_X: y}}]\n",
                "environment.LD_X: LD_X decides"},
        Mistake{"name: a\nartifact: {files: [x]}\n"
                "entries: [{name: e, command: x}]\nhosts: {names: []}\n",
                "at least one host"},
        Mistake{"name: a\nartifact: {files: [x]}\n"
                "entries: [{name: e, command: x}]\npolicy: {strict: yes}\n",
                "strict"}));

TEST(SplitCommand, KeepsQuotedWords) {
  EXPECT_THAT(SplitCommand("a  'b c' \"d \\\" e\" f\\ g ''"),
              IsOkAndHolds(ElementsAre("a", "b c", "d \" e", "f g", "")));
}

TEST(SplitCommand, RefusesWhatOnlyAShellUnderstands) {
  for (const char* text :
       {"a | b", "a > f", "a $HOME", "a; b", "a `b`", "a *", "a & b"}) {
    EXPECT_THAT(SplitCommand(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("no shell is used")))
        << text;
  }
  EXPECT_THAT(SplitCommand("a '$HOME|>'"),
              IsOkAndHolds(ElementsAre("a", "$HOME|>")));
}

TEST(SplitCommand, RefusesOpenQuotesAndNothing) {
  for (const char* text : {"a 'b", "a \"b", "", "   ", "a \\"}) {
    EXPECT_THAT(SplitCommand(text),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
  }
}

TEST(SweepFile, MissingFileNamesThePath) {
  EXPECT_THAT(LoadSweepFile("/nonexistent/sweep.yaml"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nonexistent/sweep.yaml")));
}

}  // namespace
}  // namespace twinpath::cli
