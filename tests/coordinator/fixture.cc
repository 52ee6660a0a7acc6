#include "tests/coordinator/fixture.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/version.h"

namespace twinpath::coordinator {

namespace {

// A copy that shares nothing with another thread's: the packaged Abseil counts
// references where ThreadSanitizer does not see it.
absl::Status Copy(const absl::Status& status) {
  return absl::Status(status.code(), status.message());
}

}  // namespace

void FakePeer::Close(const absl::Status& status) {
  MutexLock lock(mutex_);
  closed_ = true;
  status_ = Copy(status);
  changed_.NotifyAll();
}

void FakePeer::AwaitReads(int count) {
  MutexLock lock(mutex_);
  while (reads_ < count && !closed_) changed_.Wait(mutex_);
}

absl::Status FakePeer::AwaitClose() {
  MutexLock lock(mutex_);
  while (!closed_) changed_.Wait(mutex_);
  return Copy(status_);
}

v1::CoordinatorMessage FakePeer::Await(
    v1::CoordinatorMessage::MessageCase kind) {
  MutexLock lock(mutex_);
  while (true) {
    const auto it = std::find_if(messages_.begin(), messages_.end(),
                                 [&](const v1::CoordinatorMessage& message) {
                                   return message.message_case() == kind;
                                 });
    if (it != messages_.end()) {
      v1::CoordinatorMessage message = std::move(*it);
      messages_.erase(it);
      return message;
    }
    if (closed_) {
      ADD_FAILURE() << "closed while waiting: " << status_;
      return {};
    }
    changed_.Wait(mutex_);
  }
}

int FakePeer::Count(v1::CoordinatorMessage::MessageCase kind) {
  MutexLock lock(mutex_);
  return static_cast<int>(
      std::count_if(messages_.begin(), messages_.end(),
                    [&](const v1::CoordinatorMessage& message) {
                      return message.message_case() == kind;
                    }));
}

bool FakePeer::closed() {
  MutexLock lock(mutex_);
  return closed_;
}

v1::Hello FakeAgent::MakeHello(const std::vector<std::string>& held) const {
  v1::Hello hello;
  hello.set_protocol_min(kProtocolMin);
  hello.set_protocol_max(kProtocolMax);
  hello.set_host_id(identity_.host_id());
  hello.set_secret(identity_.secret());
  hello.set_agent_version("1.2.3");
  hello.set_boot_id("boot");
  for (const std::string& cell : held) hello.add_held_cell_ids(cell);
  return hello;
}

void FakeAgent::SendHello(const v1::Hello& hello) {
  Disconnect();
  peer_ = std::make_shared<FakePeer>();
  session_ = coordinator_->NewSession(peer_.get());
  sent_ = 0;
  v1::AgentMessage message;
  *message.mutable_hello() = hello;
  Send(message);
}

void FakeAgent::Connect(const std::vector<std::string>& held) {
  SendHello(MakeHello(held));
  peer_->Await(v1::CoordinatorMessage::kHelloAck);
}

void FakeAgent::Send(const v1::AgentMessage& message) {
  session_->OnMessage(message);
  peer_->AwaitReads(++sent_);
}

void FakeAgent::SendFacts(const v1::HostFacts& facts) {
  v1::AgentMessage message;
  *message.mutable_facts() = facts;
  Send(message);
}

void FakeAgent::SendHeartbeat(const std::vector<std::string>& held,
                              bool refuses) {
  v1::AgentMessage message;
  for (const std::string& cell : held) {
    message.mutable_heartbeat()->add_held_cell_ids(cell);
  }
  message.mutable_heartbeat()->set_refuses_leases(refuses);
  Send(message);
}

void FakeAgent::SendProgress(const v1::Lease& lease, v1::Path path) {
  v1::AgentMessage message;
  message.mutable_progress()->set_cell_id(lease.cell_id());
  message.mutable_progress()->set_lease_id(lease.id());
  message.mutable_progress()->set_path(path);
  Send(message);
}

void FakeAgent::SendResult(const v1::CellResult& result) {
  v1::AgentMessage message;
  *message.mutable_result() = result;
  Send(message);
}

void FakeAgent::Refuse(const v1::Lease& lease, const std::string& code) {
  v1::AgentMessage message;
  message.mutable_refusal()->set_cell_id(lease.cell_id());
  message.mutable_refusal()->set_lease_id(lease.id());
  message.mutable_refusal()->mutable_reason()->set_code(code);
  Send(message);
}

void FakeAgent::Disconnect() {
  if (session_ == nullptr) return;
  session_->OnClosed();
  session_.reset();
}

v1::HostFacts MakeFacts(const std::string& name, int gpus) {
  v1::HostFacts facts;
  facts.set_host_name(name);
  facts.set_machine_id("machine-" + name);
  facts.set_boot_id("boot");
  facts.set_cpu_architecture(v1::CPU_ARCHITECTURE_X86_64);
  facts.set_platform(v1::PLATFORM_STANDARD);
  v1::Driver& driver = *facts.mutable_driver();
  driver.mutable_probe()->set_state(v1::PROBE_STATE_OK);
  driver.set_kernel_module_version("580.95.05");
  driver.set_branch("R580");
  driver.mutable_cuda_version()->set_major(13);
  facts.mutable_gpu_probe()->set_state(v1::PROBE_STATE_OK);
  for (int i = 0; i < gpus; ++i) {
    v1::Gpu& gpu = *facts.add_gpus();
    gpu.set_uuid(absl::StrCat("GPU-", name, "-", i));
    gpu.set_name("NVIDIA H200");
    gpu.mutable_capability_probe()->set_state(v1::PROBE_STATE_OK);
    gpu.mutable_compute_capability()->set_major(9);
  }
  return facts;
}

v1::CellResult MakeResult(const v1::Lease& lease, const std::string& id,
                          const std::string& output) {
  v1::CellResult result;
  result.set_result_id(id);
  result.set_cell_id(lease.cell_id());
  result.set_lease_id(lease.id());
  result.set_complete(true);
  for (const int path : lease.paths()) {
    v1::Observation& observation = *result.add_observations();
    observation.set_attempt_id(absl::StrCat(id, "-", path));
    observation.set_path(static_cast<v1::Path>(path));
    observation.set_ending(v1::ENDING_EXITED);
    observation.set_gpu_uuid(lease.gpu_uuid());
    v1::CapturedOutput& captured = *observation.mutable_stdout();
    captured.set_head(output);
    captured.set_total_bytes(output.size());
    captured.mutable_digest()->set_sha256(Sha256Of(output).Raw());
  }
  return result;
}

void CoordinatorTest::SetUp() {
  auto model = DefaultModel();
  ASSERT_THAT(model, IsOk());
  model_ = *std::move(model);
  // No child: what the files hold does not matter here.
  model_.inspect = [](const v1::Artifact& artifact, const BlobPath&) {
    v1::ArtifactReport report;
    for (const v1::ArtifactFile& file : artifact.files()) {
      v1::FileReport& made = *report.add_files();
      made.set_name(file.name());
      made.set_kind(v1::FILE_KIND_TEXT);
    }
    return absl::StatusOr<v1::ArtifactReport>(report);
  };
  options_.state_folder = folder_.path();
  options_.clock = &clock_;
  Restart();
}

void CoordinatorTest::TearDown() { coordinator_.reset(); }

void CoordinatorTest::Restart() {
  coordinator_.reset();
  auto coordinator = Coordinator::Open(options_, model_);
  ASSERT_THAT(coordinator, IsOk());
  coordinator_ = *std::move(coordinator);
}

FakeAgent CoordinatorTest::Enrol(const std::string& name, bool simulated) {
  const auto token = coordinator_->enrolment().CreateJoinToken({});
  EXPECT_THAT(token, IsOk());
  v1::EnrolRequest request;
  request.set_join_token(token->join_token());
  request.set_host_name(name);
  request.set_machine_id("machine-" + name);
  request.set_simulated(simulated);
  const auto identity = coordinator_->enrolment().Enrol(request);
  EXPECT_THAT(identity, IsOk());
  return FakeAgent(*coordinator_, *identity);
}

FakeAgent CoordinatorTest::Join(const std::string& name, int gpus) {
  FakeAgent agent = Enrol(name);
  agent.Connect();
  agent.SendFacts(MakeFacts(name, gpus));
  return agent;
}

v1::Artifact CoordinatorTest::AddArtifact(const std::string& content) {
  const Sha256 digest = Sha256Of(content);
  auto upload = coordinator_->blobs().Begin(digest, content.size(), 0);
  EXPECT_THAT(upload, IsOk());
  EXPECT_THAT((*upload)->Write(content), IsOk());
  EXPECT_THAT((*upload)->Commit(), IsOk());
  v1::RegisterArtifactRequest request;
  request.mutable_artifact()->set_name("demo");
  v1::ArtifactFile& file = *request.mutable_artifact()->add_files();
  file.set_name("app");
  file.set_type(v1::FILE_TYPE_REGULAR);
  file.set_mode(0755);
  file.set_size_bytes(content.size());
  file.mutable_digest()->set_sha256(digest.Raw());
  const auto response = coordinator_->artifacts().Register(request);
  EXPECT_THAT(response, IsOk());
  return response->artifact();
}

v1::SweepSpec CoordinatorTest::MakeSpec(const v1::Artifact& artifact) {
  v1::SweepSpec spec;
  spec.set_name("night");
  *spec.mutable_release()->mutable_artifact() = artifact;
  v1::Entry& entry = *spec.mutable_release()->add_entries();
  entry.set_name("check");
  entry.add_command("app");
  return spec;
}

v1::Sweep CoordinatorTest::StartSweep(const v1::SweepSpec& spec) {
  v1::StartSweepRequest request;
  *request.mutable_spec() = spec;
  const auto sweep = coordinator_->sweeps().Start(request);
  EXPECT_THAT(sweep, IsOk());
  return sweep.ok() ? *sweep : v1::Sweep();
}

v1::Sweep CoordinatorTest::GetSweep(const std::string& id) {
  const auto sweep = coordinator_->sweeps().Get(id);
  EXPECT_THAT(sweep, IsOk());
  return sweep.ok() ? *sweep : v1::Sweep();
}

void CoordinatorTest::AwaitCell(const std::string& sweep_id, int index,
                                v1::CellState state) {
  while (GetSweep(sweep_id).cells(index).state() != state) {
    std::this_thread::yield();
  }
}

v1::Sweep CoordinatorTest::AwaitEnd(const std::string& sweep_id) {
  while (true) {
    const v1::Sweep sweep = GetSweep(sweep_id);
    if (sweep.state() != v1::SWEEP_STATE_RUNNING) return sweep;
    std::this_thread::yield();
  }
}

CellRow CoordinatorTest::ReadCell(const std::string& id) {
  CellRow row;
  EXPECT_THAT(coordinator_->store().Read([&](const StoreView& view) {
    auto cell = view.GetCell(id);
    if (cell.ok()) row = *cell;
    return cell.status();
  }),
              IsOk());
  return row;
}

}  // namespace twinpath::coordinator
