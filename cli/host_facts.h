// Where a host's facts come from on the command line: this host, a profile, a
// file.

#ifndef TWINPATH_CLI_HOST_FACTS_H_
#define TWINPATH_CLI_HOST_FACTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::cli {

// This host's facts, collected now. Takes a second or two where there is a GPU.
v1::HostFacts CollectLocalFacts();

// Conditions as they are right now. `start`: this host's facts when the command
// began; the PTX ceiling, toolkits and libraries are taken from there, since no
// program that runs meanwhile changes them.
v1::Conditions ConditionsNow(const v1::HostFacts& start);

// Facts by name: a file ending in .json holds a HostFacts (as `twinpath doctor
// --format json` prints it, whole or its "facts" alone); everything else is a
// profile's name or file. Errors as compat::LoadProfile.
absl::StatusOr<v1::HostFacts> LoadHostFacts(absl::string_view name);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_HOST_FACTS_H_
