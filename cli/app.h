// The command line of `twinpath`: options, help, and what a mistyped command
// probably meant. CLI11 is confined to app*.cc.

#ifndef TWINPATH_CLI_APP_H_
#define TWINPATH_CLI_APP_H_

#include <string>
#include <vector>

namespace twinpath::cli {

// Runs the command line; args[0] is the program's name. Returns the exit code.
int Main(const std::vector<std::string>& args);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_APP_H_
