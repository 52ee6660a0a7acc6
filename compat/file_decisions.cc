#include "compat/file_decisions.h"

#include <algorithm>
#include <map>
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

}  // namespace

FileDecisions::FileDecisions(const FileView& file, const HostView& host,
                             const Tables& tables)
    : file_(file) {
  fatbins_.reserve(file.fatbins.size());
  for (const FatbinView& fatbin : file.fatbins) {
    fatbins_.push_back(DecideFatbin(fatbin, host, tables));
    for (size_t path = 0; path < 3; ++path) {
      loading_[path] += fatbins_.back()[path].loads() ? 1 : 0;
    }
  }
  DecideKernels();
  for (size_t path = 0; path < 3; ++path) tallies_[path] = Count(path);
}

// An image chosen without the kernel is of no use to it.
Decision FileDecisions::ForKernel(uint32_t fatbin, size_t path,
                                  uint32_t kernel) const {
  Decision decision = fatbins_[fatbin][path];
  if (decision.loads() && decision.image->kernels_read &&
      !std::binary_search(decision.image->kernels.begin(),
                          decision.image->kernels.end(), kernel)) {
    decision = {v1::OUTCOME_FAILS, Cause::kNoImage, 500, decision.image};
  }
  return decision;
}

void FileDecisions::DecideKernels() {
  kernels_.resize(file_.kernel_names.size());
  for (uint32_t kernel = 0; kernel < kernels_.size(); ++kernel) {
    for (size_t path = 0; path < 3; ++path) {
      bool first = true;
      for (const uint32_t fatbin : file_.kernel_fatbins[kernel]) {
        const Decision decision = ForKernel(fatbin, path, kernel);
        if (first || Rank(decision) > Rank(kernels_[kernel][path])) {
          kernels_[kernel][path] = decision;
        }
        first = false;
      }
    }
  }
}

bool FileDecisions::CoveredElsewhere(uint32_t fatbin, size_t path,
                                     v1::Outcome least) const {
  const FatbinView& view = file_.fatbins[fatbin];
  if (view.kernels.empty()) return false;
  return std::all_of(view.kernels.begin(), view.kernels.end(),
                     [&](uint32_t kernel) {
                       const Decision& decision = kernels_[kernel][path];
                       return decision.outcome == v1::OUTCOME_NATIVE ||
                              (least == v1::OUTCOME_JIT && decision.loads());
                     });
}

Tally FileDecisions::Count(size_t path) const {
  Tally tally;
  for (uint32_t i = 0; i < fatbins_.size(); ++i) {
    switch (fatbins_[i][path].outcome) {
      case v1::OUTCOME_NATIVE:
        ++tally.native;
        continue;
      case v1::OUTCOME_JIT:
        ++tally.jit;
        if (!file_.fatbins[i].self_loaded() &&
            !CoveredElsewhere(i, path, v1::OUTCOME_NATIVE)) {
          ++tally.jit_needed;
        }
        continue;
      case v1::OUTCOME_UNKNOWN:
        ++tally.unknown;
        break;
      default:
        ++tally.fails;
    }
    if (CoveredElsewhere(i, path, v1::OUTCOME_JIT)) continue;
    ++tally.gaps;
    if (IsHole(i, path)) ++tally.holes;
  }
  return tally;
}

bool FileDecisions::IsHole(uint32_t fatbin, size_t path) const {
  const FatbinView& view = file_.fatbins[fatbin];
  if (fatbins_[fatbin][path].outcome != v1::OUTCOME_FAILS ||
      view.all_suffixed || view.self_loaded() || file_.vendor ||
      CoveredElsewhere(fatbin, path, v1::OUTCOME_JIT)) {
    return false;
  }
  if (view.one_target && fatbins_.size() >= kManyFatbins) return false;
  return loading_[path] * 2 >= fatbins_.size();
}

const Decision* FileDecisions::Commonest(size_t path,
                                         v1::Outcome outcome) const {
  std::map<std::pair<Cause, uint32_t>, std::pair<uint32_t, const Decision*>>
      votes;
  const Decision* most = nullptr;
  uint32_t best = 0;
  const auto vote = [&](const Decision& decision) {
    if (decision.outcome != outcome) return;
    auto& [count, first] = votes[{decision.cause, decision.cuda_error}];
    if (count == 0) first = &decision;
    if (++count > best) {
      best = count;
      most = first;
    }
  };
  for (const Decisions& decisions : kernels_) vote(decisions[path]);
  for (size_t i = 0; i < fatbins_.size(); ++i) {
    if (file_.fatbins[i].kernels.empty()) vote(fatbins_[i][path]);
  }
  if (most == nullptr) {
    for (const Decisions& decisions : fatbins_) vote(decisions[path]);
  }
  return most;
}

}  // namespace twinpath::compat::internal
