// One kernel and the host function that launches it.
__global__ void kernel_a(int* out) { *out = 7; }
void launch_a(int* out) { kernel_a<<<1, 1>>>(out); }
