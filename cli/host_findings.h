// What is wrong or odd with a host, from its facts. Pure functions;
// thread-safe.

#ifndef TWINPATH_CLI_HOST_FINDINGS_H_
#define TWINPATH_CLI_HOST_FINDINGS_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "twinpath/v1/common.pb.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

// Why nothing can be run or predicted on the host: no driver, a driver fault,
// no GPU. Empty: at least one GPU with a known compute capability is there.
std::vector<v1::Reason> WhyNoGpu(const v1::HostFacts& facts);

// All findings about the host, errors first.
std::vector<v1::Finding> HostFindings(const v1::HostFacts& facts);

// What the GPUs say of themselves now: memory that could not be repaired, or
// waits for a reset, clocks lowered by heat or a fault.
std::vector<v1::Finding> DeviceFindings(
    const google::protobuf::RepeatedPtrField<v1::DeviceState>& states,
    absl::string_view host_name);

// Whether a GPU in MIG mode has instances; programs run on these, not on it.
bool HasMigInstances(const v1::HostFacts& facts, const v1::Gpu& gpu);

// GPUs that a program can run on: one of each model, or all. Not those whose
// capability is unknown, nor those in MIG mode, which offer CUDA no device.
std::vector<const v1::Gpu*> RunnableGpus(const v1::HostFacts& facts, bool all);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_HOST_FINDINGS_H_
