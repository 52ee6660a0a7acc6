// Identity: who this agent is to its coordinator. Kept in one file of mode
// 0600 that is written once, whole, at enrolment. The secret never appears in a
// log line or a message for people.

#ifndef TWINPATH_AGENT_IDENTITY_H_
#define TWINPATH_AGENT_IDENTITY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace twinpath::agent {

struct Identity {
  std::string host_id;
  std::string secret;
  // Being a simulation belongs to the identity for good: an agent that answers
  // from a model must never speak for a machine, nor the reverse.
  bool simulated = false;
};

// Reads an identity. NOT_FOUND: not enrolled yet. PERMISSION_DENIED: others can
// read the file. DATA_LOSS: the file is damaged (says to enrol again).
absl::StatusOr<Identity> LoadIdentity(const std::string& path);

// Writes it atomically with mode 0600.
absl::Status SaveIdentity(const std::string& path, const Identity& identity);

// Reads the first line of a token file, without white space around it.
// INVALID_ARGUMENT: empty, or longer than a token can be.
absl::StatusOr<std::string> ReadJoinToken(const std::string& path);

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_IDENTITY_H_
