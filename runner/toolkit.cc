#include "runner/toolkit.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace twinpath::runner {
namespace {

std::string ValueOf(const std::vector<std::string>& environment,
                    absl::string_view name) {
  for (const std::string& variable : environment) {
    const absl::string_view text = variable;
    if (absl::StartsWith(text, name) && text.size() > name.size() &&
        text[name.size()] == '=') {
      return std::string(text.substr(name.size() + 1));
    }
  }
  return "";
}

std::string Resolved(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? "" : resolved;
}

}  // namespace

std::vector<std::string> FindToolkits(
    const std::string& root, const std::vector<std::string>& environment) {
  std::vector<std::string> result;
  std::set<std::string> seen;
  const auto consider = [&](const std::string& nvcc) {
    if (access(nvcc.c_str(), X_OK) != 0) return;
    // Resolved by folder, not by file: nvcc may be a wrapper or a link of its
    // own, the folder above it is the toolkit.
    const std::string program = Resolved(nvcc);
    if (program.empty()) return;
    const std::string bin = DirName(program);
    if (BaseName(bin) != "bin") return;
    // A script of that name that calls an nvcc elsewhere is no toolkit; each
    // toolkit keeps this file beside its compiler.
    if (access(JoinPath(bin, "nvcc.profile").c_str(), F_OK) != 0) return;
    const std::string folder = DirName(bin);
    if (seen.insert(folder).second) result.push_back(folder);
  };
  for (const absl::string_view folder :
       absl::StrSplit(ValueOf(environment, "PATH"), ':', absl::SkipEmpty())) {
    consider(JoinPath(folder, "nvcc"));
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string home = ValueOf(environment, variable);
    if (!home.empty()) consider(JoinPath(home, "bin/nvcc"));
  }
  const std::string local = root + "/usr/local";
  if (const auto names = ListDirectory(local); names.ok()) {
    for (const std::string& name : *names) {
      if (!absl::StartsWith(name, "cuda")) continue;
      consider(JoinPath(JoinPath(local, name), "bin/nvcc"));
    }
  }
  return result;
}

std::string NvccVersionOf(absl::string_view text) {
  // "Cuda compilation tools, release 13.0, V13.0.88"
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StrContains(line, "release")) continue;
    const size_t v = line.rfind(", V");
    if (v == absl::string_view::npos) continue;
    const absl::string_view version =
        absl::StripAsciiWhitespace(line.substr(v + 3));
    if (!version.empty() &&
        absl::ascii_isdigit(static_cast<unsigned char>(version[0]))) {
      return std::string(version);
    }
  }
  return "";
}

std::vector<v1::Target> TargetsOf(absl::string_view text) {
  std::vector<v1::Target> targets;
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    absl::string_view word = absl::StripAsciiWhitespace(raw);
    if (!absl::ConsumePrefix(&word, "sm_")) continue;
    v1::TargetSuffix suffix = v1::TARGET_SUFFIX_NONE;
    if (absl::EndsWith(word, "a")) suffix = v1::TARGET_SUFFIX_ARCH;
    if (absl::EndsWith(word, "f")) suffix = v1::TARGET_SUFFIX_FAMILY;
    if (suffix != v1::TARGET_SUFFIX_NONE) word.remove_suffix(1);
    uint32_t number = 0;
    if (!absl::SimpleAtoi(word, &number) || number > 9999) continue;
    v1::Target& target = targets.emplace_back();
    target.set_number(number);
    target.set_suffix(suffix);
  }
  return targets;
}

v1::Toolkit AskToolkit(const std::string& folder, absl::Duration deadline) {
  v1::Toolkit toolkit;
  toolkit.set_path(folder);
  const std::string nvcc = JoinPath(folder, "bin/nvcc");
  const auto ask = [&](const char* option, std::string& answer) {
    ProcessOptions options;
    options.argv = {nvcc, option};
    options.environment = MinimalEnvironment();
    options.head_bytes = 256 << 10;
    options.timeout = deadline;
    const absl::StatusOr<ProcessResult> result = RunProcess(options);
    std::string error;
    v1::ProbeState state = v1::PROBE_STATE_FAILED;
    if (!result.ok()) {
      error = std::string(MessageOf(result.status()));
    } else if (!result->succeeded()) {
      error = absl::StrCat(
          result->Describe(), ": ",
          Printable(absl::string_view(result->err.head).substr(0, 500)));
      if (result->ending == ProcessResult::Ending::kTimedOut ||
          result->ending == ProcessResult::Ending::kHung) {
        state = v1::PROBE_STATE_HUNG;
      }
    } else {
      answer = result->out.head;
      return true;
    }
    toolkit.mutable_probe()->set_state(state);
    toolkit.mutable_probe()->set_error(
        absl::StrCat(Printable(nvcc), " ", option, ": ", error));
    return false;
  };
  std::string answer;
  if (!ask("--version", answer)) return toolkit;
  toolkit.set_nvcc_version(NvccVersionOf(answer));
  if (!ask("--list-gpu-code", answer)) return toolkit;
  for (const v1::Target& target : TargetsOf(answer)) {
    *toolkit.add_targets() = target;
  }
  if (toolkit.nvcc_version().empty() || toolkit.targets().empty()) {
    toolkit.mutable_probe()->set_state(v1::PROBE_STATE_FAILED);
    toolkit.mutable_probe()->set_error(
        absl::StrCat(Printable(nvcc), ": its answer names no ",
                     toolkit.nvcc_version().empty() ? "version" : "target"));
    return toolkit;
  }
  toolkit.mutable_probe()->set_state(v1::PROBE_STATE_OK);
  return toolkit;
}

}  // namespace twinpath::runner
