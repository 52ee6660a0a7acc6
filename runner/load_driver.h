// Gives images to the driver, one at a time: loads each eagerly as the
// environment says (CUDA_MODULE_LOADING, the JIT switches), reads its kernels'
// versions and unloads it, so that device memory holds one. Relocatable images
// go through the driver's linker. The driver may end or hang the process at any
// call. Not thread-safe.

#ifndef TWINPATH_RUNNER_LOAD_DRIVER_H_
#define TWINPATH_RUNNER_LOAD_DRIVER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "runner/driver_library.h"
#include "runner/load_answer.h"
#include "runner/load_job.h"

namespace twinpath::runner {

class LoadDriver {
 public:
  // Loads the driver and makes a context on the first device it shows.
  LoadHello Start();

  // Loads `bytes`, which end with a NUL.
  LoadAnswer Load(const LoadJob& job, absl::string_view bytes);

  // Links the pieces (payloads without a fatbin, each with a NUL behind it) and
  // loads what comes of it.
  struct Piece {
    const LoadJob* job;
    std::string bytes;
  };
  LoadAnswer Link(const std::vector<Piece>& pieces);

 private:
  // Device memory that is free; 0: not known.
  uint64_t Free() const;
  // Loads, looks at the kernels, unloads. `ptx` and `number` of what it was
  // made from; 0: not checked.
  void LoadInto(const void* bytes, bool ptx, uint32_t number,
                LoadAnswer& answer);
  void ReadKernels(void* module, bool ptx, uint32_t number,
                   LoadAnswer& answer) const;
  void Refused(CudaResult result, absl::string_view call,
               LoadAnswer& answer) const;

  CudaDriver driver_;
  uint32_t device_ = 0;
};

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_LOAD_DRIVER_H_
