// The body is there only where the target has the suffix `a`.
__global__ void feature(int* out) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  *out = 42;
#endif
}
void launch_feature(int* out) { feature<<<1, 1>>>(out); }
