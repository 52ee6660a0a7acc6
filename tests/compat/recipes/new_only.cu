// One kernel is not there at all for old virtual architectures.
__global__ void always(int* out) { *out = 1; }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
__global__ void new_only(int* out) { *out = 2; }
void launch(int* out) {
  always<<<1, 1>>>(out);
  new_only<<<1, 1>>>(out);
}
#endif
