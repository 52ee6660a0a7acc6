#include "compat/image_rules.h"

#include <initializer_list>

#include "compat/target.h"

namespace twinpath::compat::internal {
namespace {

Decision Fails(Cause cause, uint32_t cuda_error,
               const ImageView* image = nullptr) {
  return {v1::OUTCOME_FAILS, cause, cuda_error, image};
}

Decision Unknown(Cause cause, const ImageView* image = nullptr) {
  return {v1::OUTCOME_UNKNOWN, cause, 0, image};
}

// What a fatbin holds, sorted by whether this device may take it.
struct Candidates {
  const ImageView* sass = nullptr;
  const ImageView* tegra = nullptr;
  const ImageView* sass_unknown = nullptr;
  const ImageView* sass_excluded = nullptr;
  const ImageView* ptx = nullptr;
  const ImageView* ptx_unknown = nullptr;
  const ImageView* ptx_excluded = nullptr;
  const ImageView* ptx_too_new = nullptr;
  const ImageView* lto = nullptr;
  const ImageView* other = nullptr;
  bool any_sass = false;
  bool any_ptx = false;
};

// Nearest target wins; of equals the first machine code, the last PTX.
bool Nearer(const ImageView& image, const ImageView* best, bool last_wins) {
  if (best == nullptr) return true;
  if (image.target.number() != best->target.number()) {
    return image.target.number() > best->target.number();
  }
  return last_wins;
}

void AddSass(const ImageView& image, const HostView& host, const Tables& tables,
             Candidates& found) {
  found.any_sass = true;
  switch (SassFits(image.target, host.device, tables)) {
    case Fit::kYes:
      if (Nearer(image, found.sass, false)) found.sass = &image;
      break;
    case Fit::kTegraUnpromised:
      if (Nearer(image, found.tegra, false)) found.tegra = &image;
      break;
    case Fit::kUnknown:
      found.sass_unknown = &image;
      break;
    case Fit::kSuffixExcludes:
      found.sass_excluded = &image;
      break;
    case Fit::kNo:
      break;
  }
}

void AddPtx(const ImageView& image, const HostView& host, const Tables& tables,
            Candidates& found) {
  found.any_ptx = true;
  switch (PtxFits(image.target, host.device, tables)) {
    case Fit::kYes:
      if (Nearer(image, found.ptx, true)) found.ptx = &image;
      break;
    case Fit::kUnknown:
    case Fit::kTegraUnpromised:
      found.ptx_unknown = &image;
      break;
    case Fit::kSuffixExcludes:
      found.ptx_excluded = &image;
      break;
    case Fit::kNo:
      found.ptx_too_new = &image;
      break;
  }
}

Candidates Sort(absl::Span<const ImageView> images, const HostView& host,
                const Tables& tables) {
  Candidates found;
  for (const ImageView& image : images) {
    if (image.sass()) {
      AddSass(image, host, tables, found);
    } else if (image.ptx()) {
      AddPtx(image, host, tables, found);
    } else if (image.kind == v1::IMAGE_KIND_LTO_IR) {
      found.lto = &image;
    } else {
      found.other = &image;
    }
  }
  return found;
}

// Lowest PTX ISA that knows a target; 0.0 where the tables do not say.
TwoPart MinimumIsa(const v1::Target& target, const Tables& tables) {
  const GpuRow* row = tables.FindGpu(target.number());
  if (row == nullptr) return {};
  if (target.suffix() == v1::TARGET_SUFFIX_ARCH) {
    return row->ptx_isa_min_arch.value_or(row->ptx_isa_min);
  }
  if (target.suffix() == v1::TARGET_SUFFIX_FAMILY) {
    return row->ptx_isa_min_family.value_or(row->ptx_isa_min);
  }
  return row->ptx_isa_min;
}

// The library that owns a bare image inflates it itself; only payloads inside a
// fatbin are the driver's to read.
bool CannotInflate(const ImageView& image, bool bare, const HostView& host) {
  return image.zstd && !bare && !host.reads_zstd;
}

Decision LoadSass(const ImageView& image, bool bare, const HostView& host) {
  if (CannotInflate(image, bare, host)) {
    return Fails(Cause::kCompression, 200, &image);
  }
  if (image.unreadable) return Unknown(Cause::kUnknownKind, &image);
  return {v1::OUTCOME_NATIVE, Cause::kMachineCode, 0, &image};
}

// The compiler library comes first, then the ISA, then the target: measured on
// PTX for 12.1 of ISA 9.1, which gives 222 and not 218.
Decision CompilePtx(const ImageView& image, bool bare, bool target_fits,
                    const HostView& host, const Tables& tables) {
  if (host.jit_library == JitLibrary::kAbsent) {
    return Fails(Cause::kJitLibraryMissing, 221, &image);
  }
  if (CannotInflate(image, bare, host)) {
    return Fails(Cause::kCompression, 200, &image);
  }
  if (image.ptx_isa > host.ptx_ceiling) {
    if (!host.ceiling_exact) return Unknown(Cause::kCeilingUnknown, &image);
    return Fails(Cause::kPtxNewerThanDriver, 222, &image);
  }
  if (!target_fits) return Fails(Cause::kPtxTargetTooNew, 218, &image);
  if (image.unreadable) return Unknown(Cause::kUnknownKind, &image);
  // ISA 0.0: the report does not state it.
  if (image.ptx_isa.major != 0 &&
      image.ptx_isa < MinimumIsa(image.target, tables)) {
    return Fails(Cause::kPtxInvalid, 218, &image);
  }
  if (host.jit_library == JitLibrary::kUnknown) {
    return Unknown(Cause::kJitLibraryUnknown, &image);
  }
  return {v1::OUTCOME_JIT, Cause::kPtx, 0, &image};
}

// Nothing fits: 209, with the cause that helps most.
Decision NothingFits(const Candidates& found, bool look_at_sass) {
  if (look_at_sass && found.sass_excluded != nullptr) {
    return Fails(Cause::kSuffix, 209, found.sass_excluded);
  }
  if (look_at_sass && found.any_sass) return Fails(Cause::kNoImage, 209);
  if (found.ptx_too_new != nullptr) {
    return Fails(Cause::kPtxTargetTooNew, 209, found.ptx_too_new);
  }
  if (found.ptx_excluded != nullptr) {
    return Fails(Cause::kSuffix, 209, found.ptx_excluded);
  }
  if (!found.any_sass && !found.any_ptx && found.lto != nullptr) {
    return Fails(Cause::kLtoOnly, 209, found.lto);
  }
  return Fails(look_at_sass ? Cause::kNoImage : Cause::kNoPtx, 209);
}

Decision DecidePtx(const Candidates& found, const HostView& host,
                   const Tables& tables) {
  if (found.ptx != nullptr) {
    return CompilePtx(*found.ptx, false, true, host, tables);
  }
  if (found.ptx_unknown != nullptr) {
    return Unknown(Cause::kTargetUnknown, found.ptx_unknown);
  }
  if (found.other != nullptr) return Unknown(Cause::kUnknownKind, found.other);
  return NothingFits(found, /*look_at_sass=*/false);
}

Decision DecideNative(const Candidates& found, const HostView& host) {
  if (found.sass != nullptr) return LoadSass(*found.sass, false, host);
  if (found.tegra != nullptr) return Unknown(Cause::kTegra, found.tegra);
  if (found.sass_unknown != nullptr) {
    return Unknown(Cause::kTargetUnknown, found.sass_unknown);
  }
  if (found.other != nullptr) return Unknown(Cause::kUnknownKind, found.other);
  // Measured: 223 as soon as the PTX's target fits, whatever its ISA.
  if (found.ptx != nullptr) return Fails(Cause::kJitDisabled, 223, found.ptx);
  return NothingFits(found, /*look_at_sass=*/true);
}

Decision DecidePlain(const Candidates& found, const HostView& host,
                     const Tables& tables) {
  if (found.sass != nullptr) return LoadSass(*found.sass, false, host);
  if (found.tegra != nullptr) return Unknown(Cause::kTegra, found.tegra);
  if (found.sass_unknown != nullptr) {
    return Unknown(Cause::kTargetUnknown, found.sass_unknown);
  }
  if (found.ptx != nullptr) return DecidePtx(found, host, tables);
  if (found.ptx_unknown != nullptr) {
    return Unknown(Cause::kTargetUnknown, found.ptx_unknown);
  }
  if (found.other != nullptr) return Unknown(Cause::kUnknownKind, found.other);
  return NothingFits(found, /*look_at_sass=*/true);
}

// An image the program hands to the driver itself (cuModuleLoadData).
Decisions DecideBare(const ImageView& image, const HostView& host,
                     const Tables& tables) {
  const absl::Span<const ImageView> alone(&image, 1);
  const Candidates found = Sort(alone, host, tables);
  if (image.ptx()) {
    // Raw PTX of a target the device cannot take is compiled and refused, so
    // it gives 218 where a fatbin gives 209.
    Decision compiled =
        found.ptx_unknown != nullptr
            ? Unknown(Cause::kTargetUnknown, &image)
            : CompilePtx(image, true, found.ptx != nullptr, host, tables);
    if (compiled.cause == Cause::kPtxTargetTooNew &&
        found.ptx_excluded != nullptr) {
      compiled.cause = Cause::kSuffix;
    }
    return {Fails(Cause::kJitDisabled, 223, &image), compiled, compiled};
  }
  Decision loaded;
  if (image.sass()) {
    if (found.sass != nullptr) {
      loaded = LoadSass(image, true, host);
    } else if (found.tegra != nullptr) {
      loaded = Unknown(Cause::kTegra, &image);
    } else if (found.sass_unknown != nullptr) {
      loaded = Unknown(Cause::kTargetUnknown, &image);
    } else {
      loaded = NothingFits(found, true);
    }
  } else if (image.kind == v1::IMAGE_KIND_LTO_IR) {
    loaded = Fails(Cause::kLtoOnly, 209, &image);
  } else {
    loaded = Unknown(Cause::kUnknownKind, &image);
  }
  // The JIT switches do not apply to a cubin given directly: measured.
  return {loaded, loaded, loaded};
}

Decisions Decide(absl::Span<const ImageView> images, const HostView& host,
                 const Tables& tables) {
  const Candidates found = Sort(images, host, tables);
  return {DecideNative(found, host), DecidePtx(found, host, tables),
          DecidePlain(found, host, tables)};
}

}  // namespace

Decisions DecideFatbin(const FatbinView& fatbin, const HostView& host,
                       const Tables& tables) {
  if (fatbin.damaged) {
    const Decision damaged = Unknown(Cause::kDamaged);
    return {damaged, damaged, damaged};
  }
  if (fatbin.bare && fatbin.images.size() == 1) {
    return DecideBare(fatbin.images[0], host, tables);
  }
  return Decide(fatbin.images, host, tables);
}

Decisions DecideImage(const FatbinView& fatbin, const ImageView& image,
                      const HostView& host, const Tables& tables) {
  if (fatbin.bare) return DecideBare(image, host, tables);
  return Decide(absl::Span<const ImageView>(&image, 1), host, tables);
}

const char* CodeOf(Cause cause) {
  switch (cause) {
    case Cause::kMachineCode:
      return "TP200";
    case Cause::kPtx:
      return "TP235";
    case Cause::kNoImage:
      return "TP201";
    case Cause::kNoPtx:
      return "TP202";
    case Cause::kPtxTargetTooNew:
      return "TP203";
    case Cause::kPtxNewerThanDriver:
      return "TP204";
    case Cause::kPtxInvalid:
      return "TP218";
    case Cause::kJitDisabled:
      return "TP205";
    case Cause::kJitLibraryMissing:
    case Cause::kJitLibraryUnknown:
      return "TP108";
    case Cause::kCeilingUnknown:
      return "TP118";
    case Cause::kSuffix:
      return "TP219";
    case Cause::kTegra:
      return "TP210";
    case Cause::kTargetUnknown:
      return "TP224";
    case Cause::kCompression:
      return "TP211";
    case Cause::kLtoOnly:
      return "TP212";
    case Cause::kUnknownKind:
      return "TP213";
    case Cause::kDamaged:
      return "TP229";
  }
  return "TP213";
}

}  // namespace twinpath::compat::internal
