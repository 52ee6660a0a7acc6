#include "runner/driver_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "inspect/byte_source.h"
#include "inspect/driver_note.h"

namespace twinpath::runner {
namespace {

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string Resolved(const std::string& path) {
  char buffer[PATH_MAX];
  return realpath(path.c_str(), buffer) != nullptr ? buffer : path;
}

// "590.44.01" of "libcuda.so.590.44.01"; "" of names without a driver version.
std::string VersionInName(absl::string_view path) {
  absl::string_view name = BaseName(path);
  if (!absl::ConsumePrefix(&name, "libcuda.so.") ||
      name.find('.') == absl::string_view::npos ||
      absl::StartsWith(name, "1.")) {
    return "";
  }
  return std::string(name);
}

}  // namespace

std::optional<v1::ForwardCompatNote> ForwardCompatOf(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  std::optional<v1::ForwardCompatNote> note;
  if (const auto source = inspect::FileSource::Open(fd); source.ok()) {
    if (auto read = inspect::ReadForwardCompatOf(*source); read.ok()) {
      note = *std::move(read);
    }
  }
  close(fd);
  return note;
}

std::vector<v1::ForwardCompatLibrary> ForwardCompatLibraries(
    const std::string& root) {
  std::vector<v1::ForwardCompatLibrary> libraries;
  std::set<std::string> seen;
  const auto toolkits = ListDirectory(root + "/usr/local");
  if (!toolkits.ok()) return libraries;
  for (const std::string& toolkit : *toolkits) {
    if (!absl::StartsWith(toolkit, "cuda")) continue;
    // compat_orin: packages of CUDA 13 for Orin.
    for (const char* folder : {"compat", "compat_orin"}) {
      const std::string path = Resolved(absl::StrCat(
          root, "/usr/local/", toolkit, "/", folder, "/libcuda.so.1"));
      if (!seen.insert(path).second) continue;
      const auto note = ForwardCompatOf(path);
      if (!note) continue;
      v1::ForwardCompatLibrary& library = libraries.emplace_back();
      absl::string_view shown = path;
      absl::ConsumePrefix(&shown, root);
      library.set_path(std::string(shown));
      library.set_libcuda_version(VersionInName(path));
      *library.mutable_note() = *note;
    }
  }
  return libraries;
}

std::vector<std::string> MissingNodes(const std::string& root) {
  std::vector<std::string> missing;
  bool any = false;
  for (const char* node : {"/dev/nvidiactl", "/dev/nvidia-uvm"}) {
    const bool there = Exists(root + node);
    any |= there;
    if (!there) missing.emplace_back(node);
  }
  bool device = false;
  for (int i = 0; i < 64 && !device; ++i) {
    device = Exists(absl::StrCat(root, "/dev/nvidia", i));
  }
  any |= device;
  if (!device) missing.emplace_back("/dev/nvidia0");
  if (!any) missing.clear();
  return missing;
}

void AddDriverFiles(const std::string& root, v1::Driver& driver) {
  if (!driver.libcuda_path().empty()) {
    if (auto note = ForwardCompatOf(root + driver.libcuda_path())) {
      *driver.mutable_forward_compat() = *std::move(note);
    }
  }
  for (v1::ForwardCompatLibrary& library : ForwardCompatLibraries(root)) {
    *driver.add_forward_compat_libraries() = std::move(library);
  }
  for (std::string& node : MissingNodes(root)) {
    driver.add_missing_nodes(std::move(node));
  }
}

}  // namespace twinpath::runner
