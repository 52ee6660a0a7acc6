#include "verdict/expect.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "base/target_name.h"
#include "base/unread.h"
#include "compat/reason.h"
#include "verdict/pattern.h"

namespace twinpath::verdict {
namespace {

// Number and suffix, ordered.
using TargetKey = std::pair<uint32_t, v1::TargetSuffix>;

TargetKey KeyOf(const v1::Target& target) {
  // A declaration without suffix means base code.
  return {target.number(), target.suffix() == v1::TARGET_SUFFIX_UNSPECIFIED
                               ? v1::TARGET_SUFFIX_NONE
                               : target.suffix()};
}

std::string NameOf(absl::string_view prefix, const TargetKey& key) {
  const char suffix = key.second == v1::TARGET_SUFFIX_ARCH     ? 'a'
                      : key.second == v1::TARGET_SUFFIX_FAMILY ? 'f'
                                                               : '\0';
  return FormatTarget(prefix, key.first, suffix);
}

bool IsSass(v1::ImageKind kind) {
  return kind == v1::IMAGE_KIND_SASS || kind == v1::IMAGE_KIND_RELOCATABLE_SASS;
}

bool IsPtx(v1::ImageKind kind) {
  return kind == v1::IMAGE_KIND_PTX || kind == v1::IMAGE_KIND_RELOCATABLE_PTX;
}

bool IsRelocatable(v1::ImageKind kind) {
  return kind == v1::IMAGE_KIND_RELOCATABLE_SASS ||
         kind == v1::IMAGE_KIND_RELOCATABLE_PTX;
}

// Relocatable images reach the driver only through a wrapper; in a file that
// has none by nature (an object before its link) they are what was asked about.
bool Counts(const v1::Fatbin& fatbin, const v1::Image& image) {
  if (fatbin.registration() == v1::REGISTRATION_LEFT_OVER) return false;
  if (!IsRelocatable(image.kind())) return true;
  return fatbin.registration() == v1::REGISTRATION_REGISTERED ||
         fatbin.registration() == v1::REGISTRATION_NOT_APPLICABLE;
}

struct KernelPlaces {
  std::set<TargetKey> sass;
  bool ptx = false;
};

struct Content {
  std::set<TargetKey> sass;
  std::set<TargetKey> ptx;
  std::map<std::string, KernelPlaces> kernels;
  // Something was not read to its end: an absent target may be there.
  bool targets_unsure = false;
  // The same for kernels.
  bool kernels_unsure = false;
};

void AddImage(const v1::Image& image, Content& content) {
  const TargetKey key = KeyOf(image.target());
  const bool opaque = image.compression() == v1::COMPRESSION_OPAQUE;
  if (!image.problem().empty() && !opaque) {
    // A payload that is broken is no code for its target.
    content.targets_unsure = true;
    content.kernels_unsure = true;
    return;
  }
  if (IsSass(image.kind())) {
    content.sass.insert(key);
  } else if (IsPtx(image.kind())) {
    content.ptx.insert(key);
  } else {
    if (image.kind() != v1::IMAGE_KIND_LTO_IR) {
      content.targets_unsure = true;
      content.kernels_unsure = true;
    }
    return;
  }
  if (!image.kernels_read()) content.kernels_unsure = true;
  for (const v1::Kernel& kernel : image.kernels()) {
    KernelPlaces& places = content.kernels[kernel.name()];
    if (IsSass(image.kind())) {
      places.sass.insert(key);
    } else {
      places.ptx = true;
    }
  }
}

Content ContentOf(const v1::ArtifactReport& report) {
  Content content;
  // No report is no knowledge, not an empty artifact.
  content.targets_unsure = content.kernels_unsure = report.files_size() == 0;
  for (const v1::FileReport& file : report.files()) {
    const bool unread =
        FirstUnread(file.problems()) != nullptr ||
        file.kind() == v1::FILE_KIND_UNSPECIFIED ||
        file.kind() == v1::FILE_KIND_PACKED ||
        (file.kind() == v1::FILE_KIND_ARCHIVE && !file.has_carrier()) ||
        file.kind() == v1::FILE_KIND_DAMAGED_ELF;
    content.targets_unsure |= unread;
    content.kernels_unsure |= unread;
    for (const v1::Fatbin& fatbin : file.fatbins()) {
      if (fatbin.damaged()) {
        content.targets_unsure = true;
        content.kernels_unsure = true;
      }
      for (const v1::Image& image : fatbin.images()) {
        if (Counts(fatbin, image)) AddImage(image, content);
      }
    }
  }
  return content;
}

v1::Finding Missing(absl::string_view code, std::string detail, bool unsure) {
  v1::Finding finding;
  if (unsure) {
    absl::StrAppend(&detail, "; a part of the artifact could not be read");
    code = "TP232";
  }
  *finding.mutable_reason() = compat::MakeReason(code, detail);
  finding.set_severity(v1::SEVERITY_ERROR);
  finding.set_scope(v1::FINDING_SCOPE_ARTIFACT);
  finding.set_mismatch(true);
  return finding;
}

void CheckKernel(const v1::ExpectedKernel& expected, absl::string_view name,
                 const KernelPlaces& places, bool unsure,
                 std::vector<v1::Finding>& findings) {
  for (const v1::Target& target : expected.targets()) {
    const TargetKey key = KeyOf(target);
    if (places.sass.contains(key)) continue;
    findings.push_back(
        Missing("TP408",
                absl::StrCat("kernel ", name, " has no machine code for ",
                             NameOf("sm", key)),
                unsure));
  }
  if (expected.ptx() && !places.ptx) {
    findings.push_back(
        Missing("TP408", absl::StrCat("kernel ", name, " has no PTX"), unsure));
  }
}

void CheckKernels(const v1::Expectation& expectation, const Content& content,
                  std::vector<v1::Finding>& findings) {
  for (const v1::ExpectedKernel& expected : expectation.kernels()) {
    if (!expected.is_pattern()) {
      const auto found = content.kernels.find(expected.name());
      if (found == content.kernels.end()) {
        findings.push_back(Missing("TP408",
                                   absl::StrCat("no kernel ", expected.name()),
                                   content.kernels_unsure));
      } else {
        CheckKernel(expected, expected.name(), found->second,
                    content.kernels_unsure, findings);
      }
      continue;
    }
    const absl::StatusOr<Pattern> pattern = Pattern::Compile(expected.name());
    if (!pattern.ok()) {
      findings.push_back(Missing(
          "TP408",
          absl::StrCat("pattern ",
                       absl::string_view(expected.name()).substr(0, 200), ": ",
                       MessageOf(pattern.status())),
          false));
      continue;
    }
    bool matched = false;
    for (const auto& [name, places] : content.kernels) {
      if (!pattern->Matches(name)) continue;
      matched = true;
      CheckKernel(expected, name, places, content.kernels_unsure, findings);
    }
    if (!matched) {
      findings.push_back(
          Missing("TP408", absl::StrCat("no kernel matches ", expected.name()),
                  content.kernels_unsure));
    }
  }
}

using VersionKey = std::pair<uint32_t, uint32_t>;

// One finding for each file and PTX ISA outside the range.
void CheckPtxIsa(const v1::Expectation& expectation,
                 const v1::ArtifactReport& report,
                 std::vector<v1::Finding>& findings) {
  if (!expectation.has_ptx_isa_min() && !expectation.has_ptx_isa_max()) return;
  const VersionKey low{expectation.ptx_isa_min().major(),
                       expectation.ptx_isa_min().minor()};
  const VersionKey high{expectation.ptx_isa_max().major(),
                        expectation.ptx_isa_max().minor()};
  for (const v1::FileReport& file : report.files()) {
    std::set<VersionKey> outside;
    bool unknown = false;
    for (const v1::Fatbin& fatbin : file.fatbins()) {
      for (const v1::Image& image : fatbin.images()) {
        if (!IsPtx(image.kind()) || !Counts(fatbin, image)) continue;
        if (!image.has_ptx_isa() || image.ptx_isa().major() == 0) {
          unknown = true;
          continue;
        }
        const VersionKey isa{image.ptx_isa().major(), image.ptx_isa().minor()};
        if ((expectation.has_ptx_isa_min() && isa < low) ||
            (expectation.has_ptx_isa_max() && isa > high)) {
          outside.insert(isa);
        }
      }
    }
    for (const VersionKey& isa : outside) {
      v1::Finding finding =
          Missing("TP409",
                  absl::StrCat("PTX ISA ", isa.first, ".", isa.second, " in ",
                               file.name(), " is outside the declared range"),
                  false);
      finding.set_scope(v1::FINDING_SCOPE_FILE);
      finding.set_file(file.name());
      findings.push_back(std::move(finding));
    }
    if (unknown) {
      v1::Finding finding =
          Missing("TP232",
                  absl::StrCat("the PTX ISA of an image in ", file.name(),
                               " could not be read"),
                  true);
      finding.set_scope(v1::FINDING_SCOPE_FILE);
      finding.set_file(file.name());
      findings.push_back(std::move(finding));
    }
  }
}

}  // namespace

std::vector<v1::Finding> CheckExpectation(const v1::Expectation& expectation,
                                          const v1::ArtifactReport& report) {
  const Content content = ContentOf(report);
  std::vector<v1::Finding> findings;
  for (const v1::Target& target : expectation.sass_targets()) {
    const TargetKey key = KeyOf(target);
    if (content.sass.contains(key)) continue;
    findings.push_back(Missing(
        "TP407", absl::StrCat("no machine code for ", NameOf("sm", key)),
        content.targets_unsure));
  }
  for (const v1::Target& target : expectation.ptx_targets()) {
    const TargetKey key = KeyOf(target);
    if (content.ptx.contains(key)) continue;
    findings.push_back(
        Missing("TP407", absl::StrCat("no PTX for ", NameOf("compute", key)),
                content.targets_unsure));
  }
  CheckPtxIsa(expectation, report, findings);
  CheckKernels(expectation, content, findings);
  return findings;
}

}  // namespace twinpath::verdict
