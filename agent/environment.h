// The agent's own environment. Switches that change how CUDA programs load code
// must never reach a child by inheritance (the runner sets them for the one
// process under test), and a host where the agent itself inherits them is a
// finding. Call before any thread exists.

#ifndef TWINPATH_AGENT_ENVIRONMENT_H_
#define TWINPATH_AGENT_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "twinpath/v1/facts.pb.h"

namespace twinpath::agent {

// Removes the JIT variables, whatever their value, and every other switch that
// runner/leaks.h knows from this process's environment. Returns those that were
// switched on, as leaks of origin "process".
std::vector<v1::EnvironmentLeak> ScrubEnvironment();

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_ENVIRONMENT_H_
