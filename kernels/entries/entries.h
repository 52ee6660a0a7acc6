// Checks that the entry programs share.

#ifndef TWINPATH_KERNELS_ENTRIES_ENTRIES_H_
#define TWINPATH_KERNELS_ENTRIES_ENTRIES_H_

#include <cuda_runtime.h>

#include <cstdio>

// Returns 1 from main, with number and text, where a CUDA call failed.
#define CHECK_CUDA(call)                                            \
  do {                                                              \
    const cudaError_t check_error = (call);                         \
    if (check_error != cudaSuccess) {                               \
      std::fprintf(stderr, "error: %s: CUDA error %d: %s\n", #call, \
                   static_cast<int>(check_error),                   \
                   cudaGetErrorString(check_error));                \
      return 1;                                                     \
    }                                                               \
  } while (0)

// A library's status; returns 3.
inline int Fail(const char* call, int status) {
  std::fprintf(stderr, "error: %s: status %d\n", call, status);
  return 3;
}

// A wrong value; returns 2.
inline int Wrong(const char* what, int where) {
  std::fprintf(stderr, "error: wrong %s at %d\n", what, where);
  return 2;
}

#endif  // TWINPATH_KERNELS_ENTRIES_ENTRIES_H_
