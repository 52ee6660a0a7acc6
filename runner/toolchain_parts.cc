#include "runner/toolchain_parts.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/target_name.h"
#include "base/text.h"

namespace twinpath::runner {
namespace {

// CUDA errors that tell a host's fault apart (CUresult).
constexpr uint32_t kStubLibrary = 34;
constexpr uint32_t kNoDevice = 100;
constexpr uint32_t kSystemDriverMismatch = 803;

v1::Reason OfProbe(const v1::ProbeResult& probe, absl::string_view absent) {
  absl::string_view code = "TP102";
  if (probe.state() == v1::PROBE_STATE_ABSENT) {
    code = absent;
  } else if (probe.state() == v1::PROBE_STATE_HUNG) {
    code = "TP103";
  } else if (probe.cuda_error() == kSystemDriverMismatch) {
    code = "TP104";
  } else if (probe.cuda_error() == kStubLibrary) {
    code = "TP105";
  } else if (probe.cuda_error() == kNoDevice) {
    code = "TP106";
  }
  v1::Reason reason =
      ToolchainReason(code, probe.error().empty() ? "the driver does not answer"
                                                  : probe.error());
  reason.set_cuda_error(probe.cuda_error());
  return reason;
}

bool Works(const v1::ProbeResult& probe) {
  return probe.state() == v1::PROBE_STATE_OK;
}

bool IsMigParent(const v1::Gpu& gpu) {
  return gpu.mig_mode() == v1::MIG_MODE_ENABLED && gpu.parent_uuid().empty();
}

ToolchainGpu OfGpu(const v1::Gpu& gpu) {
  ToolchainGpu result;
  result.uuid = gpu.uuid();
  if (IsMigParent(gpu)) {
    result.reasons.push_back(ToolchainReason(
        "TP112", absl::StrCat(gpu.uuid(),
                              " is in MIG mode: programs run on its compute "
                              "instances, name one of these")));
  } else if (!Works(gpu.capability_probe()) ||
             gpu.compute_capability().major() == 0) {
    result.reasons.push_back(ToolchainReason(
        "TP107", absl::StrCat(gpu.uuid(), ": ",
                              gpu.capability_probe().error().empty()
                                  ? "no compute capability"
                                  : gpu.capability_probe().error())));
    result.reasons.back().set_cuda_error(gpu.capability_probe().cuda_error());
  } else {
    result.compute_capability = gpu.compute_capability();
    result.target = TargetOfCapability(gpu.compute_capability());
  }
  return result;
}

ToolchainGpu NoGpu(std::string uuid, v1::Reason reason) {
  ToolchainGpu result;
  result.uuid = std::move(uuid);
  result.reasons.push_back(std::move(reason));
  return result;
}

bool SameTarget(const v1::Target& a, const v1::Target& b) {
  return a.number() == b.number() && a.suffix() == b.suffix();
}

std::string ImageName(const v1::Image& image) {
  switch (image.kind()) {
    case v1::IMAGE_KIND_SASS:
      return ToolchainTargetName(image.target(), false);
    case v1::IMAGE_KIND_PTX:
      return absl::StrCat("PTX for ",
                          ToolchainTargetName(image.target(), true));
    case v1::IMAGE_KIND_RELOCATABLE_SASS:
      return absl::StrCat("unlinked ",
                          ToolchainTargetName(image.target(), false));
    case v1::IMAGE_KIND_RELOCATABLE_PTX:
      return absl::StrCat("unlinked PTX for ",
                          ToolchainTargetName(image.target(), true));
    case v1::IMAGE_KIND_LTO_IR:
      return absl::StrCat("LTO-IR for ",
                          ToolchainTargetName(image.target(), false));
    default:
      return absl::StrCat("an image of kind ", image.kind_number());
  }
}

bool HasKernel(const v1::Image& image, absl::string_view kernel) {
  return std::any_of(
      image.kernels().begin(), image.kernels().end(),
      [kernel](const v1::Kernel& one) { return one.name() == kernel; });
}

}  // namespace

v1::Reason ToolchainReason(absl::string_view code, absl::string_view detail) {
  v1::Reason reason;
  reason.set_code(std::string(code));
  reason.set_detail(std::string(detail));
  return reason;
}

std::vector<ToolchainGpu> GpusToCheck(const v1::ProbeResponse& probe,
                                      const std::vector<std::string>& uuids,
                                      bool one_of_each_model) {
  std::vector<ToolchainGpu> result;
  v1::Reason fault;
  if (!Works(probe.driver().probe())) {
    fault = OfProbe(probe.driver().probe(), "TP101");
  } else if (!Works(probe.gpu_probe())) {
    // NVML may list GPUs that CUDA gives to nobody here.
    fault = OfProbe(probe.gpu_probe(), "TP106");
  } else if (probe.gpus().empty()) {
    fault = ToolchainReason("TP106", "the driver lists no GPU");
  }
  if (!fault.code().empty()) {
    if (uuids.empty()) result.push_back(NoGpu("", fault));
    for (const std::string& uuid : uuids) result.push_back(NoGpu(uuid, fault));
    return result;
  }
  for (const std::string& uuid : uuids) {
    const auto found = std::find_if(
        probe.gpus().begin(), probe.gpus().end(),
        [&uuid](const v1::Gpu& gpu) { return gpu.uuid() == uuid; });
    if (found == probe.gpus().end()) {
      result.push_back(NoGpu(
          uuid,
          ToolchainReason("TP106", absl::StrCat("the driver lists no GPU ",
                                                Printable(uuid)))));
    } else {
      result.push_back(OfGpu(*found));
    }
  }
  if (!uuids.empty()) return result;
  std::set<std::string> models;
  for (const v1::Gpu& gpu : probe.gpus()) {
    // A parent with instances is no device of its own, and no fault.
    const bool has_instances = std::any_of(
        probe.gpus().begin(), probe.gpus().end(), [&gpu](const v1::Gpu& other) {
          return !gpu.uuid().empty() && other.parent_uuid() == gpu.uuid();
        });
    if (IsMigParent(gpu) && has_instances) continue;
    ToolchainGpu one = OfGpu(gpu);
    if (one.reasons.empty() && one_of_each_model &&
        !models
             .insert(absl::StrCat(gpu.name(), " ",
                                  gpu.compute_capability().major(), ".",
                                  gpu.compute_capability().minor()))
             .second) {
      continue;
    }
    result.push_back(std::move(one));
  }
  return result;
}

v1::Target TargetOfCapability(const v1::Version& capability) {
  v1::Target target;
  target.set_number(capability.major() * 10 + capability.minor());
  target.set_suffix(v1::TARGET_SUFFIX_NONE);
  return target;
}

std::string ToolchainTargetName(const v1::Target& target, bool ptx) {
  return FormatTarget(ptx ? "compute" : "sm", target.number(),
                      target.suffix() == v1::TARGET_SUFFIX_ARCH     ? 'a'
                      : target.suffix() == v1::TARGET_SUFFIX_FAMILY ? 'f'
                                                                    : '\0');
}

v1::Reason LookUpTarget(const v1::Toolkit& toolkit, const v1::Target& target) {
  std::vector<std::string> names;
  for (const v1::Target& listed : toolkit.targets()) {
    // Newer toolkits list numbers alone and take each with its suffixes.
    if (SameTarget(listed, target) ||
        (listed.number() == target.number() &&
         listed.suffix() == v1::TARGET_SUFFIX_NONE)) {
      return {};
    }
    names.push_back(ToolchainTargetName(listed, false));
  }
  return ToolchainReason(
      "TP110", absl::StrCat("nvcc ", toolkit.nvcc_version(), " in ",
                            Printable(toolkit.path()), " does not list ",
                            ToolchainTargetName(target, false), "; it lists ",
                            absl::StrJoin(names, " ")));
}

std::vector<std::string> CompileArguments(const std::string& nvcc,
                                          const v1::Target& target,
                                          const std::string& source,
                                          const std::string& output) {
  const std::string virtual_name = ToolchainTargetName(target, true);
  return {nvcc,
          "--verbose",
          "-cudart",
          "static",
          "-gencode",
          absl::StrCat("arch=", virtual_name,
                       ",code=", ToolchainTargetName(target, false)),
          "-gencode",
          absl::StrCat("arch=", virtual_name, ",code=", virtual_name),
          "-o",
          output,
          source};
}

std::string HostCompilerOf(absl::string_view verbose) {
  for (absl::string_view line : absl::StrSplit(verbose, '\n')) {
    if (!absl::ConsumePrefix(&line, "#$ ") ||
        !absl::StrContains(line, " -E ")) {
      continue;
    }
    if (absl::ConsumePrefix(&line, "\"")) {
      return std::string(line.substr(0, line.find('"')));
    }
    return std::string(line.substr(0, line.find(' ')));
  }
  return "";
}

std::vector<v1::Reason> CheckBuilt(const v1::FileReport& report,
                                   const v1::Target& target,
                                   absl::string_view kernel,
                                   v1::CpuArchitecture host) {
  std::vector<v1::Reason> reasons;
  const auto add = [&reasons](absl::string_view detail) {
    reasons.push_back(ToolchainReason("TP133", detail));
  };
  if (report.kind() != v1::FILE_KIND_ELF_EXECUTABLE) {
    add("the file is no ELF executable");
    return reasons;
  }
  if (report.elf().cpu_architecture() != host) {
    add("the host half is for another CPU than this host's");
  }
  const std::string sass = ToolchainTargetName(target, false);
  const std::string ptx = ToolchainTargetName(target, true);
  bool has_sass = false;
  bool has_ptx = false;
  bool sass_kernel = false;
  bool ptx_kernel = false;
  bool ptx_version = true;
  std::set<std::string> others;
  uint64_t images = 0;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      ++images;
      const bool exact = SameTarget(image.target(), target);
      if (exact && image.kind() == v1::IMAGE_KIND_SASS) {
        has_sass = true;
        sass_kernel |= HasKernel(image, kernel);
      } else if (exact && image.kind() == v1::IMAGE_KIND_PTX) {
        has_ptx = true;
        ptx_version &= image.ptx_isa().major() > 0;
        ptx_kernel |= HasKernel(image, kernel);
      } else {
        others.insert(ImageName(image));
      }
    }
  }
  if (images == 0) {
    add("the file holds no device code at all");
    return reasons;
  }
  if (!has_sass) {
    add(absl::StrCat("no machine code for ", sass));
  } else if (!sass_kernel) {
    add(absl::StrCat("the machine code for ", sass, " lacks the kernel ",
                     kernel));
  }
  if (!has_ptx) {
    add(absl::StrCat("no PTX for ", ptx));
  } else if (!ptx_kernel) {
    add(absl::StrCat("the PTX for ", ptx, " lacks the entry ", kernel));
  } else if (!ptx_version) {
    add(absl::StrCat("the PTX for ", ptx, " states no version"));
  }
  if (!others.empty()) {
    add(absl::StrCat("it holds what was not asked for: ",
                     absl::StrJoin(others, ", ")));
  }
  for (const v1::Reason& problem : report.problems()) {
    // Nothing this small has a part that cannot be read; the rest are notes of
    // the file's own.
    if (problem.code() == "TP240") continue;
    add(absl::StrCat(problem.code(), ": ", problem.detail()));
  }
  return reasons;
}

std::vector<v1::Reason> CheckCheckRun(const v1::Observation& run,
                                      absl::string_view success) {
  std::vector<v1::Reason> reasons;
  const std::string problem =
      run.problem().empty() ? "" : absl::StrCat(": ", run.problem());
  switch (run.ending()) {
    case v1::ENDING_EXITED:
      if (run.exit_code() != 0) {
        reasons.push_back(
            ToolchainReason("TP302", absl::StrCat("exit ", run.exit_code())));
      } else if (!absl::StrContains(run.stdout().head(), success)) {
        reasons.push_back(ToolchainReason(
            "TP303",
            absl::StrCat("exit 0 without the line \"", success, "\"")));
      }
      break;
    case v1::ENDING_SIGNALED:
      reasons.push_back(ToolchainReason(
          "TP305", absl::StrCat("signal ", run.signal(), problem)));
      break;
    case v1::ENDING_TIMED_OUT:
      reasons.push_back(
          ToolchainReason("TP304", absl::StrCat("time limit", problem)));
      break;
    case v1::ENDING_INTERRUPTED:
      reasons.push_back(
          ToolchainReason("TP307", absl::StrCat("interrupted", problem)));
      break;
    default:
      reasons.push_back(ToolchainReason(
          absl::StartsWith(run.problem(), "TP114") ? "TP114" : "TP306",
          absl::StrCat("not started", problem)));
  }
  return reasons;
}

std::vector<v1::Reason> CheckJitProof(const v1::Observation& proof) {
  const v1::CacheEvidence& cache = proof.cache();
  bool compiled = cache.files() > 0;
  if (!cache.driver_built().empty() && !cache.writers().empty() &&
      !cache.writers_left_out()) {
    compiled = std::any_of(cache.writers().begin(), cache.writers().end(),
                           [&cache](const v1::CacheWriter& writer) {
                             return writer.built() == cache.driver_built();
                           });
  }
  if (cache.observed() && compiled) return {};
  return {ToolchainReason(
      "TP309", "the repeat with an empty cache folder left no compiled file")};
}

std::string ResolvedPath(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? path : resolved;
}

}  // namespace twinpath::runner
