// NVIDIA's cuobjdump as a second reader of the same files: finds it, runs it,
// reads what it prints. tools/oracle installs it.

#ifndef TWINPATH_TESTS_DIFFERENTIAL_CUOBJDUMP_H_
#define TWINPATH_TESTS_DIFFERENTIAL_CUOBJDUMP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace twinpath::differential {

// One image as `cuobjdump -symbols` prints it.
struct OracleImage {
  // "elf", "ptx", "nvvm", of "Fatbin elf code:".
  std::string kind;
  // "sm_90a"; cuobjdump says sm for every kind.
  std::string target;
  bool compressed = false;
  // Names of the kernels, sorted. Machine code: from -symbols; PTX: from -ptx
  // where that was asked for.
  std::vector<std::string> kernels;
};

struct OracleListing {
  // In the order printed.
  std::vector<OracleImage> images;
  // Its last words where it gave up; the images before them are listed.
  std::string gave_up;
};

// Path of cuobjdump, from TWINPATH_ORACLE (the folder tools/oracle made).
// FAILED_PRECONDITION, saying what is missing, where there is none.
absl::StatusOr<std::string> FindCuobjdump();

// Lists the images of a file: `all` with relocatable ones beside final ones
// (-all). A file without device code is an empty listing.
absl::StatusOr<OracleListing> ListImages(const std::string& file, bool all);

// Kernels of each PTX image of a file, sorted, in the order of -ptx -all.
absl::StatusOr<std::vector<std::vector<std::string>>> ListPtxKernels(
    const std::string& file);

// For tests of the parsers.
OracleListing ParseSymbols(absl::string_view text);
std::vector<std::vector<std::string>> ParsePtxKernels(absl::string_view text);

}  // namespace twinpath::differential

#endif  // TWINPATH_TESTS_DIFFERENTIAL_CUOBJDUMP_H_
