#include "inspect/promise.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "inspect/cuda_release.h"
#include "inspect/package_metadata.h"
#include "inspect/summary.h"

namespace twinpath::inspect {
namespace {

constexpr absl::string_view kInside = "!/";
constexpr size_t kMaxPath = 512;
// Distinct targets remembered; real files have tens.
constexpr size_t kMaxTargets = 4096;

// ELF machines of host code: what an operating system starts. Others that
// packages hold are for GPUs, DSPs, BPF, microcontrollers.
constexpr uint32_t kMachineX86_64 = 62;
constexpr uint32_t kMachineAarch64 = 183;
constexpr std::pair<uint32_t, absl::string_view> kHostMachines[] = {
    {kMachineX86_64, "x86_64"},
    {kMachineAarch64, "aarch64"},
    {21, "ppc64"},
    {22, "s390x"}};

// Parts of paths that say for which CPU a file is.
constexpr absl::string_view kX86Words[] = {"x86_64", "x86-64", "x64", "amd64",
                                           "intel64"};
constexpr absl::string_view kArmWords[] = {
    "aarch64", "arm64", "armv8",  "-a64",    "_a64", "sbsa",
    "tegra",   "l4t",   "jetson", "android", "qnx"};

absl::string_view CpuName(v1::CpuArchitecture cpu) {
  switch (cpu) {
    case v1::CPU_ARCHITECTURE_X86_64:
      return "x86_64";
    case v1::CPU_ARCHITECTURE_AARCH64:
      return "aarch64";
    default:
      return "another CPU";
  }
}

absl::string_view MachineName(uint32_t machine) {
  for (const auto& [number, name] : kHostMachines) {
    if (number == machine) return name;
  }
  return "";
}

std::string Name(absl::string_view path) {
  return Printable(path.substr(0, kMaxPath));
}

absl::string_view BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

bool InFolder(absl::string_view path, absl::string_view folder) {
  return absl::StartsWith(path, absl::StrCat(folder, "/")) ||
         absl::StrContains(path, absl::StrCat("/", folder, "/"));
}

// Whether the path says that the file is for that machine.
bool PathNamesMachine(absl::string_view path, uint32_t machine) {
  const std::string lower = absl::AsciiStrToLower(path);
  const auto contains = [&lower](absl::string_view word) {
    return absl::StrContains(lower, word);
  };
  if (machine == kMachineX86_64) {
    return std::any_of(std::begin(kX86Words), std::end(kX86Words), contains);
  }
  if (machine == kMachineAarch64) {
    return std::any_of(std::begin(kArmWords), std::end(kArmWords), contains);
  }
  return contains(MachineName(machine));
}

// The part of a path in which a package inside the carrier stands.
bool InsideAnotherPackage(absl::string_view path) {
  for (absl::string_view end : {".whl", ".deb", ".rpm", ".conda"}) {
    if (absl::StrContains(path, absl::StrCat(end, kInside))) return true;
  }
  return false;
}

// Files of one sort: how many, and the first.
struct Group {
  uint64_t count = 0;
  std::string first;
  // What it needs.
  std::string library;

  void Add(absl::string_view path, absl::string_view needs = "") {
    if (count++ > 0) return;
    first = Name(path);
    library = Name(needs);
  }
};

std::string Files(const Group& group) {
  return group.count == 1
             ? group.first
             : absl::StrCat(group.count, " files, first ", group.first);
}

void AddProblem(v1::FileReport& carrier, absl::string_view code,
                const std::string& detail) {
  v1::Reason& reason = *carrier.add_problems();
  reason.set_code(std::string(code));
  reason.set_detail(detail);
}

}  // namespace

class PackageJudge::State {
 public:
  State(absl::string_view carrier_name, absl::string_view format)
      : metadata(BaseName(carrier_name), format), carrier_name_(carrier_name) {}

  void Member(const v1::FileReport& member);
  // Caps that were reached while the carrier was read.
  void SeeCarrier(const v1::FileReport& carrier) {
    complete_ &= Complete(carrier);
  }
  void JudgeCpu(v1::FileReport& carrier) const;
  void JudgeCuda(v1::FileReport& carrier) const;
  void JudgeTargets(v1::FileReport& carrier) const;
  void JudgeDeviceCode(v1::FileReport& carrier) const;
  void FillPromise(v1::PackagePromise& promise) const;

  PackageMetadata metadata;
  Group driver_libraries;

 private:
  void CpuOf(absl::string_view path, const v1::FileReport& member);
  void CudaOf(absl::string_view path, const v1::FileReport& member);
  // Whether a file is read to its end, so that what was not seen is not there.
  static bool Complete(const v1::FileReport& report);

  std::string carrier_name_;
  uint64_t host_files_ = 0;
  bool device_code_ = false;
  bool uses_cuda_ = false;
  bool complete_ = true;
  // By ELF machine: all; those to be loaded whose path does not name the CPU.
  std::map<uint32_t, Group> machines_;
  std::map<uint32_t, Group> plain_machines_;
  // By the releases a library exists in, over files that do not say in their
  // path that they are for one release.
  std::map<CudaMajors, Group> needs_;
  // Releases needed by files whose path says so.
  std::map<CudaMajors, Group> variant_needs_;
  // Statically linked runtimes.
  std::map<uint32_t, Group> static_runtimes_;
  std::set<ImageTarget> targets_;
};

bool PackageJudge::State::Complete(const v1::FileReport& report) {
  if (report.kind() == v1::FILE_KIND_PACKED ||
      report.kind() == v1::FILE_KIND_DAMAGED_ELF) {
    return false;
  }
  return std::none_of(report.problems().begin(), report.problems().end(),
                      [](const v1::Reason& reason) {
                        return reason.code() == "TP232" ||
                               reason.code() == "TP233";
                      });
}

void PackageJudge::State::Member(const v1::FileReport& member) {
  absl::string_view path = member.name();
  if (absl::ConsumePrefix(&path, carrier_name_)) {
    absl::ConsumePrefix(&path, kInside);
  }
  if (InsideAnotherPackage(path)) return;
  complete_ &= Complete(member);
  if (member.fatbins_size() > 0) {
    device_code_ = true;
    for (const v1::Fatbin& fatbin : member.fatbins()) {
      for (const v1::Image& image : fatbin.images()) {
        if (targets_.size() < kMaxTargets) targets_.insert(TargetOf(image));
      }
    }
  }
  // A folder of link stubs is for linking; the forward compatibility package
  // is a driver's.
  if ((IsDriverLibrary(BaseName(path)) ||
       IsDriverLibrary(member.elf().soname())) &&
      member.has_elf() && !InFolder(path, "stubs") &&
      !InFolder(path, "compat")) {
    driver_libraries.Add(path);
  }
  if (!member.has_elf()) return;
  CpuOf(path, member);
  CudaOf(path, member);
}

void PackageJudge::State::CpuOf(absl::string_view path,
                                const v1::FileReport& member) {
  const uint32_t machine = member.elf().machine();
  if (MachineName(machine).empty()) return;
  ++host_files_;
  machines_[machine].Add(path);
  // Python loads only extensions that are named for its own CPU, so one that
  // names another is no part of a package for several.
  const bool named = PathNamesMachine(path, machine) &&
                     !absl::StrContains(BaseName(path), ".cpython-");
  if (member.kind() != v1::FILE_KIND_ELF_OBJECT && !named) {
    plain_machines_[machine].Add(path);
  }
}

void PackageJudge::State::CudaOf(absl::string_view path,
                                 const v1::FileReport& member) {
  uses_cuda_ |= member.runtime_compilers_size() > 0 ||
                member.elf().static_cudart() ||
                IsCudaLibrary(member.elf().soname());
  const std::optional<uint32_t> named = CudaMajorOfWords(path);
  for (const std::string& needed : member.elf().needed()) {
    uses_cuda_ |= IsCudaLibrary(needed);
    const CudaMajors majors = CudaMajorsOfLibrary(needed);
    if (majors == 0) continue;
    const bool variant = named && (majors & CudaMajorBit(*named)) != 0;
    (variant ? variant_needs_ : needs_)[majors].Add(path, needed);
  }
  if (!member.elf().static_cudart() || named) return;
  // Images may be older or newer than the runtime beside them; where all are
  // of one release it is the release's.
  std::set<uint32_t> toolkits;
  for (const v1::Fatbin& fatbin : member.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      const uint32_t major = image.producer().toolkit().major();
      if (major != 0 && toolkits.size() < 2) toolkits.insert(major);
    }
  }
  if (toolkits.size() == 1 && CudaMajorBit(*toolkits.begin()) != 0) {
    static_runtimes_[*toolkits.begin()].Add(path);
  }
}

void PackageJudge::State::JudgeCpu(v1::FileReport& carrier) const {
  if (metadata.cpus().empty()) return;
  const auto promised = [this](uint32_t machine) {
    const v1::CpuArchitecture cpu =
        machine == kMachineX86_64    ? v1::CPU_ARCHITECTURE_X86_64
        : machine == kMachineAarch64 ? v1::CPU_ARCHITECTURE_AARCH64
                                     : v1::CPU_ARCHITECTURE_OTHER;
    return metadata.cpus().contains(cpu);
  };
  const bool any_fits =
      std::any_of(machines_.begin(), machines_.end(),
                  [&](const auto& entry) { return promised(entry.first); });
  std::vector<absl::string_view> cpus;
  for (const v1::CpuArchitecture cpu : metadata.cpus()) {
    cpus.push_back(CpuName(cpu));
  }
  for (const auto& [machine, group] : any_fits ? plain_machines_ : machines_) {
    if (promised(machine)) continue;
    AddProblem(
        carrier, "TP236",
        absl::StrCat("the ", metadata.kind_name(), " is for ",
                     absl::StrJoin(cpus, " and "), " (",
                     Printable(metadata.evidence().empty()
                                   ? ""
                                   : metadata.evidence().front()),
                     "); for ", MachineName(machine), ": ", Files(group)));
  }
}

void PackageJudge::State::JudgeCuda(v1::FileReport& carrier) const {
  if (metadata.cuda_major()) {
    const CudaMajors promised = CudaMajorBit(*metadata.cuda_major());
    bool any_fits = false;
    for (const auto* needs : {&needs_, &variant_needs_}) {
      for (const auto& entry : *needs) {
        any_fits |= (entry.first & promised) != 0;
      }
    }
    const auto report = [&](absl::string_view releases, const Group& group,
                            absl::string_view how) {
      AddProblem(carrier, "TP237",
                 absl::StrCat("the ", metadata.kind_name(), " is for CUDA ",
                              *metadata.cuda_major(), "; for ", releases, " (",
                              how, "): ", Files(group)));
    };
    for (const auto& [majors, group] : needs_) {
      if ((majors & promised) != 0) continue;
      report(CudaMajorsName(majors), group,
             absl::StrCat("needs ", group.library));
    }
    if (!any_fits) {
      for (const auto& [majors, group] : variant_needs_) {
        report(CudaMajorsName(majors), group,
               absl::StrCat("needs ", group.library));
      }
    }
    for (const auto& [major, group] : static_runtimes_) {
      if (major == *metadata.cuda_major()) continue;
      report(absl::StrCat("CUDA ", major), group,
             "its own runtime and all images");
    }
  }
  // Two needs that no release satisfies together: the first such pair.
  for (auto one = needs_.begin(); one != needs_.end(); ++one) {
    for (auto two = std::next(one); two != needs_.end(); ++two) {
      if ((one->first & two->first) != 0) continue;
      AddProblem(carrier, "TP239",
                 absl::StrCat(one->second.first, " needs ", one->second.library,
                              " (", CudaMajorsName(one->first), "), ",
                              two->second.first, " needs ", two->second.library,
                              " (", CudaMajorsName(two->first), ")"));
      return;
    }
  }
}

void PackageJudge::State::JudgeTargets(v1::FileReport& carrier) const {
  if (!device_code_ || !complete_ || targets_.size() >= kMaxTargets) return;
  std::set<std::string> held;
  for (const ImageTarget& target : targets_) held.insert(TargetName(target));
  std::vector<std::string> missing;
  for (const std::string& target : metadata.targets()) {
    if (!held.contains(target)) missing.push_back(target);
  }
  if (missing.empty()) return;
  AddProblem(carrier, "TP238",
             absl::StrCat("variant.json names ", absl::StrJoin(missing, ", "),
                          "; no file of the package has an image for ",
                          missing.size() == 1 ? "it" : "these"));
}

void PackageJudge::State::JudgeDeviceCode(v1::FileReport& carrier) const {
  if (!metadata.PromisesDeviceCode() || host_files_ == 0 || device_code_ ||
      uses_cuda_ || !complete_) {
    return;
  }
  AddProblem(carrier, "TP241",
             absl::StrCat("the ", metadata.kind_name(), " ",
                          Printable(metadata.name()), " ",
                          Printable(metadata.version()), " holds ", host_files_,
                          host_files_ == 1 ? " ELF file" : " ELF files",
                          ", none with device code and none that needs a CUDA "
                          "library"));
}

void PackageJudge::State::FillPromise(v1::PackagePromise& promise) const {
  promise.set_kind(std::string(metadata.kind_name()));
  promise.set_name(metadata.name());
  promise.set_version(metadata.version());
  for (const v1::CpuArchitecture cpu : metadata.cpus()) {
    promise.add_cpu_architectures(cpu);
  }
  if (metadata.cuda_major()) promise.set_cuda_major(*metadata.cuda_major());
  for (const std::string& target : metadata.targets()) {
    promise.add_targets(target);
  }
  for (const std::string& words : metadata.evidence()) {
    promise.add_evidence(words);
  }
}

PackageJudge::PackageJudge(absl::string_view carrier_name,
                           absl::string_view format)
    : state_(std::make_unique<State>(carrier_name, format)) {}
PackageJudge::~PackageJudge() = default;

bool PackageJudge::Wants(absl::string_view member_path) const {
  return state_->metadata.Wants(member_path);
}

void PackageJudge::Metadata(absl::string_view path, absl::string_view bytes) {
  state_->metadata.Read(path, bytes.substr(0, kMaxMetadataBytes));
}

void PackageJudge::Member(const v1::FileReport& member) {
  if (state_->metadata.kind() != PackageKind::kNone) state_->Member(member);
}

void PackageJudge::Finish(v1::FileReport& carrier) {
  const PackageMetadata& metadata = state_->metadata;
  const PackageKind kind = metadata.kind();
  if (kind == PackageKind::kNone) return;
  if (kind == PackageKind::kWheel || kind == PackageKind::kDeb) {
    carrier.mutable_carrier()->set_format(std::string(metadata.kind_name()));
  }
  if (kind != PackageKind::kArchive || !metadata.evidence().empty()) {
    state_->FillPromise(*carrier.mutable_carrier()->mutable_promise());
  }
  for (const MetadataConflict& conflict : metadata.conflicts()) {
    AddProblem(carrier, conflict.code, Printable(conflict.detail));
  }
  state_->SeeCarrier(carrier);
  state_->JudgeCpu(carrier);
  state_->JudgeCuda(carrier);
  state_->JudgeTargets(carrier);
  state_->JudgeDeviceCode(carrier);
  if (state_->driver_libraries.count > 0 && !metadata.IsDriverPackage()) {
    AddProblem(carrier, "TP242",
               absl::StrCat("the driver's own library lies in it: ",
                            Files(state_->driver_libraries)));
  }
}

}  // namespace twinpath::inspect
