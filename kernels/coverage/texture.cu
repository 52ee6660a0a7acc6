// A texture object over an array: point reads, and linear interpolation half
// way between two texels, where the 8-bit weight is exact.

#include "coverage.h"

__global__ void Sample2D(cudaTextureObject_t points, cudaTextureObject_t lines,
                         float* at, float* between, int width) {
  const int x = threadIdx.x;
  const int y = blockIdx.x;
  at[y * width + x] = tex2D<float>(points, x + 0.5f, y + 0.5f);
  between[y * width + x] = tex2D<float>(lines, x + 1.0f, y + 0.5f);
}

static cudaTextureObject_t Texture(cudaArray_t array,
                                   cudaTextureFilterMode filter) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc description = {};
  description.addressMode[0] = cudaAddressModeClamp;
  description.addressMode[1] = cudaAddressModeClamp;
  description.filterMode = filter;
  description.readMode = cudaReadModeElementType;
  cudaTextureObject_t texture = 0;
  coverage::Check(
      "cudaCreateTextureObject",
      cudaCreateTextureObject(&texture, &resource, &description, nullptr));
  return texture;
}

int main() {
  const int width = 32, height = 16;
  std::vector<float> texels(width * height), between(width * height);
  for (int i = 0; i < width * height; ++i) texels[i] = static_cast<float>(i);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int right = x + 1 < width ? x + 1 : x;
      between[y * width + x] =
          (texels[y * width + x] + texels[y * width + right]) / 2;
    }
  }
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  coverage::Check("cudaMallocArray",
                  cudaMallocArray(&array, &format, width, height));
  coverage::Check("cudaMemcpy2DToArray",
                  cudaMemcpy2DToArray(
                      array, 0, 0, texels.data(), width * sizeof(float),
                      width * sizeof(float), height, cudaMemcpyHostToDevice));
  const cudaTextureObject_t points = Texture(array, cudaFilterModePoint);
  const cudaTextureObject_t lines = Texture(array, cudaFilterModeLinear);
  coverage::DeviceArray<float> device_at(width * height),
      device_between(width * height);
  Sample2D<<<height, width>>>(points, lines, device_at.get(),
                              device_between.get(), width);
  coverage::CheckLaunch("Sample2D");
  coverage::Compare("texture, points", device_at.Read(), texels, 0);
  coverage::Compare("texture, linear", device_between.Read(), between, 0);
  cudaDestroyTextureObject(points);
  cudaDestroyTextureObject(lines);
  cudaFreeArray(array);
  return coverage::Pass("texture: 512 reads of each filter exact");
}
