// twinpath: the command-line tool.

#include <csignal>
#include <string>
#include <vector>

#include "cli/app.h"

int main(int argc, char** argv) {
  // A closed pipe (`twinpath inspect ... | head`) is a write error, not a kill.
  std::signal(SIGPIPE, SIG_IGN);
  return twinpath::cli::Main(std::vector<std::string>(argv, argv + argc));
}
