#include "verdict/repeats.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "verdict/compiled.h"
#include "verdict/numbers.h"
#include "verdict/output.h"
#include "verdict/run_compare.h"

namespace twinpath::verdict {
namespace {

// All of what a run printed or left; nothing if not all of it was kept.
std::optional<std::string> WholeText(const v1::Entry& entry, int part,
                                     const v1::Observation& run) {
  const v1::CapturedOutput* output = nullptr;
  if (part == kStandardOutput) {
    if (run.has_stdout()) output = &run.stdout();
  } else {
    const v1::OutputFile* file =
        FindFile(run, entry.expected_files(part).name());
    if (file != nullptr && file->has_content()) output = &file->content();
  }
  if (output == nullptr || IsCut(*output)) return std::nullopt;
  return absl::StrCat(output->head(), output->tail());
}

using Pieces = std::vector<absl::string_view>;

// Where two texts of equally many pieces differ.
std::set<size_t> PlacesOf(const Pieces& a, const Pieces& b) {
  std::set<size_t> places;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) places.insert(i);
  }
  return places;
}

bool IsOneOf(absl::string_view word,
             std::initializer_list<absl::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](absl::string_view w) {
    return absl::EqualsIgnoreCase(word, w);
  });
}

// "ms", "GB/s", "GFLOPS". No "min", which stands beside "max" as often.
bool IsUnit(absl::string_view word) {
  return IsOneOf(word, {"ns", "us", "\u00b5s", "ms", "s", "nsec", "usec",
                        "msec", "sec", "secs", "mins", "second", "seconds",
                        "minutes", "hours", "fps", "qps"}) ||
         absl::EndsWithIgnoreCase(word, "/s") ||
         absl::EndsWithIgnoreCase(word, "/sec") ||
         absl::EndsWithIgnoreCase(word, "flops");
}

// "elapsed", "kernel_time_ms".
bool IsLabel(absl::string_view word) {
  for (const absl::string_view part :
       absl::StrSplit(word, absl::ByAnyChar("_-"))) {
    if (IsOneOf(part, {"time", "times", "elapsed", "took", "duration",
                       "latency", "runtime", "walltime", "throughput", "ms",
                       "us", "ns", "sec", "secs", "seconds", "msec", "usec"})) {
      return true;
    }
  }
  return false;
}

absl::string_view WithoutStops(absl::string_view piece) {
  while (absl::EndsWith(piece, ".")) piece.remove_suffix(1);
  return piece;
}

bool IsNumber(absl::string_view piece) {
  return ReadNumber(WithoutStops(piece)).has_value();
}

// "3.5ms" in one piece.
bool IsNumberWithUnit(absl::string_view piece) {
  piece = WithoutStops(piece);
  const size_t unit = piece.find_last_of("0123456789.");
  return unit != absl::string_view::npos && IsUnit(piece.substr(unit + 1)) &&
         ReadNumber(piece.substr(0, unit + 1)).has_value();
}

// Whether piece `at` is a number that is said to be a time or a rate, or the
// unit behind one.
bool IsTime(const Pieces& pieces, size_t at) {
  if (IsNumberWithUnit(pieces[at])) return true;
  if (IsUnit(WithoutStops(pieces[at]))) {
    return at > 0 && IsNumber(pieces[at - 1]);
  }
  if (!IsNumber(pieces[at])) return false;
  if (at + 1 < pieces.size() && IsUnit(WithoutStops(pieces[at + 1]))) {
    return true;
  }
  // The word in front, behind "=", ":" and brackets: "time (ms): 3".
  while (at > 0) {
    const absl::string_view before = pieces[--at];
    if (before.size() > 1 || absl::ascii_isalnum(static_cast<unsigned char>(
                                 before.empty() ? ' ' : before[0]))) {
      return IsLabel(before);
    }
  }
  return false;
}

bool DifferOnlyInTimes(const Pieces& a, const Pieces& b) {
  if (a.size() != b.size()) return false;
  const std::set<size_t> places = PlacesOf(a, b);
  return !places.empty() &&
         std::all_of(places.begin(), places.end(), [&](size_t place) {
           return IsTime(a, place) && IsTime(b, place);
         });
}

// Where a part differs between runs of the same code, all of so many pieces.
struct Variation {
  size_t pieces = 0;
  std::set<size_t> places;
};

// Nothing if there are no such runs, if one has more pieces than another, or if
// not all was kept.
std::optional<Variation> VariationOf(const v1::Entry& entry,
                                     const std::vector<RunPair>& pairs,
                                     int part) {
  std::optional<Variation> variation;
  for (const auto& [first, second] : pairs) {
    const std::optional<std::string> a = WholeText(entry, part, *first);
    const std::optional<std::string> b = WholeText(entry, part, *second);
    if (!a || !b) return std::nullopt;
    const Pieces pieces_a = PiecesOf(*a);
    const Pieces pieces_b = PiecesOf(*b);
    if (!variation) variation = Variation{pieces_a.size(), {}};
    if (pieces_a.size() != variation->pieces ||
        pieces_b.size() != variation->pieces) {
      return std::nullopt;
    }
    variation->places.merge(PlacesOf(pieces_a, pieces_b));
  }
  return variation;
}

// The repeats of the code that `run` ran; of the other code where there are
// none.
const std::vector<RunPair>& PairsLike(const Repeats& repeats,
                                      const v1::Observation& run) {
  const bool compiled =
      run.path() == v1::PATH_PTX_JIT ||
      (run.path() == v1::PATH_PLAIN && DriverCompiled(run.cache()));
  const std::vector<RunPair>& same = compiled ? repeats.forced : repeats.native;
  return !same.empty() ? same : compiled ? repeats.native : repeats.forced;
}

}  // namespace

const v1::Observation* MainRun(const v1::CellResult& result, v1::Path path) {
  const v1::Observation* found = nullptr;
  for (const v1::Observation& observation : result.observations()) {
    if (observation.path() == path && !observation.jit_proof() &&
        !observation.traced() &&
        observation.ending() != v1::ENDING_INTERRUPTED) {
      found = &observation;
    }
  }
  return found;
}

Repeats RepeatsOf(const v1::Entry& entry, const v1::CellResult& result) {
  Repeats repeats;
  const v1::Observation* native = MainRun(result, v1::PATH_NATIVE);
  const v1::Observation* forced = MainRun(result, v1::PATH_PTX_JIT);
  const auto pair = [](const v1::Observation* a, const v1::Observation* b,
                       std::vector<RunPair>& pairs) {
    if (a == nullptr || b == nullptr || a == b ||
        a->ending() != v1::ENDING_EXITED || b->ending() != v1::ENDING_EXITED ||
        a->exit_code() != b->exit_code()) {
      return;
    }
    pairs.emplace_back(a, b);
  };
  for (const v1::Observation& run : result.observations()) {
    if (run.traced()) continue;
    const bool native_again = run.path() == v1::PATH_NATIVE;
    const bool plain_native = run.path() == v1::PATH_PLAIN &&
                              run.cache().observed() &&
                              !DriverCompiled(run.cache());
    if (native_again || plain_native) {
      pair(native, &run, repeats.native);
    }
    if (run.path() == v1::PATH_PTX_JIT && run.jit_proof()) {
      pair(forced, &run, repeats.forced);
    }
  }
  for (const std::vector<RunPair>* pairs : {&repeats.native, &repeats.forced}) {
    for (const auto& [a, b] : *pairs) {
      for (int part = kStandardOutput; part < entry.expected_files_size();
           ++part) {
        const std::vector<PartDifference> found =
            CompareRunsIn(entry, part, *a, *b);
        if (found.empty() || found[0].differs) repeats.compared.insert(part);
        if (AnyDiffers(found)) repeats.varying.insert(part);
      }
    }
  }
  return repeats;
}

Blame BlameFor(const v1::Entry& entry, const Repeats& repeats, int part,
               const v1::Observation& native, const v1::Observation& forced) {
  if (!repeats.compared.contains(part)) return Blame::kNoRepeat;
  const std::optional<std::string> a = WholeText(entry, part, native);
  const std::optional<std::string> b = WholeText(entry, part, forced);
  const bool varies = repeats.varying.contains(part);
  if (!a || !b) return varies ? Blame::kUnaligned : Blame::kCode;
  const Pieces pieces_a = PiecesOf(*a);
  const Pieces pieces_b = PiecesOf(*b);
  if (!varies) {
    return DifferOnlyInTimes(pieces_a, pieces_b) ? Blame::kTimes : Blame::kCode;
  }
  // That compiled code varies may be the compiler's fault.
  if (repeats.native.empty()) return Blame::kNoRepeat;
  const std::optional<Variation> varying =
      VariationOf(entry, repeats.native, part);
  if (!varying || varying->pieces != pieces_a.size()) return Blame::kUnaligned;
  if (pieces_a.size() != pieces_b.size()) return Blame::kBeyondRepeats;
  const std::set<size_t> places = PlacesOf(pieces_a, pieces_b);
  return std::includes(varying->places.begin(), varying->places.end(),
                       places.begin(), places.end())
             ? Blame::kRepeats
             : Blame::kBeyondRepeats;
}

bool VariesAsRepeatsDo(const v1::Entry& entry, int part,
                       const Repeats& repeats_a, const v1::Observation& a,
                       const Repeats& repeats_b, const v1::Observation& b) {
  const std::optional<std::string> text_a = WholeText(entry, part, a);
  const std::optional<std::string> text_b = WholeText(entry, part, b);
  if (!text_a || !text_b) return true;
  const std::optional<Variation> varying_a =
      VariationOf(entry, PairsLike(repeats_a, a), part);
  const std::optional<Variation> varying_b =
      VariationOf(entry, PairsLike(repeats_b, b), part);
  if (!varying_a || !varying_b) return true;
  const Pieces pieces_a = PiecesOf(*text_a);
  const Pieces pieces_b = PiecesOf(*text_b);
  if (pieces_a.size() != pieces_b.size()) return false;
  std::set<size_t> varying = varying_a->places;
  varying.insert(varying_b->places.begin(), varying_b->places.end());
  const std::set<size_t> places = PlacesOf(pieces_a, pieces_b);
  return std::includes(varying.begin(), varying.end(), places.begin(),
                       places.end());
}

}  // namespace twinpath::verdict
