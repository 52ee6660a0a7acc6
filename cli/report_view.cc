#include "cli/report_view.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "cli/code_view.h"
#include "cli/reason_view.h"
#include "cli/table.h"
#include "cli/view_options.h"
#include "inspect/summary.h"

namespace twinpath::cli {
namespace {

// Most problems of a file that are listed.
constexpr int kMaxProblems = 10;

std::string Plural(uint64_t count, absl::string_view word) {
  return absl::StrCat(count, " ", word, count == 1 ? "" : "s");
}

template <typename List>
std::string JoinBytes(const List& list, absl::string_view separator) {
  std::vector<std::string> parts;
  for (const std::string& part : list) parts.push_back(Printable(part));
  return absl::StrJoin(parts, separator);
}

std::string FatbinCounts(const v1::FileReport& report) {
  std::map<v1::Registration, int> by_registration;
  int damaged = 0;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    if (fatbin.bare()) continue;
    ++by_registration[fatbin.registration()];
    if (fatbin.damaged()) ++damaged;
  }
  std::vector<std::string> parts;
  const auto add = [&](v1::Registration registration, absl::string_view word) {
    const int count = by_registration[registration];
    if (count > 0) parts.push_back(absl::StrCat(count, " ", word));
  };
  add(v1::REGISTRATION_REGISTERED, "registered");
  add(v1::REGISTRATION_SELF_LOADED, "self-loaded");
  add(v1::REGISTRATION_LEFT_OVER, "left over");
  if (damaged > 0) parts.push_back(absl::StrCat(damaged, " damaged"));
  return parts.empty() ? ""
                       : absl::StrCat(" (", absl::StrJoin(parts, ", "), ")");
}

void AppendField(absl::string_view name, absl::string_view value,
                 const ViewOptions& options, std::string* out) {
  if (value.empty()) return;
  std::string label(name);
  label.resize(10, ' ');
  absl::StrAppend(out, "  ", Paint(label, Style::kDim, options.color),
                  Wrap(value, static_cast<size_t>(options.width) - 12, 12),
                  "\n");
}

// "nvlink V13.0.88; ptxas V12.8.25, V13.0.88".
std::string Toolkits(const v1::FileReport& report) {
  std::map<std::string, std::set<std::string>> versions;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      // "Cuda compilation tools, release 13.0, V13.0.88": the end says it all.
      absl::string_view version = image.producer().tool_version();
      const size_t comma = version.rfind(", V");
      if (comma != absl::string_view::npos) version.remove_prefix(comma + 2);
      if (!version.empty()) {
        versions[Printable(image.producer().tool())].insert(Printable(version));
      }
    }
  }
  std::vector<std::string> parts;
  for (const auto& [tool, known] : versions) {
    parts.push_back(absl::StrCat(tool, " ", absl::StrJoin(known, ", ")));
  }
  return absl::StrJoin(parts, "; ");
}

// "wheel", "tar (packed with gzip)".
std::string FormatText(const v1::CarrierFacts& carrier) {
  std::string text =
      Printable(carrier.format().empty()          ? "archive"
                : carrier.format() == "oci_image" ? "OCI image"
                                                  : carrier.format());
  if (!carrier.filters().empty()) {
    absl::StrAppend(&text, " (packed with ", JoinBytes(carrier.filters(), ", "),
                    ")");
  }
  return text;
}

std::string PromiseText(const v1::PackagePromise& promise) {
  std::vector<std::string> parts;
  const std::string name = absl::StrCat(Printable(promise.name()),
                                        promise.version().empty() ? "" : " ",
                                        Printable(promise.version()));
  if (!name.empty()) parts.push_back(name);
  std::vector<std::string> cpus;
  for (const int cpu : promise.cpu_architectures()) {
    cpus.emplace_back(CpuText(static_cast<v1::CpuArchitecture>(cpu)));
  }
  if (!cpus.empty()) {
    parts.push_back(absl::StrCat("host CPU ", absl::StrJoin(cpus, ", ")));
  }
  if (promise.has_cuda_major()) {
    parts.push_back(absl::StrCat("CUDA ", promise.cuda_major()));
  }
  if (!promise.targets().empty()) {
    parts.push_back(
        absl::StrCat("targets ", JoinBytes(promise.targets(), " ")));
  }
  if (parts.empty()) return "";
  if (!promise.evidence().empty()) {
    parts.push_back(absl::StrCat("by ", JoinBytes(promise.evidence(), ", ")));
  }
  return absl::StrJoin(parts, ", ");
}

// "a.o, b.o, c.o and 4 more".
template <typename List>
std::string FirstNames(const List& list) {
  constexpr int kMax = 10;
  std::vector<std::string> names;
  for (const std::string& name : list) {
    if (static_cast<int>(names.size()) == kMax) break;
    names.push_back(Printable(name));
  }
  std::string text = absl::StrJoin(names, ", ");
  if (list.size() > kMax) {
    absl::StrAppend(&text, " and ", list.size() - kMax, " more");
  }
  return text;
}

void AppendCarrier(const v1::CarrierFacts& carrier, const ViewOptions& options,
                   std::string* out) {
  if (carrier.format().empty()) return;
  AppendField(
      "members",
      absl::StrCat(Plural(carrier.members(), "file"), ", ", carrier.reported(),
                   " reported, ", carrier.passed_over(), " passed over; ",
                   HumanBytes(carrier.expanded_bytes()), " unpacked"),
      options, out);
  if (!carrier.layers().empty()) {
    uint64_t hidden = 0;
    for (const v1::OciLayer& layer : carrier.layers()) hidden += layer.hidden();
    AppendField(
        "layers",
        absl::StrCat(carrier.layers_size(), "; ", Plural(hidden, "file"),
                     " replaced or removed by later ones"),
        options, out);
  }
  for (const v1::OciImageFacts& image : carrier.images()) {
    std::string words = image.digest().empty()
                            ? absl::StrCat(Printable(image.id()), " (its id)")
                            : Printable(image.digest());
    if (!image.label().empty()) {
      absl::StrAppend(&words, " ", Printable(image.label()));
    }
    if (!image.entrypoint().empty()) {
      absl::StrAppend(&words, ", entry point ",
                      Printable(absl::StrJoin(image.entrypoint(), " ")));
    }
    AppendField("OCI image", words, options, out);
  }
  if (!carrier.external_members().empty()) {
    AppendField(
        "outside",
        absl::StrCat(
            Plural(static_cast<uint64_t>(carrier.external_members_size()),
                   "member"),
            " beside the archive: ", FirstNames(carrier.external_members())),
        options, out);
  }
  AppendField("promise", PromiseText(carrier.promise()), options, out);
}

// Targets that the driver's link at load serves alone.
std::string LinkRemark(const v1::FileReport& report,
                       const ViewOptions& options) {
  std::vector<std::string> names;
  for (const inspect::ImageTarget& target : inspect::LinkedAtLoad(report)) {
    names.push_back(inspect::TargetName(target));
  }
  if (names.empty()) return "";
  return absl::StrCat(
      "    ",
      Paint(Wrap(absl::StrCat("only relocatable code, which the driver links "
                              "at load (TP216, TP217), is for ",
                              absl::StrJoin(names, ", ")),
                 static_cast<size_t>(options.width) - 4, 4),
            Style::kDim, options.color),
      "\n");
}

// Why a target may have more kernels than the file, where one has: `kernels`
// are the file's, by name.
std::string TotalsRemark(const v1::FileReport& report, uint64_t kernels,
                         const ViewOptions& options) {
  if (!report.kernels_read()) return "";
  const std::vector<inspect::TargetCount> counts =
      inspect::CountTargets(report);
  if (std::none_of(counts.begin(), counts.end(),
                   [kernels](const inspect::TargetCount& count) {
                     return count.kernels > kernels;
                   })) {
    return "";
  }
  return absl::StrCat(
      "    ",
      Paint(Wrap("a kernel that several fatbins hold counts in each of them "
                 "here, and once in the file's code",
                 static_cast<size_t>(options.width) - 4, 4),
            Style::kDim, options.color),
      "\n");
}

}  // namespace

absl::string_view FileKindText(v1::FileKind kind) {
  switch (kind) {
    case v1::FILE_KIND_ELF_EXECUTABLE:
      return "ELF executable";
    case v1::FILE_KIND_ELF_SHARED:
      return "ELF shared library";
    case v1::FILE_KIND_ELF_OBJECT:
      return "ELF object";
    case v1::FILE_KIND_FATBIN:
      return "fatbin";
    case v1::FILE_KIND_CUBIN:
      return "cubin";
    case v1::FILE_KIND_PTX:
      return "PTX text";
    case v1::FILE_KIND_TEXT:
      return "text";
    case v1::FILE_KIND_ARCHIVE:
      return "archive or package of a format that is not opened";
    case v1::FILE_KIND_PACKED:
      return "packed executable";
    case v1::FILE_KIND_OTHER:
      return "of an unknown kind";
    case v1::FILE_KIND_DAMAGED_ELF:
      return "damaged ELF file";
    case v1::FILE_KIND_LTO_IR:
      return "LTO-IR";
    case v1::FILE_KIND_OFFLOAD_BUNDLE:
      return "offload bundle";
    case v1::FILE_KIND_OCI_IMAGE:
      return "OCI image";
    default:
      return "not determined";
  }
}

absl::string_view CpuText(v1::CpuArchitecture cpu) {
  switch (cpu) {
    case v1::CPU_ARCHITECTURE_X86_64:
      return "x86-64";
    case v1::CPU_ARCHITECTURE_AARCH64:
      return "aarch64";
    case v1::CPU_ARCHITECTURE_OTHER:
      return "other";
    default:
      return "unknown";
  }
}

std::string RenderFileSummary(const v1::FileReport& report,
                              const ViewOptions& options,
                              const TargetWords& targets) {
  std::string head = report.has_carrier()
                         ? FormatText(report.carrier())
                         : std::string(FileKindText(report.kind()));
  if (report.has_elf()) {
    absl::StrAppend(&head, ", host CPU ",
                    CpuText(report.elf().cpu_architecture()));
  }
  absl::StrAppend(&head, ", ", HumanBytes(report.size_bytes()));
  std::string out =
      absl::StrCat(Paint(Printable(report.name()), Style::kBold, options.color),
                   ": ", head, "\n");
  if (report.digest().sha256().size() == 32) {
    AppendField("sha256", HexOf(report.digest()), options, &out);
  }
  if (report.has_elf()) {
    const v1::ElfFacts& elf = report.elf();
    AppendField("needs", JoinBytes(elf.needed(), ", "), options, &out);
    // Searched before LD_LIBRARY_PATH, and not at all where there is the other.
    if (elf.runpath().empty()) {
      AppendField("rpath", JoinBytes(elf.rpath(), ":"), options, &out);
    }
    AppendField("runpath", JoinBytes(elf.runpath(), ":"), options, &out);
    std::string runtime;
    if (elf.static_cudart()) {
      runtime = "CUDA runtime linked in statically";
    } else if (elf.has_cudart()) {
      runtime = "CUDA runtime as a shared library";
    }
    if (elf.has_cudart()) {
      absl::StrAppend(&runtime, ", release ",
                      elf.cudart().minor() == 0 && !elf.static_cudart()
                          ? absl::StrCat(elf.cudart().major())
                          : VersionText(elf.cudart()));
    }
    AppendField("runtime", runtime, options, &out);
  }
  std::vector<std::string> compilers;
  for (const v1::RuntimeCompiler& compiler : report.runtime_compilers()) {
    compilers.push_back(absl::StrCat(compiler.name(), " (",
                                     Printable(compiler.evidence()), ")"));
  }
  AppendField("compiles",
              compilers.empty() ? ""
                                : absl::StrCat("at run time with ",
                                               absl::StrJoin(compilers, ", ")),
              options, &out);
  AppendField("made by", Toolkits(report), options, &out);

  AppendCarrier(report.carrier(), options, &out);
  std::string code;
  uint64_t kernels = 0;
  if (report.fatbins().empty()) {
    // A carrier's code is its members'.
    if (!report.has_carrier()) code = "no device code";
  } else {
    // An image outside any fatbin is reported as one that holds it alone.
    const auto bare = static_cast<uint64_t>(
        std::count_if(report.fatbins().begin(), report.fatbins().end(),
                      [](const v1::Fatbin& fatbin) { return fatbin.bare(); }));
    const uint64_t fatbins =
        static_cast<uint64_t>(report.fatbins_size()) - bare;
    if (fatbins > 0) {
      code =
          absl::StrCat(Plural(fatbins, "fatbin"), FatbinCounts(report), ", ");
    }
    absl::StrAppend(&code, Plural(inspect::CountImages(report), "image"),
                    bare > 0 && fatbins > 0
                        ? absl::StrCat(" (", bare, " outside fatbins)")
                        : "");
    if (report.kernels_read()) {
      kernels = inspect::CoverKernels({&report}).size();
      absl::StrAppend(&code, ", ", Plural(kernels, "kernel"));
    }
  }
  AppendField("code", code, options, &out);
  if (report.unnamed_kernel_count() > 0) {
    AppendField("unnamed",
                absl::StrCat(Plural(report.unnamed_kernel_count(), "kernel"),
                             " that the host code never names (TP240)"),
                options, &out);
  }
  TargetTotals totals;
  totals.Add(report, targets);
  if (!targets.empty() && totals.empty() && !report.fatbins().empty()) {
    std::vector<std::string> words;
    for (const TargetWord& word : targets) words.push_back(word.name());
    AppendField("targets",
                absl::StrCat("no image for ", absl::StrJoin(words, ", ")),
                options, &out);
  }
  absl::StrAppend(&out, totals.Render(false, options),
                  LinkRemark(report, options),
                  TotalsRemark(report, kernels, options));
  std::vector<std::string> image_problems;
  size_t more = 0;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    const auto note = [&](absl::string_view what, absl::string_view problem) {
      if (image_problems.size() >= static_cast<size_t>(kMaxProblems)) {
        ++more;
        return;
      }
      image_problems.push_back(absl::StrCat(what, ": ", Printable(problem)));
    };
    if (!fatbin.problem().empty()) {
      note(absl::StrCat("fatbin ", fatbin.index()), fatbin.problem());
    }
    for (const v1::Image& image : fatbin.images()) {
      if (!image.problem().empty()) {
        note(absl::StrCat("image ", image.index(), " (",
                          inspect::TargetName(image), ")"),
             image.problem());
      }
    }
  }
  if (!report.problems().empty() || !image_problems.empty()) {
    absl::StrAppend(
        &out, "  ", Paint("problems", Style::kBad, options.color), "\n",
        RenderReasonList({report.problems().begin(),
                          report.problems().begin() +
                              std::min(report.problems_size(), kMaxProblems)},
                         options));
    if (report.problems_size() > kMaxProblems) {
      absl::StrAppend(&out, "    and ", report.problems_size() - kMaxProblems,
                      " more\n");
    }
    for (const std::string& line : image_problems) {
      absl::StrAppend(&out, "    ", line, "\n");
    }
    if (more > 0) absl::StrAppend(&out, "    and ", more, " more\n");
  }
  return out;
}

}  // namespace twinpath::cli
