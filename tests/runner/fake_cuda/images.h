// What the driver that is none sees in an image: kind, target, functions, and
// for a link the symbols it has and those it needs.

#ifndef TWINPATH_TESTS_RUNNER_FAKE_CUDA_IMAGES_H_
#define TWINPATH_TESTS_RUNNER_FAKE_CUDA_IMAGES_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace fake {

struct Image {
  bool ptx = false;
  int number = 0;
  // '\0', 'a' or 'f'.
  char suffix = '\0';
  // PTX ISA as major * 10 + minor.
  int isa = 0;
  // Symbols could be read (the payload is not packed).
  bool read = false;
  std::vector<std::string> kernels;
  std::set<std::string> defined;
  std::set<std::string> undefined;

  // "sm_90a", "compute_90".
  std::string Name() const;
  // Whether a device of this number runs or compiles it.
  bool Fits(int device) const;
};

// All images of a fatbin.
std::vector<Image> ReadFatbin(const char* bytes);
Image ReadCubin(const char* bytes);
// False: no PTX text.
bool ReadPtx(const std::string& text, Image& image);

}  // namespace fake

#endif  // TWINPATH_TESTS_RUNNER_FAKE_CUDA_IMAGES_H_
