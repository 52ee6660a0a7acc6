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
