// Memory that is used again and again. Pure.

#ifndef TWINPATH_INSPECT_BUFFER_H_
#define TWINPATH_INSPECT_BUFFER_H_

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "absl/strings/string_view.h"

namespace twinpath::inspect {

// Bytes that are not set to zero when they are made. Grows, never shrinks but
// by Free; large ones in large pages, where the system has them. Not
// thread-safe.
class Buffer {
 public:
  // Makes room for `size` bytes; what was in it is lost. Returns where they
  // are.
  char* Prepare(size_t size);
  void Free();
  // Makes the view `size` bytes long, or as long as there is room.
  void Resize(size_t size) { size_ = size < capacity_ ? size : capacity_; }
  char* data() { return data_.get(); }
  absl::string_view view() const { return {data_.get(), size_}; }

 private:
  struct Release {
    void operator()(char* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<char[], Release> data_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_BUFFER_H_
