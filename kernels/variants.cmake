# The variants in which the programs of this folder are built, one row each:
#
#   name|program|targets|set
#
# Targets are nvcc's -gencode pairs in short: "sm_90" is machine code made by
# way of compute_90, "compute_90" is PTX, and no target at all is what plain
# `nvcc` emits. Output: ${PROJECT_BINARY_DIR}/kernels/<name>/<program>, beside it
# <program>.command with the command that made it.
#
# Set "default" is built with everything else and serves demo and tests; set
# "gpu" is built by the target twinpath_gpu_variants and serves tests/gpu.

set(TWINPATH_KERNEL_VARIANTS
  # Every GPU from 7.5 to 12.1: 12.0 code serves 12.1, 10.0 serves 10.3, 8.6
  # serves 8.9; PTX of the oldest target serves what comes later.
  "full|check|sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_75|default"
  "sass-only|check|sm_75 sm_80 sm_86 sm_90 sm_100 sm_120|default"
  "ptx-only|check|compute_75|default"
  "plain|check||default"
  "newer-gpu-only|check|sm_121 compute_121|default"
  # Old PTX beside new machine code: two paths, two answers.
  "guarded|guarded|sm_80 sm_90 sm_100 sm_120 compute_75|default"
  # Claims success on every GPU that is not a 10.x.
  "silent|silent|sm_100|default"
  "capability|capability||default"

  "sm_90-compute_90|check|sm_90 compute_90|gpu"
  "sm_90|check|sm_90|gpu"
  "sm_90a|check|sm_90a|gpu"
  "compute_90|check|compute_90|gpu"
  "compute_90a|check|compute_90a|gpu"
  "compute_75|check|compute_75|gpu"
  "sm_75-compute_75|check|sm_75 compute_75|gpu"
  "sm_80-compute_80|check|sm_80 compute_80|gpu"
  "sm_80|check|sm_80|gpu"
  "sm_100|check|sm_100|gpu"
  "sm_121-compute_121|check|sm_121 compute_121|gpu"
  "compute_100|check|compute_100|gpu"
  "guarded-90|guarded|sm_90 compute_75|gpu"
  "silent-100|silent|sm_100|gpu")

# The coverage suite (kernels/coverage), one row each:
#
#   program|PTX target|other sources|extra words of the command|left out
#
# (Left out: targets for which a library the program links has no code.)
#
# Each is one program with machine code for every target the toolkit supports
# from the PTX target on, and that PTX. Output:
# ${PROJECT_BINARY_DIR}/kernels/coverage/<program>.
set(TWINPATH_COVERAGE_PROGRAMS
  "fp64|75|||"
  "fp32|75|||"
  "tf32|80|||"
  "fp16|75|||"
  "bf16|80|||"
  "fp8|75|||"
  "int8|75|||"
  "tensor_fp16|75|||"
  "tensor_bf16|80|||"
  "tensor_int8|75|||"
  "atomics|75|||"
  "shared_memory|75|||"
  "dynamic_shared|75|||"
  "warp|75|||"
  "cooperative_grid|75|||"
  "async_copy|75|||"
  "constant_memory|75|||"
  "texture|75|||"
  "streams|75|||"
  "graphs|75|||"
  "device_printf|75|||"
  "dynamic_parallelism|75||-rdc=true -lcudadevrt|87 88"
  "device_link|75|device_link_other.cu|-rdc=true|"
  "nvrtc_ptx|75||-ldl|"
  "nvrtc_cubin|75||-ldl|"
  "nvjitlink_lto|75||-ldl|")
