// One libFuzzer program a target; TWINPATH_FUZZ_TARGET names it.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const twinpath::fuzz::Target* const target = [] {
    for (const twinpath::fuzz::Target& each : twinpath::fuzz::Targets()) {
      if (each.name == TWINPATH_FUZZ_TARGET) return &each;
    }
    std::abort();
  }();
  target->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
