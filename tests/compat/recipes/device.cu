// A device function in one object, its caller in another (with -DCALLER): they
// meet at the device link, with -rdc=true.
extern __device__ int answer();
#ifdef CALLER
__global__ void kernel_c(int* out) { *out = answer(); }
int main() {
  kernel_c<<<1, 1>>>(nullptr);
  return 0;
}
#else
__device__ int answer() { return 42; }
#endif
