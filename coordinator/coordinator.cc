#include "coordinator/coordinator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status.h"
#include "coordinator/sqlite_store.h"

namespace twinpath::coordinator {
namespace {

constexpr size_t kMaxRequests = 10'000;
constexpr size_t kMaxInspections = 64;
// Signs of life reach the store this often.
constexpr absl::Duration kFlushInterval = absl::Seconds(30);
// Missed heartbeats before a session is closed.
constexpr int kMissedHeartbeats = 4;
// A store this far behind declares nobody silent.
constexpr int64_t kBehind = 2000;

void LogFailure(absl::string_view what, const absl::Status& status) {
  if (status.ok()) return;
  Log(LogLevel::kError, what, {{"why", std::string(status.message())}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Open(
    const CoordinatorOptions& options, Model model) {
  SqliteStoreOptions store_options;
  store_options.clock = options.clock;
  store_options.max_pages = options.store_max_pages;
  TWINPATH_ASSIGN_OR_RETURN(
      std::unique_ptr<Store> store,
      SqliteStore::Open(options.state_folder, store_options));
  TWINPATH_ASSIGN_OR_RETURN(
      std::unique_ptr<BlobStore> blobs,
      BlobStore::Open(JoinPath(options.state_folder, "blobs"), options.blobs));
  return std::unique_ptr<Coordinator>(new Coordinator(
      options, std::move(model), std::move(store), std::move(blobs)));
}

Coordinator::Coordinator(const CoordinatorOptions& options, Model model,
                         std::unique_ptr<Store> store,
                         std::unique_ptr<BlobStore> blobs)
    : options_(options),
      model_(std::move(model)),
      store_(std::move(store)),
      blobs_(std::move(blobs)),
      enrolment_(*store_),
      dispatcher_(options.dispatch, model_, store_->Now()),
      fleet_(*store_, sessions_),
      artifacts_(*store_, *blobs_, model_),
      sweeps_(*store_, artifacts_, model_, dispatcher_, *this),
      session_context_{*store_, model_,         dispatcher_,    sessions_,
                       *this,   *options.clock, options.session},
      requests_(options.request_threads, kMaxRequests),
      inspections_(options.inspect_threads, kMaxInspections),
      flushed_(options.clock->Monotonic()) {}

Coordinator::~Coordinator() {
  inspections_.Stop();
  requests_.Stop();
  // Its last completions use everything above.
  store_.reset();
}

std::shared_ptr<Session> Coordinator::NewSession(SessionPeer* peer) {
  const auto session = std::make_shared<Session>(session_context_, peer);
  session->Start();
  return session;
}

void Coordinator::OnSweepsChanged(const ChangedSweeps& changed) {
  for (const std::string& id : changed) watchers_.Notify(id);
  {
    MutexLock lock(mutex_);
    changed_.insert(changed.begin(), changed.end());
    if (concluding_) return;
    concluding_ = true;
  }
  if (requests_.Run([this] { ConcludeChanged(); })) return;
  // Tick() finds sweeps that have ended, too.
  MutexLock lock(mutex_);
  concluding_ = false;
  changed_.clear();
}

void Coordinator::ConcludeChanged() {
  while (true) {
    ChangedSweeps changed;
    {
      MutexLock lock(mutex_);
      changed.swap(changed_);
      if (changed.empty()) {
        concluding_ = false;
        return;
      }
    }
    // Looked up by their number of open cells, which is cheap; only a sweep
    // with none is loaded.
    std::vector<OpenSweep> open;
    const absl::Status status =
        store_->Read([&](const StoreView& view) -> absl::Status {
          TWINPATH_ASSIGN_OR_RETURN(open, view.ListOpenSweeps());
          return absl::OkStatus();
        });
    LogFailure("sweeps not read", status);
    for (const OpenSweep& sweep : open) {
      if (sweep.open_cells == 0 && changed.contains(sweep.id)) {
        LogFailure("sweep not ended", sweeps_.Conclude(sweep.id));
      }
    }
  }
}

void Coordinator::OnCellsWaiting(const std::vector<std::string>& host_ids) {
  for (const std::string& id : host_ids) {
    if (const auto session = sessions_.Find(id); session != nullptr) {
      session->Pump();
    }
  }
}

void Coordinator::OnCellEnded(const std::string& host_id,
                              const std::string& cell_id) {
  if (const auto session = sessions_.Find(host_id); session != nullptr) {
    session->CancelCell(cell_id);
  }
}

void Coordinator::OnFacts(const std::string& host_id) {
  const auto refresh = [this, host_id] {
    LogFailure("cells of a host not brought up to its facts",
               sweeps_.RefreshHost(host_id));
  };
  if (!requests_.Run(refresh)) {
    Log(LogLevel::kWarning, "too many requests; facts are used later",
        {{"host", host_id}});
  }
}

void Coordinator::CloseSilent() {
  const absl::Time now = options_.clock->Monotonic();
  const absl::Time hello_by = now - options_.session.hello_timeout;
  for (const auto& session : sessions_.NewBefore(hello_by)) {
    // Its hello has come and waits for the store.
    if (session->last_heard() >= hello_by) continue;
    session->Close(
        absl::DeadlineExceededError("no hello came on this session"));
  }
  if (store_->Backlog() > kBehind) return;
  for (const auto& session : sessions_.All()) {
    const absl::Duration interval = session->heartbeat_interval();
    if (interval == absl::ZeroDuration()) continue;
    if (now - session->last_heard() > kMissedHeartbeats * interval) {
      session->Close(absl::DeadlineExceededError(
          absl::StrCat("no sign of life for ",
                       absl::FormatDuration(kMissedHeartbeats * interval))));
    }
  }
}

void Coordinator::FlushSeen() {
  const absl::Time now = options_.clock->Monotonic();
  {
    MutexLock lock(mutex_);
    if (now - flushed_ < kFlushInterval) return;
    flushed_ = now;
  }
  std::vector<std::pair<std::string, absl::Time>> seen;
  for (const auto& session : sessions_.All()) {
    if (session->last_seen() != NoTime()) {
      seen.emplace_back(session->host_id(), session->last_seen());
    }
  }
  if (seen.empty()) return;
  LogFailure("signs of life not stored",
             store_->Write([&](StoreTransaction& transaction) -> absl::Status {
               for (const auto& [host, time] : seen) {
                 TWINPATH_RETURN_IF_ERROR(transaction.PutSeen(host, time));
               }
               return absl::OkStatus();
             }));
}

void Coordinator::Tick() {
  LogFailure("periodic work on sweeps", sweeps_.Tick());
  CloseSilent();
  FlushSeen();
  watchers_.Tick();
}

void Coordinator::Drain(absl::Duration retry_after) {
  for (const auto& session : sessions_.All()) session->Drain(retry_after);
}

void Coordinator::CloseSessions(const absl::Status& status) {
  for (const auto& session : sessions_.All()) session->Close(status);
}

}  // namespace twinpath::coordinator
