// Between Abseil's times and protobuf's. A time that was never set is an unset
// field.

#ifndef TWINPATH_COORDINATOR_PROTO_TIME_H_
#define TWINPATH_COORDINATOR_PROTO_TIME_H_

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include "absl/time/time.h"

namespace twinpath::coordinator {

inline google::protobuf::Timestamp ToProto(absl::Time time) {
  google::protobuf::Timestamp proto;
  const int64_t nanos = absl::ToUnixNanos(time);
  int64_t seconds = nanos / 1'000'000'000;
  int64_t rest = nanos % 1'000'000'000;
  if (rest < 0) {
    rest += 1'000'000'000;
    --seconds;
  }
  proto.set_seconds(seconds);
  proto.set_nanos(static_cast<int32_t>(rest));
  return proto;
}

inline google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return proto;
}

inline absl::Time FromProto(const google::protobuf::Timestamp& proto) {
  return absl::FromUnixSeconds(proto.seconds()) +
         absl::Nanoseconds(proto.nanos());
}

inline absl::Duration FromProto(const google::protobuf::Duration& proto) {
  return absl::Seconds(proto.seconds()) + absl::Nanoseconds(proto.nanos());
}

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_PROTO_TIME_H_
