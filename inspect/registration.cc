#include "inspect/registration.h"

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "inspect/report_problem.h"
#include "inspect/wrapper.h"

namespace twinpath::inspect {
namespace {

bool IsRelocatable(const v1::Image& image) {
  return image.kind() == v1::IMAGE_KIND_RELOCATABLE_SASS ||
         image.kind() == v1::IMAGE_KIND_RELOCATABLE_PTX;
}
bool IsFinal(const v1::Image& image) {
  return image.kind() == v1::IMAGE_KIND_SASS ||
         image.kind() == v1::IMAGE_KIND_PTX;
}

// PTX beside machine code that still has to be linked is for linking too.
void MarkRelocatable(v1::Fatbin& fatbin) {
  bool relocatable = false;
  for (const v1::Image& image : fatbin.images()) {
    if (image.kind() == v1::IMAGE_KIND_SASS) return;
    relocatable |= image.kind() == v1::IMAGE_KIND_RELOCATABLE_SASS;
  }
  if (!relocatable) return;
  for (v1::Image& image : *fatbin.mutable_images()) {
    if (image.kind() == v1::IMAGE_KIND_PTX) {
      image.set_kind(v1::IMAGE_KIND_RELOCATABLE_PTX);
    }
  }
}

}  // namespace

absl::Status Registration::Read(const ByteSource& source, const ElfView& elf,
                                bool complete, ReportBudget& budget,
                                v1::FileReport& report) {
  absl::flat_hash_set<uint64_t> offsets;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    if (!fatbin.bare()) offsets.insert(fatbin.offset());
  }
  absl::StatusOr<std::vector<WrapperRecord>> wrappers =
      FindWrappers(source, elf, offsets);
  if (!wrappers.ok()) {
    AddProblem("TP232",
               absl::StrCat("the fatbin wrappers cannot be read: ",
                            wrappers.status().message()),
               report);
    return absl::OkStatus();
  }
  applies_ = elf.type() != kElfTypeRel;
  for (const WrapperRecord& record : *wrappers) {
    const bool resolved = record.target && offsets.contains(*record.target);
    if (record.target && resolved) registered_.insert(*record.target);
    // It may point at one that was not listed; that is no fault of the file.
    if (!resolved && !complete) continue;
    if (!resolved) {
      AddProblem(
          "TP230",
          absl::StrCat("the wrapper at offset ", record.offset,
                       record.target
                           ? absl::StrCat(" points at offset ", *record.target,
                                          ", where no fatbin starts")
                           : " points outside the file"),
          report);
    }
    if (!budget.Take(ReportBudget::kWrapperCost)) {
      AddProblem("TP232", "the report has reached its cap at the wrappers",
                 report);
      break;
    }
    v1::Wrapper& wrapper = *report.add_wrappers();
    wrapper.set_offset(record.offset);
    wrapper.set_version(record.version);
    if (record.target) wrapper.set_fatbin_offset(*record.target);
    wrapper.set_resolved(resolved);
  }
  return absl::OkStatus();
}

void Registration::Settle(v1::Fatbin& fatbin) const {
  for (v1::Image& image : *fatbin.mutable_images()) {
    // A bare image that could not be read.
    if (image.target().suffix() == v1::TARGET_SUFFIX_UNSPECIFIED) {
      image.mutable_target()->set_suffix(v1::TARGET_SUFFIX_NONE);
    }
  }
  MarkRelocatable(fatbin);
  if (fatbin.registration() == v1::REGISTRATION_UNSPECIFIED) {
    fatbin.set_registration(Of(fatbin));
  }
}

v1::Registration Registration::Of(const v1::Fatbin& fatbin) const {
  if (!applies_) return v1::REGISTRATION_NOT_APPLICABLE;
  // No wrapper leads to a bare image: who keeps one loads it.
  if (fatbin.bare()) return v1::REGISTRATION_SELF_LOADED;
  if (registered_.contains(fatbin.offset())) {
    return v1::REGISTRATION_REGISTERED;
  }
  // Link inputs that lie where the compiler puts them are left over; those
  // that a library keeps elsewhere it links by itself, with nvJitLink.
  const bool by_compiler =
      fatbin.section().empty() || fatbin.relocatable_section();
  bool any_final = false;
  bool any_relocatable = false;
  for (const v1::Image& image : fatbin.images()) {
    any_final |= IsFinal(image);
    any_relocatable |= IsRelocatable(image);
  }
  return by_compiler && any_relocatable && !any_final
             ? v1::REGISTRATION_LEFT_OVER
             : v1::REGISTRATION_SELF_LOADED;
}

}  // namespace twinpath::inspect
