// Inspects bytes in memory as if they were a file.

#ifndef TWINPATH_TESTS_INSPECT_INSPECT_FIXTURE_H_
#define TWINPATH_TESTS_INSPECT_INSPECT_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "inspect/inspect.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// A file without a name that holds `bytes`.
inline UniqueFd FileWith(absl::string_view bytes) {
  UniqueFd fd(::memfd_create("inspect_test", MFD_CLOEXEC));
  EXPECT_TRUE(fd.valid());
  EXPECT_THAT(WriteAll(fd.get(), bytes), IsOk());
  return fd;
}

// The report of a file that holds `bytes`.
inline v1::FileReport InspectBytes(absl::string_view bytes,
                                   const InspectOptions& options = {
                                       .digest = false}) {
  const UniqueFd fd = FileWith(bytes);
  absl::StatusOr<v1::FileReport> report =
      InspectDescriptor(fd.get(), "file", options);
  EXPECT_THAT(report, IsOk());
  return report.ok() ? *std::move(report) : v1::FileReport();
}

// Codes of a report's problems.
inline std::vector<std::string> ProblemCodes(const v1::FileReport& report) {
  std::vector<std::string> codes;
  for (const v1::Reason& reason : report.problems()) {
    codes.push_back(reason.code());
  }
  return codes;
}

// Names of an image's kernels.
inline std::vector<std::string> KernelNames(const v1::Image& image) {
  std::vector<std::string> names;
  for (const v1::Kernel& kernel : image.kernels()) {
    names.push_back(kernel.name());
  }
  return names;
}

}  // namespace twinpath::inspect

#endif  // TWINPATH_TESTS_INSPECT_INSPECT_FIXTURE_H_
