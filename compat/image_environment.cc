#include "compat/image_environment.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/text.h"
#include "compat/forward_compat.h"
#include "compat/reason.h"

namespace twinpath::compat {
namespace {

constexpr absl::string_view kInside = "!/";
constexpr size_t kMaxShown = 300;

// "12.8" -> {12, 8, 0, 0}. Absent: no version.
std::optional<std::array<uint64_t, 4>> VersionOf(absl::string_view text) {
  std::array<uint64_t, 4> numbers{};
  size_t at = 0;
  for (const absl::string_view part : absl::StrSplit(text, '.')) {
    if (at == numbers.size() || !absl::SimpleAtoi(part, &numbers[at])) {
      return std::nullopt;
    }
    ++at;
  }
  return numbers;
}

Holds Not(Holds holds) {
  switch (holds) {
    case Holds::kYes:
      return Holds::kNo;
    case Holds::kNo:
      return Holds::kYes;
    default:
      return Holds::kUnknown;
  }
}

// One constraint, "driver>=470".
Holds Constraint(absl::string_view text, const RequirementFacts& facts) {
  const size_t at = text.find_first_of("<>=!");
  if (at == absl::string_view::npos) return Holds::kUnknown;
  const absl::string_view name = text.substr(0, at);
  size_t end = at;
  while (end < text.size() && absl::StrContains("<>=!", text[end])) ++end;
  const absl::string_view sign = text.substr(at, end - at);
  const absl::string_view wanted = text.substr(end);
  if (name == "brand") {
    if (facts.brand.empty()) return Holds::kUnknown;
    const Holds equal =
        facts.brand == absl::AsciiStrToLower(wanted) ? Holds::kYes : Holds::kNo;
    if (sign == "=") return equal;
    return sign == "!=" ? Not(equal) : Holds::kUnknown;
  }
  const std::string& known = name == "cuda"     ? facts.cuda
                             : name == "driver" ? facts.driver
                             : name == "arch"   ? facts.arch
                                                : std::string();
  const auto have = VersionOf(known);
  const auto want = VersionOf(wanted);
  if (known.empty() || !have || !want) return Holds::kUnknown;
  const auto answer = [](bool holds) {
    return holds ? Holds::kYes : Holds::kNo;
  };
  if (sign == "=") return answer(*have == *want);
  if (sign == "!=") return answer(*have != *want);
  if (sign == ">=") return answer(*have >= *want);
  if (sign == "<=") return answer(*have <= *want);
  if (sign == ">") return answer(*have > *want);
  if (sign == "<") return answer(*have < *want);
  return Holds::kUnknown;
}

// Value of a variable; absent: not set. The last counts.
std::optional<absl::string_view> Variable(const v1::OciImageFacts& image,
                                          absl::string_view name) {
  std::optional<absl::string_view> found;
  for (absl::string_view text : image.environment()) {
    if (absl::ConsumePrefix(&text, name) && absl::ConsumePrefix(&text, "=")) {
      found = text;
    }
  }
  return found;
}

std::string Shown(absl::string_view text) {
  return Printable(text.size() > kMaxShown
                       ? absl::StrCat(text.substr(0, kMaxShown), "...")
                       : std::string(text));
}

RequirementFacts FactsFor(const v1::HostFacts& facts, const v1::Gpu& gpu,
                          const Tables& tables) {
  RequirementFacts known;
  if (const auto cuda = OwnCudaVersion(facts.driver(), tables)) {
    known.cuda = cuda->ToString();
  }
  known.driver = facts.driver().kernel_module_version();
  if (gpu.compute_capability().major() > 0) {
    known.arch = absl::StrCat(gpu.compute_capability().major(), ".",
                              gpu.compute_capability().minor());
  }
  return known;
}

void JudgeRequirements(const v1::OciImageFacts& image,
                       const RequirementFacts& facts,
                       std::vector<v1::Reason>& reasons) {
  const auto off = Variable(image, "NVIDIA_DISABLE_REQUIRE");
  if (off && (*off == "1" || absl::EqualsIgnoreCase(*off, "true"))) return;
  for (const std::string& text : image.environment()) {
    if (!absl::StartsWith(text, "NVIDIA_REQUIRE_")) continue;
    const size_t equals = text.find('=');
    if (equals == std::string::npos) continue;
    const absl::string_view wanted = absl::string_view(text).substr(equals + 1);
    const Holds holds = EvaluateRequirement(wanted, facts);
    if (holds == Holds::kYes || wanted.empty()) continue;
    const std::string here = absl::StrCat(
        "CUDA ", facts.cuda.empty() ? "unknown" : facts.cuda, ", driver ",
        facts.driver.empty() ? "unknown" : facts.driver);
    reasons.push_back(MakeReason(
        "TP339",
        holds == Holds::kNo
            ? absl::StrCat("the image's own requirement does not hold here (",
                           here, "): ", Shown(text),
                           "; where NVIDIA's runtime checks it the container "
                           "is not started (TP325); with CDI nobody does")
            : absl::StrCat("whether the image's own requirement holds here (",
                           here, ") depends on the GPU's brand: ", Shown(text),
                           "; where it does not, NVIDIA's runtime does not "
                           "start the container (TP325)"),
        "Raise the driver, use an image with a lower requirement, or set "
        "NVIDIA_DISABLE_REQUIRE=1 where only device code newer than the "
        "driver is the reason for it."));
  }
}

void JudgeSwitches(const v1::OciImageFacts& image,
                   std::vector<v1::Reason>& reasons) {
  struct Switch {
    absl::string_view name;
    absl::string_view effect;
  };
  // 0 is off, as the driver has it.
  static constexpr Switch kSwitches[] = {
      {"CUDA_FORCE_PTX_JIT", "its containers compile PTX at every start"},
      {"CUDA_FORCE_JIT", "its containers compile at every start"},
      {"CUDA_DISABLE_PTX_JIT", "its containers compile no PTX"},
      {"CUDA_DISABLE_JIT", "its containers compile nothing"},
      {"CUDA_CACHE_DISABLE", "its containers keep no compiled code"}};
  for (const Switch& row : kSwitches) {
    const auto value = Variable(image, row.name);
    if (!value || value->empty() || *value == "0") continue;
    reasons.push_back(MakeReason(
        "TP339",
        absl::StrCat(row.name, "=", Shown(*value),
                     " in the image: ", row.effect,
                     "; Twinpath's runs replace it by the path's own")));
  }
  if (const auto value = Variable(image, "NVIDIA_VISIBLE_DEVICES");
      value && (value->empty() || *value == "void" || *value == "none")) {
    reasons.push_back(MakeReason(
        "TP339",
        absl::StrCat("NVIDIA_VISIBLE_DEVICES=", Shown(*value),
                     " in the image: NVIDIA's runtime gives its containers no "
                     "GPU unless they are started with another value")));
  }
  if (const auto value = Variable(image, "NVIDIA_DRIVER_CAPABILITIES");
      value && !value->empty()) {
    const std::vector<absl::string_view> words = absl::StrSplit(*value, ',');
    const bool compute =
        std::any_of(words.begin(), words.end(), [](absl::string_view word) {
          word = absl::StripAsciiWhitespace(word);
          return word == "compute" || word == "all";
        });
    if (!compute) {
      reasons.push_back(MakeReason(
          "TP339", absl::StrCat("NVIDIA_DRIVER_CAPABILITIES=", Shown(*value),
                                " in the image, without compute: NVIDIA's "
                                "runtime brings no libcuda into its "
                                "containers")));
    }
  }
}

// "590.44.01" of ".../compat/libcuda.so.590.44.01"; empty: none.
std::string VersionOfLibcuda(absl::string_view name) {
  name = BaseName(name);
  if (!absl::ConsumePrefix(&name, "libcuda.so.") || name == "1") return "";
  return std::string(name);
}

void JudgeCompat(const v1::OciImageFacts& image,
                 const std::vector<const v1::FileReport*>& files,
                 const v1::HostFacts& facts, const v1::Gpu& gpu,
                 const Tables& tables, std::vector<v1::Reason>& reasons) {
  const auto path = Variable(image, "LD_LIBRARY_PATH");
  for (const v1::FileReport* file : files) {
    if (!file->elf().has_forward_compat()) continue;
    const CompatDecision decision =
        DecideForwardCompat(file->elf().forward_compat(),
                            VersionOfLibcuda(file->name()), facts, gpu, tables);
    const size_t at = file->name().rfind(":/");
    const std::string folder = DirName(
        at == std::string::npos
            ? absl::StrCat("/", file->name().substr(file->member_of().size() +
                                                    kInside.size()))
            : file->name().substr(at + 1));
    bool always = false;
    if (path) {
      for (const absl::string_view entry : absl::StrSplit(*path, ':')) {
        always |= entry == folder;
      }
    }
    // Otherwise the toolkit's hook looks first whether it works.
    if (!always && decision.answer != CompatAnswer::kWorks) continue;
    v1::Reason reason = decision.reason;
    reason.set_detail(absl::StrCat(
        file->name(), ": ", reason.detail(),
        always ? "; the image's LD_LIBRARY_PATH puts it in front of the "
                 "driver's"
               : "; NVIDIA's container toolkit puts it in front of the "
                 "driver's"));
    reasons.push_back(std::move(reason));
    return;
  }
}

}  // namespace

Holds EvaluateRequirement(absl::string_view requirement,
                          const RequirementFacts& facts) {
  bool unknown = false;
  bool any = false;
  for (const absl::string_view alternative :
       absl::StrSplit(requirement, ' ', absl::SkipWhitespace())) {
    any = true;
    Holds all = Holds::kYes;
    for (const absl::string_view constraint :
         absl::StrSplit(alternative, ',', absl::SkipWhitespace())) {
      const Holds one = Constraint(constraint, facts);
      if (one == Holds::kNo) all = Holds::kNo;
      if (one == Holds::kUnknown && all == Holds::kYes) all = Holds::kUnknown;
    }
    if (all == Holds::kYes) return Holds::kYes;
    unknown |= all == Holds::kUnknown;
  }
  return unknown || !any ? Holds::kUnknown : Holds::kNo;
}

std::vector<v1::Reason> JudgeImage(
    const v1::OciImageFacts& image,
    const std::vector<const v1::FileReport*>& files, const v1::HostFacts& facts,
    const v1::Gpu& gpu, const Tables& tables) {
  std::vector<v1::Reason> reasons;
  JudgeRequirements(image, FactsFor(facts, gpu, tables), reasons);
  JudgeSwitches(image, reasons);
  JudgeCompat(image, files, facts, gpu, tables, reasons);
  return reasons;
}

bool ImagePlace::Holds(const v1::FileReport& file) const {
  return !file.member_of().empty() && absl::StartsWith(file.name(), prefix);
}

std::vector<std::string> ImagePlace::ProgramNames(
    absl::string_view command) const {
  std::vector<std::string> names;
  const auto add = [&](absl::string_view path) {
    std::vector<absl::string_view> parts;
    for (const absl::string_view part :
         absl::StrSplit(path, '/', absl::SkipEmpty())) {
      if (part == ".") continue;
      if (part != "..") {
        parts.push_back(part);
      } else if (!parts.empty()) {
        parts.pop_back();
      }
    }
    names.push_back(absl::StrCat(prefix, absl::StrJoin(parts, "/")));
  };
  if (command.empty()) return names;
  if (command[0] == '/') {
    add(command);
  } else if (absl::StrContains(command, '/')) {
    add(absl::StrCat(image->working_directory(), "/", command));
  } else {
    const absl::string_view path =
        Variable(*image, "PATH")
            .value_or(
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    for (const absl::string_view folder :
         absl::StrSplit(path, ':', absl::SkipEmpty())) {
      add(absl::StrCat(folder, "/", command));
    }
  }
  return names;
}

std::optional<ImagePlace> FindImage(const v1::ArtifactReport& report,
                                    absl::string_view digest) {
  if (digest.empty()) return std::nullopt;
  for (const v1::FileReport& file : report.files()) {
    for (const v1::OciImageFacts& image : file.carrier().images()) {
      if (image.digest() != digest && image.id() != digest) continue;
      ImagePlace place;
      place.image = &image;
      place.prefix = absl::StrCat(file.name(), kInside, image.label(),
                                  image.label().empty() ? "" : ":/");
      return place;
    }
  }
  return std::nullopt;
}

}  // namespace twinpath::compat
