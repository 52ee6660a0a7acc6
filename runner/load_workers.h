// Has images loaded by processes that may die: several workers (twinpath-load
// --worker), each with a share of the images of one file. Where one dies, the
// image it was at is named and the next worker goes on behind it; where one is
// not done with an image in time, it is ended and the same is done. Everything
// that was answered stays, whatever happens later.

#ifndef TWINPATH_RUNNER_LOAD_WORKERS_H_
#define TWINPATH_RUNNER_LOAD_WORKERS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "runner/load_answer.h"
#include "runner/load_job.h"

namespace twinpath::runner {

// One question to the driver.
struct LoadTask {
  // Path of the file.
  std::string file;
  // One image; for a link, its pieces, as payloads.
  std::vector<LoadJob> jobs;
  bool link = false;
  // Position in LoadWorkers::environments.
  size_t environment = 0;
  // May take long: compiled or linked.
  bool compiles = false;
  LoadAnswer answer;

  // Decoded bytes.
  uint64_t Bytes() const;
};

struct LoadWorkers {
  // twinpath-load.
  std::string program;
  // "NAME=value" of a worker, each list complete.
  std::vector<std::vector<std::string>> environments;
  int workers = 4;
  absl::Time deadline = absl::InfiniteFuture();
  // For the driver to come up, for one image, for one that compiles.
  absl::Duration start_limit = absl::Seconds(60);
  absl::Duration load_limit = absl::Seconds(60);
  absl::Duration compile_limit = absl::Minutes(5);
  // Tasks of one worker's life.
  size_t loads_of_a_worker = 400;
  size_t compiles_of_a_worker = 64;
  // Images above this are not tried: what a module takes on the device is not
  // known before. 0: no limit.
  uint64_t most_image_bytes = 0;
  // Polled; true ends everything. May be empty.
  std::function<bool()> cancelled;
  // Told of each task that got an answer, from one thread at a time. May be
  // empty.
  std::function<void(const LoadTask&)> answered;
};

struct LoadOutcome {
  // The driver as workers met it. Not up: nothing more was tried, and why.
  LoadHello hello;
  uint32_t deaths = 0;
  // At most what the workers' images took at one time, each holding one.
  uint64_t peak_device_bytes = 0;
};

// Starts one worker that only brings the driver up.
LoadHello AskDriver(const LoadWorkers& options);

// Gives every waiting task to the driver. Tasks that found no time stay
// waiting. Those that compile go last, the smallest first.
LoadOutcome RunLoadTasks(const LoadWorkers& options,
                         const std::vector<LoadTask*>& tasks);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_LOAD_WORKERS_H_
