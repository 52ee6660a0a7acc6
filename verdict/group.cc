#include "verdict/group.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace twinpath::verdict {
namespace {

bool IsWord(char c) { return absl::ascii_isalnum(c); }

// Whether a word of letters and digits is one that differs by chance.
bool IsVolatile(absl::string_view word) {
  bool hex = true;
  bool decimal = true;
  bool has_digit = false;
  for (const char c : word) {
    hex &= absl::ascii_isxdigit(c);
    decimal &= absl::ascii_isdigit(c);
    has_digit |= absl::ascii_isdigit(c);
  }
  if (decimal) return word.size() >= 6;
  if (hex && has_digit) return word.size() >= 8;
  return word.size() > 4 && word[0] == '0' && word[1] == 'x';
}

// Whether what stands before a word makes it the random end of a temporary
// name: "/tmp/name-Ab3dEf".
bool IsTemporaryEnd(absl::string_view before, absl::string_view word) {
  if (word.size() < 6 || before.empty()) return false;
  if (before.back() != '-' && before.back() != '.') return false;
  const size_t space = before.find_last_of(" \t'\"(");
  const absl::string_view path =
      space == absl::string_view::npos ? before : before.substr(space + 1);
  return absl::string_view(path).find("/tmp/") != absl::string_view::npos;
}

template <typename Field>
void Unite(Field& field) {
  std::sort(field.begin(), field.end());
  field.erase(std::unique(field.begin(), field.end()), field.end());
}

// Errors first.
int SeverityRank(v1::Severity severity) {
  switch (severity) {
    case v1::SEVERITY_NOTE:
      return 2;
    case v1::SEVERITY_WARNING:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

std::string DetailShape(absl::string_view detail) {
  std::string shape;
  size_t at = 0;
  while (at < detail.size()) {
    if (!IsWord(detail[at])) {
      shape.push_back(detail[at++]);
      continue;
    }
    size_t end = at;
    while (end < detail.size() && IsWord(detail[end])) ++end;
    const absl::string_view word = detail.substr(at, end - at);
    if (IsVolatile(word) || IsTemporaryEnd(detail.substr(0, at), word)) {
      shape += "...";
    } else {
      absl::StrAppend(&shape, word);
    }
    at = end;
  }
  return shape;
}

std::vector<v1::Finding> GroupFindings(std::vector<v1::Finding> findings) {
  std::vector<v1::Finding> groups;
  std::vector<bool> same_detail;
  absl::flat_hash_map<std::string, size_t> index;
  for (v1::Finding& finding : findings) {
    const v1::Reason& reason = finding.reason();
    // No part but the last two holds a line feed; the file states its length.
    const std::string key =
        absl::StrCat(reason.code(), "\n", reason.cuda_error(), "\n",
                     finding.severity(), "\n", finding.scope(), "\n",
                     finding.mismatch(), "\n", finding.file().size(), "\n",
                     finding.file(), DetailShape(reason.detail()));
    const auto [it, is_new] = index.emplace(key, groups.size());
    if (is_new) {
      groups.push_back(std::move(finding));
      same_detail.push_back(true);
      continue;
    }
    v1::Finding& group = groups[it->second];
    if (group.reason().detail() != reason.detail()) {
      same_detail[it->second] = false;
    }
    group.mutable_hosts()->MergeFrom(finding.hosts());
    group.mutable_entries()->MergeFrom(finding.entries());
    group.mutable_cell_ids()->MergeFrom(finding.cell_ids());
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    v1::Finding& group = groups[i];
    Unite(*group.mutable_hosts());
    Unite(*group.mutable_entries());
    Unite(*group.mutable_cell_ids());
    if (!same_detail[i]) {
      group.mutable_reason()->set_detail(DetailShape(group.reason().detail()));
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const v1::Finding& a, const v1::Finding& b) {
                     const auto key = [](const v1::Finding& f) {
                       return std::make_tuple(
                           SeverityRank(f.severity()), f.mismatch() ? 0 : 1,
                           absl::string_view(f.reason().code()),
                           absl::string_view(f.reason().detail()));
                     };
                     return key(a) < key(b);
                   });
  return groups;
}

}  // namespace twinpath::verdict
