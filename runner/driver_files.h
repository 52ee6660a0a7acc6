// What the driver's files tell without starting it: forward-compatibility
// builds of libcuda by their ELF note, and device nodes that are not there.

#ifndef TWINPATH_RUNNER_DRIVER_FILES_H_
#define TWINPATH_RUNNER_DRIVER_FILES_H_

#include <optional>
#include <string>
#include <vector>

#include "twinpath/v1/facts.pb.h"

namespace twinpath::runner {

// The note of a libcuda; nothing for the driver's own and for what cannot be
// read.
std::optional<v1::ForwardCompatNote> ForwardCompatOf(const std::string& path);

// Forward-compatibility builds where cuda-compat packages put them, each file
// once. `root`: prefix of every path, for tests; paths are given without it.
std::vector<v1::ForwardCompatLibrary> ForwardCompatLibraries(
    const std::string& root);

// Nodes the driver needs and that are missing beside others of it. Empty where
// none of them is to be seen: the process may be kept from all devices.
std::vector<std::string> MissingNodes(const std::string& root);

// Puts all of it into the facts of a driver that was asked.
void AddDriverFiles(const std::string& root, v1::Driver& driver);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_DRIVER_FILES_H_
