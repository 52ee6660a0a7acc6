// Session: what is said on one stream of one agent, without the stream itself
// (agent_service.cc). Messages are handled one at a time: the next is read when
// the store has committed what the last one asked for, so that a store that is
// behind slows its agents down and nothing piles up. A result is acknowledged
// behind its commit and never before. Leases go out behind theirs.
//
// The session's number is the host's fence: everything but results is done only
// while it is the newest. Thread-safe.

#ifndef TWINPATH_COORDINATOR_SESSION_H_
#define TWINPATH_COORDINATOR_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "coordinator/dispatch.h"
#include "coordinator/model.h"
#include "coordinator/sessions.h"
#include "coordinator/store.h"
#include "twinpath/v1/services.pb.h"

namespace twinpath::coordinator {

// The stream. Calls come with the session's lock held and must not call back.
class SessionPeer {
 public:
  virtual ~SessionPeer() = default;
  // Queues a message. A peer whose queue is full closes itself.
  virtual void Send(v1::CoordinatorMessage message) = 0;
  // Reads the next message.
  virtual void ReadNext() = 0;
  // Ends the stream with this status; nothing is called behind it.
  virtual void Close(const absl::Status& status) = 0;
};

// Told, on the store's thread, what follows from a message; must be quick.
class SessionEvents {
 public:
  virtual ~SessionEvents() = default;
  virtual void OnSweepsChanged(const ChangedSweeps& changed) = 0;
  // New facts of the host are stored.
  virtual void OnFacts(const std::string& host_id) = 0;
};

// Most cells an agent's list names.
inline constexpr int kMaxHeldCells = 10'000;

struct SessionOptions {
  // Heartbeats come every max(shortest, sessions / per_second).
  absl::Duration shortest_heartbeat = absl::Seconds(30);
  double heartbeats_per_second = 500;
  // A stream that has not said hello by then is closed.
  absl::Duration hello_timeout = absl::Seconds(30);
};

// What all sessions share; outlives them.
struct SessionContext {
  Store& store;
  const Model& model;
  const Dispatcher& dispatcher;
  Sessions& sessions;
  SessionEvents& events;
  const Clock& clock;
  SessionOptions options;
};

// The interval of heartbeats for that many sessions.
absl::Duration HeartbeatInterval(const SessionOptions& options,
                                 size_t sessions);

class Session : public std::enable_shared_from_this<Session> {
 public:
  // `peer` lives until OnClosed() returns.
  Session(SessionContext& context, SessionPeer* peer)
      : context_(context), peer_(peer) {}

  // Registers the session; to be called once.
  void Start();
  // Takes a message; asks the peer for the next one when it is dealt with.
  void OnMessage(const v1::AgentMessage& message);
  // The stream is gone.
  void OnClosed();

  // Leases what may start now. Cheap; called whenever something may wait.
  void Pump();
  // Tells the agent to give a cell up.
  void CancelCell(const std::string& cell_id);
  // Tells the agent to go and come back later; grants no more.
  void Drain(absl::Duration retry_after);
  void Close(const absl::Status& status);

  // Host id; empty before hello was accepted.
  std::string host_id() const;
  // When the last message came, by the monotonic clock and by the store's.
  // While one is being dealt with no other is read, so silence then is ours:
  // last_heard() is now.
  absl::Time last_heard() const;
  absl::Time last_seen() const;
  absl::Duration heartbeat_interval() const;

 private:
  void OnHello(const v1::Hello& hello);
  void OnFacts(const v1::HostFacts& facts);
  void OnHeartbeat(const v1::Heartbeat& heartbeat);
  void OnProgress(const v1::Progress& progress);
  void OnResult(const v1::CellResult& result);
  void OnRefusal(const v1::LeaseRefusal& refusal);
  // Behind hello's commit.
  void Opened(const HostRow& host, uint64_t number,
              const std::vector<std::string>& give_up);
  // Runs work fenced by this session; then `then`, the next message and Pump.
  void RunFenced(
      std::function<absl::Status(StoreTransaction&, ChangedSweeps&)> work,
      std::function<void()> then);
  void SendLocked(v1::CoordinatorMessage message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadNext();

  SessionContext& context_;
  mutable Mutex mutex_;
  // nullptr: closed.
  SessionPeer* peer_ ABSL_GUARDED_BY(mutex_);
  bool hello_seen_ ABSL_GUARDED_BY(mutex_) = false;
  // Set once by hello.
  HostRow host_ ABSL_GUARDED_BY(mutex_);
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration interval_ ABSL_GUARDED_BY(mutex_);
  absl::Time heard_ ABSL_GUARDED_BY(mutex_) = absl::UnixEpoch();
  // A message is being dealt with.
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time seen_ ABSL_GUARDED_BY(mutex_) = NoTime();
  // hello_ack was sent.
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  // Facts have come on this session, so that cells are of today's GPUs.
  bool has_facts_ ABSL_GUARDED_BY(mutex_) = false;
  bool refuses_ ABSL_GUARDED_BY(mutex_) = false;
  // Results wait in the agent's spool: no repeats until they are here.
  bool spooled_ ABSL_GUARDED_BY(mutex_) = false;
  // Cells may be leased to the host: its heartbeats are compared with them.
  bool granted_ ABSL_GUARDED_BY(mutex_) = true;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool pumping_ ABSL_GUARDED_BY(mutex_) = false;
  bool pump_again_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_SESSION_H_
