// What the tests of the host processor have in common: a host, a lease and runs
// that are none.

#ifndef TWINPATH_TESTS_AGENT_HOST_PROCESSOR_FIXTURE_H_
#define TWINPATH_TESTS_AGENT_HOST_PROCESSOR_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/host_processor.h"
#include "base/digest.h"
#include "base/fake_clock.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "runner/trusted_release.h"
#include "tests/agent/fake_blob_source.h"
#include "tests/agent/fake_control.h"
#include "tests/agent/temp.h"

namespace twinpath::agent {

// Of a host with one GPU, on which so many processes compute.
inline v1::HostFacts Facts(uint32_t processes = 0) {
  v1::HostFacts facts;
  facts.set_cpu_architecture(v1::CPU_ARCHITECTURE_X86_64);
  facts.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_OK);
  facts.mutable_driver()->set_kernel_module_version("580.95.05");
  facts.mutable_gpu_probe()->set_state(v1::PROBE_STATE_OK);
  v1::Gpu& gpu = *facts.add_gpus();
  gpu.set_uuid("GPU-1");
  gpu.set_compute_processes(processes);
  return facts;
}

// Stands in for runner::RunEntry: calls the hooks as it does, and every process
// exits 0.
inline v1::CellResult FakeRun(const v1::Entry& entry,
                              const std::vector<v1::Path>& paths,
                              const std::vector<std::string>& gpus,
                              const runner::AttemptHooks& hooks) {
  v1::CellResult result;
  result.set_result_id("ff");
  result.set_complete(true);
  for (const v1::Path path : paths) {
    v1::RunRequest request;
    request.set_attempt_id(RandomHex(16));
    request.set_path(path);
    *request.mutable_entry() = entry;
    for (const std::string& gpu : gpus) request.add_gpu_uuids(gpu);
    v1::Observation observation;
    observation.set_attempt_id(request.attempt_id());
    observation.set_path(path);
    if (const absl::Status status = hooks.before(request); !status.ok()) {
      observation.set_ending(v1::ENDING_SKIPPED);
      observation.set_problem(std::string(status.message()));
      *result.add_observations() = observation;
      result.set_complete(false);
      break;
    }
    observation.set_ending(v1::ENDING_EXITED);
    hooks.after(observation);
    *result.add_observations() = observation;
  }
  return result;
}

// A processor of a leased cell whose host, files and runs are fakes.
class HostProcessorTest : public ::testing::Test {
 protected:
  HostProcessorTest() {
    for (const char* folder : {"work", "journal", "cache"}) {
      EXPECT_THAT(MakeDirectories(JoinPath(temp_.path(), folder)), IsOk());
    }
    cache_ =
        std::move(BlobCache::Open(JoinPath(temp_.path(), "cache"), {1 << 20}))
            .value();
    claimed_.lease.set_id("lease-1");
    claimed_.lease.set_cell_id("cell-1");
    claimed_.lease.set_gpu_uuid("GPU-1");
    claimed_.lease.mutable_entry()->set_name("smoke");
    for (const v1::Path path : {v1::PATH_NATIVE, v1::PATH_PLAIN}) {
      claimed_.lease.add_paths(path);
    }
    claimed_.gpu_uuids = {"GPU-1"};
    AddFile("check", "program");
    facts_now_ = Facts();
  }

  void AddFile(const std::string& name, const std::string& content) {
    v1::ArtifactFile& file = *claimed_.lease.mutable_artifact()->add_files();
    file.set_name(name);
    file.set_type(v1::FILE_TYPE_REGULAR);
    file.set_mode(0755);
    file.set_size_bytes(content.size());
    file.mutable_digest()->set_sha256(source_.Add(content).Raw());
  }

  CellOutcome Process() {
    HostProcessorOptions options;
    options.work_directory = JoinPath(temp_.path(), "work");
    options.gpu_policy = policy_;
    options.reservations = reservations_.get();
    options.run_socket = run_socket_;
    options.allow_unsigned_runs = allow_unsigned_;
    options.trust = trust_;
    options.run_child = [this](const v1::RunRequest& request, absl::Duration,
                               const std::function<bool()>&) {
      child_ = request;
      v1::RunResponse response;
      response.mutable_observation()->set_exit_code(7);
      return response;
    };
    options.run_entry =
        [this](const v1::Entry& entry, const std::vector<v1::Path>& paths,
               const std::vector<std::string>& gpus, const std::string& folder,
               const runner::AttemptHooks& hooks) {
          ++runs_;
          folder_ = folder;
          if (in_run_) in_run_(folder, hooks);
          return FakeRun(entry, paths, gpus, hooks);
        };
    HostProcessor processor(options, *cache_, source_, journal_, facts_,
                            clock_);
    return processor.Process(claimed_, control_);
  }
  std::vector<std::string> Left() const {
    return FilesBelow(JoinPath(temp_.path(), "work"));
  }
  std::vector<std::string> Journals() const {
    return FilesBelow(JoinPath(temp_.path(), "journal"));
  }

  const TempDirectory temp_ = MakeTemp();
  FakeClock clock_;
  FakeBlobSource source_;
  std::unique_ptr<BlobCache> cache_;
  Journal journal_{JoinPath(temp_.path(), "journal")};
  v1::HostFacts facts_now_;
  FactsKeeper facts_{[this](FactsScope) { return facts_now_; }, {}, clock_};
  FakeControl control_;
  ClaimedLease claimed_;
  GpuPolicy policy_ = GpuPolicy::kIdle;
  std::unique_ptr<GpuReservations> reservations_;
  std::string run_socket_;
  bool allow_unsigned_ = false;
  runner::TrustFiles trust_;
  std::optional<v1::RunRequest> child_;
  std::function<void(const std::string&, const runner::AttemptHooks&)> in_run_;
  int runs_ = 0;
  std::string folder_;
};

}  // namespace twinpath::agent

#endif  // TWINPATH_TESTS_AGENT_HOST_PROCESSOR_FIXTURE_H_
