#include "compat/signal_words.h"

namespace twinpath::compat {

std::string SignalName(int signal) {
  switch (signal) {
    case 4:
      return "SIGILL";
    case 6:
      return "SIGABRT";
    case 7:
      return "SIGBUS";
    case 8:
      return "SIGFPE";
    case 9:
      return "SIGKILL";
    case 11:
      return "SIGSEGV";
    case 13:
      return "SIGPIPE";
    case 15:
      return "SIGTERM";
    case 24:
      return "SIGXCPU";
    case 25:
      return "SIGXFSZ";
    case 31:
      return "SIGSYS";
    default:
      return "signal";
  }
}

absl::string_view SignalMeaning(int signal) {
  switch (signal) {
    case 4:
      return "the CPU met an instruction it does not have";
    case 6:
      return "the program ended itself: an assertion or an exception nobody "
             "caught";
    case 7:
      return "a bad memory access: a file cut off while mapped, or a full "
             "/dev/shm";
    case 9:
      return "a limit or the host's out-of-memory killer";
    case 11:
      return "a bad memory access of the host code";
    case 24:
      return "the limit on CPU time";
    case 25:
      return "the limit on file size";
    case 31:
      return "a system call that the sandbox forbids";
    default:
      return "";
  }
}

absl::string_view SignalFix(int signal) {
  switch (signal) {
    case 7:
      return "look at the room in /dev/shm (docker run --shm-size) and at the "
             "files that the program maps";
    case 9:
      return "look for oom-kill in the kernel log; raise the memory limit of "
             "the run or its container";
    case 11:
      return "get a core dump or a backtrace (coredumpctl gdb); a crash in "
             "host code says nothing about the GPU";
    case 31:
      return "see which call it was in the kernel log (type=1326)";
    default:
      return "";
  }
}

}  // namespace twinpath::compat
