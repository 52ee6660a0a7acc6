// What a session does with each message behind hello.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "coordinator/result_bounds.h"
#include "coordinator/sane_times.h"
#include "coordinator/session.h"

namespace twinpath::coordinator {
namespace {

constexpr size_t kMaxFactsBytes = 1 << 20;
// Every GPU has a cell for each entry of a sweep.
constexpr int kMaxGpus = 512;

}  // namespace

void Session::OnFacts(const v1::HostFacts& received) {
  v1::HostFacts facts = received;
  ClearImpossibleTimes(facts);
  std::string host_id;
  std::string name;
  bool simulated = false;
  {
    MutexLock lock(mutex_);
    host_id = host_.id;
    name = host_.name;
    simulated = host_.simulated;
  }
  if (facts.simulated() && !simulated) {
    Close(absl::PermissionDeniedError(
        absl::StrCat("host ", name,
                     " is enrolled as real and sends simulated facts; enrol it "
                     "anew under another name")));
    return;
  }
  if (facts.ByteSizeLong() > kMaxFactsBytes) {
    Close(absl::InvalidArgumentError("facts take more than 1 MiB"));
    return;
  }
  if (facts.gpus_size() > kMaxGpus) {
    Close(absl::InvalidArgumentError(absl::StrCat(
        "facts list ", facts.gpus_size(), " GPUs; at most ", kMaxGpus)));
    return;
  }
  facts.set_simulated(simulated);
  const std::string conditions =
      context_.model.conditions(facts).digest().sha256();
  const std::shared_ptr<Session> self = shared_from_this();
  RunFenced(
      [self, facts, host_id, conditions](StoreTransaction& transaction,
                                         ChangedSweeps&) {
        return transaction.PutFacts(host_id, facts, conditions,
                                    self->context_.store.Now());
      },
      [self, host_id] {
        {
          MutexLock lock(self->mutex_);
          self->has_facts_ = true;
        }
        self->context_.events.OnFacts(host_id);
      });
}

void Session::OnHeartbeat(const v1::Heartbeat& heartbeat) {
  std::string host_id;
  uint64_t number = 0;
  bool idle = false;
  {
    MutexLock lock(mutex_);
    refuses_ = heartbeat.refuses_leases();
    spooled_ = heartbeat.spooled_results() > 0;
    host_id = host_.id;
    number = number_;
    idle = heartbeat.held_cell_ids().empty() &&
           !std::exchange(granted_, !heartbeat.held_cell_ids().empty());
  }
  if (heartbeat.held_cell_ids_size() > kMaxHeldCells) {
    Close(absl::InvalidArgumentError("a heartbeat lists too many cells"));
    return;
  }
  if (idle) {
    ReadNext();
    Pump();
    return;
  }
  struct Outcome {
    std::vector<std::string> give_up;
    bool leased = false;
  };
  const auto outcome = std::make_shared<Outcome>();
  const std::shared_ptr<Session> self = shared_from_this();
  RunFenced(
      [self, host_id, number, outcome,
       held = std::vector<std::string>(heartbeat.held_cell_ids().begin(),
                                       heartbeat.held_cell_ids().end())](
          StoreTransaction& transaction,
          ChangedSweeps& changed) -> absl::Status {
        TWINPATH_ASSIGN_OR_RETURN(
            outcome->give_up,
            self->context_.dispatcher.Held(
                transaction, host_id, number, held, /*hello=*/false,
                self->context_.store.Now(), changed));
        TWINPATH_ASSIGN_OR_RETURN(const std::vector<CellRow> open,
                                  transaction.ListOpenHostCells(host_id));
        outcome->leased =
            std::any_of(open.begin(), open.end(), [](const CellRow& row) {
              return row.cell.state() == v1::CELL_STATE_LEASED;
            });
        return absl::OkStatus();
      },
      [self, outcome] {
        {
          // A lease that the agent does not list is looked at again, until it
          // has run out.
          MutexLock lock(self->mutex_);
          self->granted_ |= outcome->leased;
        }
        for (const std::string& cell : outcome->give_up) {
          self->CancelCell(cell);
        }
      });
}

void Session::OnProgress(const v1::Progress& progress) {
  const std::shared_ptr<Session> self = shared_from_this();
  const std::string host = host_id();
  RunFenced(
      [self, host, progress](StoreTransaction& transaction,
                             ChangedSweeps& changed) {
        return self->context_.dispatcher.Progressed(
            transaction, host, progress, self->context_.store.Now(), changed);
      },
      nullptr);
}

void Session::OnRefusal(const v1::LeaseRefusal& refusal) {
  const std::shared_ptr<Session> self = shared_from_this();
  const std::string host = host_id();
  RunFenced(
      [self, host, refusal](StoreTransaction& transaction,
                            ChangedSweeps& changed) {
        return self->context_.dispatcher.Refused(
            transaction, host, refusal, self->context_.store.Now(), changed);
      },
      nullptr);
}

void Session::OnResult(const v1::CellResult& received) {
  v1::CellResult result = received;
  const bool cut = CutOversized(result);
  ClearImpossibleTimes(result);
  HostRow host;
  {
    MutexLock lock(mutex_);
    host = host_;
  }
  if (cut) {
    Log(LogLevel::kWarning, "a result was cut",
        {{"host", host.name},
         {"cell", result.cell_id()},
         {"why", result.problems(0).detail()}});
  }
  struct Outcome {
    ResultFate fate = ResultFate::kDuplicate;
    ChangedSweeps changed;
  };
  const auto outcome = std::make_shared<Outcome>();
  const std::shared_ptr<Session> self = shared_from_this();
  // Not fenced: whichever session of the host delivers it, it is a result.
  context_.store.Submit(
      [self, host, result,
       outcome](StoreTransaction& transaction) -> absl::Status {
        *outcome = Outcome();
        TWINPATH_ASSIGN_OR_RETURN(
            outcome->fate, self->context_.dispatcher.Accept(
                               transaction, host, result,
                               self->context_.store.Now(), outcome->changed));
        return absl::OkStatus();
      },
      [self, outcome, name = host.name, result_id = result.result_id(),
       cell_id = result.cell_id()](const absl::Status& status) {
        if (!status.ok()) {
          // No acknowledgement: the agent keeps the result and comes again.
          Log(LogLevel::kError, "result not stored",
              {{"host", name},
               {"cell", cell_id},
               {"why", std::string(status.message())}});
          self->Close(status);
          return;
        }
        if (outcome->fate == ResultFate::kForeign) {
          Log(LogLevel::kWarning, "result for a cell the host does not have",
              {{"host", name}, {"cell", cell_id}});
        }
        {
          MutexLock lock(self->mutex_);
          v1::CoordinatorMessage message;
          message.mutable_result_ack()->set_result_id(result_id);
          self->SendLocked(std::move(message));
        }
        if (!outcome->changed.empty()) {
          self->context_.events.OnSweepsChanged(outcome->changed);
        }
        self->ReadNext();
        self->Pump();
      });
}

}  // namespace twinpath::coordinator
