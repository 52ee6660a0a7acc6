#include "compat/answer_key.h"

namespace twinpath::compat::internal {

void AddHost(const HostView& host, KeyWriter& key) {
  const auto& [device, gpu_name, cpu, cuda, driver, ptx_ceiling, ceiling_exact,
               ceiling_measured, jit_library, reads_zstd, blocker] = host;
  key.Add(uint64_t{device});
  key.Add(gpu_name);
  key.Add(static_cast<uint64_t>(cpu));
  key.Add(cuda.value_or(TwoPart{}));
  key.Add(uint64_t{driver ? driver->parts.size() + 1 : 0});
  if (driver) {
    for (const uint32_t part : driver->parts) key.Add(uint64_t{part});
  }
  key.Add(ptx_ceiling);
  key.Add(uint64_t{ceiling_exact});
  key.Add(uint64_t{ceiling_measured});
  key.Add(static_cast<uint64_t>(jit_library));
  key.Add(uint64_t{reads_zstd});
  key.Add(uint64_t{blocker.has_value()});
  if (blocker) {
    key.Add(static_cast<uint64_t>(blocker->outcome));
    key.Add(blocker->reason.SerializeAsString());
    key.Add(blocker->settled_by);
  }
}

void AddOptions(const PredictOptions& options, KeyWriter& key) {
  // What programs inherit is added to each host's answer afterwards.
  const auto& [all_kernels, all_images, needed_kernels, max_kernels,
               inherit_environment] = options;
  static_cast<void>(inherit_environment);
  key.Add(uint64_t{all_kernels});
  key.Add(uint64_t{all_images});
  key.Add(uint64_t{max_kernels});
  key.Add(uint64_t{needed_kernels.size()});
  for (const std::string& kernel : needed_kernels) key.Add(kernel);
}

}  // namespace twinpath::compat::internal
