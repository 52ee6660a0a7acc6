#include "compat/file_decisions.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace twinpath::compat::internal {
namespace {

// A file of so many fatbins that one for a single target is no accident.
constexpr size_t kManyFatbins = 8;

// The better answer for a user, for choosing among fatbins with one kernel. Of
// failures the one nearer to success speaks: 223 says that PTX would do.
int Rank(const Decision& decision) {
  switch (decision.outcome) {
    case v1::OUTCOME_NATIVE:
      return 4;
    case v1::OUTCOME_JIT:
      return 3;
    case v1::OUTCOME_UNKNOWN:
      return 2;
    default:
      return decision.cuda_error == 209 || decision.cuda_error == 500 ? 0 : 1;
  }
}

// Strict order, so that the order of fatbins does not show.
bool Better(const Decision& a, const Decision& b) {
  return std::tuple(-Rank(a), a.cause, a.cuda_error) <
         std::tuple(-Rank(b), b.cause, b.cuda_error);
}

}  // namespace

FileDecisions::FileDecisions(const FileView& file, const HostView& host,
                             const Tables& tables)
    : file_(file) {
  shapes_.reserve(file.shapes.size());
  for (uint32_t shape = 0; shape < file.shapes.size(); ++shape) {
    shapes_.push_back(DecideFatbin(file.shape(shape), host, tables));
  }
  fatbins_of_shape_.resize(file.shapes.size());
  for (const FatbinClass& group : file.classes) {
    fatbins_of_shape_[group.shape] += group.fatbins;
    for (size_t path = 0; path < 3; ++path) {
      if (shapes_[group.shape][path].loads()) loading_[path] += group.fatbins;
    }
  }
  DecideKernels();
  for (size_t path = 0; path < 3; ++path) tallies_[path] = Count(path);
}

// An image chosen without the kernel is of no use to it.
Decision FileDecisions::ForPlace(const KernelClass::Place& place,
                                 size_t path) const {
  Decision decision = shapes_[place.shape][path];
  if (decision.loads() && !place.missing.empty()) {
    const auto position = static_cast<uint32_t>(
        decision.image - file_.shape(place.shape).images.data());
    if (std::binary_search(place.missing.begin(), place.missing.end(),
                           position)) {
      decision = {v1::OUTCOME_FAILS, Cause::kNoImage, 500, decision.image};
    }
  }
  return decision;
}

void FileDecisions::DecideKernels() {
  kernel_classes_.resize(file_.kernel_classes.size());
  for (uint32_t number = 0; number < kernel_classes_.size(); ++number) {
    for (size_t path = 0; path < 3; ++path) {
      Decision& best = kernel_classes_[number][path];
      bool first = true;
      for (const KernelClass::Place& place :
           file_.kernel_classes[number].places) {
        const Decision decision = ForPlace(place, path);
        if (first || Better(decision, best)) best = decision;
        first = false;
      }
    }
  }
}

bool FileDecisions::CoveredElsewhere(const FatbinClass& group, size_t path,
                                     v1::Outcome least) const {
  if (group.kernel_classes.empty()) return false;
  return std::all_of(group.kernel_classes.begin(), group.kernel_classes.end(),
                     [&](uint32_t number) {
                       const Decision& decision = kernel_classes_[number][path];
                       return decision.outcome == v1::OUTCOME_NATIVE ||
                              (least == v1::OUTCOME_JIT && decision.loads());
                     });
}

Tally FileDecisions::Count(size_t path) {
  Tally tally;
  holes_[path].resize(file_.classes.size());
  for (uint32_t i = 0; i < file_.classes.size(); ++i) {
    const FatbinClass& group = file_.classes[i];
    switch (shapes_[group.shape][path].outcome) {
      case v1::OUTCOME_NATIVE:
        tally.native += group.fatbins;
        continue;
      case v1::OUTCOME_JIT:
        tally.jit += group.fatbins;
        if (!file_.shape(group.shape).self_loaded() &&
            !CoveredElsewhere(group, path, v1::OUTCOME_NATIVE)) {
          tally.jit_needed += group.fatbins;
        }
        continue;
      case v1::OUTCOME_UNKNOWN:
        tally.unknown += group.fatbins;
        break;
      default:
        tally.fails += group.fatbins;
    }
    if (CoveredElsewhere(group, path, v1::OUTCOME_JIT)) continue;
    tally.gaps += group.fatbins;
    holes_[path][i] = LooksForgotten(group, path);
    if (holes_[path][i]) tally.holes += group.fatbins;
  }
  return tally;
}

bool FileDecisions::LooksForgotten(const FatbinClass& group,
                                   size_t path) const {
  const FatbinView& shape = file_.shape(group.shape);
  if (shapes_[group.shape][path].outcome != v1::OUTCOME_FAILS ||
      shape.all_suffixed || shape.self_loaded() || file_.vendor) {
    return false;
  }
  if (shape.one_target && file_.fatbins.size() >= kManyFatbins) return false;
  return loading_[path] * 2 >= file_.fatbins.size();
}

bool FileDecisions::RestsOnRelocatable(size_t path, v1::Outcome outcome) const {
  const auto loads_linked = [](const Decision& decision) {
    return decision.loads() && !decision.image->relocatable();
  };
  const bool any_linked =
      std::any_of(shapes_.begin(), shapes_.end(),
                  [&](const Decisions& d) { return loads_linked(d[path]); });
  // Device link leaves out kernels that nothing launches. One that is in no
  // linked image at all is such a kernel, where there is linked code to load.
  const auto linked = [&](uint32_t kernels) {
    bool left_out = any_linked;
    for (const KernelClass::Place& place :
         file_.kernel_classes[kernels].places) {
      if (loads_linked(ForPlace(place, path))) return true;
      const std::vector<ImageView>& images = file_.shape(place.shape).images;
      for (uint32_t i = 0; i < images.size(); ++i) {
        left_out &=
            images[i].relocatable() ||
            std::binary_search(place.missing.begin(), place.missing.end(), i);
      }
    }
    return left_out;
  };
  return std::any_of(
      file_.classes.begin(), file_.classes.end(),
      [&](const FatbinClass& group) {
        const Decision& decision = shapes_[group.shape][path];
        return decision.outcome == outcome && decision.image->relocatable() &&
               (group.kernel_classes.empty() ||
                !std::all_of(group.kernel_classes.begin(),
                             group.kernel_classes.end(), linked));
      });
}

const Decision* FileDecisions::Commonest(size_t path,
                                         v1::Outcome outcome) const {
  struct Votes {
    uint32_t count = 0;
    const Decision* first = nullptr;
  };
  // Ordered, so that equal counts are settled alike in every order of fatbins.
  std::map<std::pair<Cause, uint32_t>, Votes> votes;
  const auto vote = [&](const Decision& decision, uint32_t count) {
    if (decision.outcome != outcome) return;
    Votes& of = votes[{decision.cause, decision.cuda_error}];
    if (of.first == nullptr) of.first = &decision;
    of.count += count;
  };
  for (uint32_t i = 0; i < kernel_classes_.size(); ++i) {
    vote(kernel_classes_[i][path], file_.kernel_classes[i].kernels);
  }
  for (const FatbinClass& group : file_.classes) {
    if (group.kernel_classes.empty()) {
      vote(shapes_[group.shape][path], group.fatbins);
    }
  }
  if (votes.empty()) {
    for (const FatbinClass& group : file_.classes) {
      vote(shapes_[group.shape][path], group.fatbins);
    }
  }
  const Votes* most = nullptr;
  for (const auto& [cause, of] : votes) {
    if (most == nullptr || of.count > most->count) most = &of;
  }
  return most == nullptr ? nullptr : most->first;
}

}  // namespace twinpath::compat::internal
