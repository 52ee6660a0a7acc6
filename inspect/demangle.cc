#include "inspect/demangle.h"

#include <sys/time.h>

#include <csetjmp>
#include <csignal>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"

#ifdef TWINPATH_DEMANGLE_CALLBACK
// libstdc++'s demangler with its output in pieces and without heap; the static
// library has it. abi::__cxa_demangle is the same code, and cannot be stopped.
extern "C" int __gcclibcxx_demangle_callback(
    const char* mangled, void (*on_piece)(const char*, std::size_t, void*),
    void* opaque);
#endif

namespace twinpath::inspect {
namespace {

#ifdef TWINPATH_DEMANGLE_CALLBACK

struct Output {
  char bytes[kMaxDemangledBytes];
  size_t size = 0;
  bool timed_out = false;
  std::jmp_buf full;
};

void OnPiece(const char* piece, size_t size, void* opaque) {
  Output& output = *static_cast<Output*>(opaque);
  if (size > sizeof(output.bytes) - output.size) {
    // Leaves the demangler, whose frames hold nothing that has to be released.
    std::longjmp(output.full, 1);
  }
  std::memcpy(output.bytes + output.size, piece, size);
  output.size += size;
}

constexpr int kTimeIsUp = 2;

// Where the thread that demangles goes when its time is up; null elsewhere.
thread_local std::jmp_buf* volatile time_is_up = nullptr;

void OnTime(int) {
  std::jmp_buf* const place = time_is_up;
  if (place == nullptr) return;  // another thread; the timer comes again
  time_is_up = nullptr;
  std::longjmp(*place, kTimeIsUp);
}

// Some names take the demangler exponential time before it says a word, so it
// is interrupted. The alarm counts the process's own processor time.
class Alarm {
 public:
  Alarm() {
    struct sigaction action = {};
    action.sa_handler = OnTime;
    // The handler is left by longjmp: the signal must not stay blocked.
    action.sa_flags = SA_NODEFER;
    ::sigaction(SIGVTALRM, &action, &before_);
    Set(kMaxDemangleMicroseconds);
  }
  ~Alarm() {
    Set(0);
    ::sigaction(SIGVTALRM, &before_, nullptr);
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  static void Set(long microseconds) {
    const struct timeval time = {0, microseconds};
    const struct itimerval timer = {time, time};
    ::setitimer(ITIMER_VIRTUAL, &timer, nullptr);
  }
  struct sigaction before_ = {};
};

// Neither this frame nor those left by longjmp have objects with destructors.
bool Print(const char* mangled, Output& output) {
  const int left = setjmp(output.full);
  if (left != 0) {
    time_is_up = nullptr;
    output.timed_out = left == kTimeIsUp;
    return false;
  }
  time_is_up = &output.full;
  const int result = __gcclibcxx_demangle_callback(mangled, OnPiece, &output);
  time_is_up = nullptr;
  return result == 0;
}

#endif

}  // namespace

#ifdef TWINPATH_DEMANGLE_CALLBACK

bool CanDemangle() { return true; }

std::string Demangle(absl::string_view mangled, bool* timed_out) {
  if (timed_out != nullptr) *timed_out = false;
  if (!absl::StartsWith(mangled, "_Z") || mangled.size() > kMaxMangledBytes) {
    return "";
  }
  char input[kMaxMangledBytes + 1];
  std::memcpy(input, mangled.data(), mangled.size());
  input[mangled.size()] = 0;
  Output output;
  const Alarm alarm;
  const bool done = Print(input, output);
  if (timed_out != nullptr) *timed_out = output.timed_out;
  if (!done) return "";
  return std::string(output.bytes, output.size);
}

#else

bool CanDemangle() { return false; }
std::string Demangle(absl::string_view, bool* timed_out) {
  if (timed_out != nullptr) *timed_out = false;
  return "";
}

#endif

void DemangleKernels(ReportBudget& budget, v1::FileReport& report) {
  if (!CanDemangle()) return;
  // A kernel stands in one image a target.
  absl::flat_hash_map<absl::string_view, std::string> known;
  int slow = 0;
  for (v1::Fatbin& fatbin : *report.mutable_fatbins()) {
    for (v1::Image& image : *fatbin.mutable_images()) {
      for (v1::Kernel& kernel : *image.mutable_kernels()) {
        const auto [entry, is_new] = known.try_emplace(kernel.name());
        if (is_new && slow < kMaxSlowNames) {
          bool timed_out = false;
          entry->second = Demangle(kernel.name(), &timed_out);
          if (timed_out) ++slow;
        }
        if (entry->second.empty()) continue;
        if (!budget.Take(entry->second.size())) return;
        kernel.set_demangled(entry->second);
      }
    }
  }
}

}  // namespace twinpath::inspect
