#include "cli/expect.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"

namespace twinpath::cli {
namespace {

// Most targets named as being there instead.
constexpr size_t kMaxNamed = 12;

bool IsLinked(const v1::FileReport& report) {
  return report.kind() == v1::FILE_KIND_ELF_EXECUTABLE ||
         report.kind() == v1::FILE_KIND_ELF_SHARED;
}

// Whether the driver can load kernels from an image of a linked file.
bool Loads(const v1::Image& image) {
  return image.kind() != v1::IMAGE_KIND_RELOCATABLE_SASS &&
         image.kind() != v1::IMAGE_KIND_RELOCATABLE_PTX &&
         !(image.kernels_read() && image.kernels().empty());
}

std::set<inspect::ImageTarget> UsableTargets(const v1::FileReport& report) {
  std::set<inspect::ImageTarget> targets;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    if (fatbin.registration() == v1::REGISTRATION_LEFT_OVER) continue;
    for (const v1::Image& image : fatbin.images()) {
      if (IsLinked(report) && !Loads(image)) continue;
      targets.insert(inspect::TargetOf(image));
    }
  }
  return targets;
}

}  // namespace

bool HasCode(const v1::FileReport& report) { return !report.fatbins().empty(); }

std::vector<std::string> ExpectedTargets::Add(const v1::FileReport& report) {
  std::vector<std::string> lacking;
  if (words_.empty() || !HasCode(report)) return lacking;
  ++with_code_;
  const std::set<inspect::ImageTarget> targets = UsableTargets(report);
  for (size_t i = 0; i < words_.size(); ++i) {
    const bool found = std::any_of(targets.begin(), targets.end(),
                                   [&](const inspect::ImageTarget& target) {
                                     return words_[i].Matches(target);
                                   });
    if (found) {
      ++files_[i];
    } else {
      lacking.push_back(words_[i].name());
    }
  }
  std::set<inspect::ImageTarget> all(there_.begin(), there_.end());
  all.insert(targets.begin(), targets.end());
  there_.assign(all.begin(), all.end());
  return lacking;
}

std::vector<std::string> ExpectedTargets::Missing() const {
  std::vector<std::string> missing;
  for (size_t i = 0; i < words_.size(); ++i) {
    if (files_[i] == 0) missing.push_back(words_[i].name());
  }
  return missing;
}

std::string ExpectedTargets::Counts() const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < words_.size(); ++i) {
    parts.push_back(files_[i] == 0
                        ? absl::StrCat(words_[i].name(), " in none")
                        : absl::StrCat(words_[i].name(), " in ", files_[i],
                                       " of ", with_code_,
                                       with_code_ == 1 ? " file" : " files"));
  }
  return absl::StrJoin(parts, ", ");
}

std::string ExpectedTargets::Describe(absl::string_view name) const {
  const std::vector<std::string> missing = Missing();
  if (missing.empty()) return "";
  std::vector<std::string> there;
  for (const inspect::ImageTarget& target : there_) {
    const std::string text = inspect::TargetName(target);
    if (std::find(there.begin(), there.end(), text) == there.end()) {
      there.push_back(text);
    }
  }
  const size_t more = there.size() > kMaxNamed ? there.size() - kMaxNamed : 0;
  there.resize(there.size() - more);
  return absl::StrCat(
      Printable(name), ": no image for ", absl::StrJoin(missing, ", "), "; ",
      there.empty() ? "no device code that runs is there"
                    : absl::StrCat("there is ", absl::StrJoin(there, ", ")),
      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

}  // namespace twinpath::cli
