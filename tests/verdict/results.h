// Results, cells and sweeps with complete evidence, for tests that take one
// piece away. Header-only, so that tests of other folders can use it.

#ifndef TWINPATH_TESTS_VERDICT_RESULTS_H_
#define TWINPATH_TESTS_VERDICT_RESULTS_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/digest.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/release.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::verdict {

inline constexpr char kGpu[] = "GPU-11111111-2222-3333-4444-555555555555";

inline v1::Digest DigestOf(absl::string_view text) {
  v1::Digest digest;
  digest.set_sha256(Sha256Of(text).Raw());
  return digest;
}

inline v1::Conditions ConditionsNamed(absl::string_view name) {
  v1::Conditions conditions;
  conditions.add_lines(absl::StrCat("driver=", name));
  *conditions.mutable_digest() = DigestOf(absl::StrCat("driver=", name, "\n"));
  return conditions;
}

inline void SetVariable(v1::Observation& run, absl::string_view name,
                        absl::string_view value) {
  v1::EnvironmentVariable& variable = *run.add_environment();
  variable.set_name(std::string(name));
  variable.set_value(std::string(value));
}

inline void SetOutput(v1::Observation& run, absl::string_view text) {
  run.mutable_stdout()->set_head(std::string(text));
  run.mutable_stdout()->set_total_bytes(text.size());
  *run.mutable_stdout()->mutable_digest() = DigestOf(text);
}

// A run of `path` that went well, with everything recorded.
inline v1::Observation GoodRun(v1::Path path, bool proof = false) {
  v1::Observation run;
  run.set_attempt_id(absl::StrCat("attempt-", path, proof ? "-proof" : ""));
  run.set_path(path);
  run.set_jit_proof(proof);
  run.set_ending(v1::ENDING_EXITED);
  SetOutput(run, "PASS\n");
  run.set_gpu_uuid(kGpu);
  *run.mutable_conditions_before() = ConditionsNamed("580");
  *run.mutable_conditions_after() = ConditionsNamed("580");
  if (path == v1::PATH_NATIVE) SetVariable(run, "CUDA_DISABLE_PTX_JIT", "1");
  if (path == v1::PATH_PTX_JIT) SetVariable(run, "CUDA_FORCE_PTX_JIT", "1");
  if (path == v1::PATH_PLAIN || proof) {
    SetVariable(run, "CUDA_CACHE_PATH", "/run-folder/cache");
    run.mutable_cache()->set_observed(true);
    if (proof) run.mutable_cache()->set_files(2);
  } else {
    SetVariable(run, "CUDA_CACHE_DISABLE", "1");
  }
  return run;
}

inline v1::Entry GoodEntry() {
  v1::Entry entry;
  entry.set_name("check");
  entry.add_command("check");
  entry.mutable_expected_output()->set_contains("PASS");
  return entry;
}

inline v1::CellResult GoodResult() {
  v1::CellResult result;
  result.set_result_id("result");
  *result.add_observations() = GoodRun(v1::PATH_NATIVE);
  *result.add_observations() = GoodRun(v1::PATH_PTX_JIT);
  *result.add_observations() = GoodRun(v1::PATH_PTX_JIT, true);
  *result.add_observations() = GoodRun(v1::PATH_PLAIN);
  v1::StagedFile& staged = *result.add_staged();
  staged.set_name("check");
  *staged.mutable_digest() = DigestOf("file");
  result.set_complete(true);
  *result.mutable_conditions_digest() = ConditionsNamed("580").digest();
  return result;
}

// The run of `path` in `result`; adds nothing.
inline v1::Observation& RunOf(v1::CellResult& result, v1::Path path,
                              bool proof = false) {
  for (v1::Observation& run : *result.mutable_observations()) {
    if (run.path() == path && run.jit_proof() == proof) return run;
  }
  abort();
}

inline void RemoveRun(v1::CellResult& result, v1::Path path, bool proof) {
  v1::CellResult copy = result;
  result.clear_observations();
  for (const v1::Observation& run : copy.observations()) {
    if (run.path() == path && run.jit_proof() == proof) continue;
    *result.add_observations() = run;
  }
}

inline void Predict(v1::Cell& cell, v1::Path path, v1::Outcome outcome,
                    uint32_t cuda_error = 0, absl::string_view code = "") {
  v1::PathPrediction& prediction = *cell.add_predictions();
  prediction.set_path(path);
  prediction.set_outcome(outcome);
  if (code.empty()) return;
  v1::Reason& reason = *prediction.add_reasons();
  reason.set_code(std::string(code));
  reason.set_cuda_error(cuda_error);
  reason.set_detail("predicted so");
}

inline v1::Cell GoodCell(absl::string_view host = "spark-1") {
  v1::Cell cell;
  cell.set_id(absl::StrCat("cell-", host));
  cell.set_host_id(absl::StrCat("id-", host));
  cell.set_host_name(std::string(host));
  cell.set_gpu_uuid(kGpu);
  cell.set_gpu_name("NVIDIA GB10");
  cell.mutable_compute_capability()->set_major(12);
  cell.mutable_compute_capability()->set_minor(1);
  cell.set_entry("check");
  cell.set_state(v1::CELL_STATE_DONE);
  *cell.mutable_result() = GoodResult();
  cell.mutable_result()->set_cell_id(cell.id());
  *cell.mutable_conditions_digest() = ConditionsNamed("580").digest();
  *cell.mutable_class_digest() = DigestOf("class");
  cell.set_cpu_architecture(v1::CPU_ARCHITECTURE_AARCH64);
  cell.set_driver("580.95.05 (CUDA 13.0)");
  return cell;
}

// A sweep of `hosts` hosts that passes.
inline v1::Sweep GoodSweep(int hosts = 1) {
  v1::Sweep sweep;
  sweep.set_id("s1");
  sweep.set_state(v1::SWEEP_STATE_DONE);
  sweep.mutable_start_time()->set_seconds(1'700'000'000);
  sweep.mutable_end_time()->set_seconds(1'700'000'060);
  v1::Release& release = *sweep.mutable_spec()->mutable_release();
  release.mutable_artifact()->set_name("demo");
  *release.mutable_artifact()->mutable_digest() = DigestOf("artifact");
  v1::ArtifactFile& file = *release.mutable_artifact()->add_files();
  file.set_name("check");
  file.set_type(v1::FILE_TYPE_REGULAR);
  *file.mutable_digest() = DigestOf("file");
  *release.add_entries() = GoodEntry();
  for (int i = 1; i <= hosts; ++i) {
    *sweep.add_cells() = GoodCell(absl::StrCat("spark-", i));
  }
  return sweep;
}

}  // namespace twinpath::verdict

#endif  // TWINPATH_TESTS_VERDICT_RESULTS_H_
