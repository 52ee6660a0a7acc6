// What the configuration of an oci_image makes of programs in its containers:
// whether its own requirement holds on a host, JIT switches, variables that
// hide the GPU, a forward-compatibility libcuda it brings. And which files of a
// report are the image's. Pure functions; thread-safe.
//
// Sources: NVIDIA Container Toolkit, "Specialized configurations with Docker"
// (NVIDIA_VISIBLE_DEVICES, NVIDIA_DRIVER_CAPABILITIES, NVIDIA_REQUIRE_*:
// constraints behind blanks are alternatives, behind commas they hold together,
// several variables hold together; NVIDIA_DISABLE_REQUIRE); CDI looks at none
// of them.

#ifndef TWINPATH_COMPAT_IMAGE_ENVIRONMENT_H_
#define TWINPATH_COMPAT_IMAGE_ENVIRONMENT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compat/tables.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

// What a requirement is held against.
struct RequirementFacts {
  // "12.4", "550.54.15", "9.0"; empty: not known.
  std::string cuda;
  std::string driver;
  std::string arch;
  // "tesla"; empty: not known.
  std::string brand;
};

enum class Holds { kYes, kNo, kUnknown };

// Whether "cuda>=12.8 brand=tesla,driver>=470,driver<471" holds. kUnknown where
// it depends on something that is not known, or is no requirement.
Holds EvaluateRequirement(absl::string_view requirement,
                          const RequirementFacts& facts);

// What stands out in an image's variables, for a container on this GPU: TP339;
// nothing that a run of Twinpath's changes. `files`: those of the image, for a
// libcuda it brings (TP120, TP121, TP124).
std::vector<v1::Reason> JudgeImage(
    const v1::OciImageFacts& image,
    const std::vector<const v1::FileReport*>& files, const v1::HostFacts& facts,
    const v1::Gpu& gpu, const Tables& tables);

// An image in a report.
struct ImagePlace {
  const v1::OciImageFacts* image = nullptr;
  // What the names of its files begin with, "image.tar!/linux-arm64:/".
  std::string prefix;

  // Whether the report's file is one of the image.
  bool Holds(const v1::FileReport& file) const;
  // Names in the report that a command of the image may have, the first to be
  // tried first: by the image's PATH and working folder. Links are not
  // followed.
  std::vector<std::string> ProgramNames(absl::string_view command) const;
};

// The image that an entry of kind OCI names, by the digest of its manifest or
// by its id; absent where the report holds none.
std::optional<ImagePlace> FindImage(const v1::ArtifactReport& report,
                                    absl::string_view digest);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_IMAGE_ENVIRONMENT_H_
