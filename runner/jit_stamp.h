// Measures how this host's driver signs the entries of its JIT cache: compiles
// a small PTX into a cache folder of its own and reads what lies there. Only
// the probe child includes this.

#ifndef TWINPATH_RUNNER_JIT_STAMP_H_
#define TWINPATH_RUNNER_JIT_STAMP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"
#include "runner/driver_library.h"

namespace twinpath::runner {

class JitStamp {
 public:
  // Points CUDA_CACHE_PATH of this process at a new folder, which goes with
  // this object. Before cuInit, which reads the variable.
  JitStamp();

  // The stamp as CacheWriterOf() returns it. Empty where nothing was compiled
  // or kept: an old driver, no JIT library, no folder.
  std::string Measure(const CudaDriver& driver, CudaDevice device,
                      uint32_t capability) const;

 private:
  std::optional<TempDirectory> folder_;
};

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_JIT_STAMP_H_
