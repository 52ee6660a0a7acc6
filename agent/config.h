// The agent's configuration file (agent.yaml, see config/agent.yaml): the same
// settings as the flags, which win over it, and allow_unsigned_runs, which has
// no flag. Read strictly: an unknown key or a wrong type is an error with file,
// line and column, all of them at once.

#ifndef TWINPATH_AGENT_CONFIG_H_
#define TWINPATH_AGENT_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "agent/agent_options.h"

namespace twinpath::agent {

// Reads `path` over the defaults in `options`. INVALID_ARGUMENT lists every
// mistake; as the file system says where it cannot be read.
absl::Status LoadConfig(const std::string& path, AgentOptions* options);

// The same from text; `file` is for messages.
absl::Status ParseConfig(absl::string_view text, absl::string_view file,
                         AgentOptions* options);

// Checks a label "key=value". INVALID_ARGUMENT says what is wrong.
absl::Status CheckAgentLabel(absl::string_view label);

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_CONFIG_H_
