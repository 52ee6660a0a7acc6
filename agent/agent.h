// Agent: the daemon on a host, put together. Threads: the caller's (session),
// one for facts, one for each cell that can run at once, and gRPC's own. None
// loads a driver library or reads an artifact's content (I11): probes and runs
// are children.

#ifndef TWINPATH_AGENT_AGENT_H_
#define TWINPATH_AGENT_AGENT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/agent_options.h"
#include "agent/facts_keeper.h"
#include "base/notify.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::agent {

// Collects this machine's facts (or the profile's, made this host's).
// `machine_id` stands in where the machine has none.
v1::HostFacts CollectAgentFacts(const AgentOptions& options, FactsScope scope,
                                const std::string& machine_id);

// Runs an agent until `stopped` returns true; it is asked at least every
// `poll`. Returns OK after a clean stop. Errors are of the start only: state
// folder in use, identity unusable (FAILED_PRECONDITION, PERMISSION_DENIED,
// DATA_LOSS), not enrolled and no join token (INVALID_ARGUMENT).
absl::Status RunAgent(const AgentOptions& options, const Notify& notify,
                      const std::function<bool()>& stopped,
                      absl::Duration poll = absl::Milliseconds(500));

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_AGENT_H_
