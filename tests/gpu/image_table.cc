#include "tests/gpu/image_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "tests/gpu/row_outcome.h"

namespace twinpath::gpu {
namespace {

using State = runner::LoadAnswer::State;

constexpr size_t kDifferencesShown = 60;
constexpr const char* kPathNames[] = {"native", "ptx-jit", "plain"};

std::string Said(const runner::LoadAnswer& answer) {
  switch (answer.state) {
    case State::kLoaded:
      return "loads";
    case State::kRefused:
      return absl::StrCat(answer.cuda_error);
    default:
      return answer.log;
  }
}

std::string Foretold(const Try& of) {
  if (of.loads()) return of.compiles() ? "compiles" : "native";
  return of.outcome == v1::OUTCOME_UNKNOWN ? "unknown"
                                           : absl::StrCat(of.cuda_error);
}

struct Lists {
  std::vector<std::string> rows;
  std::vector<std::string> json;

  void Add(const Library& library, const char* kind, const Try& each) {
    const std::string said = Said(each.task.answer);
    const absl::string_view name = BaseName(library.path);
    rows.push_back(absl::StrCat("| ", name, " | ", kind, " | ", each.what,
                                " | ", kPathNames[each.path], " | ",
                                Foretold(each), " | ", said, " |"));
    json.push_back(absl::StrCat(
        "  {\"library\": ", JsonQuoted(name), ", \"kind\": ", JsonQuoted(kind),
        ", \"image\": ", JsonQuoted(each.what),
        ", \"path\": ", JsonQuoted(kPathNames[each.path]), ", \"predicted\": ",
        JsonQuoted(Foretold(each)), ", \"seen\": ", JsonQuoted(said), "}"));
  }
};

struct Counts {
  size_t tried = 0, native = 0, jit = 0, fails = 0, unknown = 0;
  size_t sampled_out = 0, not_tried = 0, died = 0, different = 0;
  size_t linked = 0, link_inputs = 0;
};

Counts Count(const Library& library, Lists& lists) {
  Counts counts;
  for (const Try& each : library.tries) {
    const State state = each.task.answer.state;
    if (each.sampled_out) {
      ++counts.sampled_out;
    } else if (state == State::kWaiting || state == State::kSlow ||
               state == State::kTooLarge) {
      ++counts.not_tried;
    } else {
      ++counts.tried;
      if (state == State::kDied) {
        ++counts.died;
        lists.Add(library, "died", each);
      } else if (each.outcome == v1::OUTCOME_UNKNOWN) {
        ++counts.unknown;
      } else if (each.equal()) {
        ++(each.compiles() ? counts.jit
           : each.loads()  ? counts.native
                           : counts.fails);
      } else {
        ++counts.different;
        lists.Add(library, "different", each);
      }
    }
  }
  for (const runner::LoadAnswer& answer : library.linked) {
    if (answer.state == State::kLoaded) {
      ++counts.linked;
    } else if (answer.state == State::kRefused) {
      ++counts.link_inputs;
    } else if (answer.state == State::kDied) {
      ++counts.died;
    } else {
      ++counts.not_tried;
    }
  }
  return counts;
}

}  // namespace

ImageTable Tabulate(const std::vector<std::unique_ptr<Library>>& libraries) {
  ImageTable table;
  table.text =
      "| library | images | fatbins | loads tried | native equal | jit equal "
      "| fails equal | unknown | pieces linked | link inputs | sampled out | "
      "not tried | died | different |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  Lists lists;
  for (const auto& library : libraries) {
    const Counts counts = Count(*library, lists);
    absl::StrAppend(
        &table.text, "| ",
        absl::StrJoin(
            {std::string(BaseName(library->path)),
             absl::StrCat(library->images), absl::StrCat(library->fatbins),
             absl::StrCat(counts.tried), absl::StrCat(counts.native),
             absl::StrCat(counts.jit), absl::StrCat(counts.fails),
             absl::StrCat(counts.unknown), absl::StrCat(counts.linked),
             absl::StrCat(counts.link_inputs), absl::StrCat(counts.sampled_out),
             absl::StrCat(counts.not_tried), absl::StrCat(counts.died),
             absl::StrCat(counts.different)},
            " | "),
        " |\n");
    table.different += counts.different;
  }
  if (!lists.rows.empty()) {
    table.differences =
        "\n| library | what | image | path | predicted | seen |\n"
        "|---|---|---|---|---|---|\n";
    for (size_t i = 0; i < std::min(lists.rows.size(), kDifferencesShown);
         ++i) {
      absl::StrAppend(&table.differences, lists.rows[i], "\n");
    }
    if (lists.rows.size() > kDifferencesShown) {
      absl::StrAppend(&table.differences, "\n",
                      lists.rows.size() - kDifferencesShown, " more\n");
    }
  }
  table.json = absl::StrCat("[\n", absl::StrJoin(lists.json, ",\n"), "\n]\n");
  return table;
}

}  // namespace twinpath::gpu
