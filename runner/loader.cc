#include "runner/loader.h"

#include <unistd.h>

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/digest.h"
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

// Searched by the loader without a cache.
constexpr absl::string_view kDefaultFolders[] = {"/lib",
                                                 "/usr/lib",
                                                 "/lib64",
                                                 "/usr/lib64",
                                                 "/lib/x86_64-linux-gnu",
                                                 "/usr/lib/x86_64-linux-gnu",
                                                 "/lib/aarch64-linux-gnu",
                                                 "/usr/lib/aarch64-linux-gnu"};

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
  for (const absl::string_view folder : kDefaultFolders) {
    if (Readable(absl::StrCat(folder, "/", kDriverLibrary))) return "";
  }
  for (const absl::string_view folder : kDriverFolders) {
    if (Readable(absl::StrCat(folder, "/", kDriverLibrary))) {
      return std::string(folder);
    }
  }
  return "";
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
    if (digests) {
      if (const auto digest = Sha256OfFile(library.path); digest.ok()) {
        added.mutable_digest()->set_sha256(digest->Raw());
      }
    }
  }
  return result;
}

}  // namespace twinpath::runner
