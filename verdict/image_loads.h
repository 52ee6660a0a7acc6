// Images given to a driver, held against what was predicted for each, and the
// verdict on an entry of kind IMAGES. What keeps it from passing is always
// said: an image that should load and does not fails (TP335), an answer that
// differs from the prediction is a finding whichever way it differs (TP430), an
// image without an answer leaves it open (TP336). Pieces of a link that others
// complete are named and are no failure (TP337). Pure functions; thread-safe.

#ifndef TWINPATH_VERDICT_IMAGE_LOADS_H_
#define TWINPATH_VERDICT_IMAGE_LOADS_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "compat/tables.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/report.pb.h"
#include "verdict/builder.h"

namespace twinpath::verdict {

// Most images listed one by one.
inline constexpr size_t kMostImagesListed = 1000;

// Fills what the runner leaves out of `loads`, which lists every image: the
// prediction of each (as it stands alone in its file, with PTX compiled), the
// groups, the number of contradictions. Then keeps only the images that were
// not as predicted or have no answer, then those that were not loaded, up to
// kMostImagesListed; `keep_all` keeps every one.
void AddImagePredictions(const v1::ArtifactReport& report,
                         const v1::HostFacts& facts, const v1::Gpu& gpu,
                         const compat::Tables& tables, bool keep_all,
                         v1::ImageLoadReport& loads);

// Whether the driver was predicted to take it.
bool PredictedToLoad(v1::Outcome predicted);

// A relocatable image that the driver refuses for want of other pieces: 218,
// 300 (its linker's word) or 500, measured (docs/gpu-runs.md). Not
// contradicting, whatever was predicted.
bool IsLinkInput(v1::ImageKind kind, v1::LoadState state, uint32_t cuda_error);

// Whether the driver's answer is another one than predicted. Unknown
// predictions, link inputs, lack of memory and images without an answer are
// not.
bool Contradicts(const v1::ImageLoad& load);

// Judges the loads of the cell of this GPU. `loads` may come from a host that
// lies.
void JudgeImageLoads(const v1::ImageLoadReport& loads,
                     absl::string_view gpu_uuid, VerdictBuilder& builder);

}  // namespace twinpath::verdict

#endif  // TWINPATH_VERDICT_IMAGE_LOADS_H_
