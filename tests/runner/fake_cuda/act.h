// Every exported call begins with ACT(): what settings.h says of the call by
// its name happens first.

#ifndef TWINPATH_TESTS_RUNNER_FAKE_CUDA_ACT_H_
#define TWINPATH_TESTS_RUNNER_FAKE_CUDA_ACT_H_

#include "tests/runner/fake_cuda/settings.h"

#define ACT()                                                            \
  do {                                                                   \
    if (const int acted = fake::Act(__func__); acted != 0) return acted; \
  } while (false)

#endif  // TWINPATH_TESTS_RUNNER_FAKE_CUDA_ACT_H_
