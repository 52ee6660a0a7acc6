// A host's facts and the list of hosts, for people. Pure functions;
// thread-safe.

#ifndef TWINPATH_CLI_FACTS_VIEW_H_
#define TWINPATH_CLI_FACTS_VIEW_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/view_options.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/services.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

// CPU, system, the owner's policy, driver, GPUs, toolkits, libraries, CUPTI,
// container run times, leaks. What a probe could not read says so in its
// place.
std::string RenderFacts(const v1::HostFacts& facts, const ViewOptions& options);

// Findings with their fixes; a line that says so when there are none.
std::string RenderHostFindings(const std::vector<v1::Finding>& findings,
                               const ViewOptions& options);

// One row a host.
std::string RenderHosts(const std::vector<v1::Host>& hosts, absl::Time now,
                        const ViewOptions& options);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_FACTS_VIEW_H_
