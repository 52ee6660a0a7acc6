// Log lines of the daemons: to standard error, with the "<N>" priority prefix
// of journald when standard error is the journal, otherwise with a time stamp.
// One call is one line; foreign bytes are made printable. Thread-safe.
//
//   Log(LogLevel::kInfo, "session opened", {{"host", name}, {"session", "7"}});

#ifndef TWINPATH_BASE_LOG_H_
#define TWINPATH_BASE_LOG_H_

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace twinpath {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Sets the lowest level that is written. Default kInfo.
void SetLogLevel(LogLevel level);

// Writes "message key=value ...".
void Log(LogLevel level, absl::string_view message,
         std::initializer_list<std::pair<absl::string_view, std::string>>
             fields = {});

}  // namespace twinpath

#endif  // TWINPATH_BASE_LOG_H_
