#include "inspect/buffer.h"

#include <sys/mman.h>

#include <new>

namespace twinpath::inspect {

char* Buffer::Prepare(size_t size) {
  // What the processors we run on have beside pages of 4 KiB.
  constexpr size_t kLargePage = 2 << 20;
  if (size > capacity_) {
    data_.reset();
    capacity_ = 0;
    if (size < kLargePage) {
      data_.reset(static_cast<char*>(std::malloc(size)));
      capacity_ = size;
    } else {
      capacity_ = (size + kLargePage - 1) / kLargePage * kLargePage;
      data_.reset(
          static_cast<char*>(std::aligned_alloc(kLargePage, capacity_)));
      // A wish: each first touch of a page costs as much as decoding it.
      if (data_ != nullptr) {
        (void)::madvise(data_.get(), capacity_, MADV_HUGEPAGE);
      }
    }
    if (data_ == nullptr) throw std::bad_alloc();
  }
  size_ = size;
  return data_.get();
}

void Buffer::Free() {
  data_.reset();
  size_ = 0;
  capacity_ = 0;
}

}  // namespace twinpath::inspect
