// A coordinator in this process, on a free port of 127.0.0.1: as much of one as
// an agent's tests need, with the faults a real one has. Thread-safe.

#ifndef TWINPATH_TESTS_AGENT_FAKE_COORDINATOR_H_
#define TWINPATH_TESTS_AGENT_FAKE_COORDINATOR_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/digest.h"
#include "base/mutex.h"
#include "twinpath/v1/services.grpc.pb.h"

namespace twinpath::agent {

class FakeCoordinator {
 public:
  // Port 0: any free one.
  explicit FakeCoordinator(int port = 0) : agents_(*this), blobs_(*this) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port),
                             grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&agents_);
    builder.RegisterService(&blobs_);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
  }
  ~FakeCoordinator() { Stop(); }

  // Ends all streams and the server, as a killed process would.
  void Stop() {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_ = nullptr;
  }
  int port() const { return port_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // Behaviour.
  void SetToken(const std::string& token) {
    Locked([&] { token_ = token; });
  }
  // Results are acknowledged at once (default) or not at all.
  void HoldAcknowledgements(bool hold) {
    Locked([&] { hold_acks_ = hold; });
  }
  // Hello is answered with this error, until it is OK again.
  void Refuse(const grpc::Status& status) {
    Locked([&] { refuse_ = status; });
  }
  void SetHeartbeat(absl::Duration interval) {
    Locked([&] { heartbeat_ms_ = absl::ToInt64Milliseconds(interval); });
  }
  void SetProtocol(uint32_t protocol) {
    Locked([&] { protocol_ = protocol; });
  }
  Sha256 AddBlob(const std::string& content) {
    const Sha256 digest = Sha256Of(content);
    Locked([&] { blobs_by_digest_[digest.Raw()] = content; });
    return digest;
  }
  // A fetch ends UNAVAILABLE after so many bytes. 0: never.
  void BreakFetchesAfter(size_t bytes) {
    Locked([&] { break_after_ = bytes; });
  }
  // A fetch sends nothing and does not end until it is cancelled.
  void StallFetches(bool stall) {
    Locked([&] { stall_ = stall; });
  }

  // Sends to the stream that is open; false: none is.
  bool Send(const v1::CoordinatorMessage& message) {
    MutexLock lock(write_mutex_);
    return stream_ != nullptr && stream_->Write(message);
  }
  bool SendLease(const v1::Lease& lease) {
    v1::CoordinatorMessage message;
    *message.mutable_lease() = lease;
    return Send(message);
  }
  // Ends the open stream: as a lost connection, or as a newer session would.
  void Drop(const grpc::Status& status = grpc::Status(
                grpc::StatusCode::UNAVAILABLE, "dropped by the test")) {
    MutexLock lock(write_mutex_);
    drop_with_ = status;
    if (context_ != nullptr) context_->TryCancel();
  }

  // What came so far.
  std::vector<v1::AgentMessage> messages() const {
    MutexLock lock(mutex_);
    return messages_;
  }
  std::vector<v1::EnrolRequest> enrolments() const {
    MutexLock lock(mutex_);
    return enrolments_;
  }
  std::vector<absl::Time> hello_times() const {
    MutexLock lock(mutex_);
    return hello_times_;
  }
  std::vector<uint64_t> fetch_offsets() const {
    MutexLock lock(mutex_);
    return fetch_offsets_;
  }
  uint64_t session() const {
    MutexLock lock(mutex_);
    return session_;
  }

  // Messages of one kind, in order.
  std::vector<v1::AgentMessage> Kind(v1::AgentMessage::MessageCase kind) const {
    std::vector<v1::AgentMessage> found;
    for (const v1::AgentMessage& message : messages()) {
      if (message.message_case() == kind) found.push_back(message);
    }
    return found;
  }
  size_t Count(v1::AgentMessage::MessageCase kind) const {
    return Kind(kind).size();
  }
  // Waits until `done` holds. A minute is for a machine that is overloaded, not
  // a measure of anything.
  ::testing::AssertionResult Await(const std::function<bool()>& done) {
    const absl::Time give_up = absl::Now() + absl::Minutes(1);
    while (!done()) {
      MutexLock lock(mutex_);
      if (absl::Now() > give_up) {
        return ::testing::AssertionFailure()
               << "it did not happen; " << messages_.size() << " messages came";
      }
      changed_.WaitFor(mutex_, absl::Milliseconds(20));
    }
    return ::testing::AssertionSuccess();
  }
  ::testing::AssertionResult AwaitCount(v1::AgentMessage::MessageCase kind,
                                        size_t count) {
    return Await([&] { return Count(kind) >= count; });
  }

 private:
  using Stream =
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::AgentMessage>;

  class Agents final : public v1::AgentService::Service {
   public:
    explicit Agents(FakeCoordinator& parent) : parent_(parent) {}
    grpc::Status Enrol(grpc::ServerContext*, const v1::EnrolRequest* request,
                       v1::EnrolResponse* response) override {
      return parent_.OnEnrol(*request, response);
    }
    grpc::Status Connect(grpc::ServerContext* context,
                         Stream* stream) override {
      return parent_.OnConnect(context, stream);
    }

   private:
    FakeCoordinator& parent_;
  };

  class Blobs final : public v1::BlobService::Service {
   public:
    explicit Blobs(FakeCoordinator& parent) : parent_(parent) {}
    grpc::Status Get(grpc::ServerContext* context,
                     const v1::GetRequest* request,
                     grpc::ServerWriter<v1::GetResponse>* writer) override {
      return parent_.OnGet(context, *request, writer);
    }

   private:
    FakeCoordinator& parent_;
  };

  void Locked(const std::function<void()>& change) {
    MutexLock lock(mutex_);
    change();
  }

  grpc::Status OnEnrol(const v1::EnrolRequest& request,
                       v1::EnrolResponse* response) {
    MutexLock lock(mutex_);
    enrolments_.push_back(request);
    changed_.NotifyAll();
    if (request.join_token() != token_) {
      return {grpc::StatusCode::UNAUTHENTICATED, "unknown join token"};
    }
    response->set_host_id("host-1");
    response->set_secret("secret-1");
    return grpc::Status::OK;
  }

  grpc::Status OnConnect(grpc::ServerContext* context, Stream* stream) {
    v1::AgentMessage message;
    if (!stream->Read(&message) || !message.has_hello()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "hello comes first"};
    }
    v1::CoordinatorMessage ack;
    {
      MutexLock lock(mutex_);
      messages_.push_back(message);
      hello_times_.push_back(absl::Now());
      changed_.NotifyAll();
      if (!refuse_.ok()) return refuse_;
      if (message.hello().host_id() != "host-1" ||
          message.hello().secret() != "secret-1") {
        return {grpc::StatusCode::UNAUTHENTICATED, "unknown host"};
      }
      ack.mutable_hello_ack()->set_protocol(protocol_);
      ack.mutable_hello_ack()->set_session(++session_);
      ack.mutable_hello_ack()->mutable_heartbeat_interval()->set_nanos(
          static_cast<int32_t>(heartbeat_ms_ % 1000 * 1'000'000));
      ack.mutable_hello_ack()->mutable_heartbeat_interval()->set_seconds(
          heartbeat_ms_ / 1000);
    }
    {
      MutexLock lock(write_mutex_);
      drop_with_ = grpc::Status::OK;
      context_ = context;
      stream_ = stream;
      stream->Write(ack);
    }
    while (stream->Read(&message)) {
      bool acknowledge = false;
      {
        MutexLock lock(mutex_);
        messages_.push_back(message);
        acknowledge = message.has_result() && !hold_acks_;
        changed_.NotifyAll();
      }
      if (acknowledge) {
        v1::CoordinatorMessage answer;
        answer.mutable_result_ack()->set_result_id(
            message.result().result_id());
        Send(answer);
      }
    }
    MutexLock lock(write_mutex_);
    if (context_ == context) {
      context_ = nullptr;
      stream_ = nullptr;
    }
    return drop_with_;
  }

  grpc::Status OnGet(grpc::ServerContext* context,
                     const v1::GetRequest& request,
                     grpc::ServerWriter<v1::GetResponse>* writer) {
    std::string content;
    size_t budget = 0;
    bool stall = false;
    {
      MutexLock lock(mutex_);
      fetch_offsets_.push_back(request.offset());
      stall = stall_;
      const auto found = blobs_by_digest_.find(request.digest().sha256());
      if (found == blobs_by_digest_.end()) {
        return {grpc::StatusCode::NOT_FOUND, "no such blob"};
      }
      content = found->second;
      budget = break_after_ == 0 ? content.size() : break_after_;
    }
    while (stall && !context->IsCancelled()) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    constexpr size_t kPiece = 64 << 10;
    for (size_t offset = request.offset(); offset < content.size();) {
      if (budget == 0) return {grpc::StatusCode::UNAVAILABLE, "broken off"};
      v1::GetResponse piece;
      piece.set_data(content.substr(offset, std::min(kPiece, budget)));
      offset += piece.data().size();
      budget -= piece.data().size();
      if (!writer->Write(piece)) return grpc::Status::CANCELLED;
    }
    return grpc::Status::OK;
  }

  Agents agents_;
  Blobs blobs_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::string token_ ABSL_GUARDED_BY(mutex_) = "token-1";
  bool hold_acks_ ABSL_GUARDED_BY(mutex_) = false;
  bool stall_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status refuse_ ABSL_GUARDED_BY(mutex_);
  int64_t heartbeat_ms_ ABSL_GUARDED_BY(mutex_) = 30'000;
  uint32_t protocol_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t session_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t break_after_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::string> blobs_by_digest_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::AgentMessage> messages_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::EnrolRequest> enrolments_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Time> hello_times_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> fetch_offsets_ ABSL_GUARDED_BY(mutex_);

  // Never taken while mutex_ is held.
  Mutex write_mutex_;
  Stream* stream_ ABSL_GUARDED_BY(write_mutex_) = nullptr;
  grpc::ServerContext* context_ ABSL_GUARDED_BY(write_mutex_) = nullptr;
  grpc::Status drop_with_ ABSL_GUARDED_BY(write_mutex_);
};

}  // namespace twinpath::agent

#endif  // TWINPATH_TESTS_AGENT_FAKE_COORDINATOR_H_
