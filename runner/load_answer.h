// What the driver did with one thing it was given, as lines of text between the
// processes of the image loader (twinpath-load): its workers, which may die at
// any image, its first process, and who started it. A reader takes every line
// for hostile.

#ifndef TWINPATH_RUNNER_LOAD_ANSWER_H_
#define TWINPATH_RUNNER_LOAD_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace twinpath::runner {

// Most bytes kept of a log, and kernels listed of an image.
inline constexpr size_t kMostLogBytes = 4096;
inline constexpr size_t kMostKernelsListed = 16;

struct LoadAnswer {
  enum class State {
    kWaiting,
    kLoaded,
    kRefused,
    // Its bytes could not be read or decoded; `log` says why.
    kUnread,
    // The process ended while it was loaded.
    kDied,
    // Ended at its limit.
    kSlow,
    // Needs more device memory than may be used.
    kTooLarge,
  };
  struct Kernel {
    std::string name;
    uint32_t ptx_version = 0;
    uint32_t binary_version = 0;
  };

  uint32_t id = 0;
  State state = State::kWaiting;
  int cuda_error = 0;
  // By the driver's linker, together with others of this number.
  bool linked = false;
  uint32_t functions = 0;
  // Kernels whose versions were read.
  uint32_t kernels = 0;
  // Of these: those that are not what they should be, the first few.
  std::vector<Kernel> odd;
  absl::Duration duration;
  // Device memory it took.
  uint64_t device_bytes = 0;
  std::string log;

  // Ends with a line feed.
  std::string Line() const;
  // INVALID_ARGUMENT for anything but such a line.
  static absl::StatusOr<LoadAnswer> Parse(absl::string_view line);
};

// What a worker says first: that the driver is up, or why not.
struct LoadHello {
  bool up = false;
  // Compute capability as a number, and device memory in all.
  uint32_t device = 0;
  uint64_t device_bytes = 0;
  // Not up: reason code, CUDA error and text.
  std::string code;
  int cuda_error = 0;
  std::string text;

  std::string Line() const;
  static absl::StatusOr<LoadHello> Parse(absl::string_view line);
};

// The last line of a whole result.
struct LoadEnd {
  uint32_t deaths = 0;
  uint64_t peak_device_bytes = 0;

  std::string Line() const;
  static absl::StatusOr<LoadEnd> Parse(absl::string_view line);
};

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_LOAD_ANSWER_H_
