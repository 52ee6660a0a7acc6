// The simulation: a host that exists as a profile only. It answers leases from
// the predictions they carry, so that a sweep, its matrix and its reasons can
// be seen without machines. Everything it says is marked simulated, and
// simulated never passes (TP414). Nothing is fetched, staged or started.

#ifndef TWINPATH_AGENT_SIMULATED_PROCESSOR_H_
#define TWINPATH_AGENT_SIMULATED_PROCESSOR_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "agent/cell_processor.h"
#include "base/clock.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::agent {

class SimulatedProcessor final : public CellProcessor {
 public:
  // `facts` returns the simulated host's facts.
  SimulatedProcessor(std::function<v1::HostFacts()> facts, const Clock& clock)
      : facts_(std::move(facts)), clock_(clock) {}

  CellOutcome Process(const ClaimedLease& claimed,
                      CellControl& control) override;

 private:
  const std::function<v1::HostFacts()> facts_;
  const Clock& clock_;
};

// Reads the random id kept in `path`, making it at the first call. It stands
// for the machine id of a simulated host and of a machine that has none: two
// hosts never share one. DATA_LOSS: the file holds something else.
absl::StatusOr<std::string> KeptMachineId(const std::string& path);

// Makes a profile's facts this simulated host's: its machine id, boot id, name,
// and GPU UUIDs of its own, so that many hosts can be made from one profile.
v1::HostFacts SimulatedFacts(v1::HostFacts profile,
                             const std::string& machine_id,
                             const std::string& host_name,
                             const std::string& agent_version);

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_SIMULATED_PROCESSOR_H_
