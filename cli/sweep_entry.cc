#include "cli/sweep_entry.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "cli/reference.h"
#include "cli/sweep_file.h"
#include "re2/re2.h"
#include "runner/paths.h"
#include "trust/entry_rules.h"

namespace twinpath::cli {
namespace {

constexpr int64_t kMaxGpus = 1024;
// What a coordinator takes of one entry, expected texts and reference included.
constexpr size_t kMaxEntryBytes = 1u << 20;

void SetDuration(absl::Duration from, google::protobuf::Duration* to) {
  const int64_t seconds = absl::IDivDuration(from, absl::Seconds(1), &from);
  to->set_seconds(seconds);
  to->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(from)));
}

// An empty text is in every output: it would look like a check and be none.
void RejectEmpty(YamlReader& reader, const std::string& text) {
  if (reader.IsScalar() && text.empty()) {
    reader.Error("expected a text; an empty one is found in every output");
  }
}

// One entry being read.
class EntryReader {
 public:
  EntryReader(YamlReader item, absl::string_view directory, v1::Entry& entry)
      : item_(std::move(item)), directory_(directory), entry_(entry) {}

  void Read() {
    ReadKind();
    if (HasResult()) {
      ReadCommand(item_.Required("command"));
      ReadEnvironment(item_.Optional("environment"));
      ReadGpus(item_.Optional("gpus"));
      ReadExpected(item_.Optional("expect"));
      ReadFiles(item_.Optional("files"));
      ReadCompare(item_.Optional("compare"));
      ReadReference(item_.Optional("reference"));
      ReadTracing(item_.Optional("trace"), item_.Optional("must_launch"));
    } else {
      for (const absl::string_view key :
           {"command", "environment", "gpus", "expect", "files", "compare",
            "reference", "trace", "must_launch"}) {
        if (YamlReader reader = item_.Optional(key); reader.present()) {
          reader.Error(absl::StrCat("an entry of kind ", kind_,
                                    " has no program of its own"));
        }
      }
    }
    ReadOciImage(item_.Optional("oci_image"));
    for (const std::string& text : item_.Optional("covers").StringSequence()) {
      entry_.add_covers(text);
    }
    if (YamlReader timeout = item_.Optional("timeout"); timeout.present()) {
      ReadSweepDuration(timeout, entry_.mutable_timeout());
    }
    if (YamlReader timeout = item_.Optional("jit_timeout"); timeout.present()) {
      ReadSweepDuration(timeout, entry_.mutable_jit_timeout());
    }
    entry_.set_memory_bytes(item_.Optional("memory").Bytes());
    item_.RejectUnknownKeys();
    if (entry_.ByteSizeLong() > kMaxEntryBytes) {
      item_.Error(
          "takes more than 1 MiB with its expected texts and reference; expect "
          "large results by digest, and record references without their bytes");
    }
  }

 private:
  bool HasResult() const {
    return entry_.kind() == v1::ENTRY_KIND_UNSPECIFIED ||
           entry_.kind() == v1::ENTRY_KIND_OCI;
  }

  void ReadKind() {
    YamlReader kind = item_.Optional("kind");
    if (!kind.present()) return;
    kind_ = kind.Choice({"command", "images", "toolchain", "oci"});
    if (kind_ == "images") entry_.set_kind(v1::ENTRY_KIND_IMAGES);
    if (kind_ == "toolchain") entry_.set_kind(v1::ENTRY_KIND_TOOLCHAIN);
    if (kind_ == "oci") entry_.set_kind(v1::ENTRY_KIND_OCI);
  }

  void ReadOciImage(YamlReader image) {
    if (entry_.kind() == v1::ENTRY_KIND_OCI && !image.present()) {
      item_.Error("an entry of kind oci needs \"oci_image\"");
      return;
    }
    if (!image.present()) return;
    entry_.set_oci_image(image.String());
    if (entry_.kind() != v1::ENTRY_KIND_OCI) {
      image.Error("only an entry of \"kind: oci\" has one");
    } else if (image.IsScalar() && !trust::IsOciDigest(entry_.oci_image())) {
      image.Error(
          "expected the digest of its manifest: sha256: and 64 lower-case "
          "hexadecimal digits; a tag may name another one tomorrow");
    }
  }

  void ReadTracing(YamlReader trace, YamlReader must_launch) {
    if (trace.present()) {
      const std::string word = trace.Choice({"auto", "required", "off"});
      if (word == "required") entry_.set_trace(v1::TRACE_RULE_REQUIRED);
      if (word == "off") entry_.set_trace(v1::TRACE_RULE_OFF);
    }
    for (const std::string& kernel : must_launch.StringSequence()) {
      entry_.add_must_launch(kernel);
    }
    if (entry_.trace() == v1::TRACE_RULE_OFF && must_launch.present()) {
      trace.Error("\"must_launch\" needs tracing");
    }
  }

  void ReadCommand(YamlReader command) {
    if (!command.present()) return;
    if (command.IsSequence()) {
      for (std::string& word : command.StringSequence()) {
        entry_.add_command(std::move(word));
      }
      if (entry_.command().empty() || entry_.command(0).empty()) {
        command.Error("expected a program and its arguments");
      }
      return;
    }
    const std::string text = command.String();
    if (!command.IsScalar()) return;
    absl::StatusOr<std::vector<std::string>> words = SplitCommand(text);
    if (!words.ok()) {
      command.Error(MessageOf(words.status()));
      return;
    }
    for (std::string& word : *words) entry_.add_command(std::move(word));
  }

  void ReadEnvironment(YamlReader environment) {
    for (auto& [key, value] : environment.Mapping()) {
      v1::EnvironmentVariable& variable = *entry_.add_environment();
      variable.set_name(key);
      variable.set_value(value.String());
      // Each variable by itself, so that all mistakes are reported.
      v1::Entry alone;
      *alone.add_environment() = variable;
      if (const absl::Status allowed = runner::CheckEntryEnvironment(alone);
          !allowed.ok()) {
        // The place in the file names the entry.
        absl::string_view message = MessageOf(allowed);
        absl::ConsumePrefix(&message, "entry : environment: ");
        value.Error(std::string(message));
      }
    }
  }

  void ReadGpus(YamlReader gpus) {
    if (!gpus.present()) return;
    // The text decides, so that a wrong word is named together with both
    // possibilities.
    const std::string text = gpus.String();
    if (!gpus.IsScalar()) return;
    int64_t count = 0;
    if (text == "all") {
      entry_.mutable_gpus()->set_all(true);
    } else if (absl::SimpleAtoi(text, &count) && count >= 1 &&
               count <= kMaxGpus) {
      entry_.mutable_gpus()->set_count(static_cast<uint32_t>(count));
    } else {
      gpus.Error("expected a number from 1 to 1024, or all");
    }
  }

  void ReadExpected(YamlReader expect) {
    if (!expect.present()) return;
    if (YamlReader exit = expect.Optional("exit"); exit.present()) {
      entry_.set_expected_exit(static_cast<int32_t>(exit.Int(0, 255)));
    }
    v1::ExpectedOutput output;
    if (ReadRules(expect, "output", output)) {
      *entry_.mutable_expected_output() = std::move(output);
    }
    expect.RejectUnknownKeys();
  }

  // The rule among `exact_key` and the other four; false if there is none.
  bool ReadRules(YamlReader& expect, absl::string_view exact_key,
                 v1::ExpectedOutput& output) {
    int rules = 0;
    if (YamlReader exact = expect.Optional(exact_key); exact.present()) {
      ++rules;
      output.set_exact(TextOrFile(exact));
    }
    if (YamlReader contains = expect.Optional("contains"); contains.present()) {
      ++rules;
      output.set_contains(contains.String());
      RejectEmpty(contains, output.contains());
    }
    if (YamlReader pattern = expect.Optional("pattern"); pattern.present()) {
      ++rules;
      output.set_pattern(pattern.String());
      RejectEmpty(pattern, output.pattern());
      CheckPattern(pattern, output.pattern());
    }
    if (YamlReader numbers = expect.Optional("numbers"); numbers.present()) {
      ++rules;
      ReadNumbers(numbers, *output.mutable_numbers());
    }
    if (YamlReader digest = expect.Optional("digest"); digest.present()) {
      ++rules;
      ReadDigest(digest, *output.mutable_digest());
    }
    if (rules > 1) {
      expect.Error(absl::StrCat("expected at most one of \"", exact_key,
                                "\", \"contains\", \"pattern\", \"numbers\", "
                                "\"digest\""));
    }
    return rules > 0;
  }

  // A text, or {file: P}: the bytes of that file.
  std::string TextOrFile(YamlReader& reader) {
    if (!reader.IsMapping()) return reader.String();
    std::string text = ReadTextFile(reader.Required("file"));
    reader.RejectUnknownKeys();
    return text;
  }

  std::string ReadTextFile(YamlReader file) {
    const std::string path = file.String();
    if (!file.present() || !file.IsScalar()) return "";
    if (path.empty()) {
      file.Error("expected a path");
      return "";
    }
    absl::StatusOr<std::string> text =
        ReadFile(AbsolutePath(directory_, path), kMaxEntryBytes);
    if (!text.ok()) {
      file.Error(MessageOf(text.status()));
      return "";
    }
    return *std::move(text);
  }

  void ReadNumbers(YamlReader& numbers, v1::ExpectedNumbers& out) {
    YamlReader text = numbers.Optional("text");
    YamlReader file = numbers.Optional("file");
    if (text.present() == file.present()) {
      numbers.Error("expected exactly one of \"text\" and \"file\"");
    }
    if (text.present()) {
      out.set_text(text.String());
      if (text.IsScalar() && out.text().empty()) {
        text.Error("expected a text with numbers");
      }
    } else {
      out.set_text(ReadTextFile(file));
    }
    ReadTolerance(numbers, *out.mutable_tolerance());
    numbers.RejectUnknownKeys();
  }

  static void ReadTolerance(YamlReader& from, v1::Tolerance& out) {
    out.set_absolute(ReadPart(from.Optional("absolute")));
    out.set_relative(ReadPart(from.Optional("relative")));
    out.set_nan_equals_nan(from.Optional("nan_equals_nan").Bool());
  }

  static double ReadPart(YamlReader part) {
    if (!part.present()) return 0;
    const std::string text = part.String();
    if (!part.IsScalar()) return 0;
    double value = 0;
    // SimpleAtod takes "inf" and "nan" too.
    if (!absl::SimpleAtod(text, &value) || !std::isfinite(value) || value < 0) {
      part.Error("expected a number of at least 0, such as 1e-6");
      return 0;
    }
    return value;
  }

  static void ReadDigest(YamlReader& reader, v1::Digest& out) {
    const std::string text = reader.String();
    if (!reader.IsScalar()) return;
    absl::string_view hex = text;
    absl::ConsumePrefix(&hex, "sha256:");
    const absl::StatusOr<Sha256> digest = Sha256::FromHex(hex);
    if (!digest.ok()) {
      reader.Error("expected a SHA-256: 64 hexadecimal digits");
      return;
    }
    out.set_sha256(digest->Raw());
  }

  void ReadFiles(YamlReader files) {
    std::set<std::string> names;
    for (YamlReader& item : files.Sequence()) {
      v1::ExpectedFile& file = *entry_.add_expected_files();
      YamlReader name = item;
      if (item.IsMapping()) {
        name = item.Required("name");
        if (YamlReader expect = item.Optional("expect"); expect.present()) {
          if (!ReadRules(expect, "content", *file.mutable_content())) {
            expect.Error(
                "expected one of \"content\", \"contains\", \"pattern\", "
                "\"numbers\", \"digest\"");
          }
          expect.RejectUnknownKeys();
        }
        item.RejectUnknownKeys();
      }
      if (!name.present()) continue;
      file.set_name(name.String());
      if (!name.IsScalar()) continue;
      if (!trust::IsOutputFileName(file.name())) {
        name.Error(
            "expected a name below the working folder: relative, without "
            "\"..\", \".\" or empty parts");
      } else if (!names.insert(file.name()).second) {
        name.Error("this file is named twice");
      }
    }
    if (files.IsSequence() && entry_.expected_files().empty()) {
      files.Error("expected at least one file");
    }
    if (entry_.expected_files_size() > trust::kMaxEntryFiles) {
      files.Error(absl::StrCat("expected at most ", trust::kMaxEntryFiles));
    }
  }

  void ReadCompare(YamlReader compare) {
    if (!compare.present()) return;
    v1::Comparison& out = *entry_.mutable_compare();
    if (compare.IsMapping()) {
      out.set_as(v1::COMPARE_AS_NUMBERS);
      YamlReader numbers = compare.Required("numbers");
      if (numbers.present()) {
        ReadTolerance(numbers, *out.mutable_tolerance());
        numbers.RejectUnknownKeys();
      }
      compare.RejectUnknownKeys();
      return;
    }
    const std::string word = compare.String();
    if (!compare.IsScalar()) return;
    if (word == "off") {
      out.set_as(v1::COMPARE_AS_OFF);
    } else if (word == "numbers") {
      compare.Error("expected {numbers: {absolute: A, relative: R}}");
    } else if (word != "exact") {
      compare.Error("expected exact, off or {numbers: {...}}");
    }
  }

  void ReadReference(YamlReader reference) {
    if (!reference.present()) return;
    const std::string path = reference.String();
    if (!reference.IsScalar()) return;
    if (entry_.compare().as() == v1::COMPARE_AS_OFF) {
      reference.Error("\"compare: off\" compares with nothing");
      return;
    }
    absl::StatusOr<v1::Reference> loaded =
        LoadReference(AbsolutePath(directory_, path));
    if (!loaded.ok()) {
      reference.Error(MessageOf(loaded.status()));
      return;
    }
    *entry_.mutable_reference() = *std::move(loaded);
  }

  YamlReader item_;
  const absl::string_view directory_;
  v1::Entry& entry_;
  std::string kind_ = "command";
};

}  // namespace

void ReadEntries(YamlReader entries, absl::string_view directory,
                 v1::Release& release) {
  std::set<std::string> names;
  for (YamlReader& item : entries.Sequence()) {
    v1::Entry& entry = *release.add_entries();
    YamlReader name = item.Required("name");
    entry.set_name(name.String());
    if (name.present() && name.IsScalar()) {
      if (!IsSweepName(entry.name())) {
        name.Error(kSweepNameRule);
      } else if (!names.insert(entry.name()).second) {
        name.Error(
            absl::StrCat("another entry is named \"", entry.name(), "\" too"));
      }
    }
    EntryReader(item, directory, entry).Read();
  }
  if (entries.IsSequence() && release.entries().empty()) {
    entries.Error("expected at least one entry");
  }
}

bool IsSweepName(absl::string_view text) {
  if (text.empty() || text.size() > 128) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' &&
        c != '_' && c != '-') {
      return false;
    }
  }
  return true;
}

std::string AbsolutePath(absl::string_view directory, absl::string_view path) {
  if (path.empty() || path.front() == '/') return std::string(path);
  return JoinPath(directory, path);
}

void ReadSweepDuration(YamlReader reader, google::protobuf::Duration* to) {
  const absl::Duration value = reader.Duration();
  if (value <= absl::ZeroDuration()) {
    // A wrong type has been reported already and reads as zero; "0s" has not.
    if (reader.IsScalar() &&
        RE2::FullMatch(reader.String(), R"((0+(ms|s|m|h|d))+)")) {
      reader.Error("expected a positive duration such as 90s or 5m");
    }
    return;
  }
  if (value > absl::Hours(24 * 30)) {
    reader.Error("expected at most 720h");
    return;
  }
  SetDuration(value, to);
}

void CheckPattern(YamlReader& reader, const std::string& pattern) {
  const RE2 compiled(pattern, RE2::Quiet);
  if (!compiled.ok()) {
    reader.Error(
        absl::StrCat("not a regular expression (RE2): ", compiled.error()));
  }
}

}  // namespace twinpath::cli
