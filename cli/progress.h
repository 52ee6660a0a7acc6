// Progress on standard error for what takes longer than a second: one line that
// redraws itself on a terminal, at most ten times a second; elsewhere one line
// whenever the phase changes, and nothing for what was quick.

#ifndef TWINPATH_CLI_PROGRESS_H_
#define TWINPATH_CLI_PROGRESS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/console.h"

namespace twinpath::cli {

class Progress {
 public:
  explicit Progress(Console& console);
  // Removes the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The state now. Its first word is the phase.
  void Show(absl::string_view text);

 private:
  Console& console_;
  absl::Time start_;
  absl::Time shown_;
  std::string phase_;
};

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_PROGRESS_H_
