// Profiles: hosts written as YAML (compat/profiles), so that predictions and
// simulated agents need no machine. Facts from a profile are marked simulated.
// UUIDs are made from profile name and index and never change.

#ifndef TWINPATH_COMPAT_PROFILE_H_
#define TWINPATH_COMPAT_PROFILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::compat {

// Loads a profile by name ("h200") or by path ("./mine.yaml": anything with a
// '/' or the ending .yaml). NOT_FOUND names the nearest profile;
// INVALID_ARGUMENT lists every mistake with file, line and column.
absl::StatusOr<v1::HostFacts> LoadProfile(absl::string_view name_or_path);

// Names of the installed profiles, sorted.
absl::StatusOr<std::vector<std::string>> ListProfiles();

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_PROFILE_H_
