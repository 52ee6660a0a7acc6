#include "coordinator/enrolment.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/status.h"
#include "base/text.h"
#include "coordinator/proto_time.h"

namespace twinpath::coordinator {
namespace {

constexpr absl::Duration kDefaultTokenLifetime = absl::Hours(1);
constexpr int kMaxLabels = 64;
constexpr size_t kMaxLabelBytes = 320;

absl::Status CheckEnrolRequest(const v1::EnrolRequest& request) {
  if (!IsPlainName(request.host_name())) {
    return absl::InvalidArgumentError(
        absl::StrCat("host name '", Printable(request.host_name()),
                     "': 1 to 64 letters, digits, '.', '_', '-' are allowed"));
  }
  if (request.machine_id().empty() || request.machine_id().size() > 128) {
    return absl::InvalidArgumentError("machine id: 1 to 128 bytes");
  }
  if (request.labels_size() > kMaxLabels) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kMaxLabels, " labels"));
  }
  for (const std::string& label : request.labels()) {
    TWINPATH_RETURN_IF_ERROR(CheckLabel(label));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsPlainName(absl::string_view name) {
  if (name.empty() || name.size() > 64) return false;
  if (name[0] == '.' || name[0] == '-') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
           c == '_' || c == '-';
  });
}

absl::Status CheckLabel(absl::string_view label) {
  const size_t equals = label.find('=');
  if (equals == absl::string_view::npos || label.size() > kMaxLabelBytes ||
      !IsPlainName(label.substr(0, equals)) || !IsValidUtf8(label) ||
      std::any_of(label.begin(), label.end(), [](char c) {
        return absl::ascii_iscntrl(static_cast<unsigned char>(c));
      })) {
    return absl::InvalidArgumentError(absl::StrCat(
        "label '", Printable(label),
        "': key=value is needed, the key of letters, digits, '.', '_', '-'"));
  }
  return absl::OkStatus();
}

bool ConstantTimeEqual(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  // volatile: the loop must not be cut short once it is known to differ.
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(
        difference |
        (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  }
  return difference == 0;
}

absl::StatusOr<HostRow> Authenticate(const StoreView& view,
                                     absl::string_view host_id,
                                     absl::string_view secret) {
  absl::StatusOr<HostRow> host = view.GetHost(host_id);
  if (!host.ok() && !absl::IsNotFound(host.status())) return host;
  const std::string given = Sha256Of(secret).Raw();
  // An unknown host is compared too, with a digest no secret has.
  const std::string wanted =
      host.ok() ? host->secret_digest.Raw() : Sha256{}.Raw();
  if (!ConstantTimeEqual(given, wanted) || !host.ok()) {
    return absl::UnauthenticatedError(
        "host id or secret is wrong; remove the agent's identity and enrol "
        "again");
  }
  return host;
}

absl::StatusOr<v1::CreateJoinTokenResponse> Enrolment::CreateJoinToken(
    const v1::CreateJoinTokenRequest& request) {
  const absl::Duration lifetime = request.has_lifetime()
                                      ? FromProto(request.lifetime())
                                      : kDefaultTokenLifetime;
  if (lifetime <= absl::ZeroDuration() || lifetime > kMaxTokenLifetime) {
    return absl::InvalidArgumentError(
        "lifetime of a join token: above 0, at most a year");
  }
  v1::CreateJoinTokenResponse response;
  response.set_join_token(RandomHex(32));
  const absl::Time expire = store_.Now() + lifetime;
  *response.mutable_expire_time() = ToProto(expire);
  const Sha256 digest = Sha256Of(response.join_token());
  const uint32_t uses = std::max<uint32_t>(1, request.uses());
  TWINPATH_RETURN_IF_ERROR(store_.Write([=](StoreTransaction& transaction) {
    return transaction.InsertJoinToken(digest, expire, uses);
  }));
  return response;
}

absl::StatusOr<v1::EnrolResponse> Enrolment::Enrol(
    const v1::EnrolRequest& request) {
  TWINPATH_RETURN_IF_ERROR(CheckEnrolRequest(request));
  v1::EnrolResponse response;
  response.set_secret(RandomHex(32));
  const Sha256 token = Sha256Of(request.join_token());
  const Sha256 secret = Sha256Of(response.secret());
  const std::set<std::string> sorted(request.labels().begin(),
                                     request.labels().end());
  const std::vector<std::string> labels(sorted.begin(), sorted.end());
  TWINPATH_RETURN_IF_ERROR(
      store_.Write([&](StoreTransaction& transaction) -> absl::Status {
        // The token first: without one nobody learns which names exist.
        TWINPATH_RETURN_IF_ERROR(transaction.UseJoinToken(token, store_.Now()));
        const absl::StatusOr<HostRow> known =
            transaction.FindHost(request.host_name());
        if (known.ok()) {
          if (known->machine_id != request.machine_id()) {
            return absl::AlreadyExistsError(absl::StrCat(
                "host name ", request.host_name(),
                " belongs to another machine; choose another name"));
          }
          if (known->simulated != request.simulated()) {
            return absl::AlreadyExistsError(
                absl::StrCat("host ", request.host_name(), " is ",
                             known->simulated ? "simulated" : "real",
                             " and stays so; choose another name"));
          }
          response.set_host_id(known->id);
          return transaction.ReplaceHostSecret(known->id, secret, labels);
        }
        if (!absl::IsNotFound(known.status())) return known.status();
        HostRow host;
        host.id = RandomHex(8);
        host.name = request.host_name();
        host.machine_id = request.machine_id();
        host.secret_digest = secret;
        host.simulated = request.simulated();
        host.labels = labels;
        host.enrolled = store_.Now();
        response.set_host_id(host.id);
        return transaction.InsertHost(host);
      }));
  return response;
}

}  // namespace twinpath::coordinator
