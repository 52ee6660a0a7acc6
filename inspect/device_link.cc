#include "inspect/device_link.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "inspect/summary.h"

namespace twinpath::inspect {
namespace {

constexpr char kLinker[] = "nvlink";

}  // namespace

void AddClampedImages(v1::FileReport& report) {
  // By target number: highest virtual architecture of the link inputs.
  std::map<uint32_t, uint32_t> inputs;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      if (image.kind() != v1::IMAGE_KIND_RELOCATABLE_SASS ||
          image.kernels().empty() || !image.has_virtual_architecture()) {
        continue;
      }
      uint32_t& highest = inputs[image.target().number()];
      highest = std::max(highest, image.virtual_architecture());
    }
  }
  if (inputs.empty()) return;
  const v1::Image* first = nullptr;
  uint64_t count = 0;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      if (image.kind() != v1::IMAGE_KIND_SASS ||
          image.producer().tool() != kLinker || image.kernels().empty() ||
          !image.has_virtual_architecture() ||
          image.virtual_architecture() >= image.target().number()) {
        continue;
      }
      const auto input = inputs.find(image.target().number());
      if (input == inputs.end() ||
          input->second <= image.virtual_architecture()) {
        continue;
      }
      if (count++ == 0) first = &image;
    }
  }
  if (count == 0) return;
  v1::Reason& reason = *report.add_problems();
  reason.set_code("TP234");
  reason.set_detail(absl::StrCat(
      "image ", first->index(), " for ", TargetName(*first),
      " is linked for compute_", first->virtual_architecture(),
      "; inputs of the link were compiled for compute_",
      inputs[first->target().number()],
      count > 1 ? absl::StrCat(", and so for ", count - 1, " more images")
                : ""));
}

}  // namespace twinpath::inspect
