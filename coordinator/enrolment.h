// Enrolment and identity: join tokens become host identities; a host proves its
// identity with its secret. Tokens and secrets are stored as SHA-256 only: both
// hold 256 random bits, so a plain digest cannot be searched.
//
// A host's name belongs to its machine, and whether it is simulated is part of
// the identity for good. Thread-safe.

#ifndef TWINPATH_COORDINATOR_ENROLMENT_H_
#define TWINPATH_COORDINATOR_ENROLMENT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "coordinator/store.h"
#include "twinpath/v1/services.pb.h"

namespace twinpath::coordinator {

// Longest life of a join token.
inline constexpr absl::Duration kMaxTokenLifetime = absl::Hours(24 * 366);

class Enrolment {
 public:
  explicit Enrolment(Store& store) : store_(store) {}

  // Makes a token. INVALID_ARGUMENT: lifetime not positive or above a year.
  absl::StatusOr<v1::CreateJoinTokenResponse> CreateJoinToken(
      const v1::CreateJoinTokenRequest& request);

  // Exchanges a token for an identity. A machine that comes again under its
  // name keeps its id and gets a new secret. UNAUTHENTICATED: token.
  // INVALID_ARGUMENT: name or labels. ALREADY_EXISTS: the name belongs to
  // another machine, or to one that is (not) simulated. A refusal uses no token
  // up.
  absl::StatusOr<v1::EnrolResponse> Enrol(const v1::EnrolRequest& request);

 private:
  Store& store_;
};

// The host with this id if `secret` is its own; UNAUTHENTICATED else, with the
// same text and about the same time whichever is wrong.
absl::StatusOr<HostRow> Authenticate(const StoreView& view,
                                     absl::string_view host_id,
                                     absl::string_view secret);

// Compares in a time that depends on the lengths only.
bool ConstantTimeEqual(absl::string_view a, absl::string_view b);

// Letters, digits, '.', '_', '-', 1 to 64 of them, no leading '.' or '-':
// host names and entry names, which become parts of cell ids.
bool IsPlainName(absl::string_view name);

// "key=value" with a plain key and a printable value of at most 256 bytes.
absl::Status CheckLabel(absl::string_view label);

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_ENROLMENT_H_
