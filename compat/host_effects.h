// What the rest of a host adds to predictions that were made from device code,
// driver and GPU alone: where its loader finds libraries, which platform it
// is, what programs inherit there. Kept apart because hosts of one class share
// the former and differ in this. Immutable after construction; thread-safe.

#ifndef TWINPATH_COMPAT_HOST_EFFECTS_H_
#define TWINPATH_COMPAT_HOST_EFFECTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compat/loader.h"
#include "compat/tables.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

// Which files a prediction is about, and how they are started.
struct EffectScope {
  // Indices in the report; empty: all files.
  std::vector<size_t> files;
  // The program of an entry, started by itself in a clean environment.
  std::optional<size_t> started;
  // The answer is for programs that inherit the host's variables, not for
  // Twinpath's own runs. Where not, variables are remarks.
  bool inherits = true;
};

// Says that a forward-compatibility libcuda is in use, on a path where it is no
// finding already.
void NameForwardCompat(const v1::Driver& driver, v1::PathPrediction& path);

class HostEffects {
 public:
  // Keeps a reference to the report.
  explicit HostEffects(const v1::ArtifactReport& report);

  // Changes `paths` (native, ptx-jit, plain of the whole) and the files'
  // predictions, matched by name, where there are any; adds the resolved
  // libraries to `libraries` unless it is null.
  void Apply(
      const v1::HostFacts& facts, const v1::Gpu& gpu, const Tables& tables,
      const EffectScope& scope,
      google::protobuf::RepeatedPtrField<v1::PathPrediction>* paths,
      google::protobuf::RepeatedPtrField<v1::FilePrediction>* files,
      google::protobuf::RepeatedPtrField<v1::ResolvedLibrary>* libraries) const;

  const LoaderModel& loader() const { return loader_; }
  const v1::ArtifactReport& report() const { return report_; }

 private:
  // What a file's host half and targets say of the platform it is built for.
  struct Build {
    bool aarch64 = false;
    // A program, or what one loads when it starts. Other libraries load only
    // where a process asks for them, and it may have loaded a copy already.
    bool starts = false;
    // Needs libraries that only L4T has: the first of them.
    std::string l4t_library;
    // Targets of all machine code, each once.
    std::vector<uint32_t> numbers;
    // CUDA 13 has one Arm toolkit for both.
    bool one_toolkit = false;
    std::string targets;
  };

  const v1::ArtifactReport& report_;
  LoaderModel loader_;
  std::vector<Build> builds_;
};

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_HOST_EFFECTS_H_
