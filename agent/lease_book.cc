#include "agent/lease_book.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "agent/time_proto.h"
#include "base/text.h"

namespace twinpath::agent {
namespace {

constexpr char kExpired[] = "the lease expired before the cell could start";

std::string NoGpu(const v1::Lease& lease) {
  return absl::StrCat("this host has no GPU ",
                      Printable(absl::string_view(lease.gpu_uuid())), " now");
}

}  // namespace

v1::LeaseRefusal MakeRefusal(const v1::Lease& lease, absl::string_view code,
                             absl::string_view why) {
  v1::LeaseRefusal refusal;
  refusal.set_lease_id(lease.id());
  refusal.set_cell_id(lease.cell_id());
  refusal.mutable_reason()->set_code(std::string(code));
  refusal.mutable_reason()->set_detail(std::string(why));
  return refusal;
}

uint32_t GpusWanted(const v1::Entry& entry, uint32_t available) {
  if (entry.gpus().all()) return std::max<uint32_t>(available, 1);
  return std::max<uint32_t>(entry.gpus().count(), 1);
}

void LeaseBook::SetGpus(std::vector<std::string> uuids) {
  MutexLock lock(mutex_);
  gpus_ = std::move(uuids);
  changed_.NotifyAll();
}

LeaseBook::Leases::iterator LeaseBook::Find(absl::string_view cell_id) {
  return std::find_if(leases_.begin(), leases_.end(), [&](const Held& held) {
    return held.lease.cell_id() == cell_id;
  });
}

LeaseBook::Leases::const_iterator LeaseBook::Find(
    absl::string_view cell_id) const {
  return std::find_if(leases_.begin(), leases_.end(), [&](const Held& held) {
    return held.lease.cell_id() == cell_id;
  });
}

bool LeaseBook::HasGpuOf(const v1::Lease& lease) const {
  return !gpus_ || lease.gpu_uuid().empty() ||
         std::find(gpus_->begin(), gpus_->end(), lease.gpu_uuid()) !=
             gpus_->end();
}

bool LeaseBook::Startable(const Held& held) const {
  return !closed_ && !withheld_ && !held.cancelled &&
         held.start_by > clock_.Monotonic();
}

void LeaseBook::GiveBack(const v1::Lease& lease, absl::string_view code,
                         absl::string_view why) {
  if (refusals_.size() >= kMostRefusals) return;
  refusals_.push_back(MakeRefusal(lease, code, why));
}

std::optional<v1::LeaseRefusal> LeaseBook::Offer(const v1::Lease& lease) {
  MutexLock lock(mutex_);
  if (lease.id().empty() || lease.cell_id().empty()) {
    return MakeRefusal(lease, "TP306", "the lease names no lease or no cell");
  }
  if (closed_) {
    return MakeRefusal(lease, "TP306", "the agent is stopping");
  }
  if (withheld_) {
    return MakeRefusal(lease, withheld_->code(), withheld_->detail());
  }
  if (!HasGpuOf(lease)) return MakeRefusal(lease, "TP106", NoGpu(lease));
  Held held;
  held.lease = lease;
  held.start_by = clock_.Monotonic() + FromProto(lease.start_within());

  if (const auto known = Find(lease.cell_id()); known != leases_.end()) {
    if (known->stage == Stage::kStarted || known->lease.id() == lease.id()) {
      return std::nullopt;
    }
    known->lease.set_id(lease.id());
    known->start_by = held.start_by;
    known->cancelled = false;
    changed_.NotifyAll();
    return std::nullopt;
  }
  if (leases_.size() >= max_held_) {
    return MakeRefusal(
        lease, "TP306",
        absl::StrCat("the agent holds ", leases_.size(), " leases already"));
  }
  leases_.push_back(std::move(held));
  changed_.NotifyAll();
  return std::nullopt;
}

std::vector<std::string> LeaseBook::GpusFor(const v1::Lease& lease) const {
  std::vector<std::string> uuids = {lease.gpu_uuid()};
  if (!gpus_ || lease.gpu_uuid().empty()) return uuids;
  const uint32_t wanted =
      GpusWanted(lease.entry(), static_cast<uint32_t>(gpus_->size()));
  for (const std::string& uuid : *gpus_) {
    if (uuids.size() >= wanted) break;
    if (uuid != lease.gpu_uuid()) uuids.push_back(uuid);
  }
  return uuids;
}

std::optional<ClaimedLease> LeaseBook::Claim(absl::Duration timeout) {
  MutexLock lock(mutex_);
  for (bool waited = false;; waited = true) {
    DropExpired();
    // GPUs an older lease waits for are kept free for it: an entry that needs
    // all of them is not starved by those that need one.
    std::set<std::string> taken = busy_;
    for (auto next = leases_.begin(); next != leases_.end();) {
      const auto at = next++;
      Held& held = *at;
      if (held.stage != Stage::kWaiting || closed_ || !gpus_) continue;
      // Offered before the GPUs were known, or one has gone since.
      if (!HasGpuOf(held.lease)) {
        GiveBack(held.lease, "TP106", NoGpu(held.lease));
        leases_.erase(at);
        continue;
      }
      std::vector<std::string> uuids = GpusFor(held.lease);
      const bool free = std::none_of(
          uuids.begin(), uuids.end(),
          [&](const std::string& gpu) { return taken.contains(gpu); });
      taken.insert(uuids.begin(), uuids.end());
      if (!free) continue;
      busy_.insert(uuids.begin(), uuids.end());
      held.stage = Stage::kClaimed;
      held.gpu_uuids = uuids;
      ClaimedLease claimed{held.lease, std::move(uuids)};
      // A host without GPU has none to hand on.
      std::erase(claimed.gpu_uuids, "");
      return claimed;
    }
    if (waited || timeout <= absl::ZeroDuration()) return std::nullopt;
    changed_.WaitFor(mutex_, timeout);
  }
}

bool LeaseBook::MayStart(absl::string_view cell_id) const {
  return TimeLeft(cell_id) > absl::ZeroDuration();
}

absl::Duration LeaseBook::TimeLeft(absl::string_view cell_id) const {
  MutexLock lock(mutex_);
  const auto held = Find(cell_id);
  if (held == leases_.end() || !Startable(*held)) return absl::ZeroDuration();
  return held->start_by - clock_.Monotonic();
}

std::optional<std::string> LeaseBook::Start(absl::string_view cell_id) {
  MutexLock lock(mutex_);
  const auto held = Find(cell_id);
  if (held == leases_.end() || held->stage != Stage::kClaimed ||
      !Startable(*held)) {
    return std::nullopt;
  }
  held->stage = Stage::kStarted;
  return held->lease.id();
}

v1::Reason LeaseBook::WhyNot(absl::string_view cell_id) const {
  MutexLock lock(mutex_);
  const auto held = Find(cell_id);
  v1::Reason reason;
  reason.set_code("TP306");
  if (closed_) {
    reason.set_detail("the agent is stopping");
  } else if (held != leases_.end() && held->cancelled) {
    reason.set_code("TP416");
    reason.set_detail("the cell was cancelled");
  } else if (withheld_) {
    reason = *withheld_;
  } else {
    reason.set_detail(kExpired);
  }
  return reason;
}

void LeaseBook::Forget(Leases::iterator held) {
  for (const std::string& uuid : held->gpu_uuids) busy_.erase(uuid);
  leases_.erase(held);
  changed_.NotifyAll();
}

void LeaseBook::Finish(absl::string_view cell_id) {
  MutexLock lock(mutex_);
  const auto held = Find(cell_id);
  if (held != leases_.end() && held->stage != Stage::kWaiting) Forget(held);
}

void LeaseBook::GiveUp(absl::string_view cell_id, const v1::Reason& reason) {
  MutexLock lock(mutex_);
  const auto held = Find(cell_id);
  if (held == leases_.end() || held->stage != Stage::kClaimed) return;
  GiveBack(held->lease, reason.code(), reason.detail());
  Forget(held);
}

void LeaseBook::Cancel(absl::string_view cell_id) {
  MutexLock lock(mutex_);
  const auto held = Find(cell_id);
  if (held == leases_.end()) return;
  if (held->stage == Stage::kClaimed) {
    held->cancelled = true;
  } else if (held->stage == Stage::kWaiting) {
    GiveBack(held->lease, "TP416", "the cell was cancelled");
    leases_.erase(held);
  }
  changed_.NotifyAll();
}

void LeaseBook::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  for (auto held = leases_.begin(); held != leases_.end();) {
    if (held->stage == Stage::kWaiting) {
      GiveBack(held->lease, "TP306", "the agent is stopping");
      held = leases_.erase(held);
    } else {
      ++held;
    }
  }
  changed_.NotifyAll();
}

void LeaseBook::Withhold(std::optional<v1::Reason> reason) {
  MutexLock lock(mutex_);
  withheld_ = std::move(reason);
  if (withheld_) {
    for (auto held = leases_.begin(); held != leases_.end();) {
      if (held->stage == Stage::kWaiting) {
        GiveBack(held->lease, withheld_->code(), withheld_->detail());
        held = leases_.erase(held);
      } else {
        ++held;
      }
    }
  }
  changed_.NotifyAll();
}

void LeaseBook::Wake() {
  MutexLock lock(mutex_);
  changed_.NotifyAll();
}

void LeaseBook::DropExpired() {
  const absl::Time now = clock_.Monotonic();
  for (auto held = leases_.begin(); held != leases_.end();) {
    if (held->stage == Stage::kWaiting && held->start_by <= now) {
      GiveBack(held->lease, "TP306", kExpired);
      held = leases_.erase(held);
    } else {
      ++held;
    }
  }
}

std::vector<v1::LeaseRefusal> LeaseBook::TakeRefusals() {
  MutexLock lock(mutex_);
  DropExpired();
  return std::exchange(refusals_, {});
}

std::vector<std::string> LeaseBook::HeldCells() const {
  MutexLock lock(mutex_);
  std::vector<std::string> cells;
  for (const Held& held : leases_) cells.push_back(held.lease.cell_id());
  return cells;
}

uint32_t LeaseBook::held() const {
  MutexLock lock(mutex_);
  return static_cast<uint32_t>(leases_.size());
}

absl::Duration LeaseBook::UntilExpiry() const {
  MutexLock lock(mutex_);
  absl::Time next = absl::InfiniteFuture();
  for (const Held& held : leases_) {
    if (held.stage == Stage::kWaiting) next = std::min(next, held.start_by);
  }
  return next - clock_.Monotonic();
}

}  // namespace twinpath::agent
