// AgentService: enrolment, and the stream of a session. The stream's reactor
// only moves messages: one read at a time, one write at a time, a bounded queue
// of what is to be written. Everything else is Session's.

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "coordinator/coordinator.h"
#include "coordinator/grpc_util.h"
#include "coordinator/services.h"
#include "coordinator/session.h"
#include "twinpath/v1/services.grpc.pb.h"

namespace twinpath::coordinator {
namespace {

// Messages waiting for a slow reader before its stream is closed. A session
// sends few: acknowledgements one by one, leases up to the host's bound.
constexpr size_t kMaxQueued = 256;

class SessionReactor final
    : public grpc::ServerBidiReactor<v1::AgentMessage, v1::CoordinatorMessage>,
      public SessionPeer {
 public:
  SessionReactor(Coordinator& coordinator, grpc::CallbackServerContext* context)
      : context_(context), session_(coordinator.NewSession(this)) {
    StartRead(&incoming_);
  }

  // SessionPeer, called with the session's lock held.
  void Send(v1::CoordinatorMessage message) override {
    MutexLock lock(mutex_);
    if (ending_ || finished_) return;
    if (queue_.size() >= kMaxQueued) {
      EndLocked(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                             "the agent reads too slowly"));
      // The write under way may never end by itself.
      context_->TryCancel();
      return;
    }
    queue_.push_back(std::move(message));
    WriteLocked();
  }
  void ReadNext() override {
    MutexLock lock(mutex_);
    if (ending_ || finished_) return;
    StartRead(&incoming_);
  }
  void Close(const absl::Status& status) override {
    MutexLock lock(mutex_);
    EndLocked(ToGrpcStatus(status));
  }

 private:
  void OnReadDone(bool ok) override {
    if (ok) {
      // No other read runs until ReadNext(), so the message stays as it is.
      session_->OnMessage(incoming_);
      return;
    }
    // The agent is done, or gone.
    MutexLock lock(mutex_);
    EndLocked(grpc::Status::OK);
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    writing_ = false;
    queue_.pop_front();
    if (!ok && !ending_) {
      EndLocked(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                             "the agent's stream broke"));
      return;
    }
    if (ending_) {
      FinishLocked();
    } else {
      WriteLocked();
    }
  }

  void OnDone() override {
    session_->OnClosed();
    delete this;
  }

  void WriteLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || queue_.empty()) return;
    writing_ = true;
    StartWrite(&queue_.front());
  }
  // Finishes as soon as no write is under way.
  void EndLocked(grpc::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (ending_) return;
    ending_ = true;
    status_ = std::move(status);
    if (!writing_) FinishLocked();
  }
  void FinishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(finished_, true)) return;
    Finish(status_);
  }

  grpc::CallbackServerContext* const context_;
  // Written by gRPC, read by OnReadDone only.
  v1::AgentMessage incoming_;
  Mutex mutex_;
  // The front is being written while writing_.
  std::deque<v1::CoordinatorMessage> queue_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<Session> session_;
};

class AgentServiceImpl final : public v1::AgentService::CallbackService {
 public:
  explicit AgentServiceImpl(Coordinator& coordinator)
      : coordinator_(coordinator) {}

  grpc::ServerUnaryReactor* Enrol(grpc::CallbackServerContext* context,
                                  const v1::EnrolRequest* request,
                                  v1::EnrolResponse* response) override {
    return RunOn(coordinator_.requests(), context, response, [this, request] {
      return coordinator_.enrolment().Enrol(*request);
    });
  }

  grpc::ServerBidiReactor<v1::AgentMessage, v1::CoordinatorMessage>* Connect(
      grpc::CallbackServerContext* context) override {
    return new SessionReactor(coordinator_, context);
  }

 private:
  Coordinator& coordinator_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAgentService(Coordinator& coordinator) {
  return std::make_unique<AgentServiceImpl>(coordinator);
}

}  // namespace twinpath::coordinator
