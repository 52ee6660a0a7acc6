#include "cli/sweep_entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "cli/sweep_file.h"

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHead[] =
    "name: a\n"
    "artifact: {files: [app]}\n"
    "entries:\n"
    "  - name: e\n";

// The SHA-256 of no bytes (FIPS 180-4).
constexpr char kEmptyHex[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

absl::StatusOr<v1::Entry> ReadOne(absl::string_view lines,
                                  absl::string_view directory = "/x") {
  const absl::StatusOr<SweepFile> file =
      ParseSweepFile(absl::StrCat(kHead, lines), "s.yaml", directory);
  if (!file.ok()) return file.status();
  return file->spec.release().entries(0);
}

TEST(SweepEntry, KindsWithoutACommand) {
  absl::StatusOr<v1::Entry> entry =
      ReadOne("    kind: images\n    timeout: 5m\n");
  ASSERT_THAT(entry, IsOk());
  EXPECT_EQ(entry->kind(), v1::ENTRY_KIND_IMAGES);
  EXPECT_EQ(entry->timeout().seconds(), 300);
  entry = ReadOne("    kind: toolchain\n");
  ASSERT_THAT(entry, IsOk());
  EXPECT_EQ(entry->kind(), v1::ENTRY_KIND_TOOLCHAIN);
  entry = ReadOne("    kind: command\n    command: app\n");
  ASSERT_THAT(entry, IsOk());
  EXPECT_EQ(entry->kind(), v1::ENTRY_KIND_UNSPECIFIED);
}

TEST(SweepEntry, OciImage) {
  const absl::StatusOr<v1::Entry> entry =
      ReadOne(absl::StrCat("    kind: oci\n    command: python train.py\n"
                           "    oci_image: sha256:",
                           kEmptyHex, "\n"));
  ASSERT_THAT(entry, IsOk());
  EXPECT_EQ(entry->kind(), v1::ENTRY_KIND_OCI);
  EXPECT_EQ(entry->oci_image(), absl::StrCat("sha256:", kEmptyHex));
}

TEST(SweepEntry, Tracing) {
  absl::StatusOr<v1::Entry> entry = ReadOne(
      "    command: app\n    trace: required\n    must_launch: [_Z1kv]\n");
  ASSERT_THAT(entry, IsOk());
  EXPECT_EQ(entry->trace(), v1::TRACE_RULE_REQUIRED);
  EXPECT_THAT(entry->must_launch(), ElementsAre("_Z1kv"));
  EXPECT_EQ(ReadOne("    command: app\n    trace: off\n")->trace(),
            v1::TRACE_RULE_OFF);
  EXPECT_EQ(ReadOne("    command: app\n    trace: auto\n")->trace(),
            v1::TRACE_RULE_UNSPECIFIED);
}

TEST(SweepEntry, NumbersAndDigest) {
  absl::StatusOr<v1::Entry> entry = ReadOne(
      "    command: app\n"
      "    expect:\n"
      "      exit: 2\n"
      "      numbers: {text: 'loss 0.5', absolute: 1e-6, relative: 0.25,"
      " nan_equals_nan: true}\n");
  ASSERT_THAT(entry, IsOk());
  EXPECT_EQ(entry->expected_exit(), 2);
  const v1::ExpectedNumbers& numbers = entry->expected_output().numbers();
  EXPECT_EQ(numbers.text(), "loss 0.5");
  EXPECT_EQ(numbers.tolerance().absolute(), 1e-6);
  EXPECT_EQ(numbers.tolerance().relative(), 0.25);
  EXPECT_TRUE(numbers.tolerance().nan_equals_nan());
  for (const char* prefix : {"", "sha256:"}) {
    entry = ReadOne(absl::StrCat("    command: app\n    expect: {digest: '",
                                 prefix, kEmptyHex, "'}\n"));
    ASSERT_THAT(entry, IsOk());
    EXPECT_EQ(entry->expected_output().digest().sha256(), Sha256Of("").Raw());
  }
}

TEST(SweepEntry, FilesAndComparison) {
  const absl::StatusOr<v1::Entry> entry = ReadOne(
      "    command: app\n"
      "    files:\n"
      "      - out/plain.bin\n"
      "      - {name: sums.txt, expect: {numbers: {text: '1 2'}}}\n"
      "      - {name: log.txt, expect: {contains: done}}\n"
      "      - {name: same.txt, expect: {content: abc}}\n"
      "    compare: {numbers: {relative: 1e-5}}\n");
  ASSERT_THAT(entry, IsOk());
  ASSERT_EQ(entry->expected_files_size(), 4);
  EXPECT_EQ(entry->expected_files(0).name(), "out/plain.bin");
  EXPECT_FALSE(entry->expected_files(0).has_content());
  EXPECT_EQ(entry->expected_files(1).content().numbers().text(), "1 2");
  EXPECT_EQ(entry->expected_files(2).content().contains(), "done");
  EXPECT_EQ(entry->expected_files(3).content().exact(), "abc");
  EXPECT_EQ(entry->compare().as(), v1::COMPARE_AS_NUMBERS);
  EXPECT_EQ(entry->compare().tolerance().relative(), 1e-5);
  EXPECT_EQ(ReadOne("    command: app\n    compare: off\n")->compare().as(),
            v1::COMPARE_AS_OFF);
  // Stated is more than not stated.
  EXPECT_TRUE(ReadOne("    command: app\n    compare: exact\n")->has_compare());
  EXPECT_FALSE(ReadOne("    command: app\n")->has_compare());
}

TEST(SweepEntry, TextsAndReferencesOfFiles) {
  const absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const auto write = [&folder](absl::string_view name, absl::string_view text) {
    ASSERT_THAT(WriteFileAtomic(JoinPath(folder->path(), name), text), IsOk());
  };
  write("golden.txt", "1.5\n");
  // Bytes are in base64, as protobuf's JSON has them.
  write("ref.json",
        "{\"stdout_digest\": {\"sha256\": "
        "\"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\"}, \"stdout\": \"\"}");
  write("bad.json",
        "{\"stdout_digest\": {\"sha256\": "
        "\"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\"}, \"stdout\": "
        "\"MQ==\"}");
  write("unknown.json", "{\"stdout_digets\": {}}");
  const absl::StatusOr<v1::Entry> entry = ReadOne(
      "    command: app\n"
      "    expect: {numbers: {file: golden.txt}}\n"
      "    files: [{name: o, expect: {content: {file: golden.txt}}}]\n"
      "    reference: ref.json\n",
      folder->path());
  ASSERT_THAT(entry, IsOk());
  EXPECT_EQ(entry->expected_output().numbers().text(), "1.5\n");
  EXPECT_EQ(entry->expected_files(0).content().exact(), "1.5\n");
  EXPECT_EQ(entry->reference().stdout_digest().sha256(), Sha256Of("").Raw());
  EXPECT_THAT(
      ReadOne("    command: app\n    reference: bad.json\n", folder->path()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("the bytes kept have another digest")));
  EXPECT_THAT(ReadOne("    command: app\n    reference: unknown.json\n",
                      folder->path()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("s.yaml:6:"), HasSubstr("digets"))));
}

struct Mistake {
  const char* lines;
  const char* says;
};

void PrintTo(const Mistake& mistake, std::ostream* out) {
  *out << mistake.lines;
}

class SweepEntryMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(SweepEntryMistake, IsNamedWithItsPlace) {
  EXPECT_THAT(ReadOne(GetParam().lines),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("s.yaml:"), HasSubstr(GetParam().says))))
      << GetParam().lines;
}

INSTANTIATE_TEST_SUITE_P(
    All, SweepEntryMistake,
    ::testing::Values(
        Mistake{"    kind: image\n    command: app\n", "images"},
        Mistake{"    kind: images\n    command: app\n",
                "an entry of kind images has no program of its own"},
        Mistake{"    kind: toolchain\n    expect: {exit: 1}\n",
                "an entry of kind toolchain has no program of its own"},
        Mistake{"    kind: images\n    gpus: 1\n", "no program of its own"},
        Mistake{"    kind: images\n    must_launch: [k]\n",
                "no program of its own"},
        Mistake{"    kind: command\n", "command"},
        Mistake{"    kind: oci\n    command: app\n",
                "kind oci needs \"oci_image\""},
        Mistake{"    kind: oci\n    oci_image: sha256:00\n", "command"},
        Mistake{"    kind: oci\n    command: app\n    oci_image: app:latest\n",
                "a tag may name another one tomorrow"},
        Mistake{"    command: app\n    oci_image: sha256:00\n",
                "only an entry of \"kind: oci\""},
        Mistake{"    command: app\n    trace: on\n", "required"},
        Mistake{"    command: app\n    trace: off\n    must_launch: [k]\n",
                "\"must_launch\" needs tracing"},
        Mistake{"    command: app\n    expect: {numbers: {absolute: 1}}\n",
                "exactly one of \"text\" and \"file\""},
        Mistake{"    command: app\n    expect: {numbers: {text: a, file: b}}\n",
                "exactly one of \"text\" and \"file\""},
        Mistake{"    command: app\n    expect: {numbers: {text: ''}}\n",
                "expected a text with numbers"},
        Mistake{"    command: app\n"
                "    expect: {numbers: {text: '1', absolute: -1}}\n",
                "at least 0"},
        Mistake{"    command: app\n"
                "    expect: {numbers: {text: '1', relative: inf}}\n",
                "at least 0"},
        Mistake{"    command: app\n"
                "    expect: {numbers: {text: '1', relative: nan}}\n",
                "at least 0"},
        Mistake{"    command: app\n"
                "    expect: {numbers: {text: '1', tolerance: 1}}\n",
                "tolerance"},
        Mistake{"    command: app\n    expect: {numbers: {file: no-such}}\n",
                "no-such"},
        Mistake{"    command: app\n    expect: {digest: abc}\n",
                "64 hexadecimal digits"},
        Mistake{"    command: app\n"
                "    expect: {numbers: {text: '1'}, contains: a}\n",
                "at most one of"},
        Mistake{"    command: app\n    files: []\n", "at least one file"},
        Mistake{"    command: app\n    files: [/etc/passwd]\n",
                "below the working folder"},
        Mistake{"    command: app\n    files: [a/../../b]\n",
                "below the working folder"},
        Mistake{"    command: app\n    files: [./a]\n",
                "below the working folder"},
        Mistake{"    command: app\n    files: [a//b]\n",
                "below the working folder"},
        Mistake{"    command: app\n    files: [a/]\n",
                "below the working folder"},
        Mistake{"    command: app\n    files: ['']\n",
                "below the working folder"},
        Mistake{"    command: app\n    files: [a, a]\n", "named twice"},
        Mistake{"    command: app\n    files: [{name: a, expect: {}}]\n",
                "expected one of"},
        Mistake{"    command: app\n"
                "    files: [{name: a, expect: {output: b}}]\n",
                "output"},
        Mistake{"    command: app\n"
                "    files: [{name: a, expect: {pattern: '('}}]\n",
                "regular expression"},
        Mistake{"    command: app\n    compare: close\n",
                "exact, off or {numbers"},
        Mistake{"    command: app\n    compare: numbers\n",
                "{numbers: {absolute: A, relative: R}}"},
        Mistake{"    command: app\n    compare: {numbers: {absolut: 1}}\n",
                "absolute"},
        Mistake{"    command: app\n    compare: off\n    reference: r.json\n",
                "compares with nothing"},
        Mistake{"    command: app\n    reference: no-such.json\n",
                "no-such.json"}));

// The examples that people start from.
TEST(SweepExamples, AreAllInOrder) {
  const char* source = std::getenv("TWINPATH_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  const std::string folder = JoinPath(source, "config/sweeps");
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(folder);
  ASSERT_THAT(names, IsOk());
  int read = 0;
  for (const std::string& name : *names) {
    if (!absl::EndsWith(name, ".yaml")) continue;
    EXPECT_THAT(LoadSweepFile(JoinPath(folder, name)), IsOk()) << name;
    ++read;
  }
  EXPECT_GE(read, 7);
  const absl::StatusOr<SweepFile> numbers =
      LoadSweepFile(JoinPath(folder, "numbers.yaml"));
  ASSERT_THAT(numbers, IsOk());
  EXPECT_THAT(
      numbers->spec.release().entries(0).expected_output().numbers().text(),
      HasSubstr("residual 9.8134e-10"));
}

}  // namespace
}  // namespace twinpath::cli
