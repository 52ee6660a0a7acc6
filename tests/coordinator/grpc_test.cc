// The services over real gRPC on loopback, any free port.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "coordinator/server.h"
#include "tests/coordinator/fixture.h"
#include "twinpath/v1/services.grpc.pb.h"

namespace twinpath::coordinator {
namespace {

using ::testing::HasSubstr;

v1::Digest ToDigest(const std::string& data) {
  v1::Digest digest;
  digest.set_sha256(Sha256Of(data).Raw());
  return digest;
}

class GrpcTest : public CoordinatorTest {
 protected:
  void SetUp() override {
    CoordinatorTest::SetUp();
    Serve();
  }
  void TearDown() override {
    Unserve();
    CoordinatorTest::TearDown();
  }
  void Unserve() {
    {
      MutexLock lock(mutex_);
      stop_ = true;
      changed_.NotifyAll();
    }
    ticker_.join();
    server_.reset();
  }
  void Serve() {
    auto server = Server::Start(*coordinator_, "127.0.0.1:0");
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->address(),
                                   grpc::InsecureChannelCredentials());
    blobs_ = v1::BlobService::NewStub(channel_);
    agents_ = v1::AgentService::NewStub(channel_);
    sweeps_ = v1::SweepService::NewStub(channel_);
    fleet_ = v1::FleetService::NewStub(channel_);
    artifacts_ = v1::ArtifactService::NewStub(channel_);
    // The daemon's tick: what is put off under load waits for it.
    stop_ = false;
    ticker_ = std::thread([this] {
      MutexLock lock(mutex_);
      while (!stop_) {
        coordinator_->Tick();
        changed_.WaitFor(mutex_, absl::Milliseconds(20));
      }
    });
  }

  // Uploads data[offset, end) in chunks of `chunk` bytes as the blob `digest`
  // of `size` bytes.
  grpc::Status Put(const v1::Digest& digest, const std::string& data,
                   uint64_t size, uint64_t offset = 0, size_t chunk = 100'000) {
    grpc::ClientContext context;
    v1::PutResponse response;
    auto writer = blobs_->Put(&context, &response);
    v1::PutRequest request;
    *request.mutable_digest() = digest;
    request.set_size_bytes(size);
    request.set_offset(offset);
    size_t at = static_cast<size_t>(offset);
    do {
      request.set_data(data.substr(at, chunk));
      if (!writer->Write(request)) break;
      at += chunk;
      request.Clear();
    } while (at < data.size());
    writer->WritesDone();
    return writer->Finish();
  }
  v1::GetUploadResponse GetUpload(const v1::Digest& digest) {
    grpc::ClientContext context;
    v1::GetUploadRequest request;
    *request.mutable_digest() = digest;
    v1::GetUploadResponse response;
    EXPECT_TRUE(blobs_->GetUpload(&context, request, &response).ok());
    return response;
  }
  grpc::Status Get(const v1::Digest& digest, uint64_t offset,
                   std::string& data) {
    grpc::ClientContext context;
    v1::GetRequest request;
    *request.mutable_digest() = digest;
    request.set_offset(offset);
    auto reader = blobs_->Get(&context, request);
    v1::GetResponse response;
    while (reader->Read(&response)) {
      EXPECT_LE(response.data().size(), 1u << 20);
      data += response.data();
    }
    return reader->Finish();
  }

  Mutex mutex_;
  CondVar changed_;
  bool stop_ = false;
  std::thread ticker_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::BlobService::Stub> blobs_;
  std::unique_ptr<v1::AgentService::Stub> agents_;
  std::unique_ptr<v1::SweepService::Stub> sweeps_;
  std::unique_ptr<v1::FleetService::Stub> fleet_;
  std::unique_ptr<v1::ArtifactService::Stub> artifacts_;
};

// One stream of one agent.
class Stream {
 public:
  Stream(v1::AgentService::Stub& stub, const v1::EnrolResponse& identity,
         uint32_t protocol = 1)
      : stream_(stub.Connect(&context_)) {
    v1::AgentMessage message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_protocol_min(protocol);
    hello.set_protocol_max(protocol);
    hello.set_host_id(identity.host_id());
    hello.set_secret(identity.secret());
    stream_->Write(message);
  }
  bool Write(const v1::AgentMessage& message) {
    return stream_->Write(message);
  }
  // The next message of a kind; an unset one if the stream ended.
  v1::CoordinatorMessage Await(v1::CoordinatorMessage::MessageCase kind) {
    v1::CoordinatorMessage message;
    while (stream_->Read(&message)) {
      if (message.message_case() == kind) return message;
    }
    return {};
  }
  grpc::Status Finish() {
    v1::CoordinatorMessage message;
    while (stream_->Read(&message)) {
    }
    return stream_->Finish();
  }
  grpc::Status Close() {
    stream_->WritesDone();
    return Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<
      grpc::ClientReaderWriter<v1::AgentMessage, v1::CoordinatorMessage>>
      stream_;
};

TEST_F(GrpcTest, BlobThereAndBack) {
  const std::string data(1'500'000, 'b');
  EXPECT_TRUE(Put(ToDigest(data), data, data.size()).ok());
  EXPECT_TRUE(GetUpload(ToDigest(data)).complete());
  std::string read;
  EXPECT_TRUE(Get(ToDigest(data), 0, read).ok());
  EXPECT_EQ(read, data);
  read.clear();
  EXPECT_TRUE(Get(ToDigest(data), 1'400'000, read).ok());
  EXPECT_EQ(read.size(), 100'000u);
  // Once more: told at once that it is there.
  EXPECT_TRUE(Put(ToDigest(data), data, data.size()).ok());
}

TEST_F(GrpcTest, WrongDigestIsDataLossAndKeepsNothing) {
  const grpc::Status status = Put(ToDigest("hello"), "jello", 5);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(GetUpload(ToDigest("hello")).offset(), 0u);
  std::string data;
  EXPECT_EQ(Get(ToDigest("hello"), 0, data).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcTest, UploadResumes) {
  const std::string data(900'000, 'r');
  // Ends early: what came is kept.
  const grpc::Status cut =
      Put(ToDigest(data), data.substr(0, 300'000), data.size());
  EXPECT_EQ(cut.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(GetUpload(ToDigest(data)).offset(), 300'000u);
  // Another offset than what is there.
  const grpc::Status wrong = Put(ToDigest(data), data, data.size(), 200'000);
  EXPECT_EQ(wrong.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(wrong.error_message(), HasSubstr("300000 bytes are there"));
  EXPECT_TRUE(Put(ToDigest(data), data, data.size(), 300'000).ok());
  EXPECT_TRUE(GetUpload(ToDigest(data)).complete());
}

TEST_F(GrpcTest, UploadOfABrokenConnectionResumes) {
  const std::string data(700'000, 'k');
  {
    grpc::ClientContext context;
    v1::PutResponse response;
    auto writer = blobs_->Put(&context, &response);
    v1::PutRequest request;
    *request.mutable_digest() = ToDigest(data);
    request.set_size_bytes(data.size());
    request.set_data(data.substr(0, 400'000));
    ASSERT_TRUE(writer->Write(request));
    while (GetUpload(ToDigest(data)).offset() < 400'000) {
      std::this_thread::yield();
    }
    context.TryCancel();
    writer->Finish();
  }
  EXPECT_TRUE(Put(ToDigest(data), data, data.size(), 400'000).ok());
}

TEST_F(GrpcTest, ChunkAboveOneMebibyteIsRefused) {
  const std::string data(2'000'000, 'c');
  const grpc::Status status =
      Put(ToDigest(data), data, data.size(), 0, data.size());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GrpcTest, QuotaIsResourceExhausted) {
  Unserve();
  options_.blobs.quota_bytes = 1000;
  Restart();
  Serve();
  const std::string data(2000, 'q');
  const grpc::Status status = Put(ToDigest(data), data, data.size());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("quota"));
}

TEST_F(GrpcTest, FindMissing) {
  EXPECT_TRUE(Put(ToDigest("here"), "here", 4).ok());
  grpc::ClientContext context;
  v1::FindMissingRequest request;
  *request.add_digests() = ToDigest("here");
  *request.add_digests() = ToDigest("there");
  v1::FindMissingResponse response;
  ASSERT_TRUE(blobs_->FindMissing(&context, request, &response).ok());
  ASSERT_EQ(response.missing_size(), 1);
  EXPECT_EQ(response.missing(0).sha256(), Sha256Of("there").Raw());
}

TEST_F(GrpcTest, RegisterNeedsTheBlobs) {
  grpc::ClientContext context;
  v1::RegisterArtifactRequest request;
  v1::ArtifactFile& file = *request.mutable_artifact()->add_files();
  file.set_name("app");
  file.set_type(v1::FILE_TYPE_REGULAR);
  file.set_mode(0755);
  file.set_size_bytes(4);
  *file.mutable_digest() = ToDigest("none");
  v1::RegisterArtifactResponse response;
  const grpc::Status status =
      artifacts_->RegisterArtifact(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("app"));
}

TEST_F(GrpcTest, ASweepFromStartToEnd) {
  FakeAgent enrolled = Enrol("a");
  Stream stream(*agents_, enrolled.identity());
  EXPECT_EQ(
      stream.Await(v1::CoordinatorMessage::kHelloAck).hello_ack().session(),
      1u);
  v1::AgentMessage facts;
  *facts.mutable_facts() = MakeFacts("a");
  stream.Write(facts);

  v1::StartSweepRequest start;
  *start.mutable_spec() = MakeSpec(AddArtifact());
  v1::Sweep sweep;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(sweeps_->StartSweep(&context, start, &sweep).ok());
  }
  grpc::ClientContext watch_context;
  v1::WatchSweepRequest watch;
  watch.set_sweep_id(sweep.id());
  auto watcher = sweeps_->WatchSweep(&watch_context, watch);
  v1::Sweep seen;
  ASSERT_TRUE(watcher->Read(&seen));
  EXPECT_EQ(seen.state(), v1::SWEEP_STATE_RUNNING);

  const v1::Lease lease = stream.Await(v1::CoordinatorMessage::kLease).lease();
  EXPECT_EQ(lease.entry().name(), "check");
  EXPECT_EQ(lease.artifact().files_size(), 1);
  EXPECT_EQ(lease.paths_size(), 3);
  v1::AgentMessage result;
  *result.mutable_result() = MakeResult(lease, "r1");
  stream.Write(result);
  EXPECT_EQ(
      stream.Await(v1::CoordinatorMessage::kResultAck).result_ack().result_id(),
      "r1");

  uint64_t version = seen.version();
  while (watcher->Read(&seen)) {
    EXPECT_GT(seen.version(), version);
    version = seen.version();
  }
  EXPECT_EQ(seen.state(), v1::SWEEP_STATE_DONE);
  EXPECT_TRUE(watcher->Finish().ok());
  EXPECT_TRUE(stream.Close().ok());
}

TEST_F(GrpcTest, ProtocolMismatchIsAFailedPrecondition) {
  FakeAgent enrolled = Enrol("a");
  Stream stream(*agents_, enrolled.identity(), 99);
  const grpc::Status status = stream.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("speaks 99"));
}

TEST_F(GrpcTest, WrongSecretIsUnauthenticated) {
  FakeAgent enrolled = Enrol("a");
  enrolled.identity().set_secret("wrong");
  Stream stream(*agents_, enrolled.identity());
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(GrpcTest, OlderSessionIsAborted) {
  FakeAgent enrolled = Enrol("a");
  Stream older(*agents_, enrolled.identity());
  older.Await(v1::CoordinatorMessage::kHelloAck);
  Stream newer(*agents_, enrolled.identity());
  EXPECT_EQ(
      newer.Await(v1::CoordinatorMessage::kHelloAck).hello_ack().session(), 2u);
  EXPECT_EQ(older.Finish().error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(GrpcTest, SlowReaderIsClosed) {
  FakeAgent enrolled = Enrol("a");
  Stream stream(*agents_, enrolled.identity());
  // Each heartbeat asks for 64 messages, and none is ever read.
  v1::AgentMessage heartbeat;
  for (int i = 0; i < 64; ++i) {
    heartbeat.mutable_heartbeat()->add_held_cell_ids(std::string(5000, 'c'));
  }
  while (stream.Write(heartbeat)) {
  }
  EXPECT_FALSE(stream.Finish().ok());
  // The host itself is well and may come back.
  Stream again(*agents_, enrolled.identity());
  EXPECT_EQ(
      again.Await(v1::CoordinatorMessage::kHelloAck).hello_ack().session(), 2u);
}

TEST_F(GrpcTest, WatchOfAnUnknownSweepIsNotFound) {
  grpc::ClientContext context;
  v1::WatchSweepRequest request;
  request.set_sweep_id("nothing");
  auto watcher = sweeps_->WatchSweep(&context, request);
  v1::Sweep sweep;
  EXPECT_FALSE(watcher->Read(&sweep));
  EXPECT_EQ(watcher->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcTest, WatchersThatLeaveAreForgotten) {
  FakeAgent enrolled = Enrol("a");
  const v1::Sweep sweep = StartSweep(MakeSpec(AddArtifact()));
  for (int i = 0; i < 10; ++i) {
    grpc::ClientContext context;
    v1::WatchSweepRequest request;
    request.set_sweep_id(sweep.id());
    auto watcher = sweeps_->WatchSweep(&context, request);
    v1::Sweep seen;
    ASSERT_TRUE(watcher->Read(&seen));
    context.TryCancel();
    watcher->Finish();
  }
  EXPECT_THAT(coordinator_->sweeps().Cancel(sweep.id()), IsOk());
}

TEST_F(GrpcTest, HostsAreListedInPages) {
  for (const char* name : {"c", "a", "b"}) Enrol(name);
  v1::ListHostsRequest request;
  request.set_page_size(2);
  v1::ListHostsResponse response;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(fleet_->ListHosts(&context, request, &response).ok());
  }
  ASSERT_EQ(response.hosts_size(), 2);
  EXPECT_EQ(response.hosts(1).name(), "b");
  request.set_page_token(response.next_page_token());
  {
    grpc::ClientContext context;
    ASSERT_TRUE(fleet_->ListHosts(&context, request, &response).ok());
  }
  ASSERT_EQ(response.hosts_size(), 1);
  EXPECT_EQ(response.hosts(0).name(), "c");
  EXPECT_EQ(response.next_page_token(), "");
  grpc::ClientContext context;
  v1::GetHostRequest get;
  get.set_host("nobody");
  v1::Host host;
  EXPECT_EQ(fleet_->GetHost(&context, get, &host).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcTest, StoppingTellsAgentsToComeBackLater) {
  FakeAgent enrolled = Enrol("a");
  Stream stream(*agents_, enrolled.identity());
  stream.Await(v1::CoordinatorMessage::kHelloAck);
  std::thread stopper([&] { server_->Stop(absl::Seconds(10)); });
  EXPECT_EQ(stream.Await(v1::CoordinatorMessage::kDrain)
                .drain()
                .retry_after()
                .seconds(),
            2);
  EXPECT_TRUE(stream.Close().ok());
  stopper.join();
}

TEST(ListenAddressTest, OnlyLoopback) {
  for (const char* good : {"127.0.0.1:0", "127.0.0.1:7711", "localhost:1",
                           "[::1]:7711", "127.3.2.1:9"}) {
    EXPECT_THAT(CheckListenAddress(good), IsOk()) << good;
  }
  for (const char* bad :
       {"0.0.0.0:7711", "[::]:7711", "10.0.0.1:1", "127.0.0.1", "127.0.0.1:x",
        "127.0.0.1:70000", "127.evil.example.org:1", "", ":7711", "host:1"}) {
    EXPECT_THAT(CheckListenAddress(bad),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << bad;
  }
}

}  // namespace
}  // namespace twinpath::coordinator
