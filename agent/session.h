// Session: what is said on the stream to the coordinator, without gRPC. The
// stream (session_stream.h) asks for the next message to write and hands in
// what it reads. A stream is known by its number; what an older stream still
// brings is ignored.
//
// Order on a stream: hello; nothing else until hello_ack; then facts, refusals,
// heartbeats, progress, results. Results are read from the spool one at a time,
// a bounded number ahead of their acknowledgements, and sent again on every new
// stream until acknowledged: delivery is at least once, the result id makes it
// idempotent. Results are not bound to the session that leased them.
// Thread-safe; the handler is called without any lock held.

#ifndef TWINPATH_AGENT_SESSION_H_
#define TWINPATH_AGENT_SESSION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/identity.h"
#include "agent/spool.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "twinpath/v1/services.pb.h"

namespace twinpath::agent {

struct SessionOptions {
  std::string agent_version;
  // Silence before hello_ack that ends a stream.
  absl::Duration hello_timeout = absl::Seconds(30);
  // Bounds of the heartbeat interval, whatever the coordinator asks for.
  absl::Duration shortest_heartbeat = absl::Milliseconds(100);
  absl::Duration longest_heartbeat = absl::Minutes(5);
  absl::Duration default_heartbeat = absl::Seconds(30);
  // A result that waits longer for its acknowledgement is sent again.
  absl::Duration result_timeout = absl::Minutes(2);
  // Results sent ahead of their acknowledgements.
  uint32_t max_unacknowledged = 8;
};

// What the session needs of the agent.
class SessionHandler {
 public:
  virtual ~SessionHandler() = default;
  virtual void OnLease(const v1::Lease& lease) = 0;
  virtual void OnCancel(const std::string& cell_id) = 0;
  virtual void OnFactsRequest() = 0;
  // A result has left the spool.
  virtual void OnAcknowledged() = 0;
  // Cells waiting, running, or with a result in the spool.
  virtual std::vector<std::string> HeldCells() = 0;
  // Why no further lease is wanted; nothing: leases are welcome.
  virtual std::optional<std::string> RefusesLeases() = 0;
  // Leases given back since the last call.
  virtual std::vector<v1::LeaseRefusal> TakeRefusals() = 0;
};

class Session {
 public:
  Session(const SessionOptions& options, const Identity& identity,
          const Clock& clock, Spool& spool, SessionHandler& handler)
      : options_(options),
        identity_(identity),
        clock_(clock),
        spool_(spool),
        handler_(handler) {}

  // The function that makes the stream ask Next() again.
  void SetWake(std::function<void()> wake);

  // Begins a new stream and returns its number. `boot_id` goes into hello.
  uint64_t Open(const std::string& boot_id);
  // The next message to write on that stream, if there is one now.
  std::optional<v1::AgentMessage> Next(uint64_t stream);
  // Takes a message that stream read.
  void OnMessage(uint64_t stream, const v1::CoordinatorMessage& message);
  // Why the stream must be ended by this side (protocol error, silence after
  // hello, drained); OK while it need not.
  absl::Status MustEnd(uint64_t stream) const;
  // The stream has ended.
  void OnClosed(uint64_t stream);

  // Replaces the facts; they are sent if they differ from what was sent.
  void SetFacts(const v1::HostFacts& facts);
  // Sends the facts although they are unchanged.
  void ResendFacts();
  // Reports what is being done with a cell; only the latest word of each cell
  // is kept until it can be sent.
  void SetProgress(const v1::Progress& progress);
  // Results or refusals may have become ready, or the agent's readiness for
  // leases changed (then `heartbeat` says so at once).
  void Poke(bool heartbeat = false);

  // How long until Next() may have something by the clock alone.
  absl::Duration UntilDue() const;
  // Set once the coordinator asked to leave: do not come back sooner.
  std::optional<absl::Duration> drained() const;
  // Whether hello was acknowledged, when, and the session's number.
  bool ready() const;
  absl::Duration ready_for() const;
  uint64_t session() const;

 private:
  std::optional<v1::AgentMessage> NextLocked(
      std::vector<std::string> held, const std::optional<std::string>& refuses,
      std::vector<v1::LeaseRefusal> back) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<v1::AgentMessage> NextResult()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnHelloAck(const v1::HelloAck& ack)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake();

  const SessionOptions options_;
  const Identity identity_;
  const Clock& clock_;
  Spool& spool_;
  SessionHandler& handler_;

  mutable Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  uint64_t stream_ ABSL_GUARDED_BY(mutex_) = 0;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  bool hello_sent_ ABSL_GUARDED_BY(mutex_) = false;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  std::string boot_id_ ABSL_GUARDED_BY(mutex_);
  absl::Time opened_ ABSL_GUARDED_BY(mutex_);
  absl::Time ready_since_ ABSL_GUARDED_BY(mutex_);
  uint64_t session_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Duration> drained_ ABSL_GUARDED_BY(mutex_);
  absl::Duration heartbeat_interval_ ABSL_GUARDED_BY(mutex_);
  absl::Time heartbeat_due_ ABSL_GUARDED_BY(mutex_);

  std::optional<v1::HostFacts> facts_ ABSL_GUARDED_BY(mutex_);
  bool facts_due_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, v1::Progress> progress_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::LeaseRefusal> refusals_ ABSL_GUARDED_BY(mutex_);
  // Results sent on this stream and not acknowledged, with the time.
  std::map<std::string, absl::Time> sent_ ABSL_GUARDED_BY(mutex_);
};

// Whether two collections of facts say the same: times and counts of running
// processes do not matter.
bool SameFacts(const v1::HostFacts& a, const v1::HostFacts& b);

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_SESSION_H_
