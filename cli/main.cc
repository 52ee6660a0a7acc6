// twinpath: the command-line tool.

#include <csignal>
#include <string>
#include <vector>

#include "cli/app.h"

int main(int argc, char** argv) {
  // A closed pipe (`twinpath inspect ... | head`) is a write error, which ends
  // the command quietly, and not a kill: children and files are cleaned up.
  std::signal(SIGPIPE, SIG_IGN);
  return twinpath::cli::Main(std::vector<std::string>(argv, argv + argc));
}
