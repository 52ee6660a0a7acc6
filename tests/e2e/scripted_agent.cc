#include "tests/e2e/scripted_agent.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/version.h"
#include "compat/conditions.h"
#include "runner/paths.h"
#include "twinpath/v1/runner.pb.h"
#include "twinpath/v1/services.grpc.pb.h"

namespace twinpath::e2e {
namespace {

absl::Status Convert(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

std::shared_ptr<grpc::Channel> Channel(const std::string& address) {
  return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
}

absl::StatusOr<v1::EnrolResponse> Enrol(v1::AgentService::Stub& stub,
                                        const std::string& token_file,
                                        const std::string& name,
                                        const std::string& machine_id) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string token,
                            ReadFile(token_file, 4096));
  v1::EnrolRequest request;
  request.set_join_token(std::string(absl::StripAsciiWhitespace(token)));
  request.set_host_name(name);
  request.set_machine_id(machine_id);
  grpc::ClientContext context;
  v1::EnrolResponse response;
  TWINPATH_RETURN_IF_ERROR(Convert(stub.Enrol(&context, request, &response)));
  return response;
}

v1::AgentMessage Hello(const v1::EnrolResponse& identity) {
  v1::AgentMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_protocol_min(kProtocolMin);
  hello.set_protocol_max(kProtocolMax);
  hello.set_host_id(identity.host_id());
  hello.set_secret(identity.secret());
  hello.set_agent_version("scripted");
  hello.set_boot_id("11111111-2222-3333-4444-555555555555");
  return message;
}

}  // namespace

v1::CellResult GoodResult(const v1::Lease& lease, const v1::HostFacts& facts,
                          absl::string_view out) {
  v1::CellResult result;
  result.set_result_id(RandomHex(16));
  result.set_cell_id(lease.cell_id());
  result.set_lease_id(lease.id());
  result.set_complete(true);
  const v1::Conditions conditions = compat::ConditionsOf(facts);
  *result.mutable_conditions_digest() = conditions.digest();
  const auto add = [&](v1::Path path, bool proof) {
    v1::RunRequest request;
    request.set_path(path);
    request.set_jit_proof(proof);
    *request.mutable_entry() = lease.entry();
    request.add_gpu_uuids(lease.gpu_uuid());
    runner::RunFolders folders;
    folders.home = "/run";
    folders.cache = "/run/cache";
    folders.driver_log = "/run/log";
    v1::Observation& seen = *result.add_observations();
    seen.set_attempt_id(RandomHex(16));
    seen.set_path(path);
    seen.set_jit_proof(proof);
    seen.set_ending(v1::ENDING_EXITED);
    seen.mutable_stdout()->set_head(std::string(out));
    seen.mutable_stdout()->set_total_bytes(out.size());
    seen.mutable_stdout()->mutable_digest()->set_sha256(Sha256Of(out).Raw());
    seen.mutable_cache()->set_observed(runner::UsesCacheFolder(path, proof));
    if (seen.cache().observed()) seen.mutable_cache()->set_files(1);
    const auto environment = runner::RunEnvironment(request, folders);
    if (environment.ok()) {
      for (const v1::EnvironmentVariable& variable : *environment) {
        *seen.add_environment() = variable;
      }
    }
    seen.set_gpu_uuid(lease.gpu_uuid());
    *seen.mutable_conditions_before() = conditions;
    *seen.mutable_conditions_after() = conditions;
    seen.set_sandbox("bubblewrap");
  };
  for (const int path : lease.paths()) {
    add(static_cast<v1::Path>(path), false);
    if (path == v1::PATH_PTX_JIT) add(v1::PATH_PTX_JIT, true);
  }
  for (const v1::ArtifactFile& file : lease.artifact().files()) {
    if (file.type() != v1::FILE_TYPE_REGULAR) continue;
    v1::StagedFile& staged = *result.add_staged();
    staged.set_name(file.name());
    *staged.mutable_digest() = file.digest();
  }
  return result;
}

struct ScriptedAgent::State {
  std::unique_ptr<v1::AgentService::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<
      grpc::ClientReaderWriter<v1::AgentMessage, v1::CoordinatorMessage>>
      stream;
  Answer answer;
  std::thread reader;

  void Read() {
    v1::CoordinatorMessage message;
    while (stream->Read(&message)) {
      if (!message.has_lease()) continue;
      v1::AgentMessage reply;
      *reply.mutable_result() = answer(message.lease());
      stream->Write(reply);
    }
  }
};

ScriptedAgent::ScriptedAgent(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

ScriptedAgent::~ScriptedAgent() {
  state_->context.TryCancel();
  state_->reader.join();
  state_->stream->Finish();
}

absl::StatusOr<std::unique_ptr<ScriptedAgent>> ScriptedAgent::Start(
    const std::string& address, const std::string& token_file,
    const std::string& name, const v1::HostFacts& facts, Answer answer) {
  auto state = std::make_unique<State>();
  state->stub = v1::AgentService::NewStub(Channel(address));
  state->answer = std::move(answer);
  TWINPATH_ASSIGN_OR_RETURN(
      const v1::EnrolResponse identity,
      Enrol(*state->stub, token_file, name, facts.machine_id()));
  state->stream = state->stub->Connect(&state->context);
  state->stream->Write(Hello(identity));
  v1::CoordinatorMessage ack;
  if (!state->stream->Read(&ack) || !ack.has_hello_ack()) {
    return Convert(state->stream->Finish());
  }
  v1::AgentMessage message;
  *message.mutable_facts() = facts;
  state->stream->Write(message);
  State* raw = state.get();
  state->reader = std::thread([raw] { raw->Read(); });
  return std::unique_ptr<ScriptedAgent>(new ScriptedAgent(std::move(state)));
}

absl::Status TryHello(const std::string& address, const std::string& token_file,
                      const std::string& name, uint32_t protocol_min,
                      uint32_t protocol_max, const std::string& secret) {
  const auto stub = v1::AgentService::NewStub(Channel(address));
  TWINPATH_ASSIGN_OR_RETURN(v1::EnrolResponse identity,
                            Enrol(*stub, token_file, name, "machine-" + name));
  if (!secret.empty()) identity.set_secret(secret);
  grpc::ClientContext context;
  const auto stream = stub->Connect(&context);
  v1::AgentMessage hello = Hello(identity);
  hello.mutable_hello()->set_protocol_min(protocol_min);
  hello.mutable_hello()->set_protocol_max(protocol_max);
  stream->Write(hello);
  v1::CoordinatorMessage ack;
  const bool accepted = stream->Read(&ack) && ack.has_hello_ack();
  if (accepted) context.TryCancel();
  const absl::Status ended = Convert(stream->Finish());
  return accepted ? absl::OkStatus() : ended;
}

absl::Status PutPart(const std::string& address, const std::string& sha256,
                     uint64_t size_bytes, absl::string_view part) {
  const auto stub = v1::BlobService::NewStub(Channel(address));
  grpc::ClientContext context;
  v1::PutResponse response;
  const auto writer = stub->Put(&context, &response);
  v1::PutRequest request;
  request.mutable_digest()->set_sha256(sha256);
  request.set_size_bytes(size_bytes);
  request.set_data(std::string(part));
  writer->Write(request);
  writer->WritesDone();
  return Convert(writer->Finish());
}

absl::Status PutRaw(const std::string& address, const std::string& sha256,
                    absl::string_view data) {
  return PutPart(address, sha256, data.size(), data);
}

absl::StatusOr<bool> HasBlob(const std::string& address,
                             const std::string& sha256) {
  const auto stub = v1::BlobService::NewStub(Channel(address));
  grpc::ClientContext context;
  v1::FindMissingRequest request;
  request.add_digests()->set_sha256(sha256);
  v1::FindMissingResponse response;
  TWINPATH_RETURN_IF_ERROR(
      Convert(stub->FindMissing(&context, request, &response)));
  return response.missing().empty();
}

}  // namespace twinpath::e2e
