// The driver's choice: which image of a fatbin it takes on each path and what
// comes of it. Measured rules (docs/compat-model.md, docs/gpu-runs.md):
// machine code beats PTX, the nearest target of a kind wins, and after the
// choice nothing else is tried. Kinds are ranked as the driver ranks them:
// machine code, kind 0x10, PTX, the rest.

#ifndef TWINPATH_COMPAT_IMAGE_RULES_H_
#define TWINPATH_COMPAT_IMAGE_RULES_H_

#include <array>
#include <cstdint>

#include "compat/host_check.h"
#include "compat/prepared.h"
#include "compat/tables.h"
#include "twinpath/v1/prediction.pb.h"

namespace twinpath::compat::internal {

// Why a decision is what it is; each has a reason code.
enum class Cause : uint8_t {
  kMachineCode,
  kPtx,
  kNoImage,
  kNoPtx,
  kPtxTargetTooNew,
  kPtxNewerThanDriver,
  kPtxInvalid,
  kJitDisabled,
  kJitLibraryMissing,
  kJitLibraryUnknown,
  kCeilingUnknown,
  kSuffix,
  kTegra,
  kTargetUnknown,
  kCompression,
  kLtoOnly,
  kUnknownKind,
  kDamaged,
  kTileIr,
  kPayloadForOtherGpu,
  kObfuscated,
  kDeviceRuntime,
  kToolkitNewerThanDriver,
};

struct Decision {
  v1::Outcome outcome = v1::OUTCOME_FAILS;
  Cause cause = Cause::kNoImage;
  uint32_t cuda_error = 0;
  // The image chosen, or the one that decided; nullptr: none.
  const ImageView* image = nullptr;

  bool loads() const {
    return outcome == v1::OUTCOME_NATIVE || outcome == v1::OUTCOME_JIT;
  }
};

// The paths in the order of every list of three.
inline constexpr std::array<v1::Path, 3> kPaths = {
    v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN};
inline constexpr size_t kNative = 0;
inline constexpr size_t kPtxJit = 1;
inline constexpr size_t kPlain = 2;

using Decisions = std::array<Decision, 3>;

// Decides a fatbin (or bare image) on the three paths.
Decisions DecideFatbin(const FatbinView& fatbin, const HostView& host,
                       const Tables& tables);

// Decides one image as if it stood alone in a fatbin like its own.
Decisions DecideImage(const FatbinView& fatbin, const ImageView& image,
                      const HostView& host, const Tables& tables);

// Reason code of a cause, "TP204".
const char* CodeOf(Cause cause);

}  // namespace twinpath::compat::internal

#endif  // TWINPATH_COMPAT_IMAGE_RULES_H_
