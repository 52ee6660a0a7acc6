// What gpu_images tries of a library, and what is predicted for each try.

#ifndef TWINPATH_TESTS_GPU_IMAGE_PLAN_H_
#define TWINPATH_TESTS_GPU_IMAGE_PLAN_H_

#include <deque>
#include <memory>
#include <string>

#include "compat/tables.h"
#include "runner/load_list.h"
#include "runner/load_workers.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::gpu {

// One image or fatbin, one way, one path.
struct Try {
  runner::LoadTask task;
  size_t path = 0;
  std::string what;
  v1::Outcome outcome = v1::OUTCOME_UNKNOWN;
  uint32_t cuda_error = 0;
  bool sampled_out = false;

  bool compiles() const { return outcome == v1::OUTCOME_JIT; }
  bool loads() const { return compiles() || outcome == v1::OUTCOME_NATIVE; }
  bool equal() const;
};

struct Library {
  std::string path;
  v1::ArtifactReport report;
  size_t images = 0;
  size_t fatbins = 0;
  std::deque<Try> tries;
  // Relocatable pieces for this GPU: only their link is a test of them. The
  // answers are in its order.
  runner::LoadList pieces;
  std::deque<runner::LoadAnswer> linked;
};

// Inspects the file.
absl::StatusOr<std::unique_ptr<Library>> ReadLibrary(const std::string& path);

// Fills tries and pieces.
void Plan(const v1::HostFacts& facts, const v1::Gpu& gpu,
          const compat::Tables& tables, Library& library);

// Keeps every k-th of what is predicted to compile, `most` a path and way, by
// decoded size, the smallest first.
void Sample(size_t most, Library& library);

}  // namespace twinpath::gpu

#endif  // TWINPATH_TESTS_GPU_IMAGE_PLAN_H_
