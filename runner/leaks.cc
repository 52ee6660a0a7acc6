#include "runner/leaks.h"

#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "runner/paths.h"

namespace twinpath::runner {
namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;
// Unit folders hold a few hundred files; more than this is not a unit folder.
constexpr int kMaxFiles = 5000;

bool IsNameCharacter(char c) {
  return c == '_' || absl::ascii_isalnum(static_cast<unsigned char>(c));
}

// Removes one pair of quotes around `text`.
absl::string_view Unquote(absl::string_view text) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
      text.back() == text.front()) {
    return text.substr(1, text.size() - 2);
  }
  return text;
}

// Splits at blanks outside quotes: systemd's `Environment="A=1 2" B=3` and the
// shell's `export A=1 B=2`. Quotes stay, wherever in a word they stand.
std::vector<std::string> Words(absl::string_view text) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  for (const char c : text) {
    if (quote == 0 && (c == ' ' || c == '\t' || c == ';')) {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
      continue;
    }
    if (quote == 0 && word.empty() && c == '#') break;
    if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (quote == c) {
      quote = 0;
    }
    word.push_back(c);
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

// Which assignments are wanted.
using Wanted = bool (*)(absl::string_view name, absl::string_view value);

bool IsLibraryPath(absl::string_view name, absl::string_view value) {
  return name == "LD_LIBRARY_PATH" && !value.empty();
}

void AddAssignment(absl::string_view word, const std::string& origin,
                   uint32_t line, Wanted wanted,
                   std::vector<v1::EnvironmentLeak>& leaks) {
  const absl::string_view assignment = Unquote(word);
  const size_t equals = assignment.find('=');
  if (equals == absl::string_view::npos || equals == 0) return;
  const absl::string_view name = assignment.substr(0, equals);
  const absl::string_view value = Unquote(assignment.substr(equals + 1));
  if (!std::all_of(name.begin(), name.end(), IsNameCharacter)) return;
  if (!wanted(name, value)) return;
  v1::EnvironmentLeak& leak = leaks.emplace_back();
  leak.set_variable(std::string(name));
  leak.set_value(std::string(value));
  leak.set_origin(origin);
  leak.set_line(line);
}

// Regular files of a folder whose names end in one of `endings`, with up to
// `depth` levels below.
void FilesBelow(const std::string& folder,
                const std::vector<absl::string_view>& endings, int depth,
                std::vector<std::string>& files) {
  const auto names = ListDirectory(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (files.size() >= kMaxFiles) return;
    const std::string path = JoinPath(folder, name);
    struct stat info;
    if (lstat(path.c_str(), &info) != 0) continue;
    if (S_ISDIR(info.st_mode)) {
      if (depth > 0) FilesBelow(path, endings, depth - 1, files);
      continue;
    }
    const bool wanted = std::any_of(
        endings.begin(), endings.end(),
        [&](absl::string_view e) { return absl::EndsWith(name, e); });
    // A link among unit files is an alias or an enablement of a file that is
    // read at its own place.
    if (wanted && S_ISREG(info.st_mode)) files.push_back(path);
  }
}

// Wanted assignments of a file's text.
std::vector<v1::EnvironmentLeak> AssignmentsOf(absl::string_view text,
                                               const std::string& origin,
                                               bool is_unit, Wanted wanted);

// Files whose variables every shell or session gets.
std::vector<std::string> ShellFiles(const std::string& root) {
  std::vector<std::string> files = {
      root + "/etc/environment", root + "/etc/profile",
      root + "/etc/bash.bashrc", root + "/etc/security/pam_env.conf"};
  FilesBelow(root + "/etc/environment.d", {".conf"}, 0, files);
  FilesBelow(root + "/etc/profile.d", {".sh"}, 0, files);
  return files;
}

}  // namespace

bool IsLeak(absl::string_view name, absl::string_view value) {
  // An empty list of devices hides all of them.
  if (name == "CUDA_CACHE_PATH" || name == "CUDA_CACHE_MAXSIZE" ||
      name == "CUDA_VISIBLE_DEVICES") {
    return true;
  }
  if (IsJitVariable(name)) return !value.empty() && value != "0";
  if (value.empty()) return false;
  // By itself harmless; CUDA_VISIBLE_DEVICES cannot be read without it.
  if (name == "CUDA_DEVICE_ORDER") return true;
  if (name == "CUDA_INJECTION64_PATH" || name == "CUDA_INJECTION32_PATH" ||
      name == "NVTX_INJECTION64_PATH" || name == "LD_PRELOAD" ||
      name == "LD_AUDIT") {
    return true;
  }
  if (name == "LD_LIBRARY_PATH") {
    for (const absl::string_view part :
         absl::StrSplit(value, absl::ByAnyChar(":;/"))) {
      if (part == "stubs" || part == "compat" || part == "compat_orin") {
        return true;
      }
    }
  }
  return false;
}

std::vector<v1::EnvironmentLeak> LeaksOfEnvironment(
    const std::vector<std::string>& environment) {
  std::vector<v1::EnvironmentLeak> leaks;
  for (const std::string& variable : environment) {
    const size_t equals = variable.find('=');
    if (equals == std::string::npos) continue;
    const absl::string_view text = variable;
    if (!IsLeak(text.substr(0, equals), text.substr(equals + 1))) continue;
    v1::EnvironmentLeak& leak = leaks.emplace_back();
    leak.set_variable(variable.substr(0, equals));
    leak.set_value(variable.substr(equals + 1));
    leak.set_origin("process");
  }
  return leaks;
}

std::vector<v1::EnvironmentLeak> LeaksOfText(absl::string_view text,
                                             const std::string& origin,
                                             bool is_unit) {
  return AssignmentsOf(text, origin, is_unit, &IsLeak);
}

namespace {

std::vector<v1::EnvironmentLeak> AssignmentsOf(absl::string_view text,
                                               const std::string& origin,
                                               bool is_unit, Wanted wanted) {
  std::vector<v1::EnvironmentLeak> leaks;
  uint32_t number = 0;
  uint32_t first_line = 0;
  std::string joined;
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    ++number;
    if (joined.empty()) first_line = number;
    // A backslash at the end continues the line, in shells and in units.
    if (absl::EndsWith(raw, "\\")) {
      absl::StrAppend(&joined, raw.substr(0, raw.size() - 1), " ");
      continue;
    }
    absl::StrAppend(&joined, raw);
    const std::string whole = std::move(joined);
    joined.clear();
    absl::string_view line = absl::StripAsciiWhitespace(whole);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (is_unit) {
      const size_t equals = line.find('=');
      if (equals == absl::string_view::npos) continue;
      const absl::string_view key =
          absl::StripAsciiWhitespace(line.substr(0, equals));
      if (key != "Environment" && key != "DefaultEnvironment" &&
          key != "ManagerEnvironment") {
        continue;
      }
      line = line.substr(equals + 1);
    }
    const std::vector<std::string> words = Words(line);
    for (const std::string& word : words) {
      absl::string_view value = word;
      // pam_env.conf: the name stands in front of its values.
      if (absl::ConsumePrefix(&value, "DEFAULT=") ||
          absl::ConsumePrefix(&value, "OVERRIDE=")) {
        AddAssignment(absl::StrCat(words[0], "=", value), origin, first_line,
                      wanted, leaks);
      } else {
        AddAssignment(word, origin, first_line, wanted, leaks);
      }
    }
  }
  return leaks;
}

}  // namespace

std::vector<v1::LoaderFolder> LibraryPath(
    const std::string& root, const std::vector<std::string>& environment) {
  std::vector<v1::EnvironmentLeak> settings;
  for (const std::string& variable : environment) {
    absl::string_view value = variable;
    if (!absl::ConsumePrefix(&value, "LD_LIBRARY_PATH=")) continue;
    settings.emplace_back().set_value(std::string(value));
    settings.back().set_origin("process");
  }
  // What this process has is what its user's programs have.
  if (settings.empty()) {
    for (const std::string& file : ShellFiles(root)) {
      const auto text = ReadFile(file, kMaxFileBytes);
      if (!text.ok()) continue;
      for (v1::EnvironmentLeak& setting : AssignmentsOf(
               *text, file.substr(root.size()), false, &IsLibraryPath)) {
        settings.push_back(std::move(setting));
      }
    }
  }
  std::vector<v1::LoaderFolder> folders;
  for (const v1::EnvironmentLeak& setting : settings) {
    for (const absl::string_view folder :
         absl::StrSplit(setting.value(), absl::ByAnyChar(":;"))) {
      // Relative folders and references to variables lead elsewhere each time.
      if (!absl::StartsWith(folder, "/") || absl::StrContains(folder, "$")) {
        continue;
      }
      v1::LoaderFolder& added = folders.emplace_back();
      added.set_path(std::string(folder));
      added.set_origin(setting.origin());
      added.set_line(setting.line());
    }
  }
  return folders;
}

std::vector<v1::EnvironmentLeak> LeaksOfFiles(const std::string& root) {
  const std::vector<std::string> shell = ShellFiles(root);
  std::vector<std::string> units = {root + "/etc/systemd/system.conf",
                                    root + "/etc/systemd/user.conf"};
  for (const char* folder :
       {"/etc/systemd/system", "/etc/systemd/user",
        "/etc/systemd/system.conf.d", "/run/systemd/system",
        "/usr/local/lib/systemd/system", "/usr/lib/systemd/system"}) {
    FilesBelow(root + folder, {".service", ".conf", ".slice", ".scope"}, 1,
               units);
  }
  std::vector<v1::EnvironmentLeak> leaks;
  const auto read = [&](const std::vector<std::string>& files, bool is_unit) {
    for (const std::string& file : files) {
      const auto text = ReadFile(file, kMaxFileBytes);
      if (!text.ok()) continue;
      const std::string origin = file.substr(root.size());
      for (v1::EnvironmentLeak& leak : LeaksOfText(*text, origin, is_unit)) {
        leaks.push_back(std::move(leak));
      }
    }
  };
  read(shell, false);
  read(units, true);
  return leaks;
}

}  // namespace twinpath::runner
