#include "trust/dsse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"

namespace twinpath::trust {
namespace {

using ::testing::HasSubstr;

constexpr char kType[] = "http://example.com/HelloWorld";

PrivateKey NewKey() { return *PrivateKey::Generate(); }

std::string Pem(const std::string& der) {
  return absl::StrCat("-----BEGIN PUBLIC KEY-----\n", absl::Base64Escape(der),
                      "\n-----END PUBLIC KEY-----\n");
}

// The example of DSSE's protocol.md.
TEST(Dsse, PreAuthenticationEncoding) {
  EXPECT_EQ(PreAuthenticationEncoding(kType, "hello world"),
            "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
  EXPECT_EQ(PreAuthenticationEncoding("", ""), "DSSEv1 0  0 ");
}

// RFC 8032, section 7.1, test 2; the DER head of an Ed25519 key is of RFC 8410.
TEST(Dsse, Ed25519AsPublished) {
  const auto key = PublicKey::FromPem(
      Pem(absl::HexStringToBytes("302a300506032b6570032100") +
          absl::HexStringToBytes("3d4017c3e843895a92b70aa74d1b7ebc"
                                 "9c982ccf2ec4968cc0cd55f12af4660c")));
  ASSERT_THAT(key, IsOk());
  const std::string signature = absl::HexStringToBytes(
      "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
      "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00");
  EXPECT_TRUE(key->Verifies("\x72", signature));
  EXPECT_FALSE(key->Verifies("\x73", signature));
  EXPECT_FALSE(key->Verifies("\x72", signature.substr(1)));
  EXPECT_FALSE(key->Verifies("\x72", ""));
}

TEST(Dsse, SignedIsVerifiedByItsKeyOnly) {
  const PrivateKey key = NewKey();
  const PublicKey mine = *key.Public();
  const PublicKey other = *NewKey().Public();
  const auto envelope = SignEnvelope(kType, "payload", key);
  ASSERT_THAT(envelope, IsOk());
  EXPECT_EQ(envelope->signatures(0).keyid(), mine.id());
  EXPECT_EQ(*VerifyEnvelope(*envelope, kType, {other, mine}), mine.id());
  EXPECT_EQ(VerifyEnvelope(*envelope, kType, {other}).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(VerifyEnvelope(*envelope, kType, {}).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(Dsse, KeyIdIsNoProof) {
  const PrivateKey key = NewKey();
  auto envelope = SignEnvelope(kType, "payload", NewKey());
  ASSERT_THAT(envelope, IsOk());
  envelope->mutable_signatures(0)->set_keyid(key.Public()->id());
  EXPECT_FALSE(VerifyEnvelope(*envelope, kType, {*key.Public()}).ok());
}

TEST(Dsse, WhatIsChangedIsRefused) {
  const PrivateKey key = NewKey();
  const std::vector<PublicKey> keys = {*key.Public()};
  const v1::Envelope good = *SignEnvelope(kType, "payload", key);
  v1::Envelope bad = good;
  bad.set_payload("Payload");
  EXPECT_FALSE(VerifyEnvelope(bad, kType, keys).ok());
  bad = good;
  bad.set_payload_type("other");
  EXPECT_FALSE(VerifyEnvelope(bad, kType, keys).ok());
  EXPECT_FALSE(VerifyEnvelope(bad, "other", keys).ok());
  bad = good;
  bad.clear_signatures();
  EXPECT_THAT(std::string(VerifyEnvelope(bad, kType, keys).status().message()),
              HasSubstr("not signed"));
  bad = good;
  for (int i = 0; i < 20; ++i) *bad.add_signatures() = good.signatures(0);
  EXPECT_FALSE(VerifyEnvelope(bad, kType, keys).ok());
  // One bad signature beside a good one does no harm.
  bad = good;
  bad.mutable_signatures(0)->set_sig("x");
  *bad.add_signatures() = good.signatures(0);
  EXPECT_TRUE(VerifyEnvelope(bad, kType, keys).ok());
}

TEST(Dsse, KeysThatAreNone) {
  EXPECT_FALSE(PublicKey::FromPem("").ok());
  EXPECT_FALSE(PublicKey::FromPem("-----BEGIN PUBLIC KEY-----\nAAAA\n").ok());
  // An RSA key of 512 bits, as openssl writes it.
  EXPECT_FALSE(
      PublicKey::FromPem(
          "-----BEGIN PUBLIC KEY-----\n"
          "MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAL7a2qJyWv4mKq8Y5pZbHqL0bZk6u6bW\n"
          "n0yk8ZJ3zqk0h0o0oXo4dP2dQm0m1w8p8b8Yb6yqgq8rCkq1t2kq2r0CAwEAAQ==\n"
          "-----END PUBLIC KEY-----\n")
          .ok());
}

TEST(Dsse, KeysSurviveTheirPemForm) {
  const PrivateKey key = NewKey();
  const auto again = PrivateKey::FromPem(*key.PrivatePem());
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->Public()->id(), key.Public()->id());
}

TEST(Dsse, JsonIsThatOfDsse) {
  const PrivateKey key = NewKey();
  const v1::Envelope envelope = *SignEnvelope(kType, "hello world", key);
  const auto json = EnvelopeToJson(envelope);
  ASSERT_THAT(json, IsOk());
  EXPECT_THAT(*json, HasSubstr("\"payload\": \"aGVsbG8gd29ybGQ=\""));
  EXPECT_THAT(*json, HasSubstr("\"payloadType\": \"http://example.com/"));
  EXPECT_THAT(*json, HasSubstr("\"signatures\""));
  EXPECT_THAT(*json, HasSubstr("\"sig\""));
  const auto back = EnvelopeFromJson(*json);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->SerializeAsString(), envelope.SerializeAsString());
  EXPECT_FALSE(EnvelopeFromJson("[]").ok());
  EXPECT_FALSE(EnvelopeFromJson("").ok());
}

}  // namespace
}  // namespace twinpath::trust
