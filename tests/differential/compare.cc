#include "tests/differential/compare.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "inspect/byte_source.h"
#include "runner/witness_rules.h"
#include "tests/differential/cuobjdump.h"
#include "tests/inspect/byte_writer.h"

namespace twinpath::differential {
namespace {

using inspect::Align;
using inspect::Append;

// Most PTX text, expanded, for which its kernels are compared: cuobjdump has
// to print it all.
constexpr uint64_t kMostPtxBytes = uint64_t{256} << 20;
constexpr size_t kMostUnexplained = 20;
// Images copied for one run of cuobjdump where it gave up at the whole file.
constexpr size_t kMostAtOnce = 64;

// Whether -symbols shows the kernels of such an image.
bool NamesListed(const v1::Image& image) {
  return runner::WitnessKind(image) == "elf";
}

std::string Describe(const v1::Image& image) {
  return absl::StrCat(
      runner::WitnessKind(image), " ", runner::WitnessTarget(image),
      image.compression() == v1::COMPRESSION_NONE ? " plain" : " compressed",
      " with ", image.kernels_size(), " kernels at offset ", image.offset());
}

std::string Describe(const OracleImage& image) {
  return absl::StrCat(image.kind, " ", image.target,
                      image.compressed ? " compressed" : " plain", " with ",
                      image.kernels.size(), " kernels");
}

// WriteFileAtomic syncs, which these many small files cannot wait for.
absl::Status WriteCopy(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file ? absl::OkStatus()
              : absl::InternalError(absl::StrCat(path, ": cannot write"));
}

using EntryOf = std::function<absl::StatusOr<std::string>(size_t)>;

// A fatbin of the entries given.
std::string MakeFatbin(const std::string& entries) {
  std::string fatbin;
  Append<uint32_t>(fatbin, 0xba55ed50);
  Append<uint16_t>(fatbin, 1);
  Append<uint16_t>(fatbin, 16);
  Append<uint64_t>(fatbin, entries.size());
  return fatbin + entries;
}

class Comparer {
 public:
  Comparer(const std::string& scratch, Comparison& comparison)
      : scratch_(scratch), comparison_(comparison) {}

  void Unexplained(const std::string& text) {
    if (comparison_.unexplained.size() < kMostUnexplained) {
      comparison_.unexplained.push_back(text);
    }
  }

  // Images of one listing against ours, in order.
  // `entry_of` gives the fatbin entry of an image, by its place in `ours`.
  absl::Status CompareFile(const std::string& file,
                           const std::vector<const v1::Image*>& ours,
                           const EntryOf& entry_of, const std::string& what,
                           uint64_t* listed);

  // The images from `next` on, for a file at which cuobjdump gave up there: in
  // files of one image each.
  absl::Status CompareOneByOne(const std::vector<const v1::Image*>& ours,
                               const EntryOf& entry_of, size_t next,
                               const std::string& what);

  // Images that cuobjdump does not list where they are, from copies of their
  // fatbins in a section that it reads.
  absl::Status CompareCopies(const std::string& rule,
                             const std::vector<const v1::Image*>& images,
                             const std::vector<std::string>& fatbins,
                             const EntryOf& entry_of);

 private:
  void CompareImage(const v1::Image& ours, const OracleImage& theirs,
                    const std::string& what, bool with_kernels);

  const std::string& scratch_;
  Comparison& comparison_;
};

void Comparer::CompareImage(const v1::Image& ours, const OracleImage& theirs,
                            const std::string& what, bool with_kernels) {
  bool equal =
      runner::WitnessKind(ours) == theirs.kind &&
      runner::WitnessTarget(ours) == theirs.target &&
      (ours.compression() != v1::COMPRESSION_NONE) == theirs.compressed;
  if (equal && with_kernels) {
    std::vector<std::string> names;
    for (const v1::Kernel& kernel : ours.kernels()) {
      names.push_back(kernel.name());
    }
    std::sort(names.begin(), names.end());
    equal = ours.kernels_read() && names == theirs.kernels;
    if (equal) comparison_.kernels += names.size();
  }
  if (equal) {
    ++comparison_.compared;
  } else {
    Unexplained(absl::StrCat(what, ": ours ", Describe(ours), ", theirs ",
                             Describe(theirs)));
  }
}

absl::Status Comparer::CompareFile(const std::string& file,
                                   const std::vector<const v1::Image*>& ours,
                                   const EntryOf& entry_of,
                                   const std::string& what, uint64_t* listed) {
  absl::StatusOr<OracleListing> listing = ListImages(file, /*all=*/true);
  if (!listing.ok()) return listing.status();
  std::vector<OracleImage>& theirs = listing->images;
  // The image at which it gave up is announced and not read.
  if (!listing->gave_up.empty() && !theirs.empty()) theirs.pop_back();
  if (listed != nullptr) *listed = theirs.size();

  uint64_t ptx_bytes = 0;
  for (const v1::Image* image : ours) {
    if (runner::IsPtx(*image)) ptx_bytes += image->expanded_bytes();
  }
  const bool with_ptx =
      ptx_bytes > 0 && ptx_bytes <= kMostPtxBytes && listing->gave_up.empty();
  if (with_ptx) {
    absl::StatusOr<std::vector<std::vector<std::string>>> kernels =
        ListPtxKernels(file);
    if (!kernels.ok()) return kernels.status();
    size_t next = 0;
    for (OracleImage& image : theirs) {
      if (image.kind != "ptx" || next >= kernels->size()) continue;
      image.kernels = std::move((*kernels)[next++]);
    }
    if (next != kernels->size()) {
      Unexplained(absl::StrCat(what, ": -ptx prints ", kernels->size(),
                               " images, -symbols ", next));
    }
  }
  for (size_t i = 0; i < ours.size() && i < theirs.size(); ++i) {
    CompareImage(
        *ours[i], theirs[i], what,
        NamesListed(*ours[i]) || (runner::IsPtx(*ours[i]) && with_ptx));
  }
  if (theirs.size() > ours.size()) {
    Unexplained(absl::StrCat(what, ": ", theirs.size() - ours.size(),
                             " images more than ours, first ",
                             Describe(theirs[ours.size()])));
  } else if (ours.size() > theirs.size()) {
    const uint64_t missing = ours.size() - theirs.size();
    if (!listing->gave_up.empty()) {
      return CompareOneByOne(ours, entry_of, theirs.size(), what);
    } else {
      Unexplained(absl::StrCat(what, ": ", missing,
                               " images not listed, first ",
                               Describe(*ours[theirs.size()])));
    }
  }
  return absl::OkStatus();
}

absl::Status Comparer::CompareOneByOne(
    const std::vector<const v1::Image*>& ours, const EntryOf& entry_of,
    size_t next, const std::string& what) {
  const std::string copy = JoinPath(scratch_, "one.fatbin");
  // As many as it takes, by what it took last.
  size_t at_once = kMostAtOnce;
  for (size_t i = next; i < ours.size();) {
    std::string entries;
    const size_t end = std::min(ours.size(), i + at_once);
    for (size_t k = i; k < end; ++k) {
      const absl::StatusOr<std::string> entry = entry_of(k);
      if (!entry.ok()) return entry.status();
      entries += *entry;
    }
    const absl::Status written = WriteCopy(copy, MakeFatbin(entries));
    if (!written.ok()) return written;
    const absl::StatusOr<OracleListing> listing =
        ListImages(copy, /*all=*/true);
    if (!listing.ok()) return listing.status();
    size_t read = listing->images.size();
    if (!listing->gave_up.empty() && read > 0) --read;
    for (size_t k = 0; k < read && i + k < end; ++k) {
      CompareImage(*ours[i + k], listing->images[k], what,
                   NamesListed(*ours[i + k]));
    }
    i += read;
    if (listing->gave_up.empty()) {
      if (i != end) {
        Unexplained(absl::StrCat(what, ": of ", end - i + read,
                                 " images copied theirs lists ", read));
        return absl::OkStatus();
      }
      at_once = std::min(2 * at_once, kMostAtOnce);
      continue;
    }
    // The next image alone is the one it refuses.
    ++comparison_.rules[runner::kRuleRefuses];
    ++i;
    at_once = std::clamp(read + 1, size_t{2}, kMostAtOnce);
  }
  (void)RemoveTree(copy);
  return absl::OkStatus();
}

absl::Status Comparer::CompareCopies(
    const std::string& rule, const std::vector<const v1::Image*>& images,
    const std::vector<std::string>& fatbins, const EntryOf& entry_of) {
  if (images.empty()) return absl::OkStatus();
  comparison_.rules[rule] += images.size();
  const std::string file = JoinPath(scratch_, "copy.fatbin");
  std::string bytes;
  for (const std::string& fatbin : fatbins) {
    Align(bytes, 8);
    bytes += fatbin;
  }
  absl::Status status = WriteCopy(file, bytes);
  if (status.ok()) status = CompareFile(file, images, entry_of, rule, nullptr);
  (void)RemoveTree(file);
  return status;
}

// A fatbin of one entry around the stored bytes of a bare image.
std::string WrapImage(const v1::Image& image, std::string stored) {
  const bool packed = image.compression() != v1::COMPRESSION_NONE;
  const bool ptx = runner::IsPtx(image);
  const uint32_t exact = static_cast<uint32_t>(stored.size());
  // PTX ends with a NUL.
  if (ptx && !packed) stored.push_back('\0');
  Align(stored, 8);
  std::string entry;
  Append<uint16_t>(entry, ptx ? 1 : 2);
  Append<uint16_t>(entry, 0x0101);
  Append<uint32_t>(entry, ptx ? 72 : 64);
  Append<uint64_t>(entry, stored.size());
  Append<uint32_t>(entry, packed ? exact : 0);
  Append<uint32_t>(entry, ptx ? 64 : 0);
  Append<uint16_t>(entry, 8);
  Append<uint16_t>(entry, 1);
  Append<uint32_t>(entry, image.target().number());
  Append<uint64_t>(entry, 0);  // no name
  Append<uint64_t>(entry, packed ? 0x8011 : 0x11);
  Append<uint64_t>(entry, 0);
  Append<uint64_t>(entry, packed ? image.expanded_bytes() : 0);
  // Options: none, at the header's end.
  if (ptx) Append<uint64_t>(entry, 72);
  entry += stored;
  return MakeFatbin(entry);
}

}  // namespace

absl::Status Compare(const std::string& path, const v1::FileReport& report,
                     const std::string& scratch, Comparison& comparison) {
  absl::StatusOr<UniqueFd> fd = OpenRegularFile(path);
  if (!fd.ok()) return fd.status();
  absl::StatusOr<inspect::FileSource> source =
      inspect::FileSource::Open(fd->get());
  if (!source.ok()) return source.status();

  // cuobjdump goes through .nv_fatbin, then through __nv_relfatbin; in an
  // archive member by member, of which the report knows no sections.
  const bool archive = report.kind() == v1::FILE_KIND_ARCHIVE;
  std::vector<const v1::Image*> final_images;
  std::vector<const v1::Image*> relocatable;
  std::vector<const v1::Image*> elsewhere;
  std::vector<const v1::Image*> bare;
  std::vector<std::string> moved;
  std::vector<std::string> wrapped;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    if (fatbin.damaged()) {
      comparison.unexplained.push_back(
          absl::StrCat("damaged fatbin at ", fatbin.offset()));
    }
    const runner::WitnessPlace place = runner::PlaceOf(fatbin, archive);
    std::vector<const v1::Image*>& into =
        place == runner::WitnessPlace::kBare              ? bare
        : place == runner::WitnessPlace::kOutsideSections ? elsewhere
        : place == runner::WitnessPlace::kRelocatable     ? relocatable
                                                          : final_images;
    bool moves = false;
    for (const v1::Image& image : fatbin.images()) {
      ++comparison.ours;
      into.push_back(&image);
      moves = true;
      if (!fatbin.bare()) continue;
      std::string stored(image.stored_bytes(), '\0');
      const absl::Status read =
          source->ReadAt(image.offset(), stored.size(), stored.data());
      if (!read.ok()) return read;
      wrapped.push_back(WrapImage(image, std::move(stored)));
    }
    if (!moves || place != runner::WitnessPlace::kOutsideSections) continue;
    std::string bytes(fatbin.size_bytes(), '\0');
    const absl::Status read =
        source->ReadAt(fatbin.offset(), bytes.size(), bytes.data());
    if (!read.ok()) return read;
    moved.push_back(std::move(bytes));
  }

  Comparer comparer(scratch, comparison);
  const auto entry_at = [&source](const std::vector<const v1::Image*>& images) {
    return [&source, &images](size_t i) -> absl::StatusOr<std::string> {
      uint32_t header = 0;
      absl::Status read =
          source->ReadAt(images[i]->offset() + 4, sizeof(header),
                         reinterpret_cast<char*>(&header));
      if (!read.ok()) return read;
      std::string entry(header + images[i]->stored_bytes(), '\0');
      read = source->ReadAt(images[i]->offset(), entry.size(), entry.data());
      if (!read.ok()) return read;
      return entry;
    };
  };
  std::vector<const v1::Image*> listed = final_images;
  listed.insert(listed.end(), relocatable.begin(), relocatable.end());
  if (const absl::Status status = comparer.CompareFile(
          path, listed, entry_at(listed), "in the file", &comparison.theirs);
      !status.ok()) {
    return status;
  }
  if (!final_images.empty() && !relocatable.empty()) {
    const absl::StatusOr<OracleListing> listing =
        ListImages(path, /*all=*/false);
    if (!listing.ok()) return listing.status();
    if (!listing->gave_up.empty()) {
      // Compared one by one above.
    } else if (listing->images.size() == final_images.size()) {
      comparison.rules[runner::kRuleRelocatableNeedsAll] += relocatable.size();
    } else {
      comparer.Unexplained(absl::StrCat("without -all: theirs ",
                                        listing->images.size(), ", ours ",
                                        final_images.size()));
    }
  }

  if (const absl::Status status = comparer.CompareCopies(
          runner::kRuleOutsideSections, elsewhere, moved, entry_at(elsewhere));
      !status.ok()) {
    return status;
  }
  return comparer.CompareCopies(
      runner::kRuleBareImage, bare, wrapped,
      [&wrapped](size_t i) -> absl::StatusOr<std::string> {
        return wrapped[i].substr(16);
      });
}

}  // namespace twinpath::differential
