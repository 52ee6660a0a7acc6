#include "cli/report_view.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "cli/reason_view.h"
#include "cli/table.h"
#include "inspect/summary.h"

namespace twinpath::cli {
namespace {

absl::string_view ImageKindText(v1::ImageKind kind) {
  switch (kind) {
    case v1::IMAGE_KIND_SASS:
      return "SASS";
    case v1::IMAGE_KIND_PTX:
      return "PTX";
    case v1::IMAGE_KIND_RELOCATABLE_SASS:
      return "relocatable SASS";
    case v1::IMAGE_KIND_RELOCATABLE_PTX:
      return "relocatable PTX";
    case v1::IMAGE_KIND_LTO_IR:
      return "LTO-IR";
    default:
      return "other";
  }
}

absl::string_view CompressionText(v1::Compression compression) {
  switch (compression) {
    case v1::COMPRESSION_NONE:
      return "none";
    case v1::COMPRESSION_ZLIB:
      return "zlib";
    case v1::COMPRESSION_LZ4_BLOCK:
      return "lz4";
    case v1::COMPRESSION_LZ4_FRAME:
      return "lz4 frame";
    case v1::COMPRESSION_ZSTD:
      return "zstd";
    case v1::COMPRESSION_OPAQUE:
      return "opaque";
    default:
      return "-";
  }
}

std::string Plural(uint64_t count, absl::string_view word) {
  return absl::StrCat(count, " ", word, count == 1 ? "" : "s");
}

template <typename List>
std::string JoinBytes(const List& list, absl::string_view separator) {
  std::vector<std::string> parts;
  for (const std::string& part : list) parts.push_back(Printable(part));
  return absl::StrJoin(parts, separator);
}

// PTX ISA versions of a target's images, "9.0" or "8.0, 9.0".
std::string PtxIsas(const v1::FileReport& report,
                    const inspect::ImageTarget& target) {
  std::set<std::pair<uint32_t, uint32_t>> versions;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      if (image.has_ptx_isa() && inspect::TargetOf(image) == target) {
        versions.emplace(image.ptx_isa().major(), image.ptx_isa().minor());
      }
    }
  }
  std::vector<std::string> parts;
  for (const auto& [major, minor] : versions) {
    parts.push_back(absl::StrCat(major, ".", minor));
  }
  return absl::StrJoin(parts, ", ");
}

std::string FatbinCounts(const v1::FileReport& report) {
  std::map<v1::Registration, int> by_registration;
  int damaged = 0;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
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

std::string Toolkits(const v1::FileReport& report) {
  std::set<std::string> versions;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      if (!image.producer().tool_version().empty()) {
        versions.insert(Printable(absl::StrCat(
            image.producer().tool(), " ", image.producer().tool_version())));
      }
    }
  }
  return absl::StrJoin(versions, "; ");
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
      return "archive or package (not opened by this version)";
    case v1::FILE_KIND_PACKED:
      return "packed executable";
    case v1::FILE_KIND_OTHER:
      return "of an unknown kind";
    case v1::FILE_KIND_DAMAGED_ELF:
      return "damaged ELF file";
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
                              const ViewOptions& options) {
  std::string head = absl::StrCat(FileKindText(report.kind()));
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
    AppendField(
        "runpath",
        JoinBytes(elf.runpath().empty() ? elf.rpath() : elf.runpath(), ":"),
        options, &out);
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

  const std::vector<inspect::TargetCount> targets =
      inspect::CountTargets(report);
  std::string code;
  if (report.fatbins().empty()) {
    code = "no device code";
  } else {
    code = absl::StrCat(report.fatbins_size(), " fatbin",
                        report.fatbins_size() == 1 ? "" : "s",
                        FatbinCounts(report), ", ",
                        Plural(inspect::CountImages(report), "image"));
    if (report.kernels_read()) {
      absl::StrAppend(
          &code, ", ",
          Plural(inspect::CoverKernels({&report}).size(), "kernel"));
    }
  }
  AppendField("code", code, options, &out);
  if (!targets.empty()) {
    Table table({"    TARGET", "KIND", "PTX ISA", "IMAGES",
                 report.kernels_read() ? "KERNELS" : "", "STORED",
                 report.kernels_read() ? "EXPANDED" : ""});
    for (const inspect::TargetCount& count : targets) {
      const std::string isa = PtxIsas(report, count.target);
      table.AddRow(
          {absl::StrCat("    ", inspect::TargetName(count.target)),
           std::string(ImageKindText(count.target.kind)),
           isa.empty() ? "-" : isa, absl::StrCat(count.images),
           report.kernels_read() ? absl::StrCat(count.kernels) : "",
           HumanBytes(count.stored_bytes),
           report.kernels_read() ? HumanBytes(count.expanded_bytes) : ""});
    }
    absl::StrAppend(&out, table.Render(options.width, options.color));
  }
  std::vector<std::string> image_problems;
  size_t more = 0;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    const auto note = [&](absl::string_view what, absl::string_view problem) {
      if (image_problems.size() >= 10) {
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
        RenderReasonList({report.problems().begin(), report.problems().end()},
                         options));
    for (const std::string& line : image_problems) {
      absl::StrAppend(&out, "    ", line, "\n");
    }
    if (more > 0) absl::StrAppend(&out, "    and ", more, " more\n");
  }
  return out;
}

std::string RenderKernels(const v1::FileReport& report,
                          const ViewOptions& options) {
  if (!report.kernels_read()) return "";
  Table table({"    KERNEL", "TARGETS"});
  for (const inspect::KernelCoverage& kernel :
       inspect::CoverKernels({&report})) {
    std::vector<std::string> names;
    for (const inspect::ImageTarget& target : kernel.targets) {
      names.push_back(inspect::TargetName(target));
    }
    table.AddRow(
        {absl::StrCat("    ", kernel.name), absl::StrJoin(names, " ")});
  }
  // Mangled names are for copying: they are never cut.
  return table.empty() ? "" : table.Render(0, options.color);
}

std::string RenderImages(const v1::FileReport& report,
                         const ViewOptions& options) {
  Table table({"    IMAGE", "FATBIN", "OFFSET", "TARGET", "KIND", "PTX ISA",
               "STORED", "EXPANDED", "PACKED", "KERNELS", "NAME"});
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      table.AddRow(
          {absl::StrCat("    ", image.index()), absl::StrCat(fatbin.index()),
           absl::StrCat("0x", absl::Hex(image.offset())),
           inspect::TargetName(image), std::string(ImageKindText(image.kind())),
           image.has_ptx_isa() ? VersionText(image.ptx_isa()) : "-",
           HumanBytes(image.stored_bytes()), HumanBytes(image.expanded_bytes()),
           std::string(CompressionText(image.compression())),
           image.kernels_read() ? absl::StrCat(image.kernels_size()) : "-",
           Printable(image.name())});
    }
  }
  return table.empty() ? "" : table.Render(0, options.color);
}

}  // namespace twinpath::cli
