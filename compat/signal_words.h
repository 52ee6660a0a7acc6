// What a signal that ended a program says, in words. Numbers are those of Linux
// on x86-64 and Arm. Pure functions; thread-safe.

#ifndef TWINPATH_COMPAT_SIGNAL_WORDS_H_
#define TWINPATH_COMPAT_SIGNAL_WORDS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace twinpath::compat {

// "SIGSEGV"; "signal" for one that has no name here.
std::string SignalName(int signal);

// What it says where nothing else is known; empty for one that says nothing.
absl::string_view SignalMeaning(int signal);

// What to look at next; empty where there is nothing.
absl::string_view SignalFix(int signal);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_SIGNAL_WORDS_H_
