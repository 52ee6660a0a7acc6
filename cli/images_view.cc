#include "cli/images_view.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "cli/table.h"
#include "compat/target.h"
#include "verdict/image_loads.h"

namespace twinpath::cli {
namespace {

constexpr size_t kMostListed = 20;
constexpr size_t kMostLogShown = 300;

std::string CodeOf(v1::ImageKind kind, const v1::Target& target) {
  switch (kind) {
    case v1::IMAGE_KIND_RELOCATABLE_SASS:
    case v1::IMAGE_KIND_RELOCATABLE_PTX:
      return absl::StrCat(compat::TargetName(kind, target), " (relocatable)");
    case v1::IMAGE_KIND_SASS:
    case v1::IMAGE_KIND_PTX:
    case v1::IMAGE_KIND_LTO_IR:
      return compat::TargetName(kind, target);
    default:
      return "other";
  }
}

std::string PredictedWord(v1::Outcome predicted) {
  switch (predicted) {
    case v1::OUTCOME_NATIVE:
      return "loads";
    case v1::OUTCOME_JIT:
      return "compiles";
    case v1::OUTCOME_FAILS:
      return "does not load";
    default:
      return "unknown";
  }
}

std::string SeenWord(v1::ImageKind kind, v1::LoadState state, uint32_t error) {
  switch (state) {
    case v1::LOAD_STATE_LOADED:
      return "loaded";
    case v1::LOAD_STATE_REFUSED:
      return verdict::IsLinkInput(kind, state, error)
                 ? absl::StrCat("link input (", error, ")")
                 : absl::StrCat("CUDA error ", error);
    case v1::LOAD_STATE_DIED:
      return "process died";
    case v1::LOAD_STATE_SLOW:
      return "too slow";
    default:
      return "not tried";
  }
}

// How a group counts: 0 wrong, 1 open, 2 good, 3 not for this GPU.
int RankOf(const v1::ImageLoadGroup& group) {
  v1::ImageLoad one;
  one.set_kind(group.kind());
  one.set_predicted(group.predicted());
  one.set_state(group.state());
  one.set_cuda_error(group.cuda_error());
  if (verdict::Contradicts(one)) return 0;
  switch (group.state()) {
    case v1::LOAD_STATE_LOADED:
      return 2;
    case v1::LOAD_STATE_REFUSED:
      return 3;
    default:
      return 1;
  }
}

Style StyleOf(int rank) {
  switch (rank) {
    case 0:
      return Style::kBad;
    case 1:
      return Style::kWarn;
    case 2:
      return Style::kGood;
    default:
      return Style::kDim;
  }
}

std::string GroupTable(const v1::ImageLoadReport& loads,
                       const ViewOptions& options) {
  std::vector<const v1::ImageLoadGroup*> groups;
  for (const v1::ImageLoadGroup& group : loads.groups()) {
    groups.push_back(&group);
  }
  std::stable_sort(
      groups.begin(), groups.end(), [](const auto* a, const auto* b) {
        return std::make_tuple(absl::string_view(a->file()), RankOf(*a),
                               static_cast<int>(a->kind()),
                               a->target().number()) <
               std::make_tuple(absl::string_view(b->file()), RankOf(*b),
                               static_cast<int>(b->kind()),
                               b->target().number());
      });
  Table table({"  FILE", "CODE", "IMAGES", "FUNCTIONS", "PREDICTED", "SEEN"});
  absl::string_view last;
  for (const v1::ImageLoadGroup* group : groups) {
    const bool again = group->file() == last && table.empty() == false;
    last = group->file();
    table.AddRow(
        {absl::StrCat("  ", again ? "" : group->file()),
         CodeOf(group->kind(), group->target()),
         absl::StrCat(group->images()),
         group->functions() == 0 ? "-" : absl::StrCat(group->functions()),
         PredictedWord(group->predicted()),
         {SeenWord(group->kind(), group->state(), group->cuda_error()),
          StyleOf(RankOf(*group))}});
  }
  return table.empty() ? "" : table.Render(options.width, options.color);
}

bool NeedsALook(const v1::ImageLoad& load) {
  if (verdict::Contradicts(load)) return true;
  if (!load.kernels().empty()) return true;
  return load.state() == v1::LOAD_STATE_DIED ||
         load.state() == v1::LOAD_STATE_SLOW ||
         (load.state() == v1::LOAD_STATE_NOT_TRIED && !load.log().empty() &&
          load.predicted() != v1::OUTCOME_FAILS);
}

std::string OneImage(const v1::ImageLoad& load, const ViewOptions& options) {
  std::string out = absl::StrCat(
      "    ", Printable(load.file()), ": ",
      load.has_fatbin() ? absl::StrCat("fatbin ", load.fatbin(), ", image ")
                        : "bare image ",
      load.image(), ", ", CodeOf(load.kind(), load.target()), ": ",
      SeenWord(load.kind(), load.state(), load.cuda_error()),
      ", predicted: ", PredictedWord(load.predicted()),
      load.predicted_error() == 0
          ? ""
          : absl::StrCat(" (", load.predicted_error(), ")"),
      "\n");
  if (!load.log().empty()) {
    const std::string log =
        Printable(absl::string_view(load.log()).substr(0, kMostLogShown),
                  /*keep_lines=*/true);
    for (const absl::string_view line :
         absl::StrSplit(log, '\n', absl::SkipWhitespace())) {
      absl::StrAppend(&out, "      ",
                      Paint(std::string(line), Style::kDim, options.color),
                      "\n");
    }
  }
  for (const v1::LoadedKernel& kernel : load.kernels()) {
    absl::StrAppend(&out, "      ", Printable(kernel.name()), ": machine code ",
                    kernel.binary_version(), " from PTX ", kernel.ptx_version(),
                    "\n");
  }
  return out;
}

std::string Summary(const v1::ImageLoadReport& loads) {
  uint64_t functions = 0;
  for (const v1::ImageLoadGroup& group : loads.groups()) {
    functions += group.functions();
  }
  const double seconds = static_cast<double>(loads.duration().seconds()) +
                         static_cast<double>(loads.duration().nanos()) * 1e-9;
  std::string out = absl::StrCat(
      "  ", loads.tried(), loads.tried() == 1 ? " image" : " images",
      " given to the driver, ", loads.loaded(), " loaded with ", functions,
      functions == 1 ? " function" : " functions", " (versions read of ",
      loads.kernels(), ")");
  absl::StrAppend(&out, ", ", loads.contradicted(), " not as predicted");
  if (loads.left_out() > 0) {
    absl::StrAppend(&out, ", ", loads.left_out(), " left out");
  }
  if (loads.deaths() > 0) {
    absl::StrAppend(&out, ", ", loads.deaths(), " processes died");
  }
  absl::StrAppend(&out, absl::StrFormat("; %.1f s", seconds));
  if (loads.peak_device_bytes() > 0) {
    absl::StrAppend(&out, ", at most ", HumanBytes(loads.peak_device_bytes()),
                    " of device memory at a time");
  }
  return out + "\n";
}

}  // namespace

std::string RenderImageLoads(const v1::ImageLoadReport& loads,
                             const ViewOptions& options) {
  std::string out = GroupTable(loads, options);
  size_t listed = 0;
  size_t more = 0;
  for (const v1::ImageLoad& load : loads.images()) {
    if (!NeedsALook(load)) continue;
    if (listed == kMostListed) {
      ++more;
      continue;
    }
    if (listed++ == 0) absl::StrAppend(&out, "\n");
    absl::StrAppend(&out, OneImage(load, options));
  }
  if (more > 0) {
    absl::StrAppend(&out, "    and ", more, " more: --format json\n");
  }
  absl::StrAppend(&out, "\n", Summary(loads));
  return out;
}

CellView ViewImagesCell(const v1::Cell& cell) {
  const v1::ImageLoadReport& loads = cell.result().image_loads();
  uint64_t loaded = 0;
  uint64_t due = 0;
  for (const v1::ImageLoadGroup& group : loads.groups()) {
    const bool got = group.state() == v1::LOAD_STATE_LOADED;
    if (got) loaded += group.images();
    if (got || (verdict::PredictedToLoad(group.predicted()) &&
                !verdict::IsLinkInput(group.kind(), group.state(),
                                      group.cuda_error()))) {
      due += group.images();
    }
  }
  std::string text = absl::StrCat("images ", loaded, " of ", due);
  if (loads.contradicted() > 0) {
    absl::StrAppend(&text, ", ", loads.contradicted(), " contradict");
  }
  switch (cell.verdict().kind()) {
    case v1::VERDICT_KIND_PASS:
      return {absl::StrCat("+ ", text), Style::kGood};
    case v1::VERDICT_KIND_FAIL:
      return {absl::StrCat("x ", text), Style::kBad};
    default:
      return {absl::StrCat("? ", text), Style::kWarn};
  }
}

}  // namespace twinpath::cli
