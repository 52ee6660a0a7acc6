#include "runner/loader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/loader_folders.h"
#include "base/subprocess.h"
#include "runner/facts.h"

namespace twinpath::runner {
namespace {

constexpr absl::string_view kDriverLibrary = "libcuda.so.1";

// Where container runtimes and WSL put the driver without telling the loader.
constexpr absl::string_view kDriverFolders[] = {
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu",
    "/run/opengl-driver/lib"};

constexpr absl::string_view kCudaLibraries[] = {
    "libcudart",  "libcublas", "libcublasLt",  "libcudnn",
    "libnccl",    "libcufft",  "libcusparse",  "libcusolver",
    "libcurand",  "libnvrtc",  "libnvJitLink", "libcupti",
    "libnvinfer", "libnpp",    "libcufile",    "libnvjpeg"};

bool Readable(const std::string& path) {
  return access(path.c_str(), R_OK) == 0;
}

// "libcudnn_ops.so.9" belongs to libcudnn, "libcudart.so" has no version.
bool IsCudaLibrary(absl::string_view soname) {
  const size_t so = soname.find(".so.");
  if (so == absl::string_view::npos) return false;
  const absl::string_view stem = soname.substr(0, so);
  for (const absl::string_view name : kCudaLibraries) {
    if (stem == name) return true;
    if ((name == "libcudnn" || name == "libcusolver" || name == "libnpp") &&
        absl::StartsWith(stem, name)) {
      return true;
    }
  }
  return false;
}

// Whether a file is an ELF file for this host; the loader passes over others.
bool IsForThisCpu(const std::string& path) {
  char header[20] = {};
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  const ssize_t got = read(fd, header, sizeof(header));
  close(fd);
  if (got != sizeof(header) || std::memcmp(header, "\177ELF", 4) != 0) {
    return false;
  }
  // e_machine: 62 x86-64, 183 AArch64 (System V gABI).
  const int machine = static_cast<unsigned char>(header[18]) |
                      static_cast<unsigned char>(header[19]) << 8;
  switch (HostCpuArchitecture()) {
    case v1::CPU_ARCHITECTURE_X86_64:
      return machine == 62;
    case v1::CPU_ARCHITECTURE_AARCH64:
      return machine == 183;
    default:
      return true;
  }
}

}  // namespace

std::vector<CachedLibrary> ParseLoaderCache(absl::string_view text,
                                            v1::CpuArchitecture architecture) {
  // Lines are "\tlibcuda.so.1 (libc6,x86-64) => /path"; AArch64 says
  // "(libc6,AArch64)".
  const absl::string_view wanted =
      architecture == v1::CPU_ARCHITECTURE_X86_64    ? "x86-64"
      : architecture == v1::CPU_ARCHITECTURE_AARCH64 ? "AArch64"
                                                     : "";
  std::vector<CachedLibrary> result;
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    const size_t arrow = line.find(" => ");
    const size_t open = line.find(" (");
    if (arrow == absl::string_view::npos || open == absl::string_view::npos ||
        open > arrow) {
      continue;
    }
    if (!wanted.empty() &&
        !absl::StrContains(line.substr(open, arrow - open), wanted)) {
      continue;
    }
    result.push_back({std::string(line.substr(0, open)),
                      std::string(line.substr(arrow + 4))});
  }
  return result;
}

std::vector<CachedLibrary> LoaderCache() {
  for (const char* program : {"/sbin/ldconfig", "/usr/sbin/ldconfig"}) {
    if (access(program, X_OK) != 0) continue;
    ProcessOptions options;
    options.argv = {program, "-p"};
    options.environment = MinimalEnvironment();
    options.head_bytes = 16 << 20;
    options.timeout = absl::Seconds(20);
    const absl::StatusOr<ProcessResult> result = RunProcess(options);
    if (result.ok() && result->succeeded()) {
      return ParseLoaderCache(result->out.head, HostCpuArchitecture());
    }
  }
  return {};
}

std::string DriverFolder() {
  for (const CachedLibrary& library : LoaderCache()) {
    if (library.soname == kDriverLibrary && Readable(library.path)) return "";
  }
  for (const absl::string_view folder : kLoaderFolders) {
    if (Readable(absl::StrCat(folder, "/", kDriverLibrary))) return "";
  }
  for (const absl::string_view folder : kDriverFolders) {
    if (Readable(absl::StrCat(folder, "/", kDriverLibrary))) {
      return std::string(folder);
    }
  }
  return "";
}

std::vector<std::string> CudaLibraryStems() {
  return {std::begin(kCudaLibraries), std::end(kCudaLibraries)};
}

std::vector<std::string> DefaultLibraryFolders() {
  return {std::begin(kLoaderFolders), std::end(kLoaderFolders)};
}

std::vector<v1::Library> CudaLibrariesIn(
    const std::vector<std::string>& folders, v1::LibraryPlace place,
    const std::vector<v1::Library>& known, const std::string& root) {
  std::set<std::string> seen;
  for (const v1::Library& library : known) seen.insert(library.path());
  std::vector<v1::Library> result;
  for (const std::string& folder : folders) {
    const auto names = ListDirectory(root + folder);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      const size_t so = name.find(".so.");
      if (so == std::string::npos || !IsCudaLibrary(name)) continue;
      // libcudart.so.13, not libcudart.so.13.0.96: that is what programs need.
      if (name.find('.', so + 4) != std::string::npos) continue;
      const std::string path = JoinPath(folder, name);
      if (!seen.insert(path).second || !IsForThisCpu(root + path)) continue;
      v1::Library& library = result.emplace_back();
      library.set_soname(name);
      library.set_path(path);
      library.set_place(place);
    }
  }
  return result;
}

std::vector<v1::Library> CudaLibraries(const std::vector<CachedLibrary>& cache,
                                       bool digests) {
  std::vector<v1::Library> result;
  std::set<std::string> seen;
  for (const CachedLibrary& library : cache) {
    if (!IsCudaLibrary(library.soname)) continue;
    // The first hit is the one the loader takes.
    if (!seen.insert(library.soname).second) continue;
    v1::Library& added = result.emplace_back();
    added.set_soname(library.soname);
    added.set_path(library.path);
    added.set_place(v1::LIBRARY_PLACE_CACHE);
    if (digests) {
      if (const auto digest = Sha256OfFile(library.path); digest.ok()) {
        added.mutable_digest()->set_sha256(digest->Raw());
      }
    }
  }
  return result;
}

}  // namespace twinpath::runner
