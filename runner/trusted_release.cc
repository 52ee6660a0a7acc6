#include "runner/trusted_release.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/manifest.h"
#include "trust/signed_release.h"

namespace twinpath::runner {
namespace {

constexpr size_t kMaxLabelBytes = 64 << 10;

absl::StatusOr<trust::HostTrust> HostTrustNow(const TrustFiles& files) {
  trust::HostTrust host;
  TWINPATH_ASSIGN_OR_RETURN(host.keys,
                            trust::LoadTrustedKeys(files.keys, files.owner));
  const absl::StatusOr<std::string> labels =
      trust::ReadOwnedFile(files.labels, kMaxLabelBytes, files.owner);
  if (labels.ok()) {
    TWINPATH_ASSIGN_OR_RETURN_CTX(host.labels, trust::ParseHostLabels(*labels),
                                  files.labels);
  } else if (!absl::IsNotFound(labels.status())) {
    return labels.status();
  }
  host.now = absl::Now();
  return host;
}

}  // namespace

absl::StatusOr<const v1::Entry*> TrustedEntry(const v1::Release& release,
                                              const v1::Envelope& envelope,
                                              absl::string_view name,
                                              const TrustFiles& files) {
  absl::StatusOr<trust::HostTrust> host = HostTrustNow(files);
  if (!host.ok()) {
    return absl::PermissionDeniedError(
        absl::StrCat("TP130 release-refused: ", MessageOf(host.status())));
  }
  TWINPATH_RETURN_IF_ERROR(
      trust::VerifyRelease(release, envelope, *host).status());
  // Its digest is what was signed; the check makes it again from the files.
  if (const absl::Status status = inspect::ValidateArtifact(release.artifact());
      !status.ok()) {
    const absl::string_view message = MessageOf(status);
    if (message.substr(0, 2) == "TP") return status;
    return absl::Status(
        status.code(),
        absl::StrCat("TP405 digest-differs: the manifest: ", message));
  }
  for (const v1::Entry& entry : release.entries()) {
    if (entry.name() == name) return &entry;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "TP130 release-refused: the release has no entry ", Printable(name)));
}

}  // namespace twinpath::runner
