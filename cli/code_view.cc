#include "cli/code_view.h"

#include <re2/re2.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/reason_view.h"
#include "cli/table.h"
#include "cli/view_options.h"

namespace twinpath::cli {
namespace {

// Longest name in a column of its own: what stands behind a longer one is out
// of sight.
constexpr size_t kMaxColumn = 72;

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
    case v1::COMPRESSION_GZIP:
      return "gzip";
    case v1::COMPRESSION_OPAQUE:
      return "opaque";
    default:
      return "-";
  }
}

bool Found(const re2::RE2* match, absl::string_view text) {
  return match == nullptr ||
         re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()),
                                *match);
}

bool KernelFits(const v1::Kernel& kernel, const CodeFilter& filter) {
  return Found(filter.match, kernel.name()) ||
         (!kernel.demangled().empty() &&
          Found(filter.match, kernel.demangled()));
}

bool ImageFits(const v1::Image& image, const CodeFilter& filter) {
  if (!Selects(filter.targets, inspect::TargetOf(image))) return false;
  if (Found(filter.match, image.name())) return true;
  return std::any_of(
      image.kernels().begin(), image.kernels().end(),
      [&](const v1::Kernel& kernel) { return KernelFits(kernel, filter); });
}

// One kernel of a file and the images that hold it.
struct KernelPlaces {
  struct Place {
    const v1::Image* image;
    const v1::Kernel* kernel;
  };
  std::string demangled;
  std::vector<Place> places;
};

std::map<std::string, KernelPlaces> PlacesByName(const v1::FileReport& report,
                                                 const CodeFilter& filter) {
  std::map<std::string, KernelPlaces> kernels;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    // Left-over images cannot be launched.
    if (fatbin.registration() == v1::REGISTRATION_LEFT_OVER) continue;
    for (const v1::Image& image : fatbin.images()) {
      if (!Selects(filter.targets, inspect::TargetOf(image))) continue;
      for (const v1::Kernel& kernel : image.kernels()) {
        if (!KernelFits(kernel, filter)) continue;
        KernelPlaces& places = kernels[kernel.name()];
        if (places.demangled.empty()) places.demangled = kernel.demangled();
        places.places.push_back({&image, &kernel});
      }
    }
  }
  return kernels;
}

std::string TargetNames(const KernelPlaces& kernel) {
  std::set<inspect::ImageTarget> targets;
  for (const KernelPlaces::Place& place : kernel.places) {
    targets.insert(inspect::TargetOf(*place.image));
  }
  std::vector<std::string> names;
  for (const inspect::ImageTarget& target : targets) {
    names.push_back(inspect::TargetName(target));
  }
  return absl::StrJoin(names, " ");
}

std::string DemangledLine(const KernelPlaces& kernel,
                          const ViewOptions& options) {
  if (kernel.demangled.empty()) return "";
  return absl::StrCat(
      "      ", Paint(Printable(kernel.demangled), Style::kDim, options.color),
      "\n");
}

std::string RenderKernelDetails(
    const std::map<std::string, KernelPlaces>& kernels,
    const CodeFilter& filter, const ViewOptions& options) {
  std::string out;
  for (const auto& [name, kernel] : kernels) {
    absl::StrAppend(&out, "    ", Printable(name), "\n");
    if (filter.demangle) absl::StrAppend(&out, DemangledLine(kernel, options));
    for (const KernelPlaces::Place& place : kernel.places) {
      std::string target = inspect::TargetName(*place.image);
      target.resize(std::max<size_t>(target.size() + 2, 14), ' ');
      std::vector<std::string> parts = {
          absl::StrCat("image ", place.image->index())};
      if (place.kernel->has_registers()) {
        parts.push_back(absl::StrCat(place.kernel->registers(), " registers"));
      }
      if (place.kernel->has_shared_bytes()) {
        parts.push_back(
            absl::StrCat(place.kernel->shared_bytes(), " bytes shared"));
      }
      if (place.kernel->has_max_threads()) {
        parts.push_back(
            absl::StrCat("at most ", place.kernel->max_threads(), " threads"));
      }
      absl::StrAppend(&out, "      ", target, absl::StrJoin(parts, ", "), "\n");
    }
  }
  return out;
}

// "made by ptxas Cuda compilation tools, release 13.0, V13.0.88: -O3 ..."
std::string ProducerLine(const v1::Image& image) {
  std::vector<std::string> parts;
  if (image.has_virtual_architecture()) {
    parts.push_back(
        absl::StrCat("from compute_", image.virtual_architecture()));
  }
  if (!image.producer().tool().empty()) {
    parts.push_back(
        absl::StrCat("by ", Printable(image.producer().tool()),
                     image.producer().tool_version().empty() ? "" : ", ",
                     Printable(image.producer().tool_version())));
  }
  if (!image.producer().options().empty()) {
    parts.push_back(
        absl::StrCat("options ", Printable(image.producer().options())));
  }
  return absl::StrJoin(parts, "; ");
}

}  // namespace

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

void TargetTotals::Add(const v1::FileReport& report,
                       const TargetWords& targets) {
  kernels_read_ |= report.kernels_read();
  for (const inspect::TargetCount& add : inspect::CountTargets(report)) {
    if (!Selects(targets, add.target)) continue;
    Count& count = counts_[add.target];
    count.images.target = add.target;
    count.images.images += add.images;
    count.images.kernels += add.kernels;
    count.images.stored_bytes += add.stored_bytes;
    count.images.expanded_bytes += add.expanded_bytes;
    ++count.files;
  }
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      if (!image.has_ptx_isa()) continue;
      const auto found = counts_.find(inspect::TargetOf(image));
      if (found == counts_.end()) continue;
      found->second.ptx_isas.emplace(image.ptx_isa().major(),
                                     image.ptx_isa().minor());
    }
  }
}

std::vector<std::string> TargetTotals::Names() const {
  std::vector<std::string> names;
  for (const auto& [target, count] : counts_) {
    names.push_back(inspect::TargetName(target));
  }
  return names;
}

std::string TargetTotals::Render(bool files, const ViewOptions& options) const {
  std::vector<std::string> headers = {"    TARGET", "KIND", "PTX ISA"};
  if (files) headers.push_back("FILES");
  headers.push_back("IMAGES");
  if (kernels_read_) headers.push_back("KERNELS");
  headers.push_back("STORED");
  if (kernels_read_) headers.push_back("EXPANDED");
  Table table(headers);
  // What the table is for is said whole, however narrow the terminal.
  table.KeepColumn(0);
  table.WrapColumn(1);
  table.WrapColumn(2);
  const auto add_row = [&](const std::string& name, v1::ImageKind kind,
                           const Count& count, const std::string& in_files) {
    std::vector<std::string> isas;
    for (const auto& [major, minor] : count.ptx_isas) {
      isas.push_back(absl::StrCat(major, ".", minor));
    }
    std::vector<TableCell> row = {
        absl::StrCat("    ", name), std::string(ImageKindText(kind)),
        isas.empty() ? "-" : absl::StrJoin(isas, ", ")};
    if (files) row.emplace_back(in_files);
    row.emplace_back(absl::StrCat(count.images.images));
    if (kernels_read_) row.emplace_back(absl::StrCat(count.images.kernels));
    row.emplace_back(HumanBytes(count.images.stored_bytes));
    if (kernels_read_) {
      row.emplace_back(HumanBytes(count.images.expanded_bytes));
    }
    table.AddRow(std::move(row));
  };
  // Ordered by kind; what the driver does not load comes last.
  std::map<v1::ImageKind, std::vector<const Count*>> folded;
  for (const auto& [target, count] : counts_) {
    if (files && target.kind != v1::IMAGE_KIND_SASS &&
        target.kind != v1::IMAGE_KIND_PTX) {
      folded[target.kind].push_back(&count);
      continue;
    }
    add_row(inspect::TargetName(target), target.kind, count,
            absl::StrCat(count.files));
  }
  for (const auto& [kind, counts] : folded) {
    if (counts.size() == 1) {
      add_row(inspect::TargetName(counts[0]->images.target), kind, *counts[0],
              absl::StrCat(counts[0]->files));
      continue;
    }
    Count sum;
    for (const Count* count : counts) {
      sum.images.images += count->images.images;
      sum.images.kernels += count->images.kernels;
      sum.images.stored_bytes += count->images.stored_bytes;
      sum.images.expanded_bytes += count->images.expanded_bytes;
      sum.ptx_isas.insert(count->ptx_isas.begin(), count->ptx_isas.end());
    }
    add_row(absl::StrCat(counts.size(), " targets"), kind, sum, "-");
  }
  return table.empty() ? "" : table.Render(options.width, options.color);
}

std::string RenderKernels(const v1::FileReport& report,
                          const CodeFilter& filter,
                          const ViewOptions& options) {
  if (!report.kernels_read()) return "";
  const std::map<std::string, KernelPlaces> kernels =
      PlacesByName(report, filter);
  if (filter.details) return RenderKernelDetails(kernels, filter, options);
  if (filter.demangle) {
    std::string out;
    for (const auto& [name, kernel] : kernels) {
      absl::StrAppend(&out, "    ", Printable(name), "  ", TargetNames(kernel),
                      "\n", DemangledLine(kernel, options));
    }
    return out;
  }
  const bool wide = std::any_of(
      kernels.begin(), kernels.end(),
      [](const auto& entry) { return entry.first.size() > kMaxColumn; });
  if (wide) {
    std::string out;
    for (const auto& [name, kernel] : kernels) {
      absl::StrAppend(&out, "    ", Printable(name), "  ", TargetNames(kernel),
                      "\n");
    }
    return out;
  }
  Table table({"    KERNEL", "TARGETS"});
  for (const auto& [name, kernel] : kernels) {
    table.AddRow({absl::StrCat("    ", name), TargetNames(kernel)});
  }
  // Mangled names are for copying: they are never cut.
  return table.empty() ? "" : table.Render(0, options.color);
}

std::string RenderImages(const v1::FileReport& report, const CodeFilter& filter,
                         const ViewOptions& options) {
  Table table({"    IMAGE", "FATBIN", "OFFSET", "TARGET", "KIND", "PTX ISA",
               "STORED", "EXPANDED", "PACKED", "KERNELS", "NAME"});
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      if (!ImageFits(image, filter)) continue;
      table.AddRow(
          {absl::StrCat("    ", image.index()),
           fatbin.bare() ? "bare" : absl::StrCat(fatbin.index()),
           absl::StrCat("0x", absl::Hex(image.offset())),
           inspect::TargetName(image), std::string(ImageKindText(image.kind())),
           image.has_ptx_isa() ? VersionText(image.ptx_isa()) : "-",
           HumanBytes(image.stored_bytes()), HumanBytes(image.expanded_bytes()),
           std::string(CompressionText(image.compression())),
           image.kernels_read() ? absl::StrCat(image.kernels_size()) : "-",
           Printable(image.name())});
      if (!filter.details) continue;
      const std::string producer = ProducerLine(image);
      if (!producer.empty()) table.AddNote(producer, Style::kDim);
    }
  }
  return table.empty() ? "" : table.Render(0, options.color);
}

}  // namespace twinpath::cli
