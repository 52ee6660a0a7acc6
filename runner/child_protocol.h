// How the children speak: one serialized request on standard input up to its
// end, one serialized answer on standard output, then exit 0.

#ifndef TWINPATH_RUNNER_CHILD_PROTOCOL_H_
#define TWINPATH_RUNNER_CHILD_PROTOCOL_H_

#include <google/protobuf/message_lite.h>

#include "absl/status/status.h"

namespace twinpath::runner {

// Takes standard output away from everything else in this process: returns a
// descriptor for the answer and lets descriptor 1 go to standard error, since
// drivers and libraries print as they please.
int ClaimStandardOutput();

// Reads the request. INVALID_ARGUMENT for more than 64 MiB or bytes that do not
// parse.
absl::Status ReadRequest(google::protobuf::MessageLite& request);

// Writes the answer to `fd`.
absl::Status WriteAnswer(int fd, const google::protobuf::MessageLite& answer);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_CHILD_PROTOCOL_H_
