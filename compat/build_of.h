// The build an artifact comes from, as far as its content tells, and what it
// would be with another target: the compiler that writes it, and a report that
// holds only the new image behind the same host half. Pure functions;
// thread-safe.

#ifndef TWINPATH_COMPAT_BUILD_OF_H_
#define TWINPATH_COMPAT_BUILD_OF_H_

#include <optional>
#include <string>

#include "compat/tables.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

struct Build {
  // Toolkit it was made with: the newest its images name, else that of the
  // runtime, else that of its newest PTX; nullopt: nothing tells.
  std::optional<TwoPart> toolkit;
  // Last toolkit that knows all its targets; nullopt: all still known.
  std::optional<TwoPart> toolkit_last;
};

// Files of NVIDIA's own libraries do not count: nobody builds them here.
Build BuildOf(const v1::ArtifactReport& report, const Tables& tables);

// One more target.
struct TargetChoice {
  const GpuRow* gpu = nullptr;
  bool ptx = false;
  // Toolkit that writes it: the build's own where it knows the target.
  TwoPart toolkit;
  // The build's own compiler cannot do it beside the other targets.
  bool other_build = false;
};

// How a target would be built; nullopt: no known toolkit does.
std::optional<TargetChoice> ChooseToolkit(const GpuRow& gpu, bool ptx,
                                          const Build& build);

// The artifact with this one image in place of its own device code.
v1::ArtifactReport WithOnly(const v1::ArtifactReport& report,
                            const TargetChoice& choice, const Build& build,
                            const Tables& tables);

// "-gencode arch=compute_121,code=sm_121 (nvcc 12.9 or later)".
std::string FlagOf(const TargetChoice& choice, const Tables& tables);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_BUILD_OF_H_
