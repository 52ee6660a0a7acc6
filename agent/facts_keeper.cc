#include "agent/facts_keeper.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "agent/time_proto.h"
#include "base/log.h"

namespace twinpath::agent {
namespace {

// Longest pause before a driver that keeps hanging is asked again.
constexpr int kMostDoublings = 6;

bool Hung(const v1::HostFacts& facts) {
  return facts.driver().probe().state() == v1::PROBE_STATE_HUNG ||
         facts.gpu_probe().state() == v1::PROBE_STATE_HUNG;
}

// Whether what was measured under `before` still holds under `now`.
bool SameDriver(const v1::Driver& before, const v1::Driver& now) {
  return before.kernel_module_version() == now.kernel_module_version() &&
         before.libcuda_digest().sha256() == now.libcuda_digest().sha256();
}

}  // namespace

v1::HostFacts FactsKeeper::Collect(FactsScope scope) {
  MutexLock collecting(collecting_);
  if (clock_.Monotonic() < ask_again_) {
    MutexLock lock(mutex_);
    if (latest_) return *latest_;
  }
  v1::HostFacts facts = collect_(scope);
  if (scope == FactsScope::kFull) {
    for (const v1::EnvironmentLeak& leak : leaks_) *facts.add_leaks() = leak;
  }
  if (Hung(facts)) {
    const absl::Duration pause =
        absl::Minutes(10) * (1 << std::min(hangs_, kMostDoublings));
    ++hangs_;
    ask_again_ = clock_.Monotonic() + pause;
    Log(LogLevel::kError, "the driver did not answer; it is left alone",
        {{"for", absl::FormatDuration(pause)}});
  } else {
    hangs_ = 0;
    ask_again_ = absl::InfinitePast();
  }
  MutexLock lock(mutex_);
  if (scope == FactsScope::kQuick && latest_) {
    v1::HostFacts merged = *latest_;
    v1::Driver driver = facts.driver();
    if (SameDriver(latest_->driver(), driver)) {
      if (!driver.has_ptx_isa_ceiling() &&
          latest_->driver().has_ptx_isa_ceiling()) {
        *driver.mutable_ptx_isa_ceiling() = latest_->driver().ptx_isa_ceiling();
      }
      *driver.mutable_ptx_isa_probe() = latest_->driver().ptx_isa_probe();
      if (driver.jit_cache_built().empty()) {
        driver.set_jit_cache_built(latest_->driver().jit_cache_built());
      }
    }
    *merged.mutable_driver() = std::move(driver);
    *merged.mutable_gpu_probe() = facts.gpu_probe();
    *merged.mutable_gpus() = facts.gpus();
    *merged.mutable_os() = facts.os();
    merged.set_platform(facts.platform());
    merged.set_boot_id(facts.boot_id());
    *merged.mutable_collected_time() = facts.collected_time();
    facts = std::move(merged);
  }
  latest_ = facts;
  return facts;
}

v1::HostFacts FactsKeeper::Refresh() { return Collect(FactsScope::kFull); }

v1::HostFacts FactsKeeper::Look() { return Collect(FactsScope::kQuick); }

std::optional<v1::HostFacts> FactsKeeper::Latest() const {
  MutexLock lock(mutex_);
  return latest_;
}

}  // namespace twinpath::agent
