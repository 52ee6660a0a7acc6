// What the variables that programs inherit on a host do to them. Twinpath's own
// runs start without these variables; users' programs do not, so they change
// what the `plain` path promises to users. Texts: CUDA C++ Programming Guide,
// "CUDA environment variables"; what the switches do was measured
// (docs/gpu-runs.md). Pure functions; thread-safe.

#ifndef TWINPATH_COMPAT_ENVIRONMENT_H_
#define TWINPATH_COMPAT_ENVIRONMENT_H_

#include <optional>
#include <string>
#include <vector>

#include "compat/forward_compat.h"
#include "compat/tables.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/prediction.pb.h"

namespace twinpath::compat {

// Whether every program of the host's users inherits a variable set there: the
// collector's own environment, /etc/environment, profiles, the defaults of
// systemd. A unit file sets it for one service alone.
bool IsInherited(const v1::EnvironmentLeak& leak);

// "CUDA_FORCE_PTX_JIT=1 in /etc/environment:3".
std::string DescribeLeak(const v1::EnvironmentLeak& leak);

// The finding about one variable, with what it does; nothing for one that is
// off or only goes with another (CUDA_DEVICE_ORDER).
std::optional<v1::Reason> ReasonOfLeak(const v1::EnvironmentLeak& leak);

// What programs inherit, put together.
struct Inherited {
  // JIT switches; the leak that sets each.
  const v1::EnvironmentLeak* force = nullptr;
  const v1::EnvironmentLeak* disable = nullptr;
  // CUDA_VISIBLE_DEVICES that leaves no GPU.
  const v1::EnvironmentLeak* no_devices = nullptr;
  // CUDA_VISIBLE_DEVICES that leaves others than the GPU asked about, or names
  // it by an index that is not stable: what to say.
  std::optional<v1::Reason> devices;
  // A forward-compatibility libcuda that LD_LIBRARY_PATH leads to.
  const v1::EnvironmentLeak* compat_path = nullptr;
  std::optional<CompatDecision> compat;
  const v1::ForwardCompatLibrary* compat_library = nullptr;
};
Inherited InheritedBy(const v1::HostFacts& facts, const v1::Gpu& gpu,
                      const Tables& tables);

// The facts of the host with the libcuda that programs inherit in place of the
// one the loader finds without LD_LIBRARY_PATH; nothing where it is the same or
// does not work.
std::optional<v1::HostFacts> WithInheritedDriver(const v1::HostFacts& facts,
                                                 const v1::Gpu& gpu,
                                                 const Tables& tables);

// The facts of a host whose processes have a forward-compatibility libcuda in
// front of its driver. Simulated: nothing was started with it.
v1::HostFacts WithDriver(const v1::HostFacts& facts,
                         const v1::ForwardCompatLibrary& library);

// Turns the three paths of a prediction (native, ptx-jit, plain) into what
// programs get that inherit the variables: only `plain` changes.
void ApplyInherited(
    const Inherited& inherited,
    google::protobuf::RepeatedPtrField<v1::PathPrediction>* paths);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_ENVIRONMENT_H_
