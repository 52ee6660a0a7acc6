// Which fatbins of a report are complete while their images are read on several
// threads: settles each when its last image is read, and hands complete ones on
// in order, in pieces, while others are still being read.

#ifndef TWINPATH_INSPECT_FATBIN_QUEUE_H_
#define TWINPATH_INSPECT_FATBIN_QUEUE_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "inspect/inspect.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

class FatbinQueue {
 public:
  // All references must outlive this. `settle` is called once for each fatbin
  // when its images are read, by one thread at a time. `early` may be empty.
  FatbinQueue(google::protobuf::RepeatedPtrField<v1::Fatbin>& fatbins,
              const std::function<void(v1::Fatbin&)>& settle,
              const FatbinSink& early);

  // One more image of fatbin number `fatbin` will be read. Before the threads.
  void Expect(size_t fatbin) { ++waiting_[fatbin]; }
  // It is read. Thread-safe.
  void Done(size_t fatbin);
  // All are read and the threads are gone: settles the rest, and hands it on
  // where some were handed on before.
  void Finish();

 private:
  // Only by the one that has set busy_.
  void Advance(bool last);

  google::protobuf::RepeatedPtrField<v1::Fatbin>& fatbins_;
  const std::function<void(v1::Fatbin&)>& settle_;
  const FatbinSink& early_;
  const size_t count_;
  // Images still to be read.
  const std::unique_ptr<std::atomic<uint32_t>[]> waiting_;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  // The first ones were settled, the first ones of these handed on.
  size_t settled_ = 0;
  size_t handed_on_ = 0;
  // About how many bytes those between take.
  size_t bytes_ = 0;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_FATBIN_QUEUE_H_
