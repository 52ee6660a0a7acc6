#include "compat/build_of.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/file.h"
#include "compat/fix.h"
#include "compat/prepared.h"
#include "compat/target.h"

namespace twinpath::compat {
namespace {

bool IsOwn(const v1::FileReport& file) {
  return !internal::IsVendorLibrary(BaseName(file.name()));
}

bool HoldsCode(const v1::FileReport& file) {
  return std::any_of(file.fatbins().begin(), file.fatbins().end(),
                     [](const v1::Fatbin& fatbin) {
                       return fatbin.registration() !=
                                  v1::REGISTRATION_LEFT_OVER &&
                              fatbin.images_size() > 0;
                     });
}

void Raise(TwoPart value, std::optional<TwoPart>& most) {
  if (value.major > 0 && (!most || value > *most)) most = value;
}

void Lower(const std::optional<TwoPart>& value, std::optional<TwoPart>& least) {
  if (value && (!least || *value < *least)) least = value;
}

}  // namespace

Build BuildOf(const v1::ArtifactReport& report, const Tables& tables) {
  Build build;
  std::optional<TwoPart> runtime;
  std::optional<TwoPart> newest_ptx;
  for (const v1::FileReport& file : report.files()) {
    if (!IsOwn(file) || !HoldsCode(file)) continue;
    Raise(TwoPart::From(file.elf().cudart()), runtime);
    for (const v1::Fatbin& fatbin : file.fatbins()) {
      if (fatbin.registration() == v1::REGISTRATION_LEFT_OVER) continue;
      for (const v1::Image& image : fatbin.images()) {
        Raise(TwoPart::From(image.producer().toolkit()), build.toolkit);
        Raise(TwoPart::From(image.ptx_isa()), newest_ptx);
        if (const GpuRow* row = tables.FindGpu(image.target().number())) {
          Lower(row->toolkit_last, build.toolkit_last);
        }
      }
    }
  }
  if (!build.toolkit && runtime && runtime->minor > 0) build.toolkit = runtime;
  if (!build.toolkit && newest_ptx) {
    if (const DriverRow* row = tables.FirstDriverForPtx(*newest_ptx)) {
      build.toolkit = row->cuda;
    }
  }
  if (!build.toolkit) build.toolkit = runtime;
  return build;
}

std::optional<TargetChoice> ChooseToolkit(const GpuRow& gpu, bool ptx,
                                          const Build& build) {
  TargetChoice choice;
  choice.gpu = &gpu;
  choice.ptx = ptx;
  const TwoPart first = gpu.toolkit_first.value_or(TwoPart{10, 0});
  TwoPart toolkit = std::max(build.toolkit.value_or(first), first);
  if (gpu.toolkit_last && toolkit > *gpu.toolkit_last) {
    toolkit = *gpu.toolkit_last;
    choice.other_build = true;
  }
  if (toolkit < first) return std::nullopt;
  // A newer major needs newer drivers everywhere; a target dropped since then
  // needs its old compiler.
  choice.other_build |=
      (build.toolkit && toolkit.major > build.toolkit->major) ||
      (build.toolkit_last && toolkit > *build.toolkit_last);
  choice.toolkit = toolkit;
  return choice;
}

v1::ArtifactReport WithOnly(const v1::ArtifactReport& report,
                            const TargetChoice& choice, const Build& build,
                            const Tables& tables) {
  v1::ArtifactReport out;
  for (const v1::FileReport& file : report.files()) {
    if (!IsOwn(file)) continue;
    if (!file.has_elf() && !HoldsCode(file)) continue;
    v1::FileReport& made = *out.add_files();
    made.set_name(file.name());
    made.set_kind(file.kind());
    made.set_kernels_read(true);
    if (file.has_elf()) {
      *made.mutable_elf() = file.elf();
      // Another compiler brings its own runtime.
      if (made.elf().cudart().major() > 0 && build.toolkit &&
          choice.toolkit.major != build.toolkit->major) {
        made.mutable_elf()->mutable_cudart()->set_major(choice.toolkit.major);
        made.mutable_elf()->mutable_cudart()->set_minor(choice.toolkit.minor);
      }
    }
    if (!HoldsCode(file)) continue;
    v1::Fatbin& fatbin = *made.add_fatbins();
    fatbin.set_registration(file.has_elf() ? v1::REGISTRATION_REGISTERED
                                           : v1::REGISTRATION_NOT_APPLICABLE);
    fatbin.set_bare(!file.has_elf());
    v1::Image& image = *fatbin.add_images();
    image.set_kind(choice.ptx ? v1::IMAGE_KIND_PTX : v1::IMAGE_KIND_SASS);
    image.set_kind_number(choice.ptx ? 1 : 2);
    *image.mutable_target() = MakeTarget(choice.gpu->number);
    image.set_compression(v1::COMPRESSION_NONE);
    image.set_kernels_read(true);
    image.add_kernels()->set_name("k");
    if (choice.ptx) {
      TwoPart isa = choice.gpu->ptx_isa_min;
      if (const DriverRow* row = tables.FindDriverByCuda(choice.toolkit)) {
        isa = std::max(isa, row->ptx_isa);
      }
      image.mutable_ptx_isa()->set_major(isa.major);
      image.mutable_ptx_isa()->set_minor(isa.minor);
    }
  }
  return out;
}

std::string FlagOf(const TargetChoice& choice, const Tables& tables) {
  return choice.ptx ? internal::PtxFlag(choice.gpu->number, tables)
                    : internal::MachineCodeFlag(choice.gpu->number, tables);
}

}  // namespace twinpath::compat
