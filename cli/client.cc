#include "cli/client.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "twinpath/v1/services.grpc.pb.h"

namespace twinpath::cli {
namespace {

constexpr auto kCallDeadline = std::chrono::seconds(10);
// RegisterArtifact answers when the files have been inspected.
constexpr auto kRegisterDeadline = std::chrono::minutes(20);
constexpr uint64_t kChunkBytes = 256u << 10;
constexpr int kUploadTries = 5;
constexpr absl::Duration kWatchPatience = absl::Seconds(30);
constexpr int kMaxMessageBytes = 64 << 20;
constexpr size_t kFindMissingBatch = 10000;
constexpr int kPageSize = 1000;

v1::Digest ToProto(const Sha256& digest) {
  v1::Digest out;
  out.set_sha256(digest.Raw());
  return out;
}

bool EndedAlready(v1::SweepState state) {
  return state == v1::SWEEP_STATE_DONE || state == v1::SWEEP_STATE_DEADLINE ||
         state == v1::SWEEP_STATE_CANCELLED;
}

}  // namespace

std::string CoordinatorAddress(absl::string_view flag) {
  if (!flag.empty()) return std::string(flag);
  const char* variable = getenv("TWINPATH_COORDINATOR");
  if (variable != nullptr && *variable != '\0') return variable;
  return "127.0.0.1:7711";
}

absl::Status CheckLoopback(absl::string_view address) {
  absl::string_view rest = address;
  if (absl::ConsumePrefix(&rest, "unix:") && !rest.empty()) {
    return absl::OkStatus();
  }
  const size_t colon = rest.rfind(':');
  if (colon == absl::string_view::npos || colon + 1 == rest.size() ||
      colon == 0) {
    return absl::InvalidArgumentError(absl::StrCat("coordinator address \"",
                                                   Printable(address),
                                                   "\": expected HOST:PORT"));
  }
  const absl::string_view host = rest.substr(0, colon);
  // An address, not a name that begins like one.
  in_addr parsed{};
  const bool loopback =
      inet_pton(AF_INET, std::string(host).c_str(), &parsed) == 1 &&
      ntohl(parsed.s_addr) >> 24 == 127;
  if (loopback || host == "localhost" || host == "[::1]") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "coordinator address \"", Printable(address),
      "\": only addresses of this machine are used, since there is no TLS "
      "yet; reach another machine through an SSH tunnel"));
}

struct Client::Stubs {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::BlobService::Stub> blobs;
  std::unique_ptr<v1::ArtifactService::Stub> artifacts;
  std::unique_ptr<v1::FleetService::Stub> fleet;
  std::unique_ptr<v1::SweepService::Stub> sweeps;
  std::string address;

  absl::Status Convert(const grpc::Status& status,
                       absl::string_view what) const {
    if (status.ok()) return absl::OkStatus();
    const auto code = static_cast<absl::StatusCode>(status.error_code());
    if (code == absl::StatusCode::kUnavailable) {
      return absl::UnavailableError(absl::StrCat(
          what, ": coordinator ", address,
          " is not reachable: ", Printable(status.error_message())));
    }
    if (code == absl::StatusCode::kDeadlineExceeded) {
      return absl::DeadlineExceededError(absl::StrCat(
          what, ": coordinator ", address, " did not answer in time"));
    }
    if (code == absl::StatusCode::kUnimplemented) {
      return absl::UnimplementedError(absl::StrCat(
          what, ": what answers at ", address,
          " does not know this call (another version, or no coordinator): ",
          Printable(status.error_message())));
    }
    return absl::Status(
        code, absl::StrCat(what, ": ", Printable(status.error_message())));
  }

  // One unary call with a deadline.
  template <typename Request, typename Response, typename Stub>
  absl::StatusOr<Response> Call(
      Stub* stub,
      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                   Response*),
      const Request& request, absl::string_view what,
      std::chrono::system_clock::duration limit = kCallDeadline) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + limit);
    Response response;
    TWINPATH_RETURN_IF_ERROR(
        Convert((stub->*method)(&context, request, &response), what));
    return response;
  }

  // One try of an upload from where the coordinator stands.
  absl::Status PutOnce(const Sha256& digest, int fd, uint64_t size,
                       const std::function<void(uint64_t)>& progress) {
    v1::GetUploadRequest ask;
    *ask.mutable_digest() = ToProto(digest);
    const std::string what = absl::StrCat("uploading ", digest.Hex());
    TWINPATH_ASSIGN_OR_RETURN(
        const v1::GetUploadResponse so_far,
        (Call<v1::GetUploadRequest, v1::GetUploadResponse>(
            blobs.get(), &v1::BlobService::Stub::GetUpload, ask, what)));
    if (so_far.complete()) {
      progress(size);
      return absl::OkStatus();
    }
    uint64_t offset = std::min<uint64_t>(so_far.offset(), size);
    grpc::ClientContext context;
    v1::PutResponse response;
    const auto writer = blobs->Put(&context, &response);
    v1::PutRequest request;
    *request.mutable_digest() = ToProto(digest);
    request.set_size_bytes(size);
    request.set_offset(offset);
    absl::Status read_error;
    bool first = true;
    while (first || offset < size) {
      absl::StatusOr<std::string> data =
          PreadUpTo(fd, offset, std::min(kChunkBytes, size - offset));
      if (data.ok() && data->empty() && offset < size) {
        data = absl::DataLossError(
            "the file became shorter while it was being read");
      }
      if (!data.ok()) {
        read_error = WithContext(data.status(), what);
        context.TryCancel();
        break;
      }
      offset += data->size();
      request.set_data(*std::move(data));
      if (!writer->Write(request)) break;
      request.Clear();
      first = false;
      progress(offset);
    }
    writer->WritesDone();
    const absl::Status sent = Convert(writer->Finish(), what);
    return read_error.ok() ? sent : read_error;
  }
};

Client::Client(std::string address, std::unique_ptr<Stubs> stubs)
    : address_(std::move(address)), stubs_(std::move(stubs)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Make(
    absl::string_view address) {
  TWINPATH_RETURN_IF_ERROR(CheckLoopback(address));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  auto stubs = std::make_unique<Stubs>();
  stubs->address = std::string(address);
  // No TLS: CheckLoopback keeps this on the machine.
  stubs->channel = grpc::CreateCustomChannel(
      std::string(address), grpc::InsecureChannelCredentials(), arguments);
  stubs->blobs = v1::BlobService::NewStub(stubs->channel);
  stubs->artifacts = v1::ArtifactService::NewStub(stubs->channel);
  stubs->fleet = v1::FleetService::NewStub(stubs->channel);
  stubs->sweeps = v1::SweepService::NewStub(stubs->channel);
  return std::unique_ptr<Client>(
      new Client(std::string(address), std::move(stubs)));
}

absl::StatusOr<std::vector<v1::Host>> Client::ListHosts(
    const v1::HostSelector& selector) {
  std::vector<v1::Host> hosts;
  v1::ListHostsRequest request;
  *request.mutable_selector() = selector;
  // Facts are tens of KB a host; 100 fit well into one message.
  request.set_page_size(100);
  do {
    TWINPATH_ASSIGN_OR_RETURN(
        v1::ListHostsResponse page,
        (stubs_->Call<v1::ListHostsRequest, v1::ListHostsResponse>(
            stubs_->fleet.get(), &v1::FleetService::Stub::ListHosts, request,
            "listing hosts")));
    for (v1::Host& host : *page.mutable_hosts()) {
      hosts.push_back(std::move(host));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return hosts;
}

absl::StatusOr<v1::Host> Client::GetHost(absl::string_view host) {
  v1::GetHostRequest request;
  request.set_host(std::string(host));
  return stubs_->Call<v1::GetHostRequest, v1::Host>(
      stubs_->fleet.get(), &v1::FleetService::Stub::GetHost, request,
      absl::StrCat("host ", Printable(host)));
}

absl::StatusOr<v1::CreateJoinTokenResponse> Client::CreateJoinToken(
    const v1::CreateJoinTokenRequest& request) {
  return stubs_->Call<v1::CreateJoinTokenRequest, v1::CreateJoinTokenResponse>(
      stubs_->fleet.get(), &v1::FleetService::Stub::CreateJoinToken, request,
      "making a join token");
}

absl::StatusOr<std::vector<v1::StoredArtifact>> Client::ListArtifacts(
    size_t limit) {
  std::vector<v1::StoredArtifact> artifacts;
  v1::ListArtifactsRequest request;
  request.set_page_size(static_cast<int>(std::min<size_t>(limit, 100)));
  do {
    TWINPATH_ASSIGN_OR_RETURN(
        v1::ListArtifactsResponse page,
        (stubs_->Call<v1::ListArtifactsRequest, v1::ListArtifactsResponse>(
            stubs_->artifacts.get(), &v1::ArtifactService::Stub::ListArtifacts,
            request, "listing artifacts")));
    for (v1::StoredArtifact& artifact : *page.mutable_artifacts()) {
      if (artifacts.size() < limit) artifacts.push_back(std::move(artifact));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && artifacts.size() < limit);
  return artifacts;
}

absl::StatusOr<v1::RegisterArtifactResponse> Client::RegisterArtifact(
    const v1::Artifact& artifact) {
  v1::RegisterArtifactRequest request;
  *request.mutable_artifact() = artifact;
  return stubs_
      ->Call<v1::RegisterArtifactRequest, v1::RegisterArtifactResponse>(
          stubs_->artifacts.get(), &v1::ArtifactService::Stub::RegisterArtifact,
          request, "registering the artifact", kRegisterDeadline);
}

absl::StatusOr<std::vector<Sha256>> Client::FindMissing(
    const std::vector<Sha256>& digests) {
  std::vector<Sha256> missing;
  for (size_t begin = 0; begin < digests.size(); begin += kFindMissingBatch) {
    const size_t end = std::min(begin + kFindMissingBatch, digests.size());
    v1::FindMissingRequest request;
    for (size_t i = begin; i < end; ++i) {
      *request.add_digests() = ToProto(digests[i]);
    }
    TWINPATH_ASSIGN_OR_RETURN(
        const v1::FindMissingResponse response,
        (stubs_->Call<v1::FindMissingRequest, v1::FindMissingResponse>(
            stubs_->blobs.get(), &v1::BlobService::Stub::FindMissing, request,
            "asking which files are missing")));
    for (const v1::Digest& digest : response.missing()) {
      TWINPATH_ASSIGN_OR_RETURN(const Sha256 value,
                                Sha256::FromRaw(digest.sha256()));
      missing.push_back(value);
    }
  }
  return missing;
}

absl::Status Client::PutBlob(const Sha256& digest, int fd, uint64_t size_bytes,
                             const std::function<void(uint64_t)>& progress) {
  absl::Status status;
  for (int i = 0; i < kUploadTries; ++i) {
    if (i > 0) absl::SleepFor(absl::Milliseconds(200) * (1 << i));
    status = stubs_->PutOnce(digest, fd, size_bytes, progress);
    // Another upload of the same blob may have moved the offset: ask again.
    if (!absl::IsUnavailable(status) && !absl::IsOutOfRange(status) &&
        !absl::IsAborted(status)) {
      return status;
    }
  }
  return status;
}

absl::StatusOr<v1::Sweep> Client::StartSweep(
    const v1::StartSweepRequest& request) {
  absl::StatusOr<v1::Sweep> sweep;
  for (int i = 0; i < 3; ++i) {
    if (i > 0) absl::SleepFor(absl::Milliseconds(300) * (1 << i));
    sweep = stubs_->Call<v1::StartSweepRequest, v1::Sweep>(
        stubs_->sweeps.get(), &v1::SweepService::Stub::StartSweep, request,
        "starting the sweep");
    if (!absl::IsUnavailable(sweep.status())) break;
  }
  return sweep;
}

absl::StatusOr<v1::Sweep> Client::GetSweep(absl::string_view id) {
  v1::GetSweepRequest request;
  request.set_sweep_id(std::string(id));
  return stubs_->Call<v1::GetSweepRequest, v1::Sweep>(
      stubs_->sweeps.get(), &v1::SweepService::Stub::GetSweep, request,
      absl::StrCat("sweep ", Printable(id)));
}

absl::StatusOr<v1::Sweep> Client::CancelSweep(absl::string_view id) {
  v1::CancelSweepRequest request;
  request.set_sweep_id(std::string(id));
  return stubs_->Call<v1::CancelSweepRequest, v1::Sweep>(
      stubs_->sweeps.get(), &v1::SweepService::Stub::CancelSweep, request,
      absl::StrCat("cancelling sweep ", Printable(id)));
}

absl::StatusOr<std::vector<v1::Sweep>> Client::ListSweeps(size_t limit) {
  std::vector<v1::Sweep> sweeps;
  v1::ListSweepsRequest request;
  request.set_page_size(static_cast<int>(std::min<size_t>(limit, kPageSize)));
  do {
    TWINPATH_ASSIGN_OR_RETURN(
        v1::ListSweepsResponse page,
        (stubs_->Call<v1::ListSweepsRequest, v1::ListSweepsResponse>(
            stubs_->sweeps.get(), &v1::SweepService::Stub::ListSweeps, request,
            "listing sweeps")));
    for (v1::Sweep& sweep : *page.mutable_sweeps()) {
      if (sweeps.size() < limit) sweeps.push_back(std::move(sweep));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && sweeps.size() < limit);
  return sweeps;
}

absl::StatusOr<v1::Sweep> Client::WatchSweep(
    absl::string_view id,
    const std::function<void(const v1::Sweep&)>& on_change,
    const std::function<void(absl::string_view)>& on_break) {
  const std::string what = absl::StrCat("watching sweep ", Printable(id));
  v1::Sweep last;
  absl::Time lost = absl::InfiniteFuture();
  bool seen = false;
  while (true) {
    grpc::ClientContext context;
    v1::WatchSweepRequest request;
    request.set_sweep_id(std::string(id));
    const auto reader = stubs_->sweeps->WatchSweep(&context, request);
    v1::Sweep next;
    while (reader->Read(&next)) {
      seen = true;
      lost = absl::InfiniteFuture();
      last.Swap(&next);
      on_change(last);
    }
    const absl::Status status = stubs_->Convert(reader->Finish(), what);
    if (EndedAlready(last.state())) return last;
    // A coordinator that comes back has lost nothing; one that never answered
    // is an error at once.
    if (!seen || (!status.ok() && !absl::IsUnavailable(status) &&
                  !absl::IsCancelled(status))) {
      if (!status.ok()) return status;
    }
    const absl::Time now = absl::Now();
    if (lost == absl::InfiniteFuture()) {
      lost = now;
      on_break(status.ok() ? "the coordinator ended the stream"
                           : MessageOf(status));
    }
    if (now - lost > kWatchPatience) {
      return status.ok() ? absl::UnavailableError(
                               absl::StrCat(what, ": coordinator ", address_,
                                            " ends the stream again and again"))
                         : status;
    }
    absl::SleepFor(absl::Milliseconds(500));
  }
}

}  // namespace twinpath::cli
