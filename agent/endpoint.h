// The coordinator's address as people write it. Pure functions.

#ifndef TWINPATH_AGENT_ENDPOINT_H_
#define TWINPATH_AGENT_ENDPOINT_H_

#include <string>

#include "absl/status/status.h"

namespace twinpath::agent {

// OK for "127.0.0.1:7711", "localhost:7711", "[::1]:7711". INVALID_ARGUMENT
// with what to write for anything else: there is no TLS yet, so the address
// must be this host's own.
absl::Status CheckLoopbackEndpoint(const std::string& endpoint);

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_ENDPOINT_H_
