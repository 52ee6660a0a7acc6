#include "verdict/compiled.h"

namespace twinpath::verdict {

bool DriverCompiled(const v1::CacheEvidence& cache) {
  if (cache.driver_built().empty() || cache.writers().empty() ||
      cache.writers_left_out()) {
    return cache.files() > 0;
  }
  for (const v1::CacheWriter& writer : cache.writers()) {
    if (writer.built() == cache.driver_built() && writer.entries() > 0) {
      return true;
    }
  }
  return false;
}

}  // namespace twinpath::verdict
