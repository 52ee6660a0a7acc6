#include "inspect/fatbin_queue.h"

#include <vector>

namespace twinpath::inspect {
namespace {

// What is handed on at once: little enough that others go on with it soon, and
// enough that it costs little.
constexpr size_t kPieceBytes = 256 << 10;

// About what a fatbin takes when it is written out.
size_t BytesOf(const v1::Fatbin& fatbin) {
  constexpr size_t kImage = 100;
  constexpr size_t kKernel = 8;
  size_t bytes = 0;
  for (const v1::Image& image : fatbin.images()) {
    bytes += kImage + image.producer().options().size();
    for (const v1::Kernel& kernel : image.kernels()) {
      bytes += kKernel + kernel.name().size();
    }
  }
  return bytes;
}

}  // namespace

FatbinQueue::FatbinQueue(
    google::protobuf::RepeatedPtrField<v1::Fatbin>& fatbins,
    const std::function<void(v1::Fatbin&)>& settle, const FatbinSink& early)
    : fatbins_(fatbins),
      settle_(settle),
      early_(early),
      count_(static_cast<size_t>(fatbins.size())),
      waiting_(std::make_unique<std::atomic<uint32_t>[]>(count_)) {}

void FatbinQueue::Done(size_t fatbin) {
  if (waiting_[fatbin].fetch_sub(1, std::memory_order_acq_rel) != 1 ||
      !early_ || busy_.test_and_set(std::memory_order_acquire)) {
    return;
  }
  Advance(false);
  busy_.clear(std::memory_order_release);
}

void FatbinQueue::Finish() { Advance(true); }

void FatbinQueue::Advance(bool last) {
  while (true) {
    while (settled_ < count_ && (last || bytes_ < kPieceBytes) &&
           waiting_[settled_].load(std::memory_order_acquire) == 0) {
      v1::Fatbin& fatbin = *fatbins_.Mutable(static_cast<int>(settled_));
      settle_(fatbin);
      if (early_) bytes_ += BytesOf(fatbin);
      ++settled_;
    }
    const bool worth_it = bytes_ >= kPieceBytes;
    if (!early_ || settled_ == handed_on_ ||
        !(last ? worth_it || handed_on_ > 0 : worth_it)) {
      return;
    }
    std::vector<v1::Fatbin*> ready;
    for (size_t i = handed_on_; i < settled_; ++i) {
      ready.push_back(fatbins_.Mutable(static_cast<int>(i)));
    }
    early_(ready);
    handed_on_ = settled_;
    bytes_ = 0;
  }
}

}  // namespace twinpath::inspect
