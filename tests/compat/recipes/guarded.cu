// Compiled for an old virtual architecture it answers 0 instead of 42.
__global__ void guarded(int* out) {
#if __CUDA_ARCH__ >= 800
  *out = 42;
#else
  *out = 0;
#endif
}
void launch_guarded(int* out) { guarded<<<1, 1>>>(out); }
