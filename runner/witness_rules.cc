#include "runner/witness_rules.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/target_name.h"
#include "base/text.h"

namespace twinpath::runner {
namespace {

// A target's place in the counts: PTX behind machine code.
using Key = std::pair<bool, std::string>;

bool IsMachineCode(const v1::Image& image) {
  return image.kind() == v1::IMAGE_KIND_SASS ||
         image.kind() == v1::IMAGE_KIND_RELOCATABLE_SASS;
}

// "sm_90a": what follows is not read.
bool IsTargetWord(absl::string_view word) {
  if (!absl::ConsumePrefix(&word, "sm_")) return false;
  if (!word.empty() && (word.back() == 'a' || word.back() == 'f')) {
    word.remove_suffix(1);
  }
  uint32_t number = 0;
  return absl::SimpleAtoi(word, &number) && number > 0 && number <= 9999;
}

std::string KindName(const Key& key) {
  return absl::StrCat(key.first ? "PTX " : "", key.second);
}

std::string ImagesOf(uint64_t count, const std::string& name) {
  return absl::StrCat(count, count == 1 ? " image of " : " images of ", name);
}

// What a report makes cuobjdump list.
class Expected {
 public:
  void Add(const v1::FileReport& report, bool archive) {
    // A cubin as a file of its own is listed; one in the middle of a file is
    // not.
    const bool cubin = report.kind() == v1::FILE_KIND_CUBIN;
    for (const v1::Fatbin& fatbin : report.fatbins()) {
      const WitnessPlace place = PlaceOf(fatbin, archive);
      for (const v1::Image& image : fatbin.images()) {
        const bool ptx = IsPtx(image);
        if (!ptx && !IsMachineCode(image)) continue;
        const Key key(ptx, WitnessTarget(image));
        if (place == WitnessPlace::kOutsideSections) {
          ++outside_[key];
        } else if (place == WitnessPlace::kBare && !(cubin && !ptx)) {
          ++bare_[key];
        } else {
          ++listed_[key];
        }
      }
    }
  }

  std::map<Key, uint64_t>& listed() { return listed_; }
  const std::map<Key, uint64_t>& outside() const { return outside_; }
  const std::map<Key, uint64_t>& bare() const { return bare_; }

 private:
  std::map<Key, uint64_t> listed_;
  std::map<Key, uint64_t> outside_;
  std::map<Key, uint64_t> bare_;
};

void AddExplained(absl::string_view rule, absl::string_view text,
                  v1::Witness& witness) {
  witness.add_explained(absl::StrCat(rule, ": ", text));
}

void AddDifference(absl::string_view detail, v1::Witness& witness) {
  v1::Reason& reason = *witness.add_differences();
  reason.set_code("TP431");
  reason.set_detail(std::string(detail));
}

}  // namespace

WitnessPlace PlaceOf(const v1::Fatbin& fatbin, bool archive) {
  if (fatbin.bare()) return WitnessPlace::kBare;
  if (archive) return WitnessPlace::kListed;
  if (fatbin.section() == "__nv_relfatbin") return WitnessPlace::kRelocatable;
  return fatbin.section() == ".nv_fatbin" ? WitnessPlace::kListed
                                          : WitnessPlace::kOutsideSections;
}

bool IsPtx(const v1::Image& image) {
  return image.kind() == v1::IMAGE_KIND_PTX ||
         image.kind() == v1::IMAGE_KIND_RELOCATABLE_PTX;
}

absl::string_view WitnessKind(const v1::Image& image) {
  if (IsMachineCode(image)) return "elf";
  if (IsPtx(image)) return "ptx";
  return image.kind() == v1::IMAGE_KIND_LTO_IR ? "nvvm" : "unknown";
}

std::string WitnessTarget(const v1::Image& image) {
  const v1::TargetSuffix suffix = image.target().suffix();
  return FormatTarget("sm", image.target().number(),
                      suffix == v1::TARGET_SUFFIX_ARCH     ? 'a'
                      : suffix == v1::TARGET_SUFFIX_FAMILY ? 'f'
                                                           : '\0');
}

std::vector<v1::WitnessCount> ParseImageList(absl::string_view text, bool ptx,
                                             uint64_t* unread) {
  const absl::string_view start = ptx ? "PTX file " : "ELF file ";
  const absl::string_view end = ptx ? ".ptx" : ".cubin";
  std::map<std::string, uint64_t> counts;
  *unread = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, start)) continue;
    line = absl::StripTrailingAsciiWhitespace(line);
    const bool ended = absl::ConsumeSuffix(&line, end);
    const size_t dot = line.rfind('.');
    const absl::string_view word =
        dot == absl::string_view::npos ? line : line.substr(dot + 1);
    if (ended && IsTargetWord(word)) {
      ++counts[std::string(word)];
    } else {
      ++*unread;
    }
  }
  std::vector<v1::WitnessCount> result;
  for (const auto& [target, images] : counts) {
    v1::WitnessCount& count = result.emplace_back();
    count.set_target(target);
    count.set_ptx(ptx);
    count.set_images(images);
  }
  return result;
}

void CompareWithReport(const v1::FileReport& report,
                       const std::vector<const v1::FileReport*>& members,
                       bool machine_code_cut, bool ptx_cut,
                       v1::Witness& witness) {
  Expected expected;
  const bool archive = report.kind() == v1::FILE_KIND_ARCHIVE;
  // A .fatbin file has no sections and is listed whole.
  expected.Add(report, archive || report.kind() == v1::FILE_KIND_FATBIN);
  for (const v1::FileReport* member : members) {
    expected.Add(*member, /*archive=*/true);
  }
  std::map<Key, uint64_t> theirs;
  for (const v1::WitnessCount& count : witness.counts()) {
    theirs[Key(count.ptx(), count.target())] += count.images();
  }
  std::map<Key, uint64_t>& ours = expected.listed();

  // Machine code of a family under its number alone: as many as it lists less
  // of the one and more of the other.
  for (auto& [key, images] : ours) {
    if (key.first || key.second.back() != 'f') continue;
    const uint64_t listed = theirs[key];
    if (listed >= images) continue;
    const Key plain(false, key.second.substr(0, key.second.size() - 1));
    const uint64_t plain_ours = ours.count(plain) == 0 ? 0 : ours.at(plain);
    const uint64_t plain_theirs =
        theirs.count(plain) == 0 ? 0 : theirs.at(plain);
    const uint64_t moved = std::min(
        images - listed,
        plain_theirs > plain_ours ? plain_theirs - plain_ours : uint64_t{0});
    if (moved == 0) continue;
    images -= moved;
    theirs[plain] -= moved;
    AddExplained(
        kRuleFamilySuffix,
        absl::StrCat(ImagesOf(moved, key.second), " listed as ", plain.second),
        witness);
  }
  for (const auto& [key, images] : expected.outside()) {
    AddExplained(kRuleOutsideSections,
                 absl::StrCat(ImagesOf(images, KindName(key)),
                              " in other sections than .nv_fatbin and "
                              "__nv_relfatbin not listed"),
                 witness);
  }
  for (const auto& [key, images] : expected.bare()) {
    AddExplained(kRuleBareImage,
                 absl::StrCat(ImagesOf(images, KindName(key)),
                              " outside any fatbin not listed"),
                 witness);
  }

  std::map<Key, std::pair<uint64_t, uint64_t>> both;
  for (const auto& [key, images] : ours) both[key].first = images;
  for (const auto& [key, images] : theirs) both[key].second = images;
  for (const auto& [key, counts] : both) {
    const auto& [here, there] = counts;
    if (here == there) continue;
    if ((key.first ? ptx_cut : machine_code_cut) && there < here) {
      AddExplained(kRuleRefuses,
                   absl::StrCat(ImagesOf(here - there, KindName(key)),
                                " behind the place where it ended"),
                   witness);
      continue;
    }
    AddDifference(absl::StrCat(KindName(key), ": ", here,
                               here == 1 ? " image" : " images",
                               " read here, cuobjdump lists ", there),
                  witness);
  }
}

}  // namespace twinpath::runner
