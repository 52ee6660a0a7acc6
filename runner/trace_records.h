// Reads what the trace libraries left (trace/record.h). The program under test
// could write there whatever it liked: everything is bounded, nothing is
// trusted, links are not followed, and damage is said, not an error.

#ifndef TWINPATH_RUNNER_TRACE_RECORDS_H_
#define TWINPATH_RUNNER_TRACE_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "twinpath/v1/common.pb.h"
#include "twinpath/v1/trace.pb.h"

namespace twinpath::runner {

// Most that is kept of each kind; what lies behind is counted as dropped.
// A trace then takes about a megabyte at most: results travel in messages.
inline constexpr size_t kMaxTracedObjects = 2048;
inline constexpr size_t kMaxTracedModules = 1024;
inline constexpr size_t kMaxTracedKernels = 2048;
// Most bytes of paths, and of kernels' names.
inline constexpr size_t kMaxTracedNameBytes = size_t{256} << 10;

struct ModuleRecord {
  Sha256 digest;
  uint64_t size_bytes = 0;
  uint32_t loads = 0;
  // Its bytes are said to be in the folder, under ModuleFileName.
  bool kept = false;
};

struct KernelRecord {
  std::string name;
  uint64_t launches = 0;
  uint64_t refused = 0;
  uint32_t cuda_error = 0;
};

struct TraceRecords {
  v1::Tracer objects_tracer;
  // Paths of shared objects in the order they were opened, each once.
  std::vector<std::string> objects;
  v1::Tracer device_tracer;
  // In the order of the first load, each once.
  std::vector<ModuleRecord> modules;
  // In the order of the first launch, each once; counts of all processes added.
  std::vector<KernelRecord> kernels;
  // Compute capability of the GPU of the first launch.
  std::optional<v1::Version> gpu;
};

// Reads the records in the folder behind the descriptor.
TraceRecords ReadTraceRecords(int folder);

// Adds the kernels that the driver's log says it did not find: a library that
// asks for a kernel before it launches it (cuBLAS under forced JIT) fails
// there, and no launch is ever seen. They have no launches and the error that
// the log states. A refused launch without a name gets the log's, where that
// has one alone. The log is the program's to write, as the rest is.
void AddNotFound(absl::string_view driver_log, TraceRecords& records);

// Name in the folder of the file with a module's bytes.
std::string ModuleFileName(const Sha256& digest);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_TRACE_RECORDS_H_
