// DSSE envelopes (github.com/secure-systems-lab/dsse, protocol version 1) and
// the keys that sign them: Ed25519, and ECDSA over P-256 with SHA-256. Keys are
// PEM files as openssl writes them (SubjectPublicKeyInfo, PKCS#8). Objects are
// immutable; thread-safe.

#ifndef TWINPATH_TRUST_DSSE_H_
#define TWINPATH_TRUST_DSSE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/trust.pb.h"

namespace twinpath::trust {

// The bytes that are signed: "DSSEv1 LEN(type) type LEN(payload) payload".
std::string PreAuthenticationEncoding(absl::string_view payload_type,
                                      absl::string_view payload);

class PublicKey {
 public:
  // INVALID_ARGUMENT for text that is no PEM public key, or a key of a kind
  // that is not allowed here.
  static absl::StatusOr<PublicKey> FromPem(absl::string_view pem);

  // SHA-256, in hexadecimal, of the DER form of the key.
  const std::string& id() const { return id_; }
  bool Verifies(absl::string_view message, absl::string_view signature) const;

 private:
  friend class PrivateKey;
  PublicKey() = default;
  static absl::StatusOr<PublicKey> FromKey(std::shared_ptr<void> key);
  std::shared_ptr<void> key_;  // EVP_PKEY
  std::string id_;
};

class PrivateKey {
 public:
  // A new Ed25519 key.
  static absl::StatusOr<PrivateKey> Generate();
  // Errors as PublicKey. A key behind a password is not read.
  static absl::StatusOr<PrivateKey> FromPem(absl::string_view pem);

  absl::StatusOr<PublicKey> Public() const;
  absl::StatusOr<std::string> PublicPem() const;
  absl::StatusOr<std::string> PrivatePem() const;
  absl::StatusOr<std::string> Sign(absl::string_view message) const;

 private:
  PrivateKey() = default;
  std::shared_ptr<void> key_;  // EVP_PKEY
};

// An envelope with one signature.
absl::StatusOr<v1::Envelope> SignEnvelope(absl::string_view payload_type,
                                          absl::string_view payload,
                                          const PrivateKey& key);

// Returns the id of the first key of `keys` that signed `envelope`.
// PERMISSION_DENIED if none did, if it holds another type, no signature, or so
// many that checking them would be work for others' sake.
absl::StatusOr<std::string> VerifyEnvelope(const v1::Envelope& envelope,
                                           absl::string_view payload_type,
                                           const std::vector<PublicKey>& keys);

// The envelope as the JSON that DSSE defines, and back. INVALID_ARGUMENT for
// text that is none.
absl::StatusOr<std::string> EnvelopeToJson(const v1::Envelope& envelope);
absl::StatusOr<v1::Envelope> EnvelopeFromJson(absl::string_view json);

}  // namespace twinpath::trust

#endif  // TWINPATH_TRUST_DSSE_H_
