// A second object of the same library.
__global__ void kernel_b(int* out) { *out = 8; }
void launch_b(int* out) { kernel_b<<<1, 1>>>(out); }
