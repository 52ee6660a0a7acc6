// A host that a test plays itself, over gRPC as an agent would: enrolled as a
// real machine with a profile's facts, it answers each lease with what the test
// says. The only way to see a gate pass on a machine without a GPU.

#ifndef TWINPATH_TESTS_E2E_SCRIPTED_AGENT_H_
#define TWINPATH_TESTS_E2E_SCRIPTED_AGENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/observation.pb.h"
#include "twinpath/v1/services.pb.h"

namespace twinpath::e2e {

// Answers a lease.
using Answer = std::function<v1::CellResult(const v1::Lease&)>;

// A result in which every path of the lease did what it should on a host of
// these facts: exit 0, `out` on standard output, and as PTX is all the sample
// has, something compiled.
v1::CellResult GoodResult(const v1::Lease& lease, const v1::HostFacts& facts,
                          absl::string_view out);

class ScriptedAgent {
 public:
  // Enrols with the token in `token_file` and opens the session.
  static absl::StatusOr<std::unique_ptr<ScriptedAgent>> Start(
      const std::string& address, const std::string& token_file,
      const std::string& name, const v1::HostFacts& facts, Answer answer);
  // Ends the session.
  ~ScriptedAgent();

 private:
  struct State;
  explicit ScriptedAgent(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Enrols and says hello with these protocol versions; returns how the
// coordinator ended the stream, OK if it answered hello_ack.
absl::Status TryHello(const std::string& address, const std::string& token_file,
                      const std::string& name, uint32_t protocol_min,
                      uint32_t protocol_max, const std::string& secret = "");

// Uploads `data` as the blob `sha256` (32 raw bytes) and returns the answer.
absl::Status PutRaw(const std::string& address, const std::string& sha256,
                    absl::string_view data);
// Sends the first part of a blob of `size_bytes` and ends the upload there.
absl::Status PutPart(const std::string& address, const std::string& sha256,
                     uint64_t size_bytes, absl::string_view part);
// Whether the coordinator has the blob.
absl::StatusOr<bool> HasBlob(const std::string& address,
                             const std::string& sha256);

}  // namespace twinpath::e2e

#endif  // TWINPATH_TESTS_E2E_SCRIPTED_AGENT_H_
