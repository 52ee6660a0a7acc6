#include "compat/library_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace twinpath::compat {
namespace {

// The libraries whose names runner's facts look for, by stem.
constexpr absl::string_view kCudaStems[] = {
    "libcudart", "libcublas", "libcublasLt",  "libcudnn",    "libnccl",
    "libcufft",  "libcufftw", "libcusparse",  "libcusolver", "libcusolverMg",
    "libcurand", "libnvrtc",  "libnvJitLink", "libcupti",    "libnvinfer",
    "libcufile", "libnvjpeg", "libnvvm"};

}  // namespace

LibraryName ParseLibraryName(absl::string_view soname) {
  const size_t so = soname.find(".so");
  if (so == absl::string_view::npos) return {std::string(soname), 0};
  LibraryName name{std::string(soname.substr(0, so)), 0};
  absl::string_view rest = soname.substr(so + 3);
  if (absl::ConsumePrefix(&rest, ".")) {
    uint32_t major = 0;
    if (absl::SimpleAtoi(rest.substr(0, rest.find('.')), &major)) {
      name.major = major;
    }
  }
  return name;
}

bool IsCudaLibrary(absl::string_view soname) {
  const LibraryName name = ParseLibraryName(soname);
  if (name.major == 0) return false;
  for (const absl::string_view stem : kCudaStems) {
    if (name.stem == stem) return true;
  }
  return absl::StartsWith(name.stem, "libcudnn_") ||
         absl::StartsWith(name.stem, "libnpp");
}

bool IsDriverLibrary(absl::string_view soname) {
  if (soname == kDriverLibrary) return true;
  // auditwheel puts a hash behind the stem.
  const LibraryName name = ParseLibraryName(soname);
  absl::string_view stem = name.stem;
  return name.major == 1 && absl::ConsumePrefix(&stem, "libcuda-") &&
         !stem.empty() && std::all_of(stem.begin(), stem.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

}  // namespace twinpath::compat
