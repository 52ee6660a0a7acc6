// Cells of a sweep: one for each usable GPU of a host and each entry, one a
// host for an entry that takes several GPUs. A host that cannot run anything
// still has its cells, ENDED, with the reason: nothing that was selected
// disappears. A host whose facts are not known yet has placeholders, replaced
// when they arrive. Pure but for the memory of predictions; used by one thread
// at a time.

#ifndef TWINPATH_COORDINATOR_CELLS_H_
#define TWINPATH_COORDINATOR_CELLS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "coordinator/model.h"
#include "coordinator/store.h"
#include "twinpath/v1/release.pb.h"

namespace twinpath::coordinator {

// Predicts for one sweep; equal hosts are asked about once.
class CellMaker {
 public:
  // `report` outlives this.
  CellMaker(const Model& model, const v1::ArtifactReport& report);

  // The cells of one host. Ids are "<sweep>.<host name>.<gpu>.<entry>".
  std::vector<CellRow> MakeCells(const std::string& sweep_id,
                                 const HostRow& host,
                                 const v1::Release& release);

  // Brings a waiting cell up to the host's new facts: conditions, class,
  // driver, predictions. A GPU that is gone ends the cell.
  void UpdateCell(const HostRow& host, const v1::Release& release,
                  CellRow& row);

 private:
  void FillHost(const HostRow& host, v1::Cell& cell);
  void FillGpu(const HostRow& host, const v1::Entry& entry, const v1::Gpu& gpu,
               v1::Cell& cell);

  const Model& model_;
  const EntryPredictor predictor_;
  // By entry, host facts and GPU without what names one machine.
  absl::flat_hash_map<std::string, std::vector<v1::PathPrediction>> memory_;
};

// GPUs a program can use: MIG parents with MIG on are not among them.
std::vector<const v1::Gpu*> UsableGpus(const v1::HostFacts& facts);

// Why the host has no usable GPU at all; decisive first, never empty.
std::vector<v1::Reason> NoGpuReasons(const v1::HostFacts& facts);

// "580.95.05 (CUDA 13.0)", "none".
std::string DescribeDriver(const v1::Driver& driver);

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_CELLS_H_
