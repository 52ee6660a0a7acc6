# Programs of whole entries (kernels/entries) for tests/gpu, one row each:
#
#   program|words of the command|header it needs
#
# Machine code for 8.0 and 9.0 and PTX of 8.0. Those that call a vendor's library
# are left out where the toolkit lacks it. Output:
# ${PROJECT_BINARY_DIR}/kernels/entries/<program>, in twinpath_gpu_variants.
set(TWINPATH_ENTRY_PROGRAMS
  "cublas|-lcublas|cublas_v2.h"
  "cufft|-lcufft|cufft.h"
  "endless||"
  "gpus||")
