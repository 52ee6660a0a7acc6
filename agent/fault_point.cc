#include "agent/fault_point.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/mutex.h"

namespace twinpath::agent {
namespace {

std::atomic<bool> armed{false};

struct Armed {
  Mutex mutex;
  std::string name ABSL_GUARDED_BY(mutex);
  int left ABSL_GUARDED_BY(mutex) = 0;
};

Armed& State() {
  static Armed& state = *new Armed;
  return state;
}

}  // namespace

void ArmFaultPoint(absl::string_view name, int occurrence) {
  Armed& state = State();
  MutexLock lock(state.mutex);
  state.name = std::string(name);
  state.left = occurrence;
  armed.store(!name.empty(), std::memory_order_relaxed);
}

void ArmFaultPointFromEnvironment() {
  const char* value = std::getenv("TWINPATH_CRASH_AT");
  if (value == nullptr) return;
  const std::vector<std::string> parts = absl::StrSplit(value, ':');
  int occurrence = 1;
  if (parts.size() > 1 && !absl::SimpleAtoi(parts[1], &occurrence)) return;
  ArmFaultPoint(parts[0], occurrence);
}

void FaultPoint(absl::string_view name) {
  if (!armed.load(std::memory_order_relaxed)) return;
  Armed& state = State();
  MutexLock lock(state.mutex);
  if (name != absl::string_view(state.name) || --state.left > 0) return;
  kill(getpid(), SIGKILL);
  // The signal is on its way; nothing behind this line may happen.
  for (;;) pause();
}

}  // namespace twinpath::agent
