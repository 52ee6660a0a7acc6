// SessionStream: one gRPC stream that carries a Session. It writes what the
// session has to say, one message at a time, and hands it what it reads; all
// decisions are the session's. Thread-safe.

#ifndef TWINPATH_AGENT_SESSION_STREAM_H_
#define TWINPATH_AGENT_SESSION_STREAM_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "agent/session.h"
#include "base/mutex.h"
#include "twinpath/v1/services.grpc.pb.h"

namespace twinpath::agent {

class SessionStream final
    : public grpc::ClientBidiReactor<v1::AgentMessage, v1::CoordinatorMessage> {
 public:
  // Opens the stream with this number of the session's. `on_event` is called on
  // a gRPC thread behind each message and when the stream has ended; it must
  // not refer to anything that may be gone by then. The caller keeps the stream
  // until done(), and the channel for longer: a channel whose last reference
  // goes on one of gRPC's own threads is destroyed there, and gRPC cannot.
  static std::shared_ptr<SessionStream> Start(v1::AgentService::Stub& stub,
                                              Session& session, uint64_t number,
                                              std::function<void()> on_event);

  // Asks the session for something to write, unless a write is under way.
  void Wake();
  // Says that nothing more will be written; the coordinator then ends it.
  void HalfClose();
  // Ends the stream at once. `why` becomes its status.
  void Cancel(const absl::Status& why);

  bool done() const;
  // How it ended; OK while it has not.
  absl::Status status() const;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  SessionStream(Session& session, uint64_t number,
                std::function<void()> on_event)
      : session_(session), number_(number), on_event_(std::move(on_event)) {}
  // Lets go of the hold that keeps OnDone away; nothing is written afterwards.
  void Close();

  Session& session_;
  const uint64_t number_;
  const std::function<void()> on_event_;
  grpc::ClientContext context_;
  v1::CoordinatorMessage read_;
  v1::AgentMessage write_;

  mutable Mutex mutex_;
  // A write is under way, or the session is being asked for one.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // Woken meanwhile.
  bool again_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_SESSION_STREAM_H_
