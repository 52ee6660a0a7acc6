#include "verdict/differences.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "verdict/evaluated.h"
#include "verdict/output.h"
#include "verdict/path_status.h"
#include "verdict/run_compare.h"

namespace twinpath::verdict {
namespace {

std::string PartName(const v1::Entry& entry, int part) {
  if (part == kStandardOutput) return "standard output";
  return absl::StrCat("file ", Printable(entry.expected_files(part).name()));
}

std::optional<WordDifference> PlaceIn(const v1::ExpectedOutput& rule,
                                      const v1::CapturedOutput& output) {
  const bool cut = IsCut(output);
  const std::string seen =
      cut ? output.head() : absl::StrCat(output.head(), output.tail());
  switch (rule.rule_case()) {
    case v1::ExpectedOutput::kExact:
      // Of cut output only a difference in its start has a place.
      if (cut && rule.exact().substr(0, seen.size()) == seen) {
        return std::nullopt;
      }
      return CompareBytes(rule.exact(), seen);
    case v1::ExpectedOutput::kNumbers:
      return CompareNumbers(rule.numbers().text(), seen,
                            rule.numbers().tolerance(), {.seen = cut});
    default:
      return std::nullopt;
  }
}

class Collector {
 public:
  explicit Collector(const v1::Entry& entry) : entry_(entry) {}

  void Add(absl::string_view seen, absl::string_view against, int part,
           std::optional<WordDifference> place) {
    if (!place) return;
    found_.push_back({std::string(seen), std::string(against),
                      PartName(entry_, part), *std::move(place)});
  }

  void AddExpected(absl::string_view path, const v1::Observation& run) {
    if (entry_.has_expected_output()) {
      Add(path, "what is expected", kStandardOutput,
          PlaceIn(entry_.expected_output(), run.stdout()));
    }
    for (int i = 0; i < entry_.expected_files_size(); ++i) {
      const v1::ExpectedFile& expected = entry_.expected_files(i);
      const v1::OutputFile* file = FindFile(run, expected.name());
      if (!expected.has_content() || file == nullptr || !file->has_content()) {
        continue;
      }
      Add(path, "what is expected", i,
          PlaceIn(expected.content(), file->content()));
    }
  }

  void AddParts(absl::string_view path, absl::string_view against,
                std::vector<PartDifference> parts) {
    for (PartDifference& part : parts) {
      Add(path, against, part.part, std::move(part.place));
    }
  }

  std::vector<Difference> Take() { return std::move(found_); }

 private:
  const v1::Entry& entry_;
  std::vector<Difference> found_;
};

}  // namespace

std::vector<Difference> DifferencesOf(const v1::Entry& entry,
                                      const v1::CellResult& result) {
  Collector collector(entry);
  const auto exited = [&result](v1::Path path) -> const v1::Observation* {
    const v1::Observation* run = MainRun(result, path);
    return run != nullptr && run->ending() == v1::ENDING_EXITED ? run : nullptr;
  };
  for (const v1::Path path : kPaths) {
    if (const v1::Observation* run = exited(path)) {
      collector.AddExpected(PathName(path), *run);
    }
  }
  const v1::Observation* native = exited(v1::PATH_NATIVE);
  const v1::Observation* forced = exited(v1::PATH_PTX_JIT);
  if (native != nullptr && forced != nullptr) {
    collector.AddParts("ptx-jit", "native",
                       CompareRuns(entry, *native, *forced));
  }
  for (const v1::Path path : kPaths) {
    if (const v1::Observation* run = exited(path)) {
      collector.AddParts(PathName(path), "the reference",
                         CompareWithReference(entry, *run));
    }
  }
  return collector.Take();
}

std::vector<Difference> DifferencesBetween(const v1::Entry& entry,
                                           const v1::CellResult& expected,
                                           const v1::CellResult& seen) {
  const v1::Observation* a = MainRun(expected, v1::PATH_NATIVE);
  const v1::Observation* b = MainRun(seen, v1::PATH_NATIVE);
  if (a == nullptr || b == nullptr) return {};
  Collector collector(entry);
  collector.AddParts(PathName(v1::PATH_NATIVE), "", CompareRuns(entry, *a, *b));
  return collector.Take();
}

}  // namespace twinpath::verdict
