// Times that agents send are theirs: any number may stand there. What protobuf
// does not allow as a time could be stored but never printed as JSON, and one
// host would spoil the answer about all of them.

#ifndef TWINPATH_COORDINATOR_SANE_TIMES_H_
#define TWINPATH_COORDINATOR_SANE_TIMES_H_

#include <google/protobuf/message.h>

namespace twinpath::coordinator {

// Clears every Timestamp in `message` that is not between the years 1 and 9999
// and every Duration beyond 10,000 years, however deep (the ranges of
// timestamp.proto and duration.proto). Thread-safe for different messages.
void ClearImpossibleTimes(google::protobuf::Message& message);

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_SANE_TIMES_H_
