#include "agent/agent.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "agent/blob_cache.h"
#include "agent/enrol.h"
#include "agent/facts_keeper.h"
#include "agent/gpu_reservation.h"
#include "agent/grpc_blob_source.h"
#include "agent/grpc_channel.h"
#include "agent/host_processor.h"
#include "agent/identity.h"
#include "agent/journal.h"
#include "agent/lease_book.h"
#include "agent/pause.h"
#include "agent/session.h"
#include "agent/session_stream.h"
#include "agent/simulated_processor.h"
#include "agent/spool.h"
#include "agent/state_directory.h"
#include "agent/worker.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/version.h"
#include "runner/device_watch.h"
#include "runner/facts.h"
#include "runner/sequence.h"

namespace twinpath::agent {
namespace {

// A signal between threads that is never lost.
class Bell {
 public:
  void Ring() {
    MutexLock lock(mutex_);
    rung_ = true;
    changed_.NotifyAll();
  }
  // Waits until rung or `timeout`, and resets.
  void Wait(absl::Duration timeout) {
    MutexLock lock(mutex_);
    if (!rung_ && timeout > absl::ZeroDuration()) {
      changed_.WaitFor(mutex_, timeout);
    }
    rung_ = false;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool rung_ ABSL_GUARDED_BY(mutex_) = false;
};

std::string HintFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
      return "the coordinator does not know this host: remove the identity "
             "file and enrol again with a join token";
    case absl::StatusCode::kAborted:
      return "another agent uses this host's identity: give each agent its "
             "own state folder and enrolment";
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return "update agent or coordinator, so that they speak one protocol";
    default:
      return "";
  }
}

std::string KernelHostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "";
  return name;
}

std::string HostNameOf(const AgentOptions& options,
                       const std::string& machine_id) {
  if (!options.host_name.empty()) return options.host_name;
  if (options.profile) {
    return absl::StrCat(options.profile->profile(), "-",
                        machine_id.substr(0, 6));
  }
  return KernelHostName();
}

// As in the facts, but known before they are collected: hello carries it.
std::string BootId(const AgentOptions& options, const std::string& machine_id) {
  if (options.profile) {
    return SimulatedFacts(*options.profile, machine_id, "", "").boot_id();
  }
  const absl::StatusOr<std::string> id =
      ReadFile("/proc/sys/kernel/random/boot_id", 256);
  return id.ok() ? std::string(absl::StripAsciiWhitespace(*id)) : "";
}

class Agent final : public SessionHandler {
 public:
  Agent(const AgentOptions& options, StateDirectory state,
        const Identity& identity, const std::string& machine_id,
        std::unique_ptr<Spool> spool, std::unique_ptr<BlobCache> cache,
        std::shared_ptr<grpc::Channel> channel, const Notify& notify)
      : options_(options),
        state_(std::move(state)),
        notify_(notify),
        boot_id_(BootId(options, machine_id)),
        spool_(std::move(spool)),
        cache_(std::move(cache)),
        channel_(std::move(channel)),
        stub_(v1::AgentService::NewStub(channel_)),
        source_(channel_),
        journal_(state_.journal()),
        reservations_(options.reservation, state_.reservations()),
        facts_(
            [this, machine_id](FactsScope scope) {
              return CollectAgentFacts(options_, scope, machine_id);
            },
            options_.leaks, clock_),
        book_(clock_),
        processor_(MakeProcessor()),
        session_(options_.session, identity, clock_, *spool_, *this),
        worker_(book_, *processor_, *spool_,
                {[this] { OnWorkerChanged(); },
                 [this](const v1::Progress& progress) {
                   session_.SetProgress(progress);
                 }}) {}

  // Brings what an earlier agent did not account for into the spool.
  absl::Status Recover();
  absl::Status Run(const std::function<bool()>& stopped, absl::Duration poll);

  void OnLease(const v1::Lease& lease) override;
  void OnCancel(const std::string& cell_id) override { book_.Cancel(cell_id); }
  void OnFactsRequest() override;
  void OnAcknowledged() override { TellReadiness(); }
  std::vector<std::string> HeldCells() override;
  std::optional<std::string> RefusesLeases() override;
  std::vector<v1::LeaseRefusal> TakeRefusals() override;

 private:
  std::unique_ptr<CellProcessor> MakeProcessor();
  void OnWorkerChanged();
  // Lets the session write, and says at once whether leases are welcome if
  // that has changed.
  void TellReadiness();
  void UseFacts(const v1::HostFacts& facts);
  // Hands the latest facts to the session, with what is so now.
  void TellFacts() ABSL_LOCKS_EXCLUDED(telling_, mutex_);
  // Acts on a pause that began or ended.
  void LookAtPause();
  void CollectFacts();
  // One session, from dialling to its end.
  absl::Status RunSession(const std::function<bool()>& stopped,
                          absl::Duration poll);
  void SayFarewell(SessionStream& stream);
  void Report(const std::string& state);
  bool Paused() {
    MutexLock lock(mutex_);
    return pause_.has_value();
  }

  const AgentOptions options_;
  StateDirectory state_;
  const Notify& notify_;
  const std::string boot_id_;
  const Clock& clock_ = SystemClock();
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<BlobCache> cache_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::AgentService::Stub> stub_;
  GrpcBlobSource source_;
  Journal journal_;
  GpuReservations reservations_;
  FactsKeeper facts_;
  LeaseBook book_;
  std::unique_ptr<CellProcessor> processor_;
  Session session_;
  Worker worker_;

  // Shared with streams: the last ring may come when this is gone.
  const std::shared_ptr<Bell> session_bell_ = std::make_shared<Bell>();
  Bell facts_bell_;
  // Held while facts go to the session; taken before mutex_, since the session
  // asks its handler when it is woken.
  Mutex telling_;
  Mutex mutex_;
  bool facts_requested_ ABSL_GUARDED_BY(mutex_) = true;
  bool facts_stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<v1::LeaseRefusal> refused_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> refuses_ ABSL_GUARDED_BY(mutex_);
  std::string reported_ ABSL_GUARDED_BY(mutex_);
  std::optional<Pause> pause_ ABSL_GUARDED_BY(mutex_);
};

std::unique_ptr<CellProcessor> Agent::MakeProcessor() {
  if (options_.profile) {
    return std::make_unique<SimulatedProcessor>(
        [this] { return facts_.Latest().value_or(v1::HostFacts()); }, clock_);
  }
  HostProcessorOptions host;
  host.work_directory = state_.work();
  host.gpu_policy = options_.gpu_policy;
  host.reservations = &reservations_;
  runner::ProbeOptions probe;
  probe.socket = options_.probe_socket;
  host.watch = runner::WatchesOf(probe);
  host.run_entry = runner::RunEntry;
  host.run_socket = options_.run_socket;
  host.oci_socket = options_.oci_socket;
  host.allow_unsigned_runs = options_.allow_unsigned_runs;
  host.trust = options_.trust;
  return std::make_unique<HostProcessor>(host, *cache_, source_, journal_,
                                         facts_, clock_);
}

absl::Status Agent::Recover() {
  TWINPATH_ASSIGN_OR_RETURN_CTX(const std::vector<v1::CellResult> results,
                                journal_.Recover(clock_.Now()),
                                "reading the journal");
  for (const v1::CellResult& result : results) {
    Log(LogLevel::kWarning, "a cell was interrupted and will be reported so",
        {{"cell", result.cell_id()},
         {"attempts", absl::StrCat(result.observations_size())}});
    TWINPATH_RETURN_IF_ERROR(spool_->Add(result));
    TWINPATH_RETURN_IF_ERROR(journal_.Remove(result.result_id()));
  }
  return absl::OkStatus();
}

void Agent::OnLease(const v1::Lease& lease) {
  std::optional<v1::LeaseRefusal> refusal;
  if (const auto pause = ReadPause(state_.paused_file(), clock_.Now())) {
    refusal = MakeRefusal(lease, "TP138", Describe(*pause));
  } else if (const std::optional<std::string> why = RefusesLeases()) {
    refusal = MakeRefusal(lease, "TP306", *why);
  }
  for (const Spool::Entry& entry : spool_->Pending()) {
    if (entry.cell_id == lease.cell_id()) {
      refusal =
          MakeRefusal(lease, "TP306", "a result of this cell is on its way");
    }
  }
  if (!refusal) refusal = book_.Offer(lease);
  if (!refusal) return;
  Log(LogLevel::kWarning, "lease refused",
      {{"cell", lease.cell_id()}, {"why", refusal->reason().detail()}});
  MutexLock lock(mutex_);
  if (refused_.size() < kMostRefusals) {
    refused_.push_back(*std::move(refusal));
  }
}

void Agent::OnFactsRequest() {
  {
    MutexLock lock(mutex_);
    facts_requested_ = true;
  }
  facts_bell_.Ring();
}

std::vector<std::string> Agent::HeldCells() {
  std::vector<std::string> cells = book_.HeldCells();
  // A result that waits here is as good as held: running the cell once more
  // would be for nothing.
  for (const Spool::Entry& entry : spool_->Pending()) {
    if (std::find(cells.begin(), cells.end(), entry.cell_id) == cells.end()) {
      cells.push_back(entry.cell_id);
    }
  }
  return cells;
}

std::optional<std::string> Agent::RefusesLeases() {
  if (const auto pause = ReadPause(state_.paused_file(), clock_.Now())) {
    return absl::StrCat("TP138 host-paused: ", Describe(*pause));
  }
  if (!spool_->HasRoomFor(book_.held() + 1)) {
    return absl::StrCat("the spool is full: ", spool_->size(),
                        " result(s) wait for their acknowledgement");
  }
  return std::nullopt;
}

std::vector<v1::LeaseRefusal> Agent::TakeRefusals() {
  std::vector<v1::LeaseRefusal> refusals = book_.TakeRefusals();
  MutexLock lock(mutex_);
  std::move(refused_.begin(), refused_.end(), std::back_inserter(refusals));
  refused_.clear();
  return refusals;
}

void Agent::OnWorkerChanged() {
  // A cell looked at the driver; say so if it is another one now.
  TellFacts();
  TellReadiness();
}

void Agent::TellFacts() {
  // Read and handed over in one, or a thread that read earlier could overwrite
  // what is newer.
  MutexLock telling(telling_);
  std::optional<v1::HostFacts> facts = facts_.Latest();
  if (!facts) return;
  facts->set_paused(Paused());
  session_.SetFacts(*facts);
}

void Agent::LookAtPause() {
  const std::optional<Pause> pause =
      ReadPause(state_.paused_file(), clock_.Now());
  {
    MutexLock lock(mutex_);
    if (pause == pause_) return;
    pause_ = pause;
  }
  Log(LogLevel::kWarning, pause ? Describe(*pause) : "resumed on its host",
      {{"held", absl::StrCat(book_.held())},
       {"runs", pause && pause->now ? "ended" : "finished"}});
  book_.Withhold(pause ? std::optional<v1::Reason>(
                             MakeAgentReason("TP138", Describe(*pause)))
                       : std::nullopt);
  worker_.Interrupt(pause && pause->now);
  TellFacts();
  TellReadiness();
}

void Agent::TellReadiness() {
  const std::optional<std::string> refuses = RefusesLeases();
  bool changed = false;
  {
    MutexLock lock(mutex_);
    changed = refuses.has_value() != refuses_.has_value();
    refuses_ = refuses;
  }
  session_.Poke(/*heartbeat=*/changed);
}

void Agent::UseFacts(const v1::HostFacts& facts) {
  std::vector<std::string> gpus;
  for (const v1::Gpu& gpu : facts.gpus()) gpus.push_back(gpu.uuid());
  const uint32_t count = static_cast<uint32_t>(gpus.size());
  book_.SetGpus(std::move(gpus));
  worker_.EnsureThreads(count);
  TellFacts();
}

void Agent::CollectFacts() {
  for (bool first = true;; first = false) {
    bool requested = false;
    {
      MutexLock lock(mutex_);
      if (facts_stop_) return;
      requested = std::exchange(facts_requested_, false);
    }
    // Before the GPUs are known, so before any lease can start.
    if (const size_t owed = reservations_.ReleaseOwed(); owed > 0) {
      Log(LogLevel::kError, "GPUs are still reserved on this host",
          {{"releases", absl::StrCat(owed)}});
    }
    // Measuring the driver's PTX ceiling uses a GPU; not beside a cell, unless
    // somebody asked.
    if (requested || book_.held() == 0) {
      UseFacts(facts_.Refresh());
      // Whoever asks gets an answer though nothing has changed; the first facts
      // are news.
      if (requested && !first) session_.ResendFacts();
    }
    facts_bell_.Wait(options_.facts_interval);
  }
}

void Agent::Report(const std::string& state) {
  const std::optional<v1::HostFacts> facts = facts_.Latest();
  const std::string status =
      absl::StrCat(state, "; ",
                   facts ? absl::StrCat(facts->gpus_size(), " GPU(s)")
                         : std::string("facts not collected yet"),
                   Paused() ? "; paused" : "", "; ", book_.held(),
                   " cell(s) held; ", spool_->size(), " result(s) waiting");
  MutexLock lock(mutex_);
  if (status == reported_) return;
  reported_ = status;
  notify_.Send(absl::StrCat("STATUS=", status));
}

void Agent::SayFarewell(SessionStream& stream) {
  const absl::Time until = clock_.Monotonic() + options_.farewell;
  while (!stream.done() && session_.ready() && spool_->size() > 0 &&
         clock_.Monotonic() < until) {
    stream.Wake();
    session_bell_->Wait(absl::Milliseconds(100));
  }
  stream.HalfClose();
}

absl::Status Agent::RunSession(const std::function<bool()>& stopped,
                               absl::Duration poll) {
  const uint64_t number = session_.Open(boot_id_);
  const std::shared_ptr<SessionStream> stream = SessionStream::Start(
      *stub_, session_, number, [bell = session_bell_] { bell->Ring(); });
  session_.SetWake([bell = session_bell_, stream] {
    stream->Wake();
    bell->Ring();
  });
  bool announced = false;
  // Once this side has ended it, the other gets this long to agree.
  absl::Time end_by = absl::InfiniteFuture();
  while (!stream->done()) {
    notify_.Send("WATCHDOG=1");
    LookAtPause();
    const absl::Status must_end = session_.MustEnd(number);
    if (!must_end.ok()) {
      stream->Cancel(must_end);
    } else if (end_by != absl::InfiniteFuture()) {
      if (clock_.Monotonic() >= end_by) {
        stream->Cancel(absl::CancelledError("the session was left"));
      }
    } else if (stopped()) {
      notify_.Send("STOPPING=1\nSTATUS=ending what runs");
      book_.Close();
      worker_.Stop();
      SayFarewell(*stream);
      end_by = clock_.Monotonic() + absl::Seconds(2);
    } else if (session_.drained()) {
      stream->HalfClose();
      end_by = clock_.Monotonic() + absl::Seconds(10);
    }
    if (session_.ready() && !announced) {
      announced = true;
      Log(LogLevel::kInfo, "session open",
          {{"coordinator", options_.coordinator},
           {"session", absl::StrCat(session_.session())}});
    }
    Report(announced ? "connected" : "dialling");
    stream->Wake();
    session_bell_->Wait(
        std::clamp(session_.UntilDue(), absl::Milliseconds(10), poll));
  }
  session_.SetWake(nullptr);
  session_.OnClosed(number);
  return stream->status();
}

absl::Status Agent::Run(const std::function<bool()>& stopped,
                        absl::Duration poll) {
  poll = std::min(poll, notify_.watchdog() / 2);
  std::thread facts_thread([this] { CollectFacts(); });
  const absl::Cleanup stop_all = [&] {
    book_.Close();
    worker_.Stop();
    {
      MutexLock lock(mutex_);
      facts_stop_ = true;
    }
    facts_bell_.Ring();
    facts_thread.join();
  };
  std::mt19937_64 random(std::random_device{}());
  Backoff backoff(options_.backoff, [&random] {
    return std::uniform_real_distribution<double>(0, 1)(random);
  });
  LookAtPause();
  notify_.Send("READY=1");
  while (!stopped()) {
    const absl::Time began = clock_.Monotonic();
    const absl::Status status = RunSession(stopped, poll);
    const absl::Duration lasted = session_.ready_for();
    const std::optional<absl::Duration> drained = session_.drained();
    if (stopped()) break;
    const absl::Duration delay =
        drained ? backoff.AfterDrain(*drained) : backoff.After(status, lasted);
    const bool heals = drained || TroubleOf(status) == Trouble::kTransient;
    Log(heals ? LogLevel::kWarning : LogLevel::kError,
        drained ? "the coordinator asked to leave" : "session ended",
        {{"coordinator", options_.coordinator},
         {"why", status.ok() ? "the coordinator closed it"
                             : std::string(MessageOf(status))},
         {"hint", HintFor(status)},
         {"after", absl::FormatDuration(absl::Trunc(clock_.Monotonic() - began,
                                                    absl::Milliseconds(1)))},
         {"retry_in",
          absl::FormatDuration(absl::Trunc(delay, absl::Milliseconds(1)))}});
    const absl::Time until = clock_.Monotonic() + delay;
    while (!stopped() && clock_.Monotonic() < until) {
      notify_.Send("WATCHDOG=1");
      LookAtPause();
      Report(absl::StrCat("not connected: ", MessageOf(status)));
      session_bell_->Wait(std::min(until - clock_.Monotonic(), poll));
    }
  }
  notify_.Send("STOPPING=1");
  return absl::OkStatus();
}

// The identity of this state folder, enrolling first where there is none.
absl::StatusOr<Identity> IdentityFor(
    const AgentOptions& options, const StateDirectory& state,
    const std::string& machine_id,
    const std::shared_ptr<grpc::Channel>& channel, const Notify& notify,
    const std::function<bool()>& stopped, absl::Duration poll) {
  absl::StatusOr<Identity> identity = LoadIdentity(state.identity_file());
  if (identity.ok() || !absl::IsNotFound(identity.status())) return identity;
  if (options.join_token_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("this agent is not enrolled (", state.identity_file(),
                     " does not exist): give --join-token-file"));
  }
  v1::EnrolRequest request;
  request.set_host_name(HostNameOf(options, machine_id));
  request.set_machine_id(machine_id);
  request.set_simulated(options.profile.has_value());
  for (const std::string& label : options.labels) request.add_labels(label);
  return EnrolUntil(request, options.join_token_file, state.identity_file(),
                    channel, options.backoff, notify, stopped, poll);
}

}  // namespace

v1::HostFacts CollectAgentFacts(const AgentOptions& options, FactsScope scope,
                                const std::string& machine_id) {
  if (options.profile) {
    return SimulatedFacts(*options.profile, machine_id,
                          HostNameOf(options, machine_id),
                          std::string(kVersion));
  }
  runner::FactsOptions facts_options;
  facts_options.version = std::string(kVersion);
  facts_options.probe.socket = options.probe_socket;
  if (scope == FactsScope::kQuick) {
    facts_options.ptx_isa_ceiling = false;
    facts_options.toolkits = false;
    facts_options.libraries = false;
    facts_options.inventory = false;
  }
  v1::HostFacts facts = runner::CollectFacts(facts_options);
  if (facts.machine_id().empty()) facts.set_machine_id(machine_id);
  facts.set_allows_unsigned_runs(options.allow_unsigned_runs);
  facts.set_gpu_use(
      options.gpu_policy == GpuPolicy::kAlways     ? v1::GPU_USE_ALWAYS
      : options.gpu_policy == GpuPolicy::kReserved ? v1::GPU_USE_RESERVED
                                                   : v1::GPU_USE_IDLE);
  return facts;
}

absl::Status RunAgent(const AgentOptions& options, const Notify& notify,
                      const std::function<bool()>& stopped,
                      absl::Duration poll) {
  TWINPATH_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                            OpenChannel(options.coordinator));
  TWINPATH_ASSIGN_OR_RETURN(StateDirectory state,
                            StateDirectory::Open(options.state_directory));
  // A machine without an id (some containers) gets a random one, kept here, as
  // a simulated host does.
  std::string machine_id =
      options.profile ? "" : runner::HashedMachineId(/*root=*/"");
  if (machine_id.empty()) {
    TWINPATH_ASSIGN_OR_RETURN(machine_id,
                              KeptMachineId(state.machine_id_file()));
  }
  const absl::StatusOr<Identity> known =
      IdentityFor(options, state, machine_id, channel, notify, stopped, poll);
  if (stopped()) return absl::OkStatus();
  TWINPATH_RETURN_IF_ERROR(known.status());
  const Identity& identity = *known;
  if (identity.simulated != options.profile.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the identity in ", state.identity_file(), " belongs to a ",
        identity.simulated ? "simulated host: give --simulate"
                           : "real host: take --simulate away",
        ", or use another --state"));
  }
  TWINPATH_ASSIGN_OR_RETURN(std::unique_ptr<Spool> spool,
                            Spool::Open(state.spool(), options.spool));
  TWINPATH_ASSIGN_OR_RETURN(std::unique_ptr<BlobCache> cache,
                            BlobCache::Open(state.cache(), options.cache));
  Agent agent(options, std::move(state), identity, machine_id, std::move(spool),
              std::move(cache), channel, notify);
  TWINPATH_RETURN_IF_ERROR(agent.Recover());
  return agent.Run(stopped, poll);
}

}  // namespace twinpath::agent
