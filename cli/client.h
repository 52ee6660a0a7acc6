// Client: the coordinator's services for the commands. The only part of the
// command line that knows gRPC; everything else sees messages and statuses.
//
// Unary calls have a deadline of 10 s (60 s where the coordinator inspects
// files) and fail at once when nothing listens. A status of code UNAVAILABLE
// names the address. Not thread-safe.

#ifndef TWINPATH_CLI_CLIENT_H_
#define TWINPATH_CLI_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/digest.h"
#include "twinpath/v1/artifact.pb.h"
#include "twinpath/v1/services.pb.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

// The address to use: `flag`, else $TWINPATH_COORDINATOR, else 127.0.0.1:7711.
std::string CoordinatorAddress(absl::string_view flag);

// OK for an address on this machine (127.0.0.0/8, ::1, localhost, unix:).
// INVALID_ARGUMENT else: without TLS nothing is sent over a network.
absl::Status CheckLoopback(absl::string_view address);

class Client {
 public:
  // Makes a client; connects with the first call. INVALID_ARGUMENT as
  // CheckLoopback.
  static absl::StatusOr<std::unique_ptr<Client>> Make(
      absl::string_view address);
  ~Client();

  // All hosts that match, by name.
  absl::StatusOr<std::vector<v1::Host>> ListHosts(
      const v1::HostSelector& selector);
  // By id or name.
  absl::StatusOr<v1::Host> GetHost(absl::string_view host);
  absl::StatusOr<v1::CreateJoinTokenResponse> CreateJoinToken(
      const v1::CreateJoinTokenRequest& request);

  // Newest first, at most `limit`.
  absl::StatusOr<std::vector<v1::StoredArtifact>> ListArtifacts(size_t limit);
  absl::StatusOr<v1::RegisterArtifactResponse> RegisterArtifact(
      const v1::Artifact& artifact);

  // Which of `digests` are not stored.
  absl::StatusOr<std::vector<Sha256>> FindMissing(
      const std::vector<Sha256>& digests);
  // Uploads the file behind `fd`. Goes on where an earlier try ended; tries up
  // to five times when the connection breaks. `progress` gets the bytes sent so
  // far. DATA_LOSS: the file is not (or no longer) what `digest` says.
  absl::Status PutBlob(const Sha256& digest, int fd, uint64_t size_bytes,
                       const std::function<void(uint64_t)>& progress);

  // Sends the same request id again if the connection breaks meanwhile.
  absl::StatusOr<v1::Sweep> StartSweep(const v1::StartSweepRequest& request);
  absl::StatusOr<v1::Sweep> GetSweep(absl::string_view id);
  absl::StatusOr<v1::Sweep> CancelSweep(absl::string_view id);
  // Newest first, without cells, at most `limit`.
  absl::StatusOr<std::vector<v1::Sweep>> ListSweeps(size_t limit);
  // Calls `on_change` with the sweep now and after every change until it has
  // ended. Reconnects for up to 30 s when the coordinator goes away, calling
  // `on_break` with the reason. Returns the last state.
  absl::StatusOr<v1::Sweep> WatchSweep(
      absl::string_view id,
      const std::function<void(const v1::Sweep&)>& on_change,
      const std::function<void(absl::string_view)>& on_break);

 private:
  struct Stubs;
  Client(std::string address, std::unique_ptr<Stubs> stubs);

  std::string address_;
  std::unique_ptr<Stubs> stubs_;
};

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_CLIENT_H_
