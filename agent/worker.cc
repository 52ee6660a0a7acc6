#include "agent/worker.h"

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "agent/fault_point.h"
#include "base/log.h"
#include "base/status.h"

namespace twinpath::agent {
namespace {

constexpr uint32_t kMostThreads = 16;
constexpr absl::Duration kLongestWait = absl::Seconds(30);
constexpr absl::Duration kShortestWait = absl::Milliseconds(10);
constexpr absl::Duration kSpoolRetry = absl::Seconds(5);

}  // namespace

class Worker::Control final : public CellControl {
 public:
  Control(Worker& worker, const ClaimedLease& claimed)
      : worker_(worker), claimed_(claimed) {}

  bool MayStart() override {
    return !worker_.stopping() && worker_.book_.MayStart(cell());
  }
  std::optional<std::string> Start() override {
    if (worker_.stopping()) return std::nullopt;
    return worker_.book_.Start(cell());
  }
  v1::Reason WhyNot() override {
    if (worker_.stopping()) {
      return MakeAgentReason("TP306", "the agent is stopping");
    }
    return worker_.book_.WhyNot(cell());
  }
  bool Stopping() override { return worker_.ending(); }
  void Wait(absl::Duration duration) override { worker_.Wait(duration); }
  void Progress(v1::Path path, absl::string_view text) override {
    if (!worker_.events_.progress) return;
    v1::Progress progress;
    progress.set_cell_id(cell());
    progress.set_lease_id(claimed_.lease.id());
    progress.set_path(path);
    progress.set_text(std::string(text));
    worker_.events_.progress(progress);
  }

 private:
  const std::string& cell() const { return claimed_.lease.cell_id(); }

  Worker& worker_;
  const ClaimedLease& claimed_;
};

Worker::~Worker() { Stop(); }

void Worker::EnsureThreads(uint32_t threads) {
  MutexLock lock(mutex_);
  if (stop_) return;
  while (threads_.size() < std::clamp<uint32_t>(threads, 1, kMostThreads)) {
    threads_.emplace_back([this] { Run(); });
  }
}

void Worker::Stop() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    stop_ = true;
    threads.swap(threads_);
  }
  stopped_.NotifyAll();
  book_.Wake();
  for (std::thread& thread : threads) thread.join();
}

bool Worker::stopping() const {
  MutexLock lock(mutex_);
  return stop_;
}

void Worker::Interrupt(bool interrupt) {
  MutexLock lock(mutex_);
  interrupt_ = interrupt;
}

bool Worker::ending() const {
  MutexLock lock(mutex_);
  return stop_ || interrupt_;
}

bool Worker::Wait(absl::Duration duration) {
  MutexLock lock(mutex_);
  if (!stop_) stopped_.WaitFor(mutex_, duration);
  return !stop_;
}

void Worker::Run() {
  while (!stopping()) {
    std::optional<ClaimedLease> claimed = book_.Claim(
        std::clamp(book_.UntilExpiry(), kShortestWait, kLongestWait));
    if (claimed) Work(*claimed);
    if (events_.changed) events_.changed();
  }
}

void Worker::Work(const ClaimedLease& claimed) {
  Log(LogLevel::kInfo, "cell taken on",
      {{"cell", claimed.lease.cell_id()},
       {"entry", claimed.lease.entry().name()},
       {"gpu", claimed.lease.gpu_uuid()}});
  Control control(*this, claimed);
  CellOutcome outcome = processor_.Process(claimed, control);
  if (outcome.refusal) {
    Log(LogLevel::kWarning, "lease given back",
        {{"cell", claimed.lease.cell_id()},
         {"code", outcome.refusal->code()},
         {"why", outcome.refusal->detail()}});
    outcome.hold.reset();
    book_.GiveUp(claimed.lease.cell_id(), *outcome.refusal);
    return;
  }
  Deliver(claimed, std::move(outcome));
}

void Worker::Deliver(const ClaimedLease& claimed, CellOutcome outcome) {
  const v1::CellResult& result = *outcome.result;
  FaultPoint("worker.before-spool");
  bool kept = false;
  while (true) {
    const absl::Status status = spool_.Add(result);
    kept = status.ok();
    if (kept) break;
    Log(LogLevel::kError, "a result cannot be written to the spool",
        {{"cell", result.cell_id()}, {"why", std::string(MessageOf(status))}});
    if (outcome.journal == nullptr && !result.simulated()) {
      // Nothing was started, so the lease can simply go back.
      v1::Reason reason = result.problems().empty()
                              ? MakeAgentReason("TP115", MessageOf(status))
                              : result.problems(0);
      book_.GiveUp(claimed.lease.cell_id(), reason);
      break;
    }
    if (!Wait(kSpoolRetry)) break;
  }
  FaultPoint("worker.spooled");
  if (kept && outcome.journal != nullptr) {
    const absl::Status status = outcome.journal->Close();
    if (!status.ok()) {
      // The next agent recovers it under the same result id.
      Log(LogLevel::kWarning, "a journal cannot be removed",
          {{"why", std::string(MessageOf(status))}});
    }
  }
  Log(LogLevel::kInfo, "cell ended",
      {{"cell", result.cell_id()},
       {"complete", result.complete() ? "yes" : "no"},
       {"observations", absl::StrCat(result.observations_size())}});
  outcome.hold.reset();
  book_.Finish(claimed.lease.cell_id());
}

}  // namespace twinpath::agent
