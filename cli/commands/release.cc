// twinpath release: signs what hosts may run, and checks a signature.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/prepared_sweep.h"
#include "trust/signed_release.h"

namespace twinpath::cli {
namespace {

constexpr size_t kMaxKeyBytes = 64 << 10;

absl::StatusOr<v1::Envelope> Sign(const ReleaseSignOptions& options) {
  TWINPATH_ASSIGN_OR_RETURN(const PreparedSweep sweep,
                            PrepareSweep(options.file));
  TWINPATH_ASSIGN_OR_RETURN(const std::string pem,
                            ReadFile(options.key, kMaxKeyBytes));
  TWINPATH_ASSIGN_OR_RETURN_CTX(const trust::PrivateKey key,
                                trust::PrivateKey::FromPem(pem),
                                Printable(options.key));
  return trust::SignRelease(sweep.spec.release(), key);
}

absl::StatusOr<std::string> Verify(const ReleaseVerifyOptions& options) {
  TWINPATH_ASSIGN_OR_RETURN(PreparedSweep sweep, PrepareSweep(options.file));
  TWINPATH_RETURN_IF_ERROR(AddSignature(options.signature, sweep));
  trust::HostTrust trust;
  for (const std::string& path : options.keys) {
    TWINPATH_ASSIGN_OR_RETURN(const std::string pem,
                              ReadFile(path, kMaxKeyBytes));
    TWINPATH_ASSIGN_OR_RETURN_CTX(
        trust::PublicKey key, trust::PublicKey::FromPem(pem), Printable(path));
    trust.keys.push_back(std::move(key));
  }
  trust.now = absl::Now();
  // Labels are the hosts' own; here any will do.
  for (const std::string& label : sweep.spec.release().host_labels()) {
    trust.labels.push_back(label);
  }
  return trust::VerifyRelease(sweep.spec.release(), sweep.spec.envelope(),
                              trust);
}

}  // namespace

int RunReleaseSign(const ReleaseSignOptions& options, Console& console) {
  const absl::StatusOr<v1::Envelope> envelope = Sign(options);
  if (!envelope.ok()) return console.Fail(envelope.status());
  const std::string out = options.out.empty()
                              ? absl::StrCat(options.file, ".dsse.json")
                              : options.out;
  const absl::StatusOr<std::string> json = trust::EnvelopeToJson(*envelope);
  if (!json.ok()) return console.Fail(json.status());
  if (const absl::Status status = WriteFileAtomic(out, *json, 0644);
      !status.ok()) {
    return console.Fail(status);
  }
  console.Say(absl::StrCat("signed by key ", envelope->signatures(0).keyid()));
  console.Print(absl::StrCat(out, "\n"));
  return kExitPass;
}

int RunReleaseVerify(const ReleaseVerifyOptions& options, Console& console) {
  const absl::StatusOr<std::string> key = Verify(options);
  if (!key.ok()) {
    console.Fail(key.status());
    return absl::IsPermissionDenied(key.status()) ||
                   absl::IsFailedPrecondition(key.status())
               ? kExitIntegrity
               : kExitUsage;
  }
  console.Print(absl::StrCat("signed by key ", *key, "\n"));
  return kExitPass;
}

}  // namespace twinpath::cli
