#include "verdict/cuda_error.h"

#include <gtest/gtest.h>

namespace twinpath::verdict {
namespace {

TEST(FindFailure, NothingInAnEmptyLog) {
  EXPECT_FALSE(FindFailure("").has_value());
}

TEST(FindFailure, FindsAFailedLaunch) {
  const auto failure = FindFailure(
      "[12:00:00.000][1234][CUDA][E] Returning 209 "
      "(CUDA_ERROR_NO_BINARY_FOR_GPU) from cuLibraryGetKernel\n");
  ASSERT_TRUE(failure.has_value());
  EXPECT_TRUE(failure->launch);
  EXPECT_EQ(failure->cuda_error, 209u);
  EXPECT_EQ(failure->call, "cuLibraryGetKernel");
}

TEST(FindFailure, ALaunchCountsMoreThanALoadBeforeIt) {
  const auto failure = FindFailure(
      "Returning 222 (CUDA_ERROR_UNSUPPORTED_PTX_VERSION) from "
      "cuModuleLoadData\n"
      "Returning 719 (CUDA_ERROR_LAUNCH_FAILED) from cuCtxSynchronize\n");
  ASSERT_TRUE(failure.has_value());
  EXPECT_TRUE(failure->launch);
  EXPECT_EQ(failure->cuda_error, 719u);
}

TEST(FindFailure, ALoadAloneIsALoad) {
  const auto failure = FindFailure(
      "Returning 218 (CUDA_ERROR_INVALID_PTX) from cuLibraryLoadData\n");
  ASSERT_TRUE(failure.has_value());
  EXPECT_FALSE(failure->launch);
}

TEST(FindFailure, WhateverALaunchReturnsItDidNotStart) {
  const auto failure = FindFailure(
      "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuLaunchKernelEx\n");
  ASSERT_TRUE(failure.has_value());
  EXPECT_TRUE(failure->launch);
}

TEST(FindFailure, AskingForAKernelMayFail) {
  const auto failure = FindFailure(
      "Returning 500 (CUDA_ERROR_NOT_FOUND) from cuLibraryGetKernel\n");
  ASSERT_TRUE(failure.has_value());
  EXPECT_FALSE(failure->launch);
}

TEST(FindFailure, NamesTheKernel) {
  const auto failure = FindFailure(
      "Kernel (_Z5scalePfi) cannot be found in library 0x1\n"
      "Returning 209 (CUDA_ERROR_NO_BINARY_FOR_GPU) from cuLibraryGetKernel\n");
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kernel, "_Z5scalePfi");
}

// docs/gpu-runs.md: PyTorch writes harmless 201 lines at start.
TEST(FindFailure, HarmlessErrorsDoNotCount) {
  EXPECT_FALSE(
      FindFailure("Returning 201 (CUDA_ERROR_INVALID_CONTEXT) from "
                  "cuCtxGetDevice\n"
                  "Returning 500 (CUDA_ERROR_NOT_FOUND) from cuGetProcAddress\n"
                  "Returning 704 (CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) from "
                  "cuCtxEnablePeerAccess\n")
          .has_value());
}

TEST(CudaError, RuntimeAndDriverWordsForNoImageAreOne) {
  EXPECT_TRUE(IsSameError(98, 209));
  EXPECT_TRUE(IsSameError(223, 223));
  EXPECT_FALSE(IsSameError(209, 223));
}

TEST(CudaError, NoErrorIsOfTwoKinds) {
  for (uint32_t error = 0; error < 1000; ++error) {
    EXPECT_LE(
        IsLoadError(error) + IsExecutionError(error) + IsTransientError(error),
        1)
        << error;
  }
  EXPECT_FALSE(IsLoadError(0) || IsExecutionError(0) || IsTransientError(0));
}

}  // namespace
}  // namespace twinpath::verdict
