// Times and durations as protobuf messages. Pure functions.

#ifndef TWINPATH_AGENT_TIME_PROTO_H_
#define TWINPATH_AGENT_TIME_PROTO_H_

#include <cstdint>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace twinpath::agent {

// Returns `time` to the microsecond.
inline google::protobuf::Timestamp ToProto(absl::Time time) {
  const int64_t micros = absl::ToUnixMicros(time);
  int64_t seconds = micros / 1'000'000;
  int64_t rest = micros % 1'000'000;
  if (rest < 0) {
    --seconds;
    rest += 1'000'000;
  }
  google::protobuf::Timestamp proto;
  proto.set_seconds(seconds);
  proto.set_nanos(static_cast<int32_t>(rest * 1000));
  return proto;
}

inline google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  const int64_t seconds =
      absl::IDivDuration(duration, absl::Seconds(1), &duration);
  proto.set_seconds(seconds);
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return proto;
}

// Returns the duration; what a peer sends may be any number, infinity included.
inline absl::Duration FromProto(const google::protobuf::Duration& proto) {
  return absl::Seconds(proto.seconds()) + absl::Nanoseconds(proto.nanos());
}

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_TIME_PROTO_H_
