#include "cli/expect.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "inspect/summary.h"

namespace twinpath::cli {
namespace {

// Most targets named as being there instead.
constexpr size_t kMaxNamed = 12;

}  // namespace

bool HasCode(const v1::FileReport& report) { return !report.fatbins().empty(); }

std::vector<std::string> ExpectedTargets::Add(const v1::FileReport& report) {
  std::vector<std::string> lacking;
  if (words_.empty() || !HasCode(report)) return lacking;
  ++with_code_;
  const std::set<inspect::ImageTarget> targets =
      inspect::LoadableTargets(report);
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
