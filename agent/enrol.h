// Enrolment: a join token becomes the identity this host keeps.

#ifndef TWINPATH_AGENT_ENROL_H_
#define TWINPATH_AGENT_ENROL_H_

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/backoff.h"
#include "agent/identity.h"
#include "base/notify.h"
#include "twinpath/v1/services.pb.h"

namespace twinpath::agent {

// Asks the coordinator until it gives an identity, and keeps that in
// `identity_file`. The token is read anew before each try, so that a person can
// mend a refusal without a restart. `request` lacks only the token. CANCELLED:
// `stopped` said so; the token file's own error where it cannot be read at the
// first try.
absl::StatusOr<Identity> EnrolUntil(
    v1::EnrolRequest request, const std::string& token_file,
    const std::string& identity_file,
    const std::shared_ptr<grpc::Channel>& channel,
    const BackoffOptions& backoff, const Notify& notify,
    const std::function<bool()>& stopped, absl::Duration poll);

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_ENROL_H_
