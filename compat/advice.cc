#include "compat/advice.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compat/floor.h"
#include "compat/image_rules.h"
#include "compat/proposals.h"

namespace twinpath::compat {
namespace {

using internal::kNative;
using internal::kPlain;
using internal::kPtxJit;
using internal::Proposal;

constexpr int kMaxNames = 100;
constexpr size_t kMaxFixes = 20;

// Hosts with the same groups that do not work.
struct HostSet {
  uint32_t hosts = 0;
  std::vector<std::string> names;
};

size_t PositionOf(v1::Path path) {
  return path == v1::PATH_NATIVE    ? kNative
         : path == v1::PATH_PTX_JIT ? kPtxJit
                                    : kPlain;
}

class Adviser {
 public:
  Adviser(const FleetPrediction& fleet, internal::TroubledGroups groups,
          std::vector<Proposal> proposals, size_t path)
      : fleet_(fleet),
        groups_(std::move(groups)),
        proposals_(std::move(proposals)),
        path_(path) {}

  v1::Advice Run(const std::vector<v1::HostFacts>& hosts) {
    CountHosts(hosts);
    PickSmallestSet();
    Write();
    return std::move(out_);
  }

 private:
  const v1::PathPrediction& PathOf(size_t group, size_t path) const {
    return fleet_.groups[group].group.paths(static_cast<int>(path));
  }

  void CountHosts(const std::vector<v1::HostFacts>& hosts) {
    for (size_t h = 0; h < fleet_.groups_of_host.size(); ++h) {
      bool served = true;
      bool native = true;
      bool jit = true;
      std::vector<size_t> broken;
      for (const size_t group : fleet_.groups_of_host[h]) {
        if (fleet_.groups[group].group.paths().empty()) {
          served = native = jit = false;
          continue;
        }
        served &= Loads(PathOf(group, kPlain));
        native &= PathOf(group, kNative).outcome() == v1::OUTCOME_NATIVE;
        jit &= PathOf(group, kPtxJit).outcome() == v1::OUTCOME_JIT;
        if (groups_.failing.count(group) > 0) broken.push_back(group);
      }
      out_.set_hosts(out_.hosts() + 1);
      out_.set_hosts_served(out_.hosts_served() + (served ? 1 : 0));
      out_.set_hosts_native(out_.hosts_native() + (native ? 1 : 0));
      out_.set_hosts_jit(out_.hosts_jit() + (jit ? 1 : 0));
      out_.set_hosts_lost_by_jit(out_.hosts_lost_by_jit() +
                                 (native && !jit ? 1 : 0));
      if (broken.empty()) continue;
      std::sort(broken.begin(), broken.end());
      HostSet& set = broken_hosts_[broken];
      ++set.hosts;
      if (set.names.size() < kMaxNames) set.names.push_back(HostName(hosts[h]));
    }
  }

  uint32_t Hosts(const std::set<size_t>& gained,
                 std::vector<std::string>* names) const {
    uint32_t hosts = 0;
    for (const auto& [broken, set] : broken_hosts_) {
      if (!std::includes(gained.begin(), gained.end(), broken.begin(),
                         broken.end())) {
        continue;
      }
      hosts += set.hosts;
      if (names != nullptr) {
        names->insert(names->end(), set.names.begin(), set.names.end());
      }
    }
    return hosts;
  }

  uint32_t Gpus(const std::set<size_t>& groups) const {
    uint32_t gpus = 0;
    for (const size_t group : groups) gpus += fleet_.groups[group].group.gpus();
    return gpus;
  }

  // Better first: what a person should be told before the other.
  bool Better(const Proposal& a, const Proposal& b) const {
    const auto key = [&](const Proposal& p) {
      return std::tuple(Hosts(p.gained, nullptr), Gpus(p.gained),
                        Gpus(p.native) + Gpus(p.improved), !p.other_build,
                        p.kind == v1::FIX_KIND_TARGET, p.exact, p.number);
    };
    return key(a) > key(b);
  }

  // Targets that do no more than a better one are left out, then the fewest
  // that together do all: greedy, which for nested sets is exact.
  void PickSmallestSet() {
    std::stable_sort(
        proposals_.begin(), proposals_.end(),
        [&](const Proposal& a, const Proposal& b) { return Better(a, b); });
    std::vector<Proposal> kept;
    for (Proposal& proposal : proposals_) {
      const bool needless =
          std::any_of(kept.begin(), kept.end(), [&](const Proposal& other) {
            if (other.kind != proposal.kind ||
                proposal.kind != v1::FIX_KIND_TARGET ||
                (other.other_build && !proposal.other_build)) {
              return false;
            }
            return std::includes(other.gained.begin(), other.gained.end(),
                                 proposal.gained.begin(),
                                 proposal.gained.end()) &&
                   std::includes(other.native.begin(), other.native.end(),
                                 proposal.native.begin(),
                                 proposal.native.end()) &&
                   std::includes(other.improved.begin(), other.improved.end(),
                                 proposal.improved.begin(),
                                 proposal.improved.end());
          });
      if (!needless) kept.push_back(std::move(proposal));
    }
    proposals_ = std::move(kept);

    std::set<size_t> left = groups_.failing;
    while (!left.empty()) {
      size_t best = proposals_.size();
      std::tuple<bool, uint32_t, uint32_t> most{false, 0, 0};
      for (size_t i = 0; i < proposals_.size(); ++i) {
        std::set<size_t> gains;
        std::set<size_t> native;
        for (const size_t group : proposals_[i].gained) {
          if (left.count(group) > 0) gains.insert(group);
          if (left.count(group) > 0 && proposals_[i].native.count(group) > 0) {
            native.insert(group);
          }
        }
        if (gains.empty()) continue;
        // One more build costs more than one more flag.
        const std::tuple<bool, uint32_t, uint32_t> value{
            !proposals_[i].other_build, Gpus(gains), Gpus(native)};
        if (value > most) {
          most = value;
          best = i;
        }
      }
      if (best == proposals_.size()) break;
      smallest_.insert(best);
      for (const size_t group : proposals_[best].gained) left.erase(group);
    }
    beyond_ = std::move(left);
    DropNeedless();
  }

  // A change picked early may be covered by those picked after it.
  void DropNeedless() {
    for (auto at = smallest_.begin(); at != smallest_.end();) {
      std::set<size_t> others;
      for (const size_t other : smallest_) {
        if (other == *at) continue;
        others.insert(proposals_[other].gained.begin(),
                      proposals_[other].gained.end());
      }
      const std::set<size_t>& gained = proposals_[*at].gained;
      at = std::includes(others.begin(), others.end(), gained.begin(),
                         gained.end())
               ? smallest_.erase(at)
               : std::next(at);
    }
  }

  void Write() {
    for (size_t i = 0; i < proposals_.size(); ++i) {
      const Proposal& proposal = proposals_[i];
      if (i >= kMaxFixes && smallest_.count(i) == 0) continue;
      v1::Fix& fix = *out_.add_fixes();
      fix.set_kind(proposal.kind);
      fix.set_text(proposal.text);
      fix.set_path(internal::kPaths[path_]);
      std::vector<std::string> names;
      fix.set_hosts_gained(Hosts(proposal.gained, &names));
      fix.set_gpus_gained(Gpus(proposal.gained));
      fix.set_gpus_improved(Gpus(proposal.improved));
      if (names.size() > kMaxNames) names.resize(kMaxNames);
      fix.mutable_host_names()->Add(names.begin(), names.end());
      fix.set_in_smallest_set(smallest_.count(i) > 0);
      if (proposal.kind == v1::FIX_KIND_TARGET) {
        fix.set_build(proposal.other_build ? 2 : 1);
      }
    }
    for (const auto& [broken, set] : broken_hosts_) {
      const bool beyond =
          std::any_of(broken.begin(), broken.end(),
                      [&](size_t group) { return beyond_.count(group) > 0; });
      if (!beyond) continue;
      for (const std::string& name : set.names) {
        if (out_.beyond_help_size() < kMaxNames) out_.add_beyond_help(name);
      }
    }
  }

  const FleetPrediction& fleet_;
  const internal::TroubledGroups groups_;
  std::vector<Proposal> proposals_;
  const size_t path_;
  v1::Advice out_;
  std::set<size_t> beyond_;
  std::map<std::vector<size_t>, HostSet> broken_hosts_;
  std::set<size_t> smallest_;
};

}  // namespace

v1::Advice Advise(const v1::ArtifactReport& report, const Predictor& predictor,
                  const FleetPrediction& fleet,
                  const std::vector<v1::HostFacts>& hosts, v1::Path path,
                  const Tables& tables) {
  const size_t position = PositionOf(path);
  internal::TroubledGroups groups = internal::FindTroubled(fleet, position);
  std::vector<Proposal> proposals =
      internal::Propose(report, predictor, fleet, groups, position, tables);
  return Adviser(fleet, std::move(groups), std::move(proposals), position)
      .Run(hosts);
}

}  // namespace twinpath::compat
