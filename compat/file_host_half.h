// What is decided about a file before its device code is looked at: CPU
// architecture, host faults, CUDA runtime against driver, files that cannot be
// read or hold no code.

#ifndef TWINPATH_COMPAT_FILE_HOST_HALF_H_
#define TWINPATH_COMPAT_FILE_HOST_HALF_H_

#include <string>

#include "compat/host_check.h"
#include "compat/prepared.h"
#include "compat/tables.h"
#include "twinpath/v1/prediction.pb.h"

namespace twinpath::compat::internal {

// Fills the three paths of `prediction` (already added) and returns true if
// the answer does not depend on device code.
bool JudgeHostHalf(const FileView& file, const HostView& host,
                   const Tables& tables, v1::FilePrediction& prediction);

// "NVIDIA H200 (9.0)".
std::string DeviceName(const HostView& host);
// The command that shows what a file does on a device.
std::string RunIt(const FileView& file, const HostView& host);
// "uses nvrtc (libnvrtc.so.13)".
std::string CompilerText(const FileView& file);
// Detail of the first problem of the report, or `fallback`.
std::string ProblemText(const FileView& file, absl::string_view fallback);

}  // namespace twinpath::compat::internal

#endif  // TWINPATH_COMPAT_FILE_HOST_HALF_H_
