#include "tests/compat/report_builder.h"

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compat/reason.h"
#include "compat/target.h"

namespace twinpath::compat {
namespace {

// "sm_90[a,b]": the image's own kernels, taken off the word.
std::vector<std::string> TakeKernels(absl::string_view& word,
                                     const std::vector<std::string>& others) {
  const size_t open = word.find('[');
  if (open == absl::string_view::npos) return others;
  absl::string_view list = word.substr(open + 1);
  if (!absl::ConsumeSuffix(&list, "]")) std::abort();
  word = word.substr(0, open);
  return absl::StrSplit(list, ',', absl::SkipEmpty());
}

v1::Image MakeImage(absl::string_view text, uint32_t index) {
  v1::Image image;
  image.set_index(index);
  image.set_compression(absl::ConsumeSuffix(&text, "/zstd")
                            ? v1::COMPRESSION_ZSTD
                            : v1::COMPRESSION_NONE);
  const bool relocatable = absl::ConsumePrefix(&text, "rel:");
  if (absl::ConsumePrefix(&text, "other")) {
    uint32_t kind = 0;
    if (!absl::SimpleAtoi(text, &kind)) std::abort();
    image.set_kind(v1::IMAGE_KIND_OTHER);
    image.set_kind_number(kind);
    *image.mutable_target() = MakeTarget(90);
    return image;
  }
  const std::vector<std::string> parts = absl::StrSplit(text, '@');
  const std::string& name = parts[0];
  *image.mutable_target() = ParseTarget(name).value();
  if (absl::StartsWith(name, "compute_")) {
    image.set_kind(relocatable ? v1::IMAGE_KIND_RELOCATABLE_PTX
                               : v1::IMAGE_KIND_PTX);
    image.set_kind_number(1);
    const TwoPart isa =
        TwoPart::Parse(parts.size() > 1 ? parts[1] : "9.0").value();
    image.mutable_ptx_isa()->set_major(isa.major);
    image.mutable_ptx_isa()->set_minor(isa.minor);
  } else if (absl::StartsWith(name, "lto_")) {
    image.set_kind(v1::IMAGE_KIND_LTO_IR);
    image.set_kind_number(8);
  } else {
    image.set_kind(relocatable ? v1::IMAGE_KIND_RELOCATABLE_SASS
                               : v1::IMAGE_KIND_SASS);
    image.set_kind_number(2);
  }
  return image;
}

// Words of a fatbin that are no image. Returns whether it was one.
bool SetFlag(absl::string_view word, v1::Fatbin& fatbin) {
  if (word == "left-over") {
    fatbin.set_registration(v1::REGISTRATION_LEFT_OVER);
  } else if (word == "self-loaded") {
    fatbin.set_registration(v1::REGISTRATION_SELF_LOADED);
  } else if (word == "loose") {
    fatbin.set_registration(v1::REGISTRATION_NOT_APPLICABLE);
  } else if (word == "bare") {
    fatbin.set_bare(true);
  } else if (word == "damaged") {
    fatbin.set_damaged(true);
  } else {
    return false;
  }
  return true;
}

}  // namespace

v1::FileReport MakeFile(const std::string& name,
                        const std::vector<std::string>& fatbins) {
  v1::FileReport file;
  file.set_name(name);
  file.set_kind(v1::FILE_KIND_ELF_SHARED);
  file.mutable_elf()->set_cpu_architecture(v1::CPU_ARCHITECTURE_X86_64);
  file.set_kernels_read(true);
  uint32_t image_index = 0;
  for (const std::string& text : fatbins) {
    v1::Fatbin& fatbin = *file.add_fatbins();
    const auto index = static_cast<uint32_t>(file.fatbins_size() - 1);
    fatbin.set_index(index);
    fatbin.set_offset(4096 * (index + 1));
    fatbin.set_registration(v1::REGISTRATION_REGISTERED);
    std::vector<std::string> kernels = {absl::StrCat("k", index)};
    std::string images = text;
    const std::vector<std::string> halves =
        absl::StrSplit(text, absl::MaxSplits(": ", 1));
    if (halves.size() == 2) {
      kernels = absl::StrSplit(halves[0], ',');
      images = halves[1];
    }
    for (absl::string_view word :
         absl::StrSplit(images, ' ', absl::SkipEmpty())) {
      if (SetFlag(word, fatbin)) continue;
      const std::vector<std::string> own = TakeKernels(word, kernels);
      v1::Image& image = *fatbin.add_images();
      image = MakeImage(word, image_index++);
      if (image.kind() == v1::IMAGE_KIND_LTO_IR ||
          image.kind() == v1::IMAGE_KIND_OTHER || own.empty() ||
          own[0] == "?") {
        continue;
      }
      image.set_kernels_read(true);
      if (own[0] == "-") continue;
      for (const std::string& kernel : own) {
        image.add_kernels()->set_name(kernel);
      }
    }
  }
  return file;
}

v1::FileReport MakeBareFile(const std::string& name, const std::string& image) {
  v1::FileReport file = MakeFile(name, {image});
  file.clear_elf();
  file.mutable_fatbins(0)->set_bare(true);
  file.mutable_fatbins(0)->set_registration(v1::REGISTRATION_NOT_APPLICABLE);
  file.set_kind(absl::StrContains(image, "compute") ? v1::FILE_KIND_PTX
                                                    : v1::FILE_KIND_CUBIN);
  return file;
}

v1::ArtifactReport MakeArtifactOf(std::vector<v1::FileReport> files) {
  v1::ArtifactReport report;
  for (v1::FileReport& file : files) *report.add_files() = std::move(file);
  return report;
}

v1::ArtifactReport MakeArtifact(const std::vector<std::string>& fatbins) {
  return MakeArtifactOf({MakeFile("app", fatbins)});
}

std::string Answer(const v1::PathPrediction& path) {
  switch (path.outcome()) {
    case v1::OUTCOME_NATIVE:
      return "native";
    case v1::OUTCOME_JIT:
      return "jit";
    case v1::OUTCOME_FAILS:
      return path.reasons_size() == 0
                 ? "fails without a reason"
                 : absl::StrCat("fails ", path.reasons(0).cuda_error());
    case v1::OUTCOME_UNKNOWN:
      return path.reasons_size() == 0 || path.settled_by().empty()
                 ? "unknown without a way to settle it"
                 : "unknown";
    case v1::OUTCOME_NO_DEVICE_CODE:
      return "no-device-code";
    default:
      return "unspecified";
  }
}

std::string Answers(const v1::Prediction& prediction) {
  std::string text;
  for (const v1::PathPrediction& path : prediction.paths()) {
    absl::StrAppend(&text, text.empty() ? "" : " | ", Answer(path));
  }
  return text;
}

bool HasReason(const v1::PathPrediction& path, const std::string& code) {
  for (const v1::Reason& reason : path.reasons()) {
    if (reason.code() == code) return true;
  }
  return false;
}

std::string FirstReason(const v1::PathPrediction& path) {
  return path.reasons_size() == 0 ? "" : DescribeReason(path.reasons(0));
}

}  // namespace twinpath::compat
