// FactsKeeper: the facts of this host as last collected, and a quick look at
// the driver before and after a cell. Collecting asks the driver in children
// with a deadline and may take a minute; only one collection runs at a time. A
// driver that hung is not asked again at once: each question may leave a
// process behind that nothing can kill, and they must not pile up. Thread-safe.

#ifndef TWINPATH_AGENT_FACTS_KEEPER_H_
#define TWINPATH_AGENT_FACTS_KEEPER_H_

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::agent {

// How much a collection asks for.
enum class FactsScope {
  // Everything: toolkits, libraries, the measured PTX ceiling.
  kFull,
  // What the driver answers, and what is read from small files.
  kQuick,
};

class FactsKeeper {
 public:
  // `collect` gathers facts; `leaks` are those found in the agent's environment
  // before it was scrubbed, added to every collection.
  FactsKeeper(std::function<v1::HostFacts(FactsScope)> collect,
              std::vector<v1::EnvironmentLeak> leaks, const Clock& clock)
      : collect_(std::move(collect)), leaks_(std::move(leaks)), clock_(clock) {}

  // Collects everything and returns it.
  v1::HostFacts Refresh();
  // Looks at the driver and returns the facts with what it found in them; what
  // only a full collection tells is kept from the last one, except where the
  // driver has changed since.
  v1::HostFacts Look();
  // The latest facts, if any were collected.
  std::optional<v1::HostFacts> Latest() const;

 private:
  // Collects, or answers from the last collection while the driver is left
  // alone after it hung.
  v1::HostFacts Collect(FactsScope scope);

  const std::function<v1::HostFacts(FactsScope)> collect_;
  const std::vector<v1::EnvironmentLeak> leaks_;
  const Clock& clock_;
  // Held while collecting; taken before mutex_.
  Mutex collecting_;
  int hangs_ ABSL_GUARDED_BY(collecting_) = 0;
  absl::Time ask_again_ ABSL_GUARDED_BY(collecting_) = absl::InfinitePast();
  mutable Mutex mutex_;
  std::optional<v1::HostFacts> latest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_FACTS_KEEPER_H_
