#include "compat/host_effects.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "compat/environment.h"
#include "compat/reason.h"
#include "compat/target.h"

namespace twinpath::compat {
namespace {

using Paths = google::protobuf::RepeatedPtrField<v1::PathPrediction>;

constexpr int kPlain = 2;

// Whether a target's number is one of Tegra parts alone.
bool IsTegraTarget(uint32_t number, const Tables& tables) {
  const GpuRow* row = tables.FindGpu(number);
  return row != nullptr && row->tegra();
}

// The paths something is said of. Twinpath's runs, native and ptx-jit, start
// without LD_LIBRARY_PATH; what users' programs do is the plain path.
enum class Which { kAll, kRuns, kUsers };

bool IsOf(Which which, const v1::PathPrediction& path) {
  return which == Which::kAll ||
         (path.path() == v1::PATH_PLAIN) == (which == Which::kUsers);
}

// The driver of L4T is made of these; no other Linux has them (CUDA for Tegra
// application note).
bool IsL4tLibrary(absl::string_view soname) {
  return absl::StartsWith(soname, "libnvrm_") || soname == "libnvrm.so" ||
         soname == "libnvos.so" || absl::StartsWith(soname, "libnvrm_gpu.so");
}

void PutFirst(v1::Reason reason, v1::PathPrediction& path) {
  path.mutable_reasons()->Add(std::move(reason));
  for (int i = path.reasons_size() - 1; i > 0; --i) {
    path.mutable_reasons()->SwapElements(i, i - 1);
  }
}

absl::string_view FirstCode(const v1::PathPrediction& path) {
  return path.reasons_size() == 0 ? absl::string_view()
                                  : absl::string_view(path.reasons(0).code());
}

v1::Reason Named(v1::Reason reason, absl::string_view file) {
  if (!file.empty()) {
    reason.set_detail(absl::StrCat(file, ": ", reason.detail()));
  }
  return reason;
}

// A program that does not start fails on every path, whatever its code.
void Block(const Blocker& blocker, absl::string_view file, Paths& paths,
           Which which = Which::kAll) {
  for (v1::PathPrediction& path : paths) {
    if (!IsOf(which, path)) continue;
    // A file for another CPU is not looked at by this host's loader.
    if (path.outcome() == v1::OUTCOME_FAILS && FirstCode(path) == "TP208") {
      continue;
    }
    const bool weaker = path.outcome() == v1::OUTCOME_FAILS &&
                        blocker.outcome != v1::OUTCOME_FAILS;
    if (weaker) {
      *path.add_reasons() = Named(blocker.reason, file);
      continue;
    }
    path.set_outcome(blocker.outcome);
    path.set_settled_by(blocker.settled_by);
    path.clear_gaps();
    PutFirst(Named(blocker.reason, file), path);
  }
}

void Remark(const v1::Reason& reason, absl::string_view file, Paths& paths,
            Which which = Which::kAll) {
  for (v1::PathPrediction& path : paths) {
    if (!IsOf(which, path)) continue;
    *path.add_reasons() = Named(reason, file);
  }
}

}  // namespace

HostEffects::HostEffects(const v1::ArtifactReport& report)
    : report_(report), loader_(report) {
  builds_.reserve(static_cast<size_t>(report.files_size()));
  for (const v1::FileReport& file : report.files()) {
    Build& build = builds_.emplace_back();
    build.aarch64 =
        file.elf().cpu_architecture() == v1::CPU_ARCHITECTURE_AARCH64;
    if (!build.aarch64) continue;
    for (const std::string& needed : file.elf().needed()) {
      if (build.l4t_library.empty() && IsL4tLibrary(needed)) {
        build.l4t_library = Printable(needed);
      }
    }
    std::set<uint32_t> numbers;
    for (const v1::Fatbin& fatbin : file.fatbins()) {
      for (const v1::Image& image : fatbin.images()) {
        if (image.kind() == v1::IMAGE_KIND_SASS ||
            image.kind() == v1::IMAGE_KIND_RELOCATABLE_SASS) {
          numbers.insert(image.target().number());
        }
      }
    }
    if (numbers.empty()) continue;
    build.one_toolkit = file.elf().cudart().major() >= 13;
    std::vector<std::string> names;
    for (const uint32_t number : numbers) {
      names.push_back(absl::StrCat("sm_", number));
    }
    build.targets = absl::StrJoin(names, ", ");
    build.numbers.assign(numbers.begin(), numbers.end());
  }
  for (size_t i = 0; i < builds_.size(); ++i) {
    builds_[i].starts = loader_.Starts(i);
  }
}

void NameForwardCompat(const v1::Driver& driver, v1::PathPrediction& path) {
  if (path.outcome() == v1::OUTCOME_NO_DEVICE_CODE ||
      FirstCode(path) == "TP121" || FirstCode(path) == "TP124") {
    return;
  }
  const std::string place =
      driver.libcuda_path().empty()
          ? ""
          : absl::StrCat(" at ", Printable(driver.libcuda_path()));
  *path.add_reasons() = MakeReason(
      "TP120",
      absl::StrCat("libcuda ", Printable(driver.libcuda_version()), place));
}

void HostEffects::Apply(
    const v1::HostFacts& facts, const v1::Gpu& gpu, const Tables& tables,
    const EffectScope& scope, Paths* paths,
    google::protobuf::RepeatedPtrField<v1::FilePrediction>* files,
    google::protobuf::RepeatedPtrField<v1::ResolvedLibrary>* libraries) const {
  absl::flat_hash_map<absl::string_view, v1::FilePrediction*> by_name;
  if (files != nullptr) {
    for (v1::FilePrediction& file : *files) by_name.emplace(file.name(), &file);
  }
  std::vector<bool> chosen(builds_.size(), scope.files.empty());
  for (const size_t file : scope.files) chosen[file] = true;
  const auto in_scope = [&chosen](size_t file) { return chosen[file]; };
  const size_t count =
      scope.files.empty() ? builds_.size() : scope.files.size();
  const auto label = [&](size_t file) -> std::string {
    return count > 1 ? report_.files(static_cast<int>(file)).name()
                     : std::string();
  };
  const auto file_paths = [&](size_t file) -> Paths* {
    const auto it = by_name.find(report_.files(static_cast<int>(file)).name());
    return it == by_name.end() ? nullptr : it->second->mutable_paths();
  };

  // An entry's program starts whatever its kind.
  std::vector<bool> started(builds_.size());
  if (scope.started && !builds_[*scope.started].starts) {
    for (const size_t member : loader_.Closure(*scope.started)) {
      started[member] = true;
    }
  }
  const auto starts = [&](size_t file) {
    return builds_[file].starts || started[file];
  };

  const auto find = [&](const LoaderAnswer& answer, Which which) {
    for (const LoaderFinding& finding : answer.findings) {
      if (!in_scope(finding.file)) continue;
      Paths* const own = file_paths(finding.file);
      for (const v1::Reason& remark : finding.remarks) {
        Remark(remark, label(finding.file), *paths, which);
        if (own != nullptr) Remark(remark, "", *own, which);
      }
      if (!finding.blocker) continue;
      if (starts(finding.file)) {
        Block(*finding.blocker, label(finding.file), *paths, which);
        if (own != nullptr) Block(*finding.blocker, "", *own, which);
      } else {
        // What the process has loaded already comes first (ld.so(8)).
        Remark(finding.blocker->reason, label(finding.file), *paths, which);
        if (own != nullptr) Remark(finding.blocker->reason, "", *own, which);
      }
    }
  };
  LoaderAnswer loaded =
      loader_.Resolve(facts, gpu, tables, scope.started, scope.inherits);
  if (scope.inherits && facts.loader().library_path_size() > 0) {
    find(loader_.Resolve(facts, gpu, tables, scope.started,
                         /*inherits=*/false),
         Which::kRuns);
    find(loaded, Which::kUsers);
  } else {
    find(loaded, Which::kAll);
  }
  if (libraries != nullptr) {
    for (v1::ResolvedLibrary& library : loaded.libraries) {
      *libraries->Add() = std::move(library);
    }
  }

  // Server Arm against Tegra. What could not load anyway is named for what it
  // is; what may load stays as it was, with a warning.
  const bool tegra = facts.platform() == v1::PLATFORM_TEGRA;
  const bool other = facts.platform() == v1::PLATFORM_STANDARD ||
                     facts.platform() == v1::PLATFORM_WSL;
  const auto has_code = [this](size_t file) {
    return report_.files(static_cast<int>(file)).fatbins_size() > 0;
  };
  bool all_need_l4t = true;
  for (size_t i = 0; i < builds_.size(); ++i) {
    if (in_scope(i) && builds_[i].aarch64 && has_code(i)) {
      all_need_l4t &= !builds_[i].l4t_library.empty();
    }
  }
  for (size_t i = 0; i < builds_.size(); ++i) {
    const Build& build = builds_[i];
    if (!build.aarch64 || !in_scope(i) ||
        facts.cpu_architecture() != v1::CPU_ARCHITECTURE_AARCH64) {
      continue;
    }
    if (other && !build.l4t_library.empty()) {
      const Blocker blocker{
          v1::OUTCOME_FAILS,
          MakeReason("TP209", absl::StrCat("needs ", build.l4t_library,
                                           " of Jetson's L4T; the host is no "
                                           "Jetson")),
          ""};
      if (starts(i) || (all_need_l4t && has_code(i))) {
        Block(blocker, label(i), *paths);
      } else {
        Remark(MakeReason("TP249", absl::StrCat(blocker.reason.detail(),
                                                "; no program of the artifact "
                                                "loads it by itself")),
               label(i), *paths);
      }
      if (Paths* own = file_paths(i)) Block(blocker, "", *own);
      continue;
    }
    if (build.one_toolkit || build.numbers.empty()) continue;
    const auto for_tegra = [&tables](uint32_t number) {
      return IsTegraTarget(number, tables);
    };
    const bool crossed =
        (tegra &&
         std::none_of(build.numbers.begin(), build.numbers.end(), for_tegra)) ||
        (other &&
         std::all_of(build.numbers.begin(), build.numbers.end(), for_tegra));
    if (!crossed) continue;
    const std::string text =
        absl::StrCat("holds ", build.targets, ": a build for ",
                     tegra ? "Arm servers, and the host is a Jetson"
                           : "Jetson, and the host is an Arm server");
    const auto mark = [&](v1::PathPrediction& path, absl::string_view file) {
      // The whole names the file its first reason is about.
      if (!file.empty() &&
          !absl::StartsWith(
              path.reasons_size() > 0 ? path.reasons(0).detail() : "",
              absl::StrCat(file, ": "))) {
        return;
      }
      const absl::string_view code = FirstCode(path);
      if (path.outcome() == v1::OUTCOME_FAILS && code == "TP201") {
        const v1::Reason& first = path.reasons(0);
        PutFirst(Named(MakeReason("TP209", text,
                                  tegra ? "take the package for Jetson"
                                        : "take the package for Arm servers "
                                          "(sbsa)",
                                  first.cuda_error()),
                       file),
                 path);
      } else if (path.outcome() == v1::OUTCOME_UNKNOWN && code == "TP210") {
        *path.add_reasons() = Named(MakeReason("TP249", text), file);
      }
    };
    for (v1::PathPrediction& path : *paths) mark(path, label(i));
    if (Paths* own = file_paths(i)) {
      for (v1::PathPrediction& path : *own) mark(path, "");
    }
  }

  // Variables of the host.
  const Inherited inherited = InheritedBy(facts, gpu, tables);
  if (scope.inherits) {
    ApplyInherited(inherited, paths);
    if (files != nullptr) {
      for (v1::FilePrediction& file : *files) {
        ApplyInherited(inherited, file.mutable_paths());
      }
    }
  }
  v1::PathPrediction& plain = *paths->Mutable(kPlain);
  for (const v1::EnvironmentLeak& leak : facts.leaks()) {
    if (leak.variable() == "CUDA_VISIBLE_DEVICES" && IsInherited(leak)) {
      continue;
    }
    if (auto reason = ReasonOfLeak(leak)) *plain.add_reasons() = *reason;
  }
  if (inherited.devices) *plain.add_reasons() = *inherited.devices;
  if (!scope.inherits && inherited.no_devices != nullptr) {
    *plain.add_reasons() = MakeReason(
        "TP123",
        absl::StrCat(DescribeLeak(*inherited.no_devices), " leaves no GPU"));
  }

  if (facts.driver().has_forward_compat()) {
    NameForwardCompat(facts.driver(), plain);
  }
  if (facts.platform() == v1::PLATFORM_WSL && !FirstCode(plain).empty() &&
      (absl::StartsWith(FirstCode(plain), "TP1") ||
       FirstCode(plain) == "TP207" || FirstCode(plain) == "TP204" ||
       FirstCode(plain) == "TP211")) {
    *plain.add_reasons() = MakeReason(
        "TP125", absl::StrCat("Windows driver ",
                              facts.driver().kernel_module_version()));
  }
}

}  // namespace twinpath::compat
