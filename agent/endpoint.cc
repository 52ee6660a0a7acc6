#include "agent/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace twinpath::agent {

absl::Status CheckLoopbackEndpoint(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(endpoint.substr(colon + 1), &port) || port == 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("coordinator \"", Printable(endpoint),
                     "\" is not HOST:PORT, such as 127.0.0.1:7711"));
  }
  std::string host = endpoint.substr(0, colon);
  in_addr four;
  if (host == "localhost" || host == "[::1]") return absl::OkStatus();
  if (inet_pton(AF_INET, host.c_str(), &four) == 1 &&
      (ntohl(four.s_addr) >> 24) == 127) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "coordinator \"", Printable(endpoint),
      "\" is not on this host: there is no TLS yet, so the agent speaks over "
      "loopback only (127.0.0.1, [::1], localhost); use a tunnel"));
}

}  // namespace twinpath::agent
