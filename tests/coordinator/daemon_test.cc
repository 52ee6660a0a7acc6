// The real daemon as a process: killed at any point it loses nothing it has
// acknowledged; mistakes of its user end it with exit code 2 and a sentence.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/coordinator/fixture.h"
#include "twinpath/v1/services.grpc.pb.h"

namespace twinpath::coordinator {
namespace {

using ::testing::HasSubstr;

class Daemon {
 public:
  explicit Daemon(std::string folder) : folder_(std::move(folder)) {}
  ~Daemon() {
    if (pid_ > 0) Signal(SIGKILL);
  }

  // Starts it; with `wait` returns once it listens.
  void Start(const std::vector<std::string>& more = {}, bool wait = true,
             rlim_t file_limit = RLIM_INFINITY,
             const std::string& libexec = "") {
    unlink(PortFile().c_str());
    std::vector<std::string> argv = {*FindCompanion("twinpath-coordinator"),
                                     "--state",
                                     JoinPath(folder_, "state"),
                                     "--listen",
                                     "127.0.0.1:0",
                                     "--port-file",
                                     PortFile(),
                                     "--join-token-file",
                                     JoinPath(folder_, "token")};
    argv.insert(argv.end(), more.begin(), more.end());
    std::vector<char*> pointers;
    for (std::string& word : argv) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const std::string log = JoinPath(folder_, "log");
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      dup2(fd, 2);
      const struct rlimit limit = {file_limit, file_limit};
      if (file_limit != RLIM_INFINITY) setrlimit(RLIMIT_FSIZE, &limit);
      if (!libexec.empty()) setenv("TWINPATH_LIBEXEC", libexec.c_str(), 1);
      execv(pointers[0], pointers.data());
      _exit(127);
    }
    if (!wait) return;
    std::string address;
    while (address.empty()) {
      ASSERT_EQ(waitpid(pid_, nullptr, WNOHANG), 0) << Log();
      if (auto text = ReadFile(PortFile(), 100); text.ok()) {
        address = std::string(absl::StripSuffix(*text, "\n"));
      }
      std::this_thread::yield();
    }
    channel_ = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  }
  // Returns the exit code, or minus the signal.
  int Wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int Signal(int number) {
    kill(pid_, number);
    return Wait();
  }
  std::string Log() { return *ReadFile(JoinPath(folder_, "log"), 1 << 24); }
  std::string Token() {
    return std::string(
        absl::StripSuffix(*ReadFile(JoinPath(folder_, "token"), 1000), "\n"));
  }
  std::shared_ptr<grpc::Channel> channel() { return channel_; }

 private:
  std::string PortFile() const { return JoinPath(folder_, "port"); }

  const std::string folder_;
  pid_t pid_ = -1;
  std::shared_ptr<grpc::Channel> channel_;
};

grpc::Status PutBlob(Daemon& daemon, const std::string& data) {
  auto stub = v1::BlobService::NewStub(daemon.channel());
  grpc::ClientContext context;
  v1::PutResponse response;
  auto writer = stub->Put(&context, &response);
  v1::PutRequest request;
  request.mutable_digest()->set_sha256(Sha256Of(data).Raw());
  request.set_size_bytes(data.size());
  for (size_t at = 0; at < data.size(); at += 200'000) {
    request.set_data(data.substr(at, 200'000));
    if (!writer->Write(request)) break;
    request.Clear();
  }
  writer->WritesDone();
  return writer->Finish();
}

// Stores and registers an artifact of one script.
v1::Artifact Register(Daemon& daemon, const std::string& content) {
  EXPECT_TRUE(PutBlob(daemon, content).ok());
  auto stub = v1::ArtifactService::NewStub(daemon.channel());
  grpc::ClientContext context;
  v1::RegisterArtifactRequest request;
  v1::ArtifactFile& file = *request.mutable_artifact()->add_files();
  file.set_name("app");
  file.set_type(v1::FILE_TYPE_REGULAR);
  file.set_mode(0755);
  file.set_size_bytes(content.size());
  file.mutable_digest()->set_sha256(Sha256Of(content).Raw());
  v1::RegisterArtifactResponse response;
  const grpc::Status status =
      stub->RegisterArtifact(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.artifact();
}

v1::EnrolResponse Enrol(Daemon& daemon, const std::string& name) {
  auto stub = v1::AgentService::NewStub(daemon.channel());
  grpc::ClientContext context;
  v1::EnrolRequest request;
  request.set_join_token(daemon.Token());
  request.set_host_name(name);
  request.set_machine_id("machine-" + name);
  v1::EnrolResponse response;
  const grpc::Status status = stub->Enrol(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

v1::Sweep GetSweep(Daemon& daemon, const std::string& id) {
  auto stub = v1::SweepService::NewStub(daemon.channel());
  grpc::ClientContext context;
  v1::GetSweepRequest request;
  request.set_sweep_id(id);
  v1::Sweep sweep;
  const grpc::Status status = stub->GetSweep(&context, request, &sweep);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return sweep;
}

class DaemonTest : public ::testing::Test {
 protected:
  TempDirectory folder_ = *TempDirectory::Make();
  Daemon daemon_{folder_.path()};
};

TEST_F(DaemonTest, KilledAtAnyPointItLosesNothingAcknowledged) {
  constexpr int kEntries = 40;
  daemon_.Start();
  const v1::EnrolResponse identity = Enrol(daemon_, "a");
  v1::StartSweepRequest start;
  *start.mutable_spec()->mutable_release()->mutable_artifact() =
      Register(daemon_, "#!/bin/sh\n");
  for (int i = 0; i < kEntries; ++i) {
    v1::Entry& entry = *start.mutable_spec()->mutable_release()->add_entries();
    entry.set_name(absl::StrCat("e", i));
    entry.add_command("app");
  }
  v1::Sweep sweep;
  {
    auto stub = v1::SweepService::NewStub(daemon_.channel());
    grpc::ClientContext context;
    const grpc::Status status = stub->StartSweep(&context, start, &sweep);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  // cell -> result acknowledged for it.
  std::map<std::string, std::string> acknowledged;
  // Results made and not acknowledged: the agent's spool.
  std::map<std::string, v1::CellResult> spool;
  int made = 0;
  bool done = false;
  for (int life = 0; !done; ++life) {
    grpc::ClientContext context;
    auto stub = v1::AgentService::NewStub(daemon_.channel());
    auto stream = stub->Connect(&context);
    v1::AgentMessage message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    hello.set_host_id(identity.host_id());
    hello.set_secret(identity.secret());
    for (const auto& [id, result] : spool) {
      hello.add_held_cell_ids(result.cell_id());
    }
    stream->Write(message);
    *message.mutable_facts() = MakeFacts("a");
    stream->Write(message);
    for (const auto& [id, result] : spool) {
      *message.mutable_result() = result;
      stream->Write(message);
    }
    // Each life ends a little later in the conversation than the one before,
    // so that the kill falls between all kinds of steps.
    int acks_left = 1 + life % 7;
    v1::CoordinatorMessage answer;
    while (acks_left > 0 && stream->Read(&answer)) {
      if (answer.has_lease()) {
        EXPECT_FALSE(acknowledged.contains(answer.lease().cell_id()))
            << "a decided cell was leased again";
        const v1::CellResult result =
            MakeResult(answer.lease(), absl::StrCat("r", ++made));
        spool[result.result_id()] = result;
        *message.mutable_result() = result;
        stream->Write(message);
      } else if (answer.has_result_ack()) {
        const std::string& id = answer.result_ack().result_id();
        const auto it = spool.find(id);
        if (it == spool.end()) continue;
        acknowledged.emplace(it->second.cell_id(), id);
        spool.erase(it);
        --acks_left;
      }
      if (acknowledged.size() == kEntries) {
        done = true;
        break;
      }
    }
    ASSERT_EQ(daemon_.Signal(SIGKILL), -SIGKILL);
    context.TryCancel();
    stream->Finish();
    daemon_.Start();
    const v1::Sweep restarted = GetSweep(daemon_, sweep.id());
    for (const v1::Cell& cell : restarted.cells()) {
      if (const auto it = acknowledged.find(cell.id());
          it != acknowledged.end()) {
        EXPECT_EQ(cell.state(), v1::CELL_STATE_DONE);
        EXPECT_EQ(cell.result().result_id(), it->second);
      }
    }
  }
  v1::Sweep end = GetSweep(daemon_, sweep.id());
  while (end.state() == v1::SWEEP_STATE_RUNNING) {
    std::this_thread::yield();
    end = GetSweep(daemon_, sweep.id());
  }
  EXPECT_EQ(end.state(), v1::SWEEP_STATE_DONE);
  EXPECT_EQ(daemon_.Signal(SIGTERM), 0) << daemon_.Log();
}

TEST_F(DaemonTest, TermAndIntEndItCleanly) {
  daemon_.Start();
  EXPECT_EQ(daemon_.Signal(SIGTERM), 0);
  daemon_.Start();
  EXPECT_EQ(daemon_.Signal(SIGINT), 0);
}

TEST_F(DaemonTest, AddressThatIsNotLoopbackIsNamed) {
  const std::string program = *FindCompanion("twinpath-coordinator");
  const std::string log = JoinPath(folder_.path(), "log");
  const int status = system(absl::StrCat(program, " --state ", folder_.path(),
                                         "/s --listen 0.0.0.0:7711 2> ", log)
                                .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_THAT(*ReadFile(log, 10000),
              ::testing::AllOf(HasSubstr("0.0.0.0:7711"), HasSubstr("TLS")));
}

TEST_F(DaemonTest, StateFolderIsHeldByOne) {
  daemon_.Start();
  TempDirectory other = *TempDirectory::Make();
  Daemon second(other.path());
  second.Start({"--state", JoinPath(folder_.path(), "state")},
               /*wait=*/false);
  // The first may be ending: starting again may heal it.
  EXPECT_EQ(second.Wait(), 1);
}

TEST_F(DaemonTest, JoinTokenFileIsPrivate) {
  daemon_.Start();
  struct stat info = {};
  ASSERT_EQ(stat(JoinPath(folder_.path(), "token").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(daemon_.Token().size(), 64u);
}

TEST_F(DaemonTest, FullDiskRefusesABlobAndLeavesNothing) {
  // The file limit of the process stands in for a full disk.
  daemon_.Start({}, /*wait=*/true, /*file_limit=*/1'000'000);
  const grpc::Status status = PutBlob(daemon_, std::string(3'000'000, 'f'));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << status.error_message();
  const auto left =
      ListDirectory(JoinPath(folder_.path(), "state/blobs/uploads"));
  EXPECT_TRUE(left->empty());
  EXPECT_TRUE(PutBlob(daemon_, "small").ok());
}

TEST_F(DaemonTest, FullDiskAcknowledgesNothingOfTheStore) {
  daemon_.Start({}, /*wait=*/true, /*file_limit=*/400'000);
  // Enrolments until the log file of the store meets the limit.
  auto stub = v1::AgentService::NewStub(daemon_.channel());
  std::set<std::string> confirmed;
  grpc::Status status;
  for (int i = 0; status.ok(); ++i) {
    grpc::ClientContext context;
    v1::EnrolRequest request;
    request.set_join_token(daemon_.Token());
    request.set_host_name(absl::StrCat("host-", i));
    request.set_machine_id(std::string(128, 'm'));
    v1::EnrolResponse response;
    status = stub->Enrol(&context, request, &response);
    if (status.ok()) confirmed.insert(request.host_name());
    ASSERT_LT(i, 100'000);
  }
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << status.error_message();
  // A larger disk: everything confirmed is there.
  daemon_.Signal(SIGKILL);
  daemon_.Start();
  auto fleet = v1::FleetService::NewStub(daemon_.channel());
  std::set<std::string> stored;
  v1::ListHostsRequest request;
  request.set_page_size(1000);
  do {
    grpc::ClientContext context;
    v1::ListHostsResponse response;
    ASSERT_TRUE(fleet->ListHosts(&context, request, &response).ok());
    for (const v1::Host& host : response.hosts()) stored.insert(host.name());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  for (const std::string& name : confirmed) {
    EXPECT_TRUE(stored.contains(name)) << name;
  }
}

// No file is parsed in the daemon: an inspector that dies is a finding.
TEST_F(DaemonTest, I11_InspectorThatDiesDoesNotTakeTheDaemonAlong) {
  const std::string libexec = JoinPath(folder_.path(), "libexec");
  ASSERT_THAT(MakeDirectories(libexec), IsOk());
  ASSERT_THAT(WriteFileAtomic(JoinPath(libexec, "twinpath-inspect"),
                              "#!/bin/sh\nkill -SEGV $$\n", 0700),
              IsOk());
  daemon_.Start({}, /*wait=*/true, RLIM_INFINITY, libexec);
  const v1::Artifact artifact = Register(daemon_, "whatever");
  auto stub = v1::ArtifactService::NewStub(daemon_.channel());
  grpc::ClientContext context;
  v1::GetArtifactRequest request;
  *request.mutable_digest() = artifact.digest();
  v1::GetArtifactResponse response;
  ASSERT_TRUE(stub->GetArtifact(&context, request, &response).ok());
  ASSERT_EQ(response.report().files_size(), 1);
  ASSERT_GE(response.report().files(0).problems_size(), 1);
  EXPECT_EQ(response.report().files(0).problems(0).code(), "TP232");
  EXPECT_EQ(daemon_.Signal(SIGTERM), 0);
}

}  // namespace
}  // namespace twinpath::coordinator
