#include "coordinator/sane_times.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <vector>

namespace twinpath::coordinator {
namespace {

using google::protobuf::Duration;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::Timestamp;

// timestamp.proto: 0001-01-01T00:00:00Z to 9999-12-31T23:59:59.999999999Z.
constexpr int64_t kFirstSecond = -62'135'596'800;
constexpr int64_t kLastSecond = 253'402'300'799;
// duration.proto.
constexpr int64_t kMostSeconds = 315'576'000'000;
constexpr int32_t kNanos = 1'000'000'000;

bool IsPossible(const Message& message) {
  if (const auto* time = dynamic_cast<const Timestamp*>(&message)) {
    return time->seconds() >= kFirstSecond && time->seconds() <= kLastSecond &&
           time->nanos() >= 0 && time->nanos() < kNanos;
  }
  if (const auto* duration = dynamic_cast<const Duration*>(&message)) {
    const bool signs_agree =
        !(duration->seconds() > 0 && duration->nanos() < 0) &&
        !(duration->seconds() < 0 && duration->nanos() > 0);
    return signs_agree && duration->seconds() >= -kMostSeconds &&
           duration->seconds() <= kMostSeconds && duration->nanos() > -kNanos &&
           duration->nanos() < kNanos;
  }
  return true;
}

}  // namespace

void ClearImpossibleTimes(Message& message) {
  const Reflection* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (field->is_repeated()) {
      const int size = reflection->FieldSize(message, field);
      for (int i = 0; i < size; ++i) {
        Message& item = *reflection->MutableRepeatedMessage(&message, field, i);
        if (!IsPossible(item)) {
          item.Clear();
        } else {
          ClearImpossibleTimes(item);
        }
      }
    } else if (!IsPossible(reflection->GetMessage(message, field))) {
      reflection->ClearField(&message, field);
    } else {
      ClearImpossibleTimes(*reflection->MutableMessage(&message, field));
    }
  }
}

}  // namespace twinpath::coordinator
