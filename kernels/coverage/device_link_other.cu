// The other object of device_link.cu.

__device__ int offset_of_other_object = 11;
__device__ int Twice(int value) { return 2 * value; }
