#include "inspect/package_metadata.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "inspect/cuda_release.h"
#include "inspect/json.h"

namespace twinpath::inspect {
namespace {

constexpr size_t kMaxWords = 256;
constexpr size_t kMaxEvidence = 16;
constexpr size_t kMaxTargets = 256;
constexpr size_t kMaxConflicts = 8;

using Cpus = std::set<v1::CpuArchitecture>;

struct CpuWord {
  absl::string_view word;
  v1::CpuArchitecture cpu;
};

// Ends of platform tags. "universal2" and "any" name no single CPU.
constexpr CpuWord kPlatformEnds[] = {{"_x86_64", v1::CPU_ARCHITECTURE_X86_64},
                                     {"_amd64", v1::CPU_ARCHITECTURE_X86_64},
                                     {"_aarch64", v1::CPU_ARCHITECTURE_AARCH64},
                                     {"_arm64", v1::CPU_ARCHITECTURE_AARCH64},
                                     {"_i686", v1::CPU_ARCHITECTURE_OTHER},
                                     {"_i386", v1::CPU_ARCHITECTURE_OTHER},
                                     {"_armv6l", v1::CPU_ARCHITECTURE_OTHER},
                                     {"_armv7l", v1::CPU_ARCHITECTURE_OTHER},
                                     {"_ppc64", v1::CPU_ARCHITECTURE_OTHER},
                                     {"_ppc64le", v1::CPU_ARCHITECTURE_OTHER},
                                     {"_s390x", v1::CPU_ARCHITECTURE_OTHER},
                                     {"_riscv64", v1::CPU_ARCHITECTURE_OTHER}};

// Parts of an archive's name.
constexpr CpuWord kNameWords[] = {{"x86_64", v1::CPU_ARCHITECTURE_X86_64},
                                  {"x86-64", v1::CPU_ARCHITECTURE_X86_64},
                                  {"amd64", v1::CPU_ARCHITECTURE_X86_64},
                                  {"aarch64", v1::CPU_ARCHITECTURE_AARCH64},
                                  {"arm64", v1::CPU_ARCHITECTURE_AARCH64}};

std::string Cut(absl::string_view text) {
  return std::string(text.substr(0, kMaxWords));
}

// CPUs of "manylinux_2_17_x86_64.manylinux2014_x86_64"; empty where one of
// them is for any.
Cpus CpusOfPlatforms(absl::string_view platforms) {
  Cpus cpus;
  for (absl::string_view platform : absl::StrSplit(platforms, '.')) {
    bool known = false;
    for (const CpuWord& row : kPlatformEnds) {
      if (!absl::EndsWith(platform, row.word) &&
          platform != row.word.substr(1)) {
        continue;
      }
      cpus.insert(row.cpu);
      known = true;
      break;
    }
    if (!known) return {};
  }
  return cpus;
}

// Calls `on_field(name, value)` for each field of an RFC 822 like text up to
// the first empty line; lines that go on are joined by a space.
template <typename F>
void ForEachField(absl::string_view text, F on_field) {
  std::string name;
  std::string value;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripSuffix(line, "\r");
    if (line.empty()) break;
    if (line[0] == ' ' || line[0] == '\t') {
      absl::StrAppend(&value, " ", absl::StripAsciiWhitespace(line));
      continue;
    }
    if (!name.empty()) on_field(name, value);
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    name = absl::AsciiStrToLower(absl::StripAsciiWhitespace(parts.first));
    value = std::string(absl::StripAsciiWhitespace(parts.second));
  }
  if (!name.empty()) on_field(name, value);
}

// The leading package name of "nvidia-cublas-cu12 (>= 1.0) ; marker".
absl::string_view NameOfRequirement(absl::string_view text) {
  size_t end = 0;
  while (end < text.size() && (absl::ascii_isalnum(text[end]) ||
                               absl::StrContains("-_.+", text[end]))) {
    ++end;
  }
  return text.substr(0, end);
}

std::string NormalName(absl::string_view name) {
  std::string result = absl::AsciiStrToLower(name);
  std::replace(result.begin(), result.end(), '_', '-');
  std::replace(result.begin(), result.end(), '.', '-');
  return result;
}

// Release that a requirement fixes: by the name's suffix, or by the version of
// NVIDIA's packages that have none since CUDA 13.
std::optional<uint32_t> CudaMajorOfRequirement(absl::string_view requirement) {
  const std::string name = NormalName(NameOfRequirement(requirement));
  if (const auto major = CudaMajorOfWords(name)) return major;
  if (name != "cuda-toolkit" && name != "nvidia-cuda-runtime") {
    return std::nullopt;
  }
  const absl::string_view rest = requirement.substr(
      0, std::min(requirement.find(';'), requirement.size()));
  for (absl::string_view sign : {"==", "~="}) {
    const size_t at = rest.find(sign);
    if (at == absl::string_view::npos) continue;
    const absl::string_view version =
        absl::StripLeadingAsciiWhitespace(rest.substr(at + sign.size()));
    uint32_t major = 0;
    if (absl::SimpleAtoi(version.substr(0, version.find('.')), &major) &&
        CudaMajorBit(major) != 0) {
      return major;
    }
  }
  return std::nullopt;
}

absl::string_view BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

bool InDistInfo(absl::string_view path, absl::string_view file) {
  return absl::EndsWith(path, file) &&
         absl::EndsWith(path.substr(0, path.size() - file.size()),
                        ".dist-info/") &&
         absl::c_count(path, '/') == 1;
}

}  // namespace

PackageMetadata::PackageMetadata(absl::string_view file_name,
                                 absl::string_view format) {
  if (format == "oci_image") {
    kind_ = PackageKind::kOciImage;
  } else if (format == "wheel" ||
             (format == "zip" && absl::EndsWith(file_name, ".whl"))) {
    kind_ = PackageKind::kWheel;
    ReadWheelName(file_name);
  } else if (format == "deb" ||
             (format == "ar" && absl::EndsWith(file_name, ".deb"))) {
    kind_ = PackageKind::kDeb;
  } else if (format == "zip" || format == "tar") {
    // Those of a deb are the deb's.
    if (absl::StartsWith(file_name, "data.tar") ||
        absl::StartsWith(file_name, "control.tar")) {
      return;
    }
    kind_ = PackageKind::kArchive;
    ReadArchiveName(file_name);
  }
}

absl::string_view PackageMetadata::kind_name() const {
  switch (kind_) {
    case PackageKind::kArchive:
      return "archive";
    case PackageKind::kWheel:
      return "wheel";
    case PackageKind::kDeb:
      return "deb";
    case PackageKind::kOciImage:
      return "oci_image";
    case PackageKind::kNone:
      break;
  }
  return "";
}

bool PackageMetadata::Wants(absl::string_view path) const {
  switch (kind_) {
    case PackageKind::kDeb:
      return absl::StartsWith(path, "control.tar") &&
             BaseName(path) == "control";
    case PackageKind::kWheel:
    case PackageKind::kArchive:
      return InDistInfo(path, "WHEEL") || InDistInfo(path, "METADATA") ||
             InDistInfo(path, "variant.json");
    default:
      return false;
  }
}

void PackageMetadata::Read(absl::string_view path, absl::string_view bytes) {
  if (kind_ == PackageKind::kOciImage) return ReadOciConfig(bytes);
  if (!Wants(path)) return;
  if (kind_ == PackageKind::kDeb) return ReadDebControl(bytes);
  if (InDistInfo(path, "WHEEL")) {
    // A wheel under another name.
    kind_ = PackageKind::kWheel;
    ReadWheelTags(bytes);
  } else if (InDistInfo(path, "METADATA")) {
    ReadWheelMetadata(bytes);
  } else {
    ReadVariants(bytes);
  }
}

bool PackageMetadata::PromisesDeviceCode() const {
  if (kind_ != PackageKind::kWheel && kind_ != PackageKind::kArchive) {
    return false;
  }
  const std::string name = NormalName(name_);
  // NVIDIA's parts of the toolkit: many hold host code only.
  if (absl::StartsWith(name, "nvidia-") || absl::StartsWith(name, "cuda-")) {
    return false;
  }
  return (cuda_in_name_ || gpu_in_name_) && !needs_sibling_;
}

bool PackageMetadata::IsDriverPackage() const {
  const std::string name = NormalName(name_);
  for (absl::string_view prefix :
       {"libcuda1", "libnvidia-compute", "nvidia-driver", "nvidia-libs",
        "cuda-compat", "nvidia-l4t", "nvidia-cuda-compat"}) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return false;
}

void PackageMetadata::Evidence(std::string words) {
  if (evidence_.size() < kMaxEvidence) evidence_.push_back(std::move(words));
}

void PackageMetadata::SayCuda(std::optional<uint32_t> major,
                              const std::string& words) {
  if (!major) return;
  if (!cuda_major_) {
    cuda_major_ = major;
    cuda_words_ = words;
    Evidence(words);
  } else if (*cuda_major_ != *major && conflicts_.size() < kMaxConflicts) {
    conflicts_.push_back(
        {"TP237", absl::StrCat("the package speaks of CUDA ", *cuda_major_,
                               " (", cuda_words_, ") and of CUDA ", *major,
                               " (", words, ")")});
  }
}

// {name}-{version}(-{build})-{python}-{abi}-{platform}.whl
void PackageMetadata::ReadWheelName(absl::string_view file_name) {
  const std::vector<std::string> parts =
      absl::StrSplit(absl::StripSuffix(file_name, ".whl"), '-');
  if (parts.size() < 5) return;
  const size_t n = parts.size();
  name_ = Cut(parts[0]);
  version_ = Cut(parts[1]);
  file_tag_ =
      Cut(absl::StrCat(parts[n - 3], "-", parts[n - 2], "-", parts[n - 1]));
  cpus_ = CpusOfPlatforms(parts[n - 1]);
  Evidence(absl::StrCat("file name's tag ", file_tag_));
  SayCuda(CudaMajorOfWords(name_), absl::StrCat("name ", name_));
  SayCuda(CudaMajorOfWords(version_), absl::StrCat("version ", version_));
  cuda_in_name_ = cuda_major_.has_value();
  for (absl::string_view word : absl::StrSplit(NormalName(name_), '-')) {
    gpu_in_name_ |= word == "gpu";
  }
}

void PackageMetadata::ReadWheelTags(absl::string_view text) {
  Cpus cpus;
  bool any = false;
  std::string first;
  ForEachField(text, [&](absl::string_view field, absl::string_view value) {
    if (field != "tag") return;
    const Cpus of_tag = CpusOfPlatforms(value.substr(value.rfind('-') + 1));
    any |= of_tag.empty();
    cpus.insert(of_tag.begin(), of_tag.end());
    if (first.empty()) first = Cut(value);
  });
  if (first.empty()) return;
  Evidence(absl::StrCat("tag ", first));
  if (any) return;
  // Wheels are renamed (linux_ to manylinux_); the CPU stays.
  if (!cpus_.empty() && cpus_ != cpus) {
    conflicts_.push_back(
        {"TP236", absl::StrCat("the file name's tag is ", file_tag_,
                               " and WHEEL says ", first)});
  }
  if (cpus_.empty() && file_tag_.empty()) cpus_ = cpus;
}

void PackageMetadata::ReadWheelMetadata(absl::string_view text) {
  std::string required;
  std::set<uint32_t> majors;
  std::string own_name = NormalName(name_);
  std::vector<std::string> requirements;
  ForEachField(text, [&](absl::string_view field, absl::string_view value) {
    if (field == "name") {
      if (name_.empty()) {
        name_ = Cut(value);
        SayCuda(CudaMajorOfWords(name_), absl::StrCat("name ", name_));
      }
    } else if (field == "version") {
      if (version_.empty()) version_ = Cut(value);
      SayCuda(CudaMajorOfWords(Cut(value)),
              absl::StrCat("METADATA's version ", Cut(value)));
    } else if (field == "requires-dist") {
      // Extras are not installed unless asked for.
      if (absl::StrContains(value, "extra ==") ||
          absl::StrContains(value, "extra==")) {
        return;
      }
      requirements.push_back(Cut(value));
    }
  });
  for (const std::string& requirement : requirements) {
    const std::string name = NormalName(NameOfRequirement(requirement));
    const std::optional<uint32_t> major = CudaMajorOfRequirement(requirement);
    if (!major) continue;
    majors.insert(*major);
    if (required.empty()) required = requirement;
    needs_sibling_ |=
        !absl::StartsWith(name, "nvidia-") && !absl::StartsWith(name, "cuda-");
  }
  // Requirements for several releases depend on markers.
  if (majors.size() == 1) {
    SayCuda(*majors.begin(), absl::StrCat("Requires-Dist ", required));
  }
}

// {"variants": {"LABEL": {"nvidia": {"sm_arch": ["90_real", "120_virtual"],
// "cuda_version_lower_bound": ["12.8"]}}}}, one label in a wheel.
void PackageMetadata::ReadVariants(absl::string_view text) {
  const std::optional<Json> root = ParseJson(text);
  if (!root) return;
  const Json* const variants = ObjectField(*root, "variants");
  if (variants == nullptr || variants->size() != 1) return;
  const auto variant = variants->begin();
  const Json* const nvidia = ObjectField(*variant, "nvidia");
  if (nvidia == nullptr) return;
  const std::string words = absl::StrCat("variant.json's ", Cut(variant.key()));
  if (const Json* const bound =
          ArrayField(*nvidia, "cuda_version_lower_bound")) {
    for (const Json& value : *bound) {
      uint32_t major = 0;
      const std::string version = TextOf(value);
      if (absl::SimpleAtoi(version.substr(0, version.find('.')), &major) &&
          CudaMajorBit(major) != 0) {
        SayCuda(major, words);
        break;
      }
    }
  }
  const Json* const targets = ArrayField(*nvidia, "sm_arch");
  if (targets == nullptr) return;
  Evidence(words);
  for (const Json& value : *targets) {
    // As CMake writes them: "90_real", "90_virtual", "90" for both.
    const std::string written = TextOf(value);
    absl::string_view target = written;
    const bool real = absl::ConsumeSuffix(&target, "_real");
    const bool virtual_only = !real && absl::ConsumeSuffix(&target, "_virtual");
    uint32_t number = 0;
    absl::string_view digits = target;
    if (!absl::ConsumeSuffix(&digits, "a")) absl::ConsumeSuffix(&digits, "f");
    if (!absl::SimpleAtoi(digits, &number) || number < 10 || number > 999 ||
        targets_.size() >= kMaxTargets) {
      continue;
    }
    if (!virtual_only) targets_.push_back(absl::StrCat("sm_", target));
    if (!real) targets_.push_back(absl::StrCat("compute_", target));
  }
}

void PackageMetadata::ReadDebControl(absl::string_view text) {
  std::string depends;
  std::string architecture;
  ForEachField(text, [&](absl::string_view field, absl::string_view value) {
    if (field == "package") name_ = Cut(value);
    if (field == "version") version_ = Cut(value);
    if (field == "architecture") architecture = Cut(value);
    if (field == "depends") depends = std::string(value);
  });
  if (!architecture.empty()) {
    Evidence(absl::StrCat("Architecture ", architecture));
  }
  if (architecture == "amd64") cpus_ = {v1::CPU_ARCHITECTURE_X86_64};
  if (architecture == "arm64") cpus_ = {v1::CPU_ARCHITECTURE_AARCH64};
  SayCuda(CudaMajorOfDebName(name_), absl::StrCat("Package ", name_));
  SayCuda(CudaMajorOfWords(version_), absl::StrCat("Version ", version_));
  std::set<uint32_t> majors;
  std::string first;
  for (absl::string_view part : absl::StrSplit(depends, ',')) {
    if (absl::StrContains(part, '|')) continue;
    const absl::string_view name =
        NameOfRequirement(absl::StripAsciiWhitespace(part));
    const std::optional<uint32_t> major = CudaMajorOfDebName(name);
    if (!major) continue;
    majors.insert(*major);
    if (first.empty()) first = Cut(name);
  }
  if (majors.size() == 1) {
    SayCuda(*majors.begin(), absl::StrCat("Depends ", first));
  }
}

// {"architecture": "arm64", "config": {"Env": ["CUDA_VERSION=13.0.1"]}}. The
// variable is set by NVIDIA's base images.
void PackageMetadata::ReadOciConfig(absl::string_view text) {
  const std::optional<Json> root = ParseJson(text);
  if (!root) return;
  const std::string architecture = Cut(TextField(*root, "architecture"));
  if (!architecture.empty()) {
    Evidence(absl::StrCat("architecture ", architecture));
  }
  if (architecture == "amd64") cpus_.insert(v1::CPU_ARCHITECTURE_X86_64);
  if (architecture == "arm64") cpus_.insert(v1::CPU_ARCHITECTURE_AARCH64);
  const Json* const config = Field(*root, "config");
  const Json* const env =
      config == nullptr ? nullptr : ArrayField(*config, "Env");
  if (env == nullptr) return;
  for (const Json& value : *env) {
    const std::string written = TextOf(value);
    absl::string_view variable = written;
    // What the driver has to have, "cuda>=12.8 brand=...".
    if (absl::StartsWith(variable, "NVIDIA_REQUIRE_CUDA=")) {
      Evidence(Cut(variable));
    }
    if (!absl::ConsumePrefix(&variable, "CUDA_VERSION=")) continue;
    uint32_t major = 0;
    if (absl::SimpleAtoi(variable.substr(0, variable.find('.')), &major) &&
        CudaMajorBit(major) != 0) {
      SayCuda(major, absl::StrCat("CUDA_VERSION=", Cut(variable)));
    }
  }
}

void PackageMetadata::ReadArchiveName(absl::string_view file_name) {
  name_ = Cut(file_name);
  const std::string lower = absl::AsciiStrToLower(name_);
  for (const CpuWord& row : kNameWords) {
    if (!absl::StrContains(lower, row.word)) continue;
    if (cpus_.insert(row.cpu).second) {
      Evidence(absl::StrCat("file name's ", row.word));
    }
  }
  SayCuda(CudaMajorOfWords(name_), absl::StrCat("file name ", name_));
  cuda_in_name_ = cuda_major_.has_value();
}

}  // namespace twinpath::inspect
