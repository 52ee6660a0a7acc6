// FindCompanion and FindData: where the other programs and the data files of
// this installation, or of this build tree, lie.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"

namespace twinpath {
namespace {

// Folder of the running executable.
absl::StatusOr<std::string> ExecutableFolder() {
  std::string target(4096, '\0');
  const ssize_t length =
      readlink("/proc/self/exe", target.data(), target.size());
  if (length < 0) return ErrnoStatus(errno, "read /proc/self/exe");
  target.resize(static_cast<size_t>(length));
  // The kernel says so when a newer version has been installed over this one.
  return DirName(absl::StripSuffix(target, " (deleted)"));
}

absl::string_view FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsProgram(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

bool Exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

// Source folder of the build tree whose bin/ is `folder`, or "" if it is none.
// CMake notes it in the cache of the build tree, wherever that lies.
std::string SourceFolder(const std::string& folder) {
  const std::string cache = JoinPath(DirName(folder), "CMakeCache.txt");
  if (BaseName(folder) != "bin" || !Exists(cache)) return "";
  const absl::StatusOr<std::string> text = ReadFile(cache, 16 << 20);
  if (!text.ok()) return "";
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (absl::ConsumePrefix(&line, "CMAKE_HOME_DIRECTORY:INTERNAL=")) {
      return std::string(line);
    }
  }
  return "";
}

absl::Status Missing(absl::string_view what,
                     const std::vector<std::string>& places,
                     absl::string_view variable) {
  return absl::NotFoundError(absl::StrCat(
      Printable(what), " is not installed with this program; looked for ",
      absl::StrJoin(places, ", "), ". Install it there, or set ", variable));
}

}  // namespace

absl::StatusOr<std::string> FindCompanion(absl::string_view program) {
  if (program.empty() || absl::StrContains(program, "/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("a companion program is named without a folder, not \"",
                     Printable(program), "\""));
  }
  TWINPATH_ASSIGN_OR_RETURN(const std::string folder, ExecutableFolder());
  std::vector<std::string> places;
  if (const absl::string_view named = FromEnvironment("TWINPATH_LIBEXEC");
      !named.empty()) {
    places.push_back(JoinPath(named, program));
  }
  places.push_back(JoinPath(folder, program));
  if (absl::EndsWith(folder, "/libexec/twinpath")) {
    places.push_back(
        JoinPath(DirName(DirName(folder)), absl::StrCat("bin/", program)));
  } else {
    const std::string prefix = DirName(folder);
    places.push_back(
        JoinPath(prefix, absl::StrCat("libexec/twinpath/", program)));
    places.push_back(JoinPath(prefix, absl::StrCat("bin/", program)));
  }
  for (const std::string& place : places) {
    if (IsProgram(place)) return place;
  }
  return Missing(program, places, "TWINPATH_LIBEXEC");
}

absl::StatusOr<std::string> FindData(absl::string_view relative) {
  const std::vector<absl::string_view> parts = absl::StrSplit(relative, '/');
  for (const absl::string_view part : parts) {
    if (part.empty() || part == "..") {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", Printable(relative),
                       "\" is no relative path below the data folder"));
    }
  }
  TWINPATH_ASSIGN_OR_RETURN(const std::string folder, ExecutableFolder());
  std::vector<std::string> places;
  if (const absl::string_view named = FromEnvironment("TWINPATH_DATA");
      !named.empty()) {
    places.push_back(JoinPath(named, relative));
  }
  const std::string prefix = absl::EndsWith(folder, "/libexec/twinpath")
                                 ? DirName(DirName(folder))
                                 : DirName(folder);
  places.push_back(JoinPath(prefix, absl::StrCat("share/twinpath/", relative)));
  if (const std::string source = SourceFolder(folder); !source.empty()) {
    places.push_back(JoinPath(source, relative));
  }
  for (const std::string& place : places) {
    if (Exists(place)) return place;
  }
  return Missing(relative, places, "TWINPATH_DATA");
}

}  // namespace twinpath
