#include "trust/release.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/status_matchers.h"

namespace twinpath::trust {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::Release Parse(const std::string& text) {
  v1::Release release;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &release));
  return release;
}

// The smallest release: an artifact whose digest is 32 times 0x11.
v1::Release Smallest() {
  v1::Release release;
  release.mutable_artifact()->mutable_digest()->set_sha256(
      std::string(32, '\x11'));
  return release;
}

constexpr char kSmallestText[] =
    "twinpath-release 1\n"
    "artifact="
    "1111111111111111111111111111111111111111111111111111111111111111\n";

v1::Release Whole() {
  v1::Release release = Parse(R"pb(
    artifact { name: "demo" }
    entries {
      name: "train"
      command: "bin/train"
      command: "--steps=1"
      command: ""
      environment { name: "MODE" value: "caf\303\251\n" }
      gpus { all: true }
      expected_exit: -1
      expected_output { pattern: "loss [0-9.]+\\s" }
      covers: "fp16"
      covers: "bf16"
      timeout { seconds: 90 nanos: 500000000 }
      jit_timeout { seconds: 900 }
      must_launch: "_Z4gemmPf"
      memory_bytes: 1073741824
    }
    entries { name: "check" command: "bin/check" }
    expect {
      sass_targets { number: 121 suffix: TARGET_SUFFIX_NONE }
      sass_targets { number: 90 suffix: TARGET_SUFFIX_ARCH }
      ptx_targets { number: 90 }
      ptx_isa_min { major: 8 minor: 0 }
      ptx_isa_max { major: 9 minor: 0 }
      kernels {
        name: "_Z4gemmPf"
        targets { number: 121 }
        targets { number: 100 suffix: TARGET_SUFFIX_FAMILY }
        ptx: true
      }
      kernels { name: "^_Z" is_pattern: true }
    }
    source_revision: "abc123"
    not_after { seconds: 1800000000 }
    host_labels: "zone=b"
    host_labels: "zone=a"
  )pb");
  release.mutable_artifact()->mutable_digest()->set_sha256(
      std::string(32, '\x11'));
  return release;
}

// As docs/formats/release.md says, written by hand.
constexpr char kWholeText[] =
    "twinpath-release 1\n"
    "artifact="
    "1111111111111111111111111111111111111111111111111111111111111111\n"
    "entry check command 000000=bin/check\n"
    "entry check exit=0\n"
    "entry check gpus=1\n"
    "entry train command 000000=bin/train\n"
    "entry train command 000001=--steps=1\n"
    "entry train command 000002=\n"
    "entry train covers=bf16\n"
    "entry train covers=fp16\n"
    "entry train env MODE=caf\\xC3\\xA9\\x0A\n"
    "entry train exit=-1\n"
    "entry train gpus=all\n"
    "entry train jit-timeout=900.000000000\n"
    "entry train memory=1073741824\n"
    "entry train must-launch=_Z4gemmPf\n"
    "entry train output-pattern=loss [0-9.]+\\x5Cs\n"
    "entry train timeout=90.500000000\n"
    "expect kernel sm_100f,sm_121 ptx=_Z4gemmPf\n"
    "expect kernel-pattern any=^_Z\n"
    "expect ptx-isa-max=9.0\n"
    "expect ptx-isa-min=8.0\n"
    "expect ptx=compute_90\n"
    "expect sass=sm_121\n"
    "expect sass=sm_90a\n"
    "host-label=zone=a\n"
    "host-label=zone=b\n"
    "not-after=1800000000.000000000\n"
    "source-revision=abc123\n";

// Every field of results: what decides what runs and how it is judged is in
// the text, one line a field, as docs/formats/release.md says.
v1::Release WithResults() {
  v1::Release release = Parse(R"pb(
    entries {
      name: "oci"
      command: "python"
      kind: ENTRY_KIND_OCI
      oci_image: "sha256:2222222222222222222222222222222222222222222222222222222222222222"
      trace: TRACE_RULE_OFF
      compare { as: COMPARE_AS_OFF }
    }
    entries { name: "images" kind: ENTRY_KIND_IMAGES }
    entries { name: "tools" kind: ENTRY_KIND_TOOLCHAIN }
    entries {
      name: "solve"
      command: "solve"
      trace: TRACE_RULE_REQUIRED
      expected_output {
        numbers {
          text: "x = 1\n"
          tolerance { absolute: 0.001 relative: 0.25 nan_equals_nan: true }
        }
      }
      expected_files { name: "out/a b=c" }
      expected_files {
        name: "sums"
        content { numbers { text: "2" } }
      }
      compare {
        as: COMPARE_AS_NUMBERS
        tolerance { relative: 1e-05 }
      }
      reference {
        origin: "spark-1"
        files { name: "sums" }
      }
    }
  )pb");
  release.mutable_artifact()->mutable_digest()->set_sha256(
      std::string(32, '\x11'));
  v1::Reference& reference = *release.mutable_entries(3)->mutable_reference();
  reference.mutable_stdout_digest()->set_sha256(Sha256Of("").Raw());
  reference.set_stdout("");
  reference.mutable_files(0)->mutable_digest()->set_sha256(
      std::string(32, '\x33'));
  return release;
}

// Doubles as C prints them with %.16e; SHA-256 of nothing by FIPS 180-4.
constexpr char kResultsText[] =
    "twinpath-release 1\n"
    "artifact="
    "1111111111111111111111111111111111111111111111111111111111111111\n"
    "entry images exit=0\n"
    "entry images gpus=1\n"
    "entry images kind=images\n"
    "entry oci command 000000=python\n"
    "entry oci compare=off\n"
    "entry oci exit=0\n"
    "entry oci gpus=1\n"
    "entry oci kind=oci\n"
    "entry oci oci-image=sha256:"
    "2222222222222222222222222222222222222222222222222222222222222222\n"
    "entry oci trace=off\n"
    "entry solve command 000000=solve\n"
    "entry solve compare=numbers 0.0000000000000000e+00 "
    "1.0000000000000001e-05\n"
    "entry solve exit=0\n"
    "entry solve file 000000 name=out/a b=c\n"
    "entry solve file 000001 name=sums\n"
    "entry solve file 000001 numbers 0.0000000000000000e+00 "
    "0.0000000000000000e+00=2\n"
    "entry solve gpus=1\n"
    "entry solve output-numbers 1.0000000000000000e-03 "
    "2.5000000000000000e-01 nan=x = 1\\x0A\n"
    "entry solve reference 000000 digest="
    "3333333333333333333333333333333333333333333333333333333333333333\n"
    "entry solve reference 000000 name=sums\n"
    "entry solve reference stdout="
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
    "entry solve trace=required\n"
    "entry tools exit=0\n"
    "entry tools gpus=1\n"
    "entry tools kind=toolchain\n";

TEST(ReleaseText, Results) {
  EXPECT_THAT(ReleaseText(WithResults()), IsOkAndHolds(kResultsText));
}

// A host or a coordinator that changes any of it has another text.
TEST(ReleaseText, EveryFieldOfResultsCounts) {
  const auto changed = [](const std::function<void(v1::Release&)>& change) {
    v1::Release release = WithResults();
    change(release);
    const absl::StatusOr<std::string> text = ReleaseText(release);
    ASSERT_THAT(text, IsOk());
    EXPECT_NE(*text, kResultsText);
  };
  const auto solve = [](v1::Release& r) { return r.mutable_entries(3); };
  changed([&](v1::Release& r) { solve(r)->clear_trace(); });
  changed([&](v1::Release& r) { solve(r)->clear_compare(); });
  changed([&](v1::Release& r) { solve(r)->mutable_compare()->clear_as(); });
  changed([&](v1::Release& r) {
    solve(r)->mutable_compare()->mutable_tolerance()->set_absolute(1e300);
  });
  changed([&](v1::Release& r) {
    solve(r)->mutable_compare()->mutable_tolerance()->set_nan_equals_nan(true);
  });
  changed([&](v1::Release& r) { solve(r)->clear_reference(); });
  changed([&](v1::Release& r) {
    solve(r)->mutable_reference()->mutable_files(0)->set_name("sum");
  });
  changed([&](v1::Release& r) {
    solve(r)->mutable_expected_files()->RemoveLast();
  });
  changed([&](v1::Release& r) {
    solve(r)->mutable_expected_files(1)->clear_content();
  });
  changed([&](v1::Release& r) {
    solve(r)->mutable_expected_output()->mutable_numbers()->clear_tolerance();
  });
  changed([&](v1::Release& r) { r.mutable_entries()->DeleteSubrange(1, 1); });
}

TEST(ReleaseText, RefusesEntriesThatBreakARule) {
  const auto refused = [](const std::function<void(v1::Entry&)>& change,
                          const std::string& why) {
    v1::Release release = WithResults();
    change(*release.mutable_entries(3));
    EXPECT_THAT(ReleaseText(release),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused([](v1::Entry& e) { e.set_kind(v1::ENTRY_KIND_IMAGES); },
          "no program of its own");
  refused([](v1::Entry& e) { e.set_kind(static_cast<v1::EntryKind>(9)); },
          "kind unknown");
  refused([](v1::Entry& e) { e.set_oci_image("sha256:00"); }, "oci_image");
  refused([](v1::Entry& e) { e.set_kind(v1::ENTRY_KIND_OCI); }, "oci_image");
  refused([](v1::Entry& e) { e.mutable_expected_files(0)->set_name("../x"); },
          "working folder");
  refused([](v1::Entry& e) { e.mutable_expected_files(0)->set_name("sums"); },
          "twice");
  refused(
      [](v1::Entry& e) {
        e.mutable_compare()->mutable_tolerance()->set_absolute(-1);
      },
      "tolerance");
  refused([](v1::Entry& e) { e.mutable_compare()->set_as(v1::COMPARE_AS_OFF); },
          "compared with nothing");
  refused([](v1::Entry& e) { e.mutable_reference()->set_stdout("x"); },
          "another digest");
  refused(
      [](v1::Entry& e) {
        e.set_trace(v1::TRACE_RULE_OFF);
        e.add_must_launch("k");
      },
      "must_launch");
  refused(
      [](v1::Entry& e) {
        e.mutable_expected_files(1)->mutable_content()->clear_rule();
      },
      "no rule");
}

TEST(ReleaseText, Smallest) {
  EXPECT_THAT(ReleaseText(Smallest()), IsOkAndHolds(kSmallestText));
}

TEST(ReleaseText, Whole) {
  EXPECT_THAT(ReleaseText(Whole()), IsOkAndHolds(kWholeText));
}

// Computed with sha256sum over the texts above. A change here breaks every
// signature made before it.
TEST(ReleaseDigest, FixedValues) {
  const auto smallest = ReleaseDigest(Smallest());
  ASSERT_THAT(smallest, IsOk());
  EXPECT_EQ(smallest->Hex(),
            "5628ba734bcbf0a1960363968a77acbdfbd83a3dfc99e6916230d6f296aceaf1");
  const auto whole = ReleaseDigest(Whole());
  ASSERT_THAT(whole, IsOk());
  EXPECT_EQ(whole->Hex(),
            "f15924dd1a42b2e44c746313e54a7852ffc18c33bcfc73d256afb8e0d285044f");
}

TEST(ReleaseDigest, OrderOfSetsDoesNotCount) {
  v1::Release other = Whole();
  other.mutable_entries()->SwapElements(0, 1);
  other.mutable_host_labels()->SwapElements(0, 1);
  other.mutable_expect()->mutable_sass_targets()->SwapElements(0, 1);
  EXPECT_EQ(ReleaseDigest(other).value(), ReleaseDigest(Whole()).value());
}

TEST(ReleaseDigest, OrderOfWordsCounts) {
  v1::Release other = Whole();
  other.mutable_entries(0)->mutable_command()->SwapElements(1, 2);
  EXPECT_NE(ReleaseDigest(other).value(), ReleaseDigest(Whole()).value());
}

TEST(ReleaseDigest, ArtifactNameAndBuildRecordAreOutside) {
  v1::Release other = Whole();
  other.mutable_artifact()->set_name("other");
  other.mutable_build()->add_argv("nvcc");
  EXPECT_EQ(ReleaseDigest(other).value(), ReleaseDigest(Whole()).value());
}

// Every field that a host acts on or a gate judges by changes the digest.
TEST(ReleaseDigest, EveryFieldCounts) {
  const Sha256 digest = ReleaseDigest(Whole()).value();
  const char* changes[] = {
      "entries { name: 'x' command: 'y' }",
      "expect { sass_targets { number: 75 } }",
      "expect { ptx_targets { number: 75 } }",
      "expect { ptx_isa_min { minor: 1 } }",
      "expect { ptx_isa_max { minor: 1 } }",
      "expect { kernels { name: 'k' } }",
      "source_revision: 'def'",
      "not_after { nanos: 1 }",
      "host_labels: 'zone=c'",
  };
  for (const char* change : changes) {
    v1::Release other = Whole();
    other.MergeFrom(Parse(change));
    EXPECT_NE(ReleaseDigest(other).value(), digest) << change;
  }
  const char* entry_changes[] = {
      "command: 'more'",
      "environment { name: 'A' value: '' }",
      "gpus { all: false count: 2 }",
      "expected_exit: 7",
      "expected_output { contains: 'loss' }",
      "covers: 'fp8'",
      "timeout { nanos: 1 }",
      "jit_timeout { nanos: 1 }",
      "must_launch: 'k'",
      "memory_bytes: 1",
  };
  for (const char* change : entry_changes) {
    v1::Release other = Whole();
    v1::Entry merge;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(change, &merge));
    v1::Entry& entry = *other.mutable_entries(1);
    entry.MergeFrom(merge);
    EXPECT_NE(ReleaseDigest(other).value(), digest) << change;
  }
}

// Values cannot pose as other lines.
TEST(ReleaseText, ValuesStayInTheirLine) {
  v1::Release release = Smallest();
  v1::Entry& entry = *release.add_entries();
  entry.set_name("a");
  entry.add_command("x\nentry b command 000000=y");
  EXPECT_THAT(ReleaseText(release),
              IsOkAndHolds(HasSubstr("000000=x\\x0Aentry b command")));
}

TEST(ReleaseText, RefusesWhatItCannotName) {
  const auto refuses = [](const v1::Release& release, const char* part) {
    EXPECT_THAT(ReleaseText(release),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  };
  refuses({}, "artifact digest");
  v1::Release release = Smallest();
  release.mutable_artifact()->mutable_digest()->set_sha256("short");
  refuses(release, "artifact digest");

  const auto with_entry = [](const std::string& text) {
    v1::Release r = Smallest();
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(text, r.add_entries()));
    return r;
  };
  refuses(with_entry("command: 'x'"), "name");
  refuses(with_entry("name: 'a b' command: 'x'"), "name");
  refuses(with_entry("name: 'a=b' command: 'x'"), "name");
  refuses(with_entry("name: 'a'"), "no command");
  refuses(with_entry("name: 'a' command: 'x' environment { name: '1A' }"),
          "no variable name");
  refuses(with_entry("name: 'a' command: 'x' environment { name: 'A' } "
                     "environment { name: 'A' }"),
          "set twice");
  refuses(with_entry("name: 'a' command: 'x' expected_output {}"), "no rule");
  refuses(with_entry("name: 'a' command: 'x' timeout { seconds: -1 }"),
          "timeout");
  refuses(with_entry("name: 'a' command: 'x' jit_timeout { nanos: -1 }"),
          "jit_timeout");
  v1::Release twice = with_entry("name: 'a' command: 'x'");
  *twice.add_entries() = twice.entries(0);
  refuses(twice, "twice");
  v1::Release late = Smallest();
  late.mutable_not_after()->set_seconds(int64_t{1} << 62);
  refuses(late, "not_after");
}

TEST(EscapeReleaseValue, EveryByte) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const std::string text = EscapeReleaseValue(all);
  for (const char c : text) {
    EXPECT_TRUE(c >= 0x20 && c <= 0x7E);
  }
  EXPECT_THAT(text, HasSubstr("\\x00\\x01"));
  EXPECT_THAT(text, HasSubstr("[\\x5C]"));
  EXPECT_THAT(text, HasSubstr("~\\x7F\\x80"));
  EXPECT_THAT(text, Not(HasSubstr("\\x5c")));
}

}  // namespace
}  // namespace twinpath::trust
