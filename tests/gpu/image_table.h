// What gpu_images says of its tries: a row a library, what differs, JSON.

#ifndef TWINPATH_TESTS_GPU_IMAGE_TABLE_H_
#define TWINPATH_TESTS_GPU_IMAGE_TABLE_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/gpu/image_plan.h"

namespace twinpath::gpu {

struct ImageTable {
  std::string text;
  // Differences and deaths, the first 60; empty: none.
  std::string differences;
  // All of them.
  std::string json;
  size_t different = 0;
};

ImageTable Tabulate(const std::vector<std::unique_ptr<Library>>& libraries);

}  // namespace twinpath::gpu

#endif  // TWINPATH_TESTS_GPU_IMAGE_TABLE_H_
