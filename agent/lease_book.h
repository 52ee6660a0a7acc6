// LeaseBook: the leases this agent holds, and which of them may start. A lease
// is permission to start one cell before its expiry, by the monotonic clock
// from its receipt; one that expired, or whose cell was cancelled, is given
// back unstarted and never starts afterwards. One cell at a time uses a GPU.
//
// A lease passes through: waiting -> claimed (its files are fetched) -> started
// -> finished. Only a started cell can have done anything on the host.
// Thread-safe.

#ifndef TWINPATH_AGENT_LEASE_BOOK_H_
#define TWINPATH_AGENT_LEASE_BOOK_H_

#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "twinpath/v1/services.pb.h"

namespace twinpath::agent {

// A lease whose GPUs are reserved for it.
struct ClaimedLease {
  v1::Lease lease;
  // GPUs the entry runs on, the lease's first. Fewer than the entry asks for
  // where the host has fewer.
  std::vector<std::string> gpu_uuids;
};

class LeaseBook {
 public:
  // `max_held` bounds the leases held at once; one more is given back.
  explicit LeaseBook(const Clock& clock, uint32_t max_held = 64)
      : clock_(clock), max_held_(max_held) {}

  // GPUs of this host, in PCI order, as the latest facts list them. Before the
  // first call leases are taken on and wait.
  void SetGpus(std::vector<std::string> uuids);

  // Takes a lease on. A newer lease for a cell that has not started replaces
  // the older one; for one that has started it is ignored: that run answers it.
  // Returns a refusal where the lease cannot be taken on.
  std::optional<v1::LeaseRefusal> Offer(const v1::Lease& lease);

  // Claims the oldest waiting lease whose GPUs are free. One whose GPU this
  // host does not have is given back (TP106). Waits at most `timeout`;
  // nothing: none became ready.
  std::optional<ClaimedLease> Claim(absl::Duration timeout);

  // Whether a claimed cell may still start; asked while its files are fetched.
  bool MayStart(absl::string_view cell_id) const;
  // Time left to start a claimed cell; zero if it may not start any more.
  absl::Duration TimeLeft(absl::string_view cell_id) const;
  // Marks a claimed cell as started and returns the lease it starts under, or
  // nothing when it may not start any more; WhyNot tells the reason.
  std::optional<std::string> Start(absl::string_view cell_id);
  v1::Reason WhyNot(absl::string_view cell_id) const;
  // Forgets a claimed or started cell and frees its GPUs.
  void Finish(absl::string_view cell_id);
  // The same for a claimed cell that cannot be started here: its lease is given
  // back with this reason.
  void GiveUp(absl::string_view cell_id, const v1::Reason& reason);

  // Gives a cell up that has not started. A started one runs on.
  void Cancel(absl::string_view cell_id);
  // Gives up everything that has not started, and takes no more on.
  void Close();
  // While a reason is set, takes no lease on and starts none: what has not
  // started is given back with it. Unset: goes on.
  void Withhold(std::optional<v1::Reason> reason);
  // Wakes one waiter in Claim.
  void Wake();

  // Leases given back since the last call, with reasons; expired ones included.
  std::vector<v1::LeaseRefusal> TakeRefusals();

  // Cells held, in the order of receipt.
  std::vector<std::string> HeldCells() const;
  uint32_t held() const;
  // How long until the next waiting lease expires; infinite: none waits.
  absl::Duration UntilExpiry() const;

 private:
  enum class Stage { kWaiting, kClaimed, kStarted };
  struct Held {
    v1::Lease lease;
    absl::Time start_by;
    Stage stage = Stage::kWaiting;
    bool cancelled = false;
    std::vector<std::string> gpu_uuids;
  };
  using Leases = std::list<Held>;

  Leases::iterator Find(absl::string_view cell_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Leases::const_iterator Find(absl::string_view cell_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the host has the GPU of a lease; true before its GPUs are known.
  bool HasGpuOf(const v1::Lease& lease) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Startable(const Held& held) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives waiting leases back that expired.
  void DropExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(const v1::Lease& lease, absl::string_view code,
                absl::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Leases::iterator held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> GpusFor(const v1::Lease& lease) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  const uint32_t max_held_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<v1::Reason> withheld_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::vector<std::string>> gpus_ ABSL_GUARDED_BY(mutex_);
  Leases leases_ ABSL_GUARDED_BY(mutex_);
  // GPUs of claimed and started cells; "" stands for a host without GPU.
  std::set<std::string> busy_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::LeaseRefusal> refusals_ ABSL_GUARDED_BY(mutex_);
};

// Refusals kept until they can be told. Beyond it they are dropped: the leases
// run out by themselves, and a coordinator that sends leases without listening
// must not fill this host's memory.
inline constexpr size_t kMostRefusals = 1024;

// Makes a refusal.
v1::LeaseRefusal MakeRefusal(const v1::Lease& lease, absl::string_view code,
                             absl::string_view why);

// Number of GPUs an entry asks for on a host that has `available`.
uint32_t GpusWanted(const v1::Entry& entry, uint32_t available);

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_LEASE_BOOK_H_
