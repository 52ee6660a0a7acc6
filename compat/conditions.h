// Conditions: the subset of a host's facts a verdict depends on, as sorted
// "name=value" lines with a digest. docs/formats/conditions.md specifies names,
// values and escaping byte for byte. Pure functions; thread-safe.

#ifndef TWINPATH_COMPAT_CONDITIONS_H_
#define TWINPATH_COMPAT_CONDITIONS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/prediction.pb.h"

namespace twinpath::compat {

// Returns the host's conditions.
v1::Conditions ConditionsOf(const v1::HostFacts& facts);

// The same for one artifact: with the CUDA libraries its files need, as a
// prediction resolved them on this host.
v1::Conditions ConditionsOf(
    const v1::HostFacts& facts,
    const google::protobuf::RepeatedPtrField<v1::ResolvedLibrary>& resolved);

// Returns the digest (64 hex characters) of the conditions without UUIDs: equal
// for hosts of one class.
std::string ClassOf(const v1::HostFacts& facts);

// One sentence for each line that differs, "cuda: 13.0 -> 13.1"; empty when
// they are equal.
std::vector<std::string> DescribeChange(const v1::Conditions& before,
                                        const v1::Conditions& after);

// A value as it stands in a line: bytes below 0x20, 0x7F and the backslash
// become \xNN.
std::string EscapeConditionValue(absl::string_view value);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_CONDITIONS_H_
