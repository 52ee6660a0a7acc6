#include "verdict/run_compare.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/text.h"
#include "verdict/output.h"

namespace twinpath::verdict {
namespace {

// One side of a comparison of one part.
struct Side {
  // Whether there is anything to compare. What was not recorded is not empty.
  bool is_recorded = true;
  // Empty: not stated.
  absl::string_view digest;
  // What was kept: all of it, or its start.
  std::string text;
  bool is_start = false;
};

// `recorded` is null where nothing was recorded.
Side SideOf(const v1::CapturedOutput* recorded) {
  Side side;
  side.is_recorded = recorded != nullptr;
  if (!side.is_recorded) return side;
  const v1::CapturedOutput& output = *recorded;
  side.digest = output.digest().sha256();
  side.is_start = IsCut(output);
  side.text = side.is_start ? output.head()
                            : absl::StrCat(output.head(), output.tail());
  return side;
}

Side StandardOutputOf(const v1::Observation& run) {
  return SideOf(run.has_stdout() ? &run.stdout() : nullptr);
}

Side ContentOf(const v1::OutputFile& file) {
  return SideOf(file.has_content() ? &file.content() : nullptr);
}

Side SideOf(const v1::Digest& digest, const std::string* bytes) {
  Side side;
  side.digest = digest.sha256();
  side.is_start = bytes == nullptr;
  if (bytes != nullptr) side.text = *bytes;
  return side;
}

std::string PartName(const v1::Entry& entry, int part) {
  if (part == kStandardOutput) return "standard output";
  return absl::StrCat("file ", Printable(entry.expected_files(part).name()));
}

// A tolerance that every finite number is within.
v1::Tolerance AnyNumber() {
  v1::Tolerance tolerance;
  tolerance.set_absolute(std::numeric_limits<double>::max());
  tolerance.set_nan_equals_nan(true);
  return tolerance;
}

class Comparer {
 public:
  explicit Comparer(const v1::Entry& entry) : entry_(entry) {}

  void Unknown(int part, absl::string_view why) {
    PartDifference difference;
    difference.part = part;
    difference.why = absl::StrCat(PartName(entry_, part), " ", why);
    parts_.push_back(std::move(difference));
  }

  void Compare(int part, const Side& expected, const Side& seen) {
    if (!expected.is_recorded || !seen.is_recorded) {
      Unknown(part, "was not recorded");
      return;
    }
    if (!expected.digest.empty() && expected.digest == seen.digest) return;
    switch (entry_.compare().as()) {
      case v1::COMPARE_AS_UNSPECIFIED:
        CompareExact(part, expected, seen);
        return;
      case v1::COMPARE_AS_NUMBERS:
        CompareAsNumbers(part, expected, seen);
        return;
      default:
        Unknown(part, "is compared in a way unknown here");
    }
  }

  std::vector<PartDifference> Take() { return std::move(parts_); }

 private:
  void Differs(int part, absl::string_view how,
               std::optional<WordDifference> place) {
    PartDifference difference;
    difference.part = part;
    difference.differs = true;
    difference.why = absl::StrCat(PartName(entry_, part), " ", how);
    difference.place = std::move(place);
    parts_.push_back(std::move(difference));
  }

  void CompareExact(int part, const Side& expected, const Side& seen) {
    const bool whole = !expected.is_start && !seen.is_start;
    if (expected.digest.empty() || seen.digest.empty()) {
      if (whole && expected.text == seen.text) return;
      if (!whole) {
        Unknown(part, "was cut and has no digest");
        return;
      }
    }
    // Where only starts were kept they may be equal so far.
    const size_t common = std::min(expected.text.size(), seen.text.size());
    std::optional<WordDifference> place;
    if (whole || expected.text.compare(0, common, seen.text, 0, common) != 0) {
      place = CompareBytes(expected.text, seen.text);
    }
    Differs(part, "differs", std::move(place));
    parts_.back().only_numbers =
        whole && !CompareNumbers(expected.text, seen.text, AnyNumber());
  }

  void CompareAsNumbers(int part, const Side& expected, const Side& seen) {
    std::optional<WordDifference> place =
        CompareNumbers(expected.text, seen.text, entry_.compare().tolerance(),
                       {.expected = expected.is_start, .seen = seen.is_start});
    if (place) {
      Differs(part, "differs by more than is allowed", std::move(place));
    } else if (expected.is_start || seen.is_start) {
      Unknown(part, "was not kept whole, so its numbers cannot be compared");
    }
  }

  const v1::Entry& entry_;
  std::vector<PartDifference> parts_;
};

// Adds how one part of two runs is not known to be equal.
void ComparePart(const v1::Entry& entry, int part,
                 const v1::Observation& expected, const v1::Observation& seen,
                 Comparer& comparer) {
  if (part == kStandardOutput) {
    comparer.Compare(part, StandardOutputOf(expected), StandardOutputOf(seen));
    return;
  }
  const std::string& name = entry.expected_files(part).name();
  const v1::OutputFile* a = FindFile(expected, name);
  const v1::OutputFile* b = FindFile(seen, name);
  if (a == nullptr || b == nullptr) {
    if (a != b) comparer.Unknown(part, "was not looked for after one run");
  } else if (!a->problem().empty() || !b->problem().empty()) {
    if (a->problem() != b->problem()) {
      comparer.Unknown(part, "is there after one run only, or cannot be read");
    }
  } else {
    comparer.Compare(part, ContentOf(*a), ContentOf(*b));
  }
}

}  // namespace

bool IsCompared(const v1::Entry& entry) {
  return entry.compare().as() != v1::COMPARE_AS_OFF;
}

bool StatesComparison(const v1::Entry& entry) { return entry.has_compare(); }

bool HasRule(const v1::Entry& entry, int part) {
  return part == kStandardOutput ? entry.has_expected_output()
                                 : entry.expected_files(part).has_content();
}

std::vector<PartDifference> CompareRuns(const v1::Entry& entry,
                                        const v1::Observation& expected,
                                        const v1::Observation& seen) {
  if (!IsCompared(entry)) return {};
  Comparer comparer(entry);
  for (int part = kStandardOutput; part < entry.expected_files_size(); ++part) {
    ComparePart(entry, part, expected, seen, comparer);
  }
  return comparer.Take();
}

std::vector<PartDifference> CompareRunsIn(const v1::Entry& entry, int part,
                                          const v1::Observation& expected,
                                          const v1::Observation& seen) {
  if (!IsCompared(entry)) return {};
  Comparer comparer(entry);
  ComparePart(entry, part, expected, seen, comparer);
  return comparer.Take();
}

std::vector<PartDifference> CompareWithReference(const v1::Entry& entry,
                                                 const v1::Observation& seen) {
  if (!IsCompared(entry) || !entry.has_reference()) return {};
  const v1::Reference& reference = entry.reference();
  Comparer comparer(entry);
  comparer.Compare(
      kStandardOutput,
      SideOf(reference.stdout_digest(),
             reference.has_stdout() ? &reference.stdout() : nullptr),
      StandardOutputOf(seen));
  for (int i = 0; i < entry.expected_files_size(); ++i) {
    const std::string& name = entry.expected_files(i).name();
    const v1::OutputFile* file = FindFile(seen, name);
    const auto recorded = std::find_if(
        reference.files().begin(), reference.files().end(),
        [&name](const v1::ReferenceFile& f) { return f.name() == name; });
    if (recorded == reference.files().end()) {
      comparer.Unknown(i, "is not in the reference");
    } else if (file == nullptr || !file->problem().empty()) {
      comparer.Unknown(i, "is not there to be compared with the reference");
    } else {
      comparer.Compare(
          i,
          SideOf(recorded->digest(),
                 recorded->has_content() ? &recorded->content() : nullptr),
          ContentOf(*file));
    }
  }
  return comparer.Take();
}

bool AnyDiffers(const std::vector<PartDifference>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [](const PartDifference& p) { return p.differs; });
}

}  // namespace twinpath::verdict
