#include "tests/gpu/image_plan.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "compat/host_check.h"
#include "compat/image_rules.h"
#include "compat/predict.h"
#include "compat/prepared.h"
#include "compat/target.h"
#include "inspect/inspect.h"

namespace twinpath::gpu {
namespace {

using runner::LoadJob;

void Predicted(const v1::PathPrediction& path, Try& of) {
  of.outcome = path.outcome();
  of.cuda_error = path.reasons().empty() ? 0 : path.reasons(0).cuda_error();
}

void Predicted(const compat::internal::Decision& decision, Try& of) {
  of.outcome = decision.outcome;
  of.cuda_error = decision.cuda_error;
}

class Planner {
 public:
  Planner(Library& library, const v1::HostFacts& facts, const v1::Gpu& gpu,
          const compat::Tables& tables)
      : library_(library),
        tables_(tables),
        host_(compat::LookAtHost(facts, gpu, tables)) {
    compat::PredictOptions options;
    options.all_images = true;
    options.max_kernels = 0;
    prediction_ = compat::Predict(library.report, facts, gpu, tables, options);
    for (const auto& image : prediction_.files(0).images()) {
      by_image_[image.image()] = &image;
    }
  }

  void Run() {
    const v1::FileReport& report = library_.report.files(0);
    library_.pieces.files = {library_.path};
    const compat::internal::Prepared prepared(library_.report,
                                              compat::internal::Take::kAll);
    for (const auto& view : prepared.files()[0].fatbins) {
      const v1::Fatbin& fatbin = report.fatbins(static_cast<int>(view.index));
      if (view.damaged) continue;
      ++library_.fatbins;
      bool pieces = false;
      std::vector<std::string> names;
      for (size_t i = 0; i < view.images.size(); ++i) {
        ++library_.images;
        names.push_back(Name(view.images[i]));
        const v1::Image& found = fatbin.images(static_cast<int>(i));
        if (IsPiece(fatbin, found, view.images[i])) {
          pieces = true;
        } else {
          PlanImage(view, view.images[i], fatbin, found);
        }
      }
      if (!view.bare && !pieces) PlanFatbin(view, fatbin, names);
    }
  }

 private:
  static std::string Name(const compat::internal::ImageView& image) {
    return absl::StrCat(
        image.relocatable() ? "relocatable " : "",
        image.kind == v1::IMAGE_KIND_OTHER
            ? absl::StrCat("kind ", image.kind_number)
            : compat::TargetName(image.kind, image.target),
        image.ptx() ? absl::StrCat("@", image.ptx_isa.ToString()) : "");
  }

  // Adds a relocatable image that this GPU could take to the link.
  bool IsPiece(const v1::Fatbin& fatbin, const v1::Image& found,
               const compat::internal::ImageView& image) {
    if (!image.relocatable()) return false;
    runner::LoadImage piece;
    piece.fatbin = fatbin.index();
    piece.relocatable = true;
    piece.suffix = found.target().suffix();
    piece.job = runner::JobOf(fatbin, found);
    piece.job.id = static_cast<uint32_t>(library_.pieces.images.size());
    if (!piece.Fits(host_.device)) return false;
    library_.pieces.images.push_back(piece);
    return true;
  }

  Try& Add(LoadJob job, size_t path, std::string what) {
    Try& added = library_.tries.emplace_back();
    job.id = static_cast<uint32_t>(library_.tries.size() - 1);
    added.task.file = library_.path;
    added.task.jobs = {job};
    added.task.environment = path;
    added.path = path;
    added.what = std::move(what);
    return added;
  }

  void PlanImage(const compat::internal::FatbinView& view,
                 const compat::internal::ImageView& image,
                 const v1::Fatbin& fatbin, const v1::Image& found) {
    LoadJob job = runner::JobOf(fatbin, found);
    const std::string name = absl::StrCat(Name(image), " at ", found.offset());
    for (size_t path = 0; path < 3; ++path) {
      Try& entry = Add(job, path, absl::StrCat(view.bare ? "bare " : "", name));
      const auto it = by_image_.find(image.index);
      if (it != by_image_.end()) {
        Predicted(it->second->paths(static_cast<int>(path)), entry);
      } else {
        // In a fatbin that does not count (without kernels, left over).
        Predicted(
            compat::internal::DecideImage(view, image, host_, tables_)[path],
            entry);
      }
      entry.task.compiles = entry.compiles();
    }
    if (view.bare || found.compression() == v1::COMPRESSION_OPAQUE ||
        (!image.sass() && !image.ptx())) {
      return;
    }
    job.form = LoadJob::Form::kPayload;
    Try& payload =
        Add(job, compat::internal::kPlain, absl::StrCat("payload of ", name));
    compat::internal::FatbinView bare;
    bare.bare = true;
    Predicted(compat::internal::DecideImage(bare, image, host_,
                                            tables_)[compat::internal::kPlain],
              payload);
    payload.task.compiles = payload.compiles();
  }

  void PlanFatbin(const compat::internal::FatbinView& view,
                  const v1::Fatbin& fatbin,
                  const std::vector<std::string>& names) {
    const compat::internal::Decisions decisions =
        compat::internal::DecideFatbin(view, host_, tables_);
    LoadJob job;
    job.form = LoadJob::Form::kFatbin;
    job.offset = fatbin.offset();
    job.bytes = fatbin.size_bytes();
    // Its size is that of what would be compiled.
    job.expanded = fatbin.size_bytes();
    for (size_t path = 0; path < 3; ++path) {
      Try& whole = Add(job, path,
                       absl::StrCat("fatbin at ", fatbin.offset(), " of ",
                                    absl::StrJoin(names, " ")));
      Predicted(decisions[path], whole);
      whole.task.compiles = whole.compiles();
    }
  }

  Library& library_;
  const compat::Tables& tables_;
  const compat::HostView host_;
  v1::Prediction prediction_;
  std::map<uint32_t, const v1::ImagePrediction*> by_image_;
};

}  // namespace

bool Try::equal() const {
  const runner::LoadAnswer& answer = task.answer;
  if (loads()) return answer.state == runner::LoadAnswer::State::kLoaded;
  return answer.state == runner::LoadAnswer::State::kRefused &&
         answer.cuda_error == static_cast<int>(cuda_error);
}

absl::StatusOr<std::unique_ptr<Library>> ReadLibrary(const std::string& path) {
  TWINPATH_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path));
  inspect::InspectOptions options;
  options.digest = false;
  auto library = std::make_unique<Library>();
  library->path = path;
  TWINPATH_ASSIGN_OR_RETURN(
      *library->report.add_files(),
      inspect::InspectDescriptor(fd.get(), BaseName(path), options));
  return library;
}

void Plan(const v1::HostFacts& facts, const v1::Gpu& gpu,
          const compat::Tables& tables, Library& library) {
  Planner(library, facts, gpu, tables).Run();
}

void Sample(size_t most, Library& library) {
  std::map<std::pair<size_t, LoadJob::Form>, std::vector<Try*>> groups;
  for (Try& each : library.tries) {
    if (each.compiles()) {
      groups[{each.path, each.task.jobs[0].form}].push_back(&each);
    }
  }
  for (auto& [key, group] : groups) {
    std::stable_sort(
        group.begin(), group.end(), [](const Try* a, const Try* b) {
          return a->task.jobs[0].expanded < b->task.jobs[0].expanded;
        });
    std::vector<bool> kept(group.size(), group.size() <= most);
    for (size_t k = 0; k < most && group.size() > most; ++k) {
      kept[k * group.size() / most] = true;
    }
    for (size_t i = 0; i < group.size(); ++i) {
      if (!kept[i]) group[i]->sampled_out = true;
    }
  }
}

}  // namespace twinpath::gpu
