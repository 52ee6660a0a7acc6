#include "trust/dsse.h"

#include <google/protobuf/util/json_util.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/status.h"

namespace twinpath::trust {
namespace {

constexpr int kMaxSignatures = 16;
constexpr size_t kMaxSignatureBytes = 1024;

using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;
using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

EVP_PKEY* Raw(const std::shared_ptr<void>& key) {
  return static_cast<EVP_PKEY*>(key.get());
}

std::shared_ptr<void> Own(EVP_PKEY* key) {
  return {key, [](void* p) { EVP_PKEY_free(static_cast<EVP_PKEY*>(p)); }};
}

absl::Status CheckKind(EVP_PKEY* key) {
  if (EVP_PKEY_is_a(key, "ED25519") == 1) return absl::OkStatus();
  if (EVP_PKEY_is_a(key, "EC") == 1) {
    char group[64] = {};
    size_t size = 0;
    if (EVP_PKEY_get_group_name(key, group, sizeof(group), &size) == 1 &&
        absl::string_view(group) == "prime256v1") {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      "the key is neither Ed25519 nor ECDSA over P-256; make one with "
      "'openssl genpkey -algorithm ed25519'");
}

// Ed25519 hashes for itself.
const EVP_MD* DigestFor(EVP_PKEY* key) {
  return EVP_PKEY_is_a(key, "ED25519") == 1 ? nullptr : EVP_sha256();
}

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// No password is ever asked for on a terminal.
int NoPassword(char*, int, int, void*) { return -1; }

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : "";
}

absl::Status Refused(absl::string_view why) {
  return absl::PermissionDeniedError(std::string(why));
}

}  // namespace

std::string PreAuthenticationEncoding(absl::string_view payload_type,
                                      absl::string_view payload) {
  return absl::StrCat("DSSEv1 ", payload_type.size(), " ", payload_type, " ",
                      payload.size(), " ", payload);
}

absl::StatusOr<PublicKey> PublicKey::FromKey(std::shared_ptr<void> key) {
  TWINPATH_RETURN_IF_ERROR(CheckKind(Raw(key)));
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(Raw(key), &der);
  if (size <= 0) {
    return absl::InvalidArgumentError("the public key has no DER form");
  }
  PublicKey result;
  result.id_ = Sha256Of(absl::string_view(reinterpret_cast<const char*>(der),
                                          static_cast<size_t>(size)))
                   .Hex();
  OPENSSL_free(der);
  result.key_ = std::move(key);
  return result;
}

absl::StatusOr<PublicKey> PublicKey::FromPem(absl::string_view pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                BIO_free);
  EVP_PKEY* key = bio == nullptr ? nullptr
                                 : PEM_read_bio_PUBKEY(bio.get(), nullptr,
                                                       NoPassword, nullptr);
  if (key == nullptr) {
    return absl::InvalidArgumentError("it holds no public key in PEM form");
  }
  return FromKey(Own(key));
}

bool PublicKey::Verifies(absl::string_view message,
                         absl::string_view signature) const {
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  return context != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, DigestFor(Raw(key_)),
                              nullptr, Raw(key_)) == 1 &&
         EVP_DigestVerify(context.get(), Bytes(signature), signature.size(),
                          Bytes(message), message.size()) == 1;
}

absl::StatusOr<PrivateKey> PrivateKey::Generate() {
  EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  if (key == nullptr) return absl::InternalError("no Ed25519 key can be made");
  PrivateKey result;
  result.key_ = Own(key);
  return result;
}

absl::StatusOr<PrivateKey> PrivateKey::FromPem(absl::string_view pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                BIO_free);
  EVP_PKEY* key = bio == nullptr ? nullptr
                                 : PEM_read_bio_PrivateKey(bio.get(), nullptr,
                                                           NoPassword, nullptr);
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        "it holds no private key in PEM form without a password");
  }
  PrivateKey result;
  result.key_ = Own(key);
  TWINPATH_RETURN_IF_ERROR(CheckKind(key));
  return result;
}

absl::StatusOr<std::string> PrivateKey::PublicPem() const {
  const Bio bio(BIO_new(BIO_s_mem()), BIO_free);
  if (bio == nullptr || PEM_write_bio_PUBKEY(bio.get(), Raw(key_)) != 1) {
    return absl::InternalError("the public key cannot be written");
  }
  return TextOf(bio.get());
}

absl::StatusOr<std::string> PrivateKey::PrivatePem() const {
  const Bio bio(BIO_new(BIO_s_mem()), BIO_free);
  if (bio == nullptr ||
      PEM_write_bio_PrivateKey(bio.get(), Raw(key_), nullptr, nullptr, 0,
                               nullptr, nullptr) != 1) {
    return absl::InternalError("the private key cannot be written");
  }
  return TextOf(bio.get());
}

absl::StatusOr<PublicKey> PrivateKey::Public() const {
  TWINPATH_ASSIGN_OR_RETURN(const std::string pem, PublicPem());
  return PublicKey::FromPem(pem);
}

absl::StatusOr<std::string> PrivateKey::Sign(absl::string_view message) const {
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  size_t size = 0;
  if (context == nullptr ||
      EVP_DigestSignInit(context.get(), nullptr, DigestFor(Raw(key_)), nullptr,
                         Raw(key_)) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, Bytes(message),
                     message.size()) != 1) {
    return absl::InternalError("signing failed");
  }
  std::string signature(size, '\0');
  if (EVP_DigestSign(context.get(),
                     reinterpret_cast<unsigned char*>(signature.data()), &size,
                     Bytes(message), message.size()) != 1) {
    return absl::InternalError("signing failed");
  }
  signature.resize(size);
  return signature;
}

absl::StatusOr<v1::Envelope> SignEnvelope(absl::string_view payload_type,
                                          absl::string_view payload,
                                          const PrivateKey& key) {
  TWINPATH_ASSIGN_OR_RETURN(const PublicKey public_key, key.Public());
  TWINPATH_ASSIGN_OR_RETURN(
      std::string signature,
      key.Sign(PreAuthenticationEncoding(payload_type, payload)));
  v1::Envelope envelope;
  envelope.set_payload(std::string(payload));
  envelope.set_payload_type(std::string(payload_type));
  v1::EnvelopeSignature& made = *envelope.add_signatures();
  made.set_sig(std::move(signature));
  made.set_keyid(public_key.id());
  return envelope;
}

absl::StatusOr<std::string> VerifyEnvelope(const v1::Envelope& envelope,
                                           absl::string_view payload_type,
                                           const std::vector<PublicKey>& keys) {
  if (envelope.signatures().empty()) return Refused("it is not signed");
  if (envelope.payload_type() != payload_type) {
    return Refused(absl::StrCat("its payload type is not ", payload_type));
  }
  if (envelope.signatures_size() > kMaxSignatures) {
    return Refused(
        absl::StrCat("it has more than ", kMaxSignatures, " signatures"));
  }
  const std::string message =
      PreAuthenticationEncoding(payload_type, envelope.payload());
  for (const v1::EnvelopeSignature& signature : envelope.signatures()) {
    if (signature.sig().size() > kMaxSignatureBytes) continue;
    for (const PublicKey& key : keys) {
      if (key.Verifies(message, signature.sig())) return key.id();
    }
  }
  return Refused(absl::StrCat("no signature is of one of the ", keys.size(),
                              " trusted key(s)"));
}

absl::StatusOr<std::string> EnvelopeToJson(const v1::Envelope& envelope) {
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  if (!google::protobuf::util::MessageToJsonString(envelope, &json, options)
           .ok()) {
    return absl::InternalError("the envelope has no JSON form");
  }
  return json;
}

absl::StatusOr<v1::Envelope> EnvelopeFromJson(absl::string_view json) {
  v1::Envelope envelope;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(json.data(), json.size()), &envelope);
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it is no DSSE envelope: ", std::string(status.message())));
  }
  return envelope;
}

}  // namespace twinpath::trust
