#include "cli/sweep_file.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status.h"
#include "base/yaml_document.h"
#include "cli/sweep_entry.h"
#include "compat/target.h"
#include "trust/entry_rules.h"
#include "twinpath/v1/artifact.pb.h"
#include "twinpath/v1/common.pb.h"
#include "twinpath/v1/release.pb.h"

namespace twinpath::cli {
namespace {

constexpr uint64_t kMaxSweepFileBytes = 8u << 20;

// "8.0" -> {8, 0}.
bool ParseVersion(absl::string_view text, v1::Version* out) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('.', 1));
  uint32_t major = 0;
  uint32_t minor = 0;
  if (!absl::SimpleAtoi(parts.first, &major) ||
      !absl::SimpleAtoi(parts.second, &minor) || major == 0 || major > 99 ||
      minor > 99) {
    return false;
  }
  out->set_major(major);
  out->set_minor(minor);
  return true;
}

// One sweep file being read.
class Reader {
 public:
  Reader(YamlDocument& document, absl::string_view directory)
      : root_(document.root()), directory_(directory) {}

  SweepFile Read() {
    YamlReader name = root_.Required("name");
    out_.spec.set_name(name.String());
    if (name.present() && name.IsScalar() && !IsSweepName(out_.spec.name())) {
      name.Error(kSweepNameRule);
    }
    ReadArtifact(root_.Required("artifact"));
    ReadBuild(root_.Optional("build"));
    release().set_source_revision(root_.Optional("source_revision").String());
    ReadExpectation(root_.Optional("expect"));
    ReadEntries(root_.Required("entries"), directory_, release());
    ReadHosts(root_.Optional("hosts"));
    ReadPolicy(root_.Optional("policy"));
    if (YamlReader deadline = root_.Optional("deadline"); deadline.present()) {
      ReadSweepDuration(deadline, out_.spec.mutable_deadline());
    }
    root_.RejectUnknownKeys();
    return std::move(out_);
  }

 private:
  v1::Release& release() { return *out_.spec.mutable_release(); }

  void ReadArtifact(YamlReader artifact) {
    release().mutable_artifact()->set_name(out_.spec.name());
    if (!artifact.present()) return;
    if (YamlReader name = artifact.Optional("name"); name.present()) {
      const std::string value = name.String();
      if (name.IsScalar() && !IsSweepName(value)) name.Error(kSweepNameRule);
      release().mutable_artifact()->set_name(value);
    }
    YamlReader files = artifact.Required("files");
    for (YamlReader& item : files.Sequence()) {
      ArtifactSource source;
      source.place = item.Place();
      std::string path;
      if (item.IsMapping()) {
        path = item.Required("path").String();
        YamlReader as = item.Optional("as");
        source.name = as.String();
        if (as.present() && !IsArtifactName(source.name)) {
          as.Error(
              "expected a relative name without \"..\", \".\" or empty parts");
        }
        item.RejectUnknownKeys();
      } else {
        path = item.String();
      }
      if (item.IsScalar() && path.empty()) item.Error("expected a path");
      source.path = AbsolutePath(directory_, path);
      out_.sources.push_back(std::move(source));
    }
    if (files.IsSequence() && out_.sources.empty()) {
      files.Error("expected at least one file");
    }
    if (YamlReader root = artifact.Optional("root"); root.present()) {
      out_.root = AbsolutePath(directory_, root.String());
      for (const ArtifactSource& source : out_.sources) {
        if (!source.name.empty()) {
          root.Error("\"root\" and \"as\" exclude each other");
          break;
        }
      }
    }
    artifact.RejectUnknownKeys();
  }

  static bool IsArtifactName(absl::string_view name) {
    for (absl::string_view part : absl::StrSplit(name, '/')) {
      if (part.empty() || part == "." || part == "..") return false;
    }
    return true;
  }

  void ReadBuild(YamlReader build) {
    if (!build.present()) return;
    YamlReader record = build.Optional("record");
    YamlReader declared = build.Optional("declared");
    if (record.present() == declared.present()) {
      build.Error("expected exactly one of \"record\" and \"declared\"");
    }
    if (record.present()) {
      out_.record_path = AbsolutePath(directory_, record.String());
    }
    if (declared.present()) {
      v1::BuildRecord& stated = *release().mutable_build();
      stated.set_declared(true);
      stated.add_argv(declared.String());
    }
    build.RejectUnknownKeys();
  }

  void ReadTargets(YamlReader list, absl::string_view kind,
                   google::protobuf::RepeatedPtrField<v1::Target>* to) {
    for (YamlReader& item : list.Sequence()) {
      const std::string text = item.String();
      if (!item.IsScalar()) continue;
      const absl::StatusOr<v1::Target> target = compat::ParseTarget(text);
      if (!target.ok()) {
        item.Error(MessageOf(target.status()));
      } else if (kind == "sm" && absl::StartsWith(text, "compute_")) {
        item.Error("expected a machine code target such as sm_90");
      } else if (kind == "compute" && absl::StartsWith(text, "sm_")) {
        item.Error("expected a PTX target such as compute_90");
      } else {
        *to->Add() = *target;
      }
    }
  }

  void ReadExpectation(YamlReader expect) {
    if (!expect.present()) return;
    v1::Expectation& out = *release().mutable_expect();
    ReadTargets(expect.Optional("sass"), "sm", out.mutable_sass_targets());
    ReadTargets(expect.Optional("ptx"), "compute", out.mutable_ptx_targets());
    if (YamlReader range = expect.Optional("ptx_isa"); range.present()) {
      YamlReader min = range.Optional("min");
      YamlReader max = range.Optional("max");
      if (min.present() &&
          !ParseVersion(min.String(), out.mutable_ptx_isa_min())) {
        out.clear_ptx_isa_min();
        min.Error("expected a PTX ISA version such as \"8.0\"");
      }
      if (max.present() &&
          !ParseVersion(max.String(), out.mutable_ptx_isa_max())) {
        out.clear_ptx_isa_max();
        max.Error("expected a PTX ISA version such as \"9.0\"");
      }
      range.RejectUnknownKeys();
    }
    for (YamlReader& item : expect.Optional("kernels").Sequence()) {
      v1::ExpectedKernel& kernel = *out.add_kernels();
      if (!item.IsMapping()) {
        kernel.set_name(item.String());
        continue;
      }
      YamlReader name = item.Optional("name");
      YamlReader pattern = item.Optional("pattern");
      if (name.present() == pattern.present()) {
        item.Error("expected exactly one of \"name\" and \"pattern\"");
      }
      kernel.set_name(name.present() ? name.String() : pattern.String());
      kernel.set_is_pattern(pattern.present());
      if (pattern.present()) CheckPattern(pattern, kernel.name());
      ReadTargets(item.Optional("targets"), "sm", kernel.mutable_targets());
      kernel.set_ptx(item.Optional("ptx").Bool());
      item.RejectUnknownKeys();
    }
    expect.RejectUnknownKeys();
  }

  void ReadHosts(YamlReader hosts) {
    if (!hosts.present()) return;
    v1::HostSelector& selector = *out_.spec.mutable_selector();
    YamlReader names = hosts.Optional("names");
    for (std::string& name : names.StringSequence()) {
      selector.add_hosts(std::move(name));
    }
    if (names.IsSequence() && selector.hosts().empty()) {
      // An empty selector means every host, which an empty list does not.
      names.Error("expected at least one host; leave it out for every host");
    }
    if (YamlReader labels = hosts.Optional("labels"); labels.IsMapping()) {
      for (auto& [key, value] : labels.Mapping()) {
        selector.add_labels(absl::StrCat(key, "=", value.String()));
      }
    } else {
      for (YamlReader& item : labels.Sequence()) {
        const std::string label = item.String();
        if (item.IsScalar() &&
            (label.find('=') == std::string::npos || label[0] == '=')) {
          item.Error("expected key=value");
        }
        selector.add_labels(label);
      }
    }
    hosts.RejectUnknownKeys();
  }

  static v1::PathRule ReadRule(YamlReader rule) {
    const std::string word = rule.Choice({"required", "optional", "skip"});
    if (word == "optional") return v1::PATH_RULE_OPTIONAL;
    if (word == "skip") return v1::PATH_RULE_SKIPPED;
    return v1::PATH_RULE_REQUIRED;
  }

  void ReadPolicy(YamlReader policy) {
    v1::Policy& out = *out_.spec.mutable_policy();
    out.set_native(ReadRule(policy.Optional("native")));
    out.set_ptx_jit(ReadRule(policy.Optional("ptx_jit")));
    out.set_plain(ReadRule(policy.Optional("plain")));
    out.set_strict(policy.Optional("strict").Bool());
    if (out.native() == v1::PATH_RULE_SKIPPED &&
        out.ptx_jit() == v1::PATH_RULE_SKIPPED &&
        out.plain() == v1::PATH_RULE_SKIPPED) {
      policy.Error("all three paths are skipped: nothing would be run");
    }
    policy.RejectUnknownKeys();
  }

  YamlReader root_;
  std::string directory_;
  SweepFile out_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> SplitCommand(absl::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (absl::ascii_isspace(static_cast<unsigned char>(c))) {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else if (c == '\'' || c == '"') {
      in_word = true;
      size_t end = i + 1;
      while (end < text.size() && text[end] != c) {
        if (c == '"' && text[end] == '\\' && end + 1 < text.size()) ++end;
        word += text[end++];
      }
      if (end >= text.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("a quote (", std::string(1, c), ") is never closed"));
      }
      i = end;
    } else if (c == '\\') {
      if (++i >= text.size()) {
        return absl::InvalidArgumentError("nothing follows the backslash");
      }
      in_word = true;
      word += text[i];
    } else if (absl::StrContains("|&;<>()$`*", c)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "no shell is used, so '", std::string(1, c),
          "' has no meaning; quote it, or write the command as a list"));
    } else {
      in_word = true;
      word += c;
    }
  }
  if (in_word) words.push_back(std::move(word));
  if (words.empty() || words.front().empty()) {
    return absl::InvalidArgumentError("expected a program and its arguments");
  }
  return words;
}

absl::StatusOr<SweepFile> ParseSweepFile(absl::string_view text,
                                         absl::string_view file,
                                         absl::string_view directory) {
  TWINPATH_ASSIGN_OR_RETURN(YamlDocument document,
                            YamlDocument::Parse(text, file));
  SweepFile out = Reader(document, directory).Read();
  TWINPATH_RETURN_IF_ERROR(document.status());
  for (const v1::Entry& entry : out.spec.release().entries()) {
    TWINPATH_RETURN_IF_ERROR_CTX(
        trust::CheckEntryRules(entry),
        absl::StrCat(file, ": entry \"", entry.name(), "\""));
  }
  return out;
}

absl::StatusOr<SweepFile> LoadSweepFile(const std::string& path) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string text,
                            ReadFile(path, kMaxSweepFileBytes));
  return ParseSweepFile(text, path, DirName(path));
}

}  // namespace twinpath::cli
