#include "compat/image_rules.h"

#include <optional>

#include "compat/target.h"

namespace twinpath::compat::internal {
namespace {

// Kinds of fatbin entries that cuobjdump 13.2 names, and one that it does not:
// machine code the driver finalises at load.
constexpr uint32_t kKindUnfinished = 0x10;
constexpr uint32_t kKindIndex = 0x20;
constexpr uint32_t kKindTileIr = 0x80;
// First CUDA version of a driver with a Tile IR compiler.
constexpr TwoPart kTileIrCuda = {13, 1};
// Last CUDA version of a driver seen to refuse obfuscated PTX.
constexpr TwoPart kObfuscatedRefusedCuda = {13, 2};

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
  const ImageView* unfinished = nullptr;
  const ImageView* ptx = nullptr;
  const ImageView* ptx_unknown = nullptr;
  const ImageView* ptx_excluded = nullptr;
  const ImageView* ptx_too_new = nullptr;
  const ImageView* tile_ir = nullptr;
  const ImageView* lto = nullptr;
  const ImageView* index = nullptr;
  const ImageView* other = nullptr;
  bool any_sass = false;
  bool any_ptx = false;
};

// Of machine code the nearest target wins, of equals the one without the entry
// flag 24, of those the first.
void TakeSass(const ImageView& image, const ImageView*& best) {
  if (best == nullptr || image.target.number() > best->target.number() ||
      (image.target.number() == best->target.number() && best->compat_note &&
       !image.compat_note)) {
    best = &image;
  }
}

// Of PTX the nearest target wins, of equals the last.
void TakePtx(const ImageView& image, const ImageView*& best) {
  if (best == nullptr || image.target.number() >= best->target.number()) {
    best = &image;
  }
}

void AddSass(const ImageView& image, const HostView& host, const Tables& tables,
             Candidates& found) {
  found.any_sass = true;
  switch (SassFits(image.target, host.device, tables)) {
    case Fit::kYes:
      TakeSass(image, found.sass);
      break;
    case Fit::kTegraUnpromised:
      TakeSass(image, found.tegra);
      break;
    case Fit::kUnknown:
      TakeSass(image, found.sass_unknown);
      break;
    case Fit::kSuffixExcludes:
      TakeSass(image, found.sass_excluded);
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
      TakePtx(image, found.ptx);
      break;
    case Fit::kUnknown:
    case Fit::kTegraUnpromised:
      TakePtx(image, found.ptx_unknown);
      break;
    case Fit::kSuffixExcludes:
      TakePtx(image, found.ptx_excluded);
      break;
    case Fit::kNo:
      TakePtx(image, found.ptx_too_new);
      break;
  }
}

void AddOther(const ImageView& image, const HostView& host,
              const Tables& tables, Candidates& found) {
  switch (image.kind_number) {
    case kKindUnfinished:
      // Matched by its target as machine code is.
      switch (SassFits(image.target, host.device, tables)) {
        case Fit::kNo:
        case Fit::kSuffixExcludes:
          break;
        default:
          found.unfinished = &image;
      }
      break;
    case kKindIndex:
      found.index = &image;
      break;
    case kKindTileIr:
      found.tile_ir = &image;
      break;
    default:
      found.other = &image;
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
      AddOther(image, host, tables, found);
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

Decision LoadSass(const ImageView& image, bool bare, const HostView& host,
                  const Tables& tables) {
  if (CannotInflate(image, bare, host)) {
    return Fails(Cause::kCompression, 200, &image);
  }
  if (image.unreadable) return Unknown(Cause::kUnknownKind, &image);
  if (image.payload_target != 0) {
    // Chosen by its header; only then is the payload looked at.
    switch (SassFits(MakeTarget(image.payload_target), host.device, tables)) {
      case Fit::kYes:
        break;
      case Fit::kNo:
        return Fails(Cause::kPayloadForOtherGpu, 300, &image);
      default:
        return Unknown(Cause::kTargetUnknown, &image);
    }
  }
  // Promised within a major alone; drivers were seen to refuse it (200).
  if (host.cuda && image.toolkit_major > host.cuda->major) {
    return Unknown(Cause::kToolkitNewerThanDriver, &image);
  }
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
  if (image.opaque && !bare && host.cuda &&
      *host.cuda <= kObfuscatedRefusedCuda) {
    return Fails(Cause::kObfuscated, 218, &image);
  }
  if (image.ptx_isa > host.ptx_ceiling) {
    if (!host.ceiling_exact) return Unknown(Cause::kCeilingUnknown, &image);
    return Fails(Cause::kPtxNewerThanDriver, 222, &image);
  }
  if (!target_fits) return Fails(Cause::kPtxTargetTooNew, 218, &image);
  if (image.unreadable) return Unknown(Cause::kUnknownKind, &image);
  if (image.payload_target != 0 && PtxFits(MakeTarget(image.payload_target),
                                           host.device, tables) != Fit::kYes) {
    return Unknown(Cause::kTargetUnknown, &image);
  }
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

// What is left where neither machine code nor PTX is taken: kinds that drivers
// rank below both.
std::optional<Decision> DecideRest(const Candidates& found,
                                   const HostView& host) {
  if (found.other != nullptr) return Unknown(Cause::kUnknownKind, found.other);
  const bool without_compiler = host.cuda && *host.cuda < kTileIrCuda;
  if (found.tile_ir != nullptr && !without_compiler) {
    return Unknown(Cause::kTileIr, found.tile_ir);
  }
  if (found.index != nullptr) return Unknown(Cause::kUnknownKind, found.index);
  if (found.tile_ir != nullptr) {
    return Fails(Cause::kTileIr, 221, found.tile_ir);
  }
  return std::nullopt;
}

// Forced JIT takes entries of kind 1, before anything is ranked.
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

// Machine code, and what drivers rank beside it; nullopt: none to take.
std::optional<Decision> DecideMachineCode(const Candidates& found,
                                          const HostView& host,
                                          const Tables& tables) {
  if (found.sass != nullptr) return LoadSass(*found.sass, false, host, tables);
  if (found.tegra != nullptr) return Unknown(Cause::kTegra, found.tegra);
  if (found.sass_unknown != nullptr) {
    return Unknown(Cause::kTargetUnknown, found.sass_unknown);
  }
  if (found.unfinished != nullptr) {
    return Unknown(Cause::kUnknownKind, found.unfinished);
  }
  return std::nullopt;
}

Decision DecideNative(const Candidates& found, const HostView& host,
                      const Tables& tables) {
  if (const auto decision = DecideMachineCode(found, host, tables)) {
    return *decision;
  }
  // These may hold machine code, or (Tile IR) may not count as PTX JIT.
  const auto rest = DecideRest(found, host);
  if (rest && rest->outcome == v1::OUTCOME_UNKNOWN) return *rest;
  // Measured: 223 as soon as the PTX's target fits, whatever its ISA.
  if (found.ptx != nullptr) return Fails(Cause::kJitDisabled, 223, found.ptx);
  if (rest) return *rest;
  return NothingFits(found, /*look_at_sass=*/true);
}

Decision DecidePlain(const Candidates& found, const HostView& host,
                     const Tables& tables) {
  if (const auto decision = DecideMachineCode(found, host, tables)) {
    return *decision;
  }
  if (found.ptx != nullptr) return DecidePtx(found, host, tables);
  if (found.ptx_unknown != nullptr) {
    return Unknown(Cause::kTargetUnknown, found.ptx_unknown);
  }
  if (const auto decision = DecideRest(found, host)) return *decision;
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
      loaded = LoadSass(image, true, host, tables);
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
  return {DecideNative(found, host, tables), DecidePtx(found, host, tables),
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
    case Cause::kTileIr:
      return "TP255";
    case Cause::kPayloadForOtherGpu:
      return "TP256";
    case Cause::kObfuscated:
      return "TP257";
    case Cause::kDeviceRuntime:
      return "TP258";
    case Cause::kToolkitNewerThanDriver:
      return "TP259";
  }
  return "TP213";
}

}  // namespace twinpath::compat::internal
