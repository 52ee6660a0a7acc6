// What a report may still take. Hostile files can claim millions of images and
// names; everything that goes into a report is taken from here first.
// Thread-safe.

#ifndef TWINPATH_INSPECT_REPORT_BUDGET_H_
#define TWINPATH_INSPECT_REPORT_BUDGET_H_

#include <atomic>
#include <cstdint>

namespace twinpath::inspect {

class ReportBudget {
 public:
  // Memory of one message with its parts, strings not counted; generous.
  static constexpr uint64_t kFatbinCost = 384;
  static constexpr uint64_t kImageCost = 512;
  static constexpr uint64_t kKernelCost = 128;
  static constexpr uint64_t kWrapperCost = 64;

  explicit ReportBudget(uint64_t bytes) : left_(static_cast<int64_t>(bytes)) {}

  // Takes `bytes`; returns false, and takes nothing, if they are not there.
  bool Take(uint64_t bytes) {
    const int64_t wanted = static_cast<int64_t>(bytes);
    int64_t left = left_.load(std::memory_order_relaxed);
    do {
      if (left < wanted) {
        exhausted_.store(true, std::memory_order_relaxed);
        return false;
      }
    } while (!left_.compare_exchange_weak(left, left - wanted,
                                          std::memory_order_relaxed));
    return true;
  }
  // Whether a Take was ever refused.
  bool exhausted() const { return exhausted_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> left_;
  std::atomic<bool> exhausted_{false};
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_REPORT_BUDGET_H_
