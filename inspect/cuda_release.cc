#include "inspect/cuda_release.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace twinpath::inspect {
namespace {

constexpr CudaMajors kMajors10To11 = CudaMajorBit(10) | CudaMajorBit(11);
constexpr CudaMajors kMajors11To12 = CudaMajorBit(11) | CudaMajorBit(12);
constexpr CudaMajors kMajors12To13 = CudaMajorBit(12) | CudaMajorBit(13);

struct Exception {
  absl::string_view library;
  uint32_t soname_major;
  CudaMajors majors;
};

// Libraries whose soname has a number of its own. Releases to come are not
// told.
constexpr Exception kExceptions[] = {
    {"cufft", 10, kMajors10To11},       {"cufft", 11, CudaMajorBit(12)},
    {"cufft", 12, CudaMajorBit(13)},    {"cusolver", 10, kMajors10To11},
    {"cusolver", 11, kMajors11To12},    {"cusolver", 12, CudaMajorBit(13)},
    {"cusparse", 10, CudaMajorBit(10)}, {"cusparse", 11, CudaMajorBit(11)},
    {"cusparse", 12, kMajors12To13},
};

// Their soname's number is the toolkit's.
constexpr absl::string_view kSameNumber[] = {"cudart",   "cublas", "cublasLt",
                                             "nvblas",   "nvrtc",  "nvJitLink",
                                             "nvfatbin", "nvjpeg", "cupti"};

constexpr absl::string_view kOthers[] = {
    "cuda",       "cudnn",         "nccl",    "curand",    "cutensor",
    "cusparseLt", "nvshmem_host",  "nvinfer", "nvidia-ml", "cufile",
    "nvToolsExt", "nvptxcompiler", "nvvm"};

bool StartsNumber(absl::string_view text, size_t at) {
  return at < text.size() && absl::ascii_isdigit(text[at]);
}

// "130" -> 13, "12" -> 12, "92" -> 9; nothing where it is no release.
std::optional<uint32_t> MajorOfDigits(absl::string_view digits) {
  uint32_t number = 0;
  if (digits.size() < 2 || digits.size() > 4 ||
      !absl::SimpleAtoi(digits.substr(0, 2), &number)) {
    return std::nullopt;
  }
  if (CudaMajorBit(number) != 0) return number;
  // Releases before 10 have one digit.
  if (digits == "80") return 8;
  if (digits == "90" || digits == "91" || digits == "92") return 9;
  return std::nullopt;
}

// Splits "libcudart-1234abcd.so.12.0" into "cudart" and 12.
struct Soname {
  absl::string_view library;
  uint32_t number = 0;
};
std::optional<Soname> ParseSoname(absl::string_view soname) {
  if (!absl::ConsumePrefix(&soname, "lib")) return std::nullopt;
  const size_t so = soname.find(".so");
  if (so == absl::string_view::npos) return std::nullopt;
  Soname result;
  result.library = soname.substr(0, so);
  constexpr size_t kHashDigits = 8;
  if (result.library.size() > kHashDigits + 1) {
    const size_t dash = result.library.size() - kHashDigits - 1;
    bool hash = result.library[dash] == '-';
    for (const char c : result.library.substr(dash + 1)) {
      hash &= absl::ascii_isxdigit(c);
    }
    if (hash) result.library = result.library.substr(0, dash);
  }
  absl::string_view version = soname.substr(so + 3);
  if (version.empty()) return result;
  if (!absl::ConsumePrefix(&version, ".")) return std::nullopt;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(version, absl::MaxSplits('.', 1));
  if (!absl::SimpleAtoi(parts.first, &result.number)) return std::nullopt;
  return result;
}

}  // namespace

std::string CudaMajorsName(CudaMajors majors) {
  std::vector<uint32_t> numbers;
  for (uint32_t n = kOldestCudaMajor; n <= kNewestCudaMajor; ++n) {
    if ((majors & CudaMajorBit(n)) != 0) numbers.push_back(n);
  }
  return absl::StrCat("CUDA ", absl::StrJoin(numbers, " or "));
}

std::optional<uint32_t> CudaMajorOfWords(absl::string_view text) {
  for (size_t at = 0; at + 1 < text.size(); ++at) {
    if (!absl::EqualsIgnoreCase(text.substr(at, 2), "cu") ||
        (at > 0 && absl::ascii_isalpha(text[at - 1]))) {
      continue;
    }
    size_t digits = at + 2;
    const bool word = absl::EqualsIgnoreCase(text.substr(digits, 2), "da");
    if (word) {
      digits += 2;
      if (!StartsNumber(text, digits)) {
        if (digits < text.size() && absl::StrContains("-_", text[digits])) {
          ++digits;
        }
        if (digits < text.size() && text[digits] == 'v') ++digits;
      }
    }
    size_t end = digits;
    while (StartsNumber(text, end)) ++end;
    const absl::string_view number = text.substr(digits, end - digits);
    // "cuda-9.2": one digit counts where a minor release follows.
    if (word && (number == "8" || number == "9") && end < text.size() &&
        text[end] == '.' && StartsNumber(text, end + 1)) {
      return static_cast<uint32_t>(number[0] - '0');
    }
    if (const auto major = MajorOfDigits(number)) return major;
  }
  return std::nullopt;
}

CudaMajors CudaMajorsOfLibrary(absl::string_view soname) {
  const std::optional<Soname> parsed = ParseSoname(soname);
  if (!parsed || parsed->number == 0) return 0;
  absl::string_view library = parsed->library;
  if (library == "cufftw") library = "cufft";
  if (library == "cusolverMg") library = "cusolver";
  for (const Exception& row : kExceptions) {
    if (row.library == library && row.soname_major == parsed->number) {
      return row.majors;
    }
  }
  for (absl::string_view name : kSameNumber) {
    if (library == name) return CudaMajorBit(parsed->number);
  }
  // libnppc, libnppif, ...: NVIDIA Performance Primitives.
  if (absl::StartsWith(library, "npp")) return CudaMajorBit(parsed->number);
  return 0;
}

bool IsCudaLibrary(absl::string_view soname) {
  const std::optional<Soname> parsed = ParseSoname(soname);
  if (!parsed) return false;
  const absl::string_view library = parsed->library;
  for (absl::string_view name : kSameNumber) {
    if (library == name) return true;
  }
  for (absl::string_view name : kOthers) {
    if (library == name) return true;
  }
  return absl::StartsWith(library, "cufft") ||
         absl::StartsWith(library, "cusolver") ||
         absl::StartsWith(library, "cusparse") ||
         absl::StartsWith(library, "cudnn") ||
         absl::StartsWith(library, "nvinfer") ||
         absl::StartsWith(library, "npp");
}

bool IsDriverLibrary(absl::string_view soname) {
  const std::optional<Soname> parsed = ParseSoname(soname);
  return parsed && parsed->library == "cuda";
}

std::optional<uint32_t> CudaMajorOfDebName(absl::string_view name) {
  if (const auto major = CudaMajorOfWords(name)) return major;
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '-');
  if (parts.size() == 1) {
    // Debian's own: the soname's number stands at the end of the name.
    const size_t digits = name.find_last_not_of("0123456789.");
    if (!absl::StartsWith(name, "lib") || digits == absl::string_view::npos) {
      return std::nullopt;
    }
    const CudaMajors majors = CudaMajorsOfLibrary(absl::StrCat(
        name.substr(0, digits + 1), ".so.", name.substr(digits + 1)));
    for (uint32_t n = kOldestCudaMajor; n <= kNewestCudaMajor; ++n) {
      if (majors == CudaMajorBit(n)) return n;
    }
    return std::nullopt;
  }
  // NVIDIA's: the toolkit's release stands at the end, "-13-0".
  uint32_t major = 0;
  uint32_t minor = 0;
  if (parts.size() < 3 || !absl::SimpleAtoi(parts[parts.size() - 2], &major) ||
      !absl::SimpleAtoi(parts.back(), &minor) || minor > 9 ||
      CudaMajorBit(major) == 0) {
    return std::nullopt;
  }
  static constexpr absl::string_view kPrefixes[] = {"cuda", "libcu", "libnpp",
                                                    "libnv"};
  for (absl::string_view prefix : kPrefixes) {
    if (absl::StartsWith(name, prefix)) return major;
  }
  return std::nullopt;
}

}  // namespace twinpath::inspect
