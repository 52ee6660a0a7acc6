// HostProcessor: runs a cell on this host. Fetch, stage, look at the host's
// conditions, take the permission to start, then run the entry along its paths
// with each attempt journalled before it starts.
//
// What keeps a cell from starting through the host's fault (no room, no
// connection, a driver that hangs) is an incomplete result with its reason, so
// that a person sees it; it decides nothing. A staged file that is not the file
// dispatched is a complete result whose paths were not started (TP405).

#ifndef TWINPATH_AGENT_HOST_PROCESSOR_H_
#define TWINPATH_AGENT_HOST_PROCESSOR_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/blob_cache.h"
#include "agent/cell_processor.h"
#include "agent/facts_keeper.h"
#include "agent/gpu_reservation.h"
#include "agent/journal.h"
#include "base/clock.h"
#include "runner/device_watch.h"
#include "runner/run.h"
#include "runner/sequence.h"
#include "runner/trusted_release.h"

namespace twinpath::agent {

// When runs may use a GPU.
enum class GpuPolicy {
  // No compute process is on it, looked at just before the run.
  kIdle,
  kAlways,
  // The host's own command grants it.
  kReserved,
};

struct HostProcessorOptions {
  // Folder for running cells.
  std::string work_directory;
  GpuPolicy gpu_policy = GpuPolicy::kIdle;
  // For kReserved; must live as long as the processor.
  GpuReservations* reservations = nullptr;
  // Watches GPUs during runs. Empty: they are not watched.
  runner::DeviceWatchStarter watch;
  // Socket of the run unit. Where it is there, every run is asked for over it,
  // and none is started otherwise. Empty: bubblewrap.
  std::string run_socket;
  // The socket of the unit for entries of oci_images.
  std::string oci_socket;
  // Run, in bubblewrap, also what no trusted key has signed. The run unit never
  // does.
  bool allow_unsigned_runs = false;
  // What this host trusts, looked at before each run in bubblewrap.
  runner::TrustFiles trust;
  // runner::RunEntryInChild, or a fake.
  std::function<v1::RunResponse(const v1::RunRequest&, absl::Duration,
                                std::function<bool()>)>
      run_child = runner::RunEntryInChild;
  // Pause between two looks at a busy GPU.
  absl::Duration busy_pause = absl::Seconds(10);
  // runner::RunEntry, or a fake.
  std::function<v1::CellResult(const v1::Entry&, const std::vector<v1::Path>&,
                               const std::vector<std::string>&,
                               const std::string&, const runner::AttemptHooks&)>
      run_entry;
};

class HostProcessor final : public CellProcessor {
 public:
  HostProcessor(HostProcessorOptions options, BlobCache& cache,
                BlobSource& source, Journal& journal, FactsKeeper& facts,
                const Clock& clock)
      : options_(std::move(options)),
        cache_(cache),
        source_(source),
        journal_(journal),
        facts_(facts),
        clock_(clock) {}

  CellOutcome Process(const ClaimedLease& claimed,
                      CellControl& control) override;

 private:
  // Asks the host for the cell's GPUs where its policy wants that. Nothing:
  // they may be used, while *hold lives; else why not now.
  std::optional<v1::Reason> Reserve(const ClaimedLease& claimed,
                                    CellControl& control,
                                    GpuReservations::Hold* hold) const;

  const HostProcessorOptions options_;
  BlobCache& cache_;
  BlobSource& source_;
  Journal& journal_;
  FactsKeeper& facts_;
  const Clock& clock_;
};

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_HOST_PROCESSOR_H_
