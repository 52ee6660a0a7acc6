#include "trust/signed_release.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/file.h"
#include "base/status_matchers.h"
#include "trust/release.h"
#include "trust/trusted_keys.h"

namespace twinpath::trust {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::Release Demo() {
  v1::Release release;
  release.mutable_artifact()->mutable_digest()->set_sha256(
      std::string(32, '\x11'));
  v1::Entry& entry = *release.add_entries();
  entry.set_name("run");
  entry.add_command("bin/run");
  return release;
}

class SignedRelease : public ::testing::Test {
 protected:
  SignedRelease() : key_(*PrivateKey::Generate()) {
    host_.keys = {*key_.Public()};
    host_.now = absl::FromUnixSeconds(1'000'000);
  }
  std::string Refusal(const v1::Release& release,
                      const v1::Envelope& envelope) const {
    const auto result = VerifyRelease(release, envelope, host_);
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(result.status().message()),
                StartsWith("TP130 release-refused: "));
    return std::string(result.status().message());
  }
  const PrivateKey key_;
  HostTrust host_;
};

TEST_F(SignedRelease, RunsWhatWasSigned) {
  const v1::Release release = Demo();
  const auto envelope = SignRelease(release, key_);
  ASSERT_THAT(envelope, IsOk());
  EXPECT_EQ(envelope->payload(), *ReleaseText(release));
  EXPECT_EQ(*VerifyRelease(release, *envelope, host_), key_.Public()->id());
}

TEST_F(SignedRelease, NothingElse) {
  const v1::Envelope envelope = *SignRelease(Demo(), key_);
  v1::Release other = Demo();
  other.mutable_entries(0)->add_command("--more");
  EXPECT_THAT(Refusal(other, envelope), HasSubstr("another release"));
  other = Demo();
  other.mutable_entries(0)->mutable_timeout()->set_seconds(1);
  Refusal(other, envelope);
  other = Demo();
  other.mutable_artifact()->mutable_digest()->set_sha256(
      std::string(32, '\x12'));
  Refusal(other, envelope);
  other = Demo();
  other.mutable_entries(0)->clear_command();
  Refusal(other, envelope);
  EXPECT_THAT(Refusal(Demo(), v1::Envelope()), HasSubstr("not signed"));
}

// A field that the text leaves out could be changed behind the signature. A new
// field goes into the text, with lines only where it is set, then its number in
// here.
TEST_F(SignedRelease, EveryFieldOfAnEntryIsInTheText) {
  EXPECT_EQ(v1::Entry::descriptor()->field_count(), 17);
  EXPECT_EQ(v1::EnvironmentVariable::descriptor()->field_count(), 2);
  EXPECT_EQ(v1::GpuRequest::descriptor()->field_count(), 2);
  EXPECT_EQ(v1::ExpectedOutput::descriptor()->field_count(), 5);
  EXPECT_EQ(v1::ExpectedNumbers::descriptor()->field_count(), 2);
  EXPECT_EQ(v1::Tolerance::descriptor()->field_count(), 3);
  EXPECT_EQ(v1::ExpectedFile::descriptor()->field_count(), 2);
  EXPECT_EQ(v1::Comparison::descriptor()->field_count(), 2);
  // Of a reference: digests and names; its bytes must have the digests, origin
  // and time are for people.
  EXPECT_EQ(v1::Reference::descriptor()->field_count(), 5);
  EXPECT_EQ(v1::ReferenceFile::descriptor()->field_count(), 3);
  // Of a release: artifact (its digest), entries, expect, source_revision,
  // not_after, host_labels; build is evidence with digests of its own.
  EXPECT_EQ(v1::Release::descriptor()->field_count(), 7);
}

TEST_F(SignedRelease, NotAfterItsTime) {
  v1::Release release = Demo();
  release.mutable_not_after()->set_seconds(1'000'000);
  const v1::Envelope envelope = *SignRelease(release, key_);
  EXPECT_TRUE(VerifyRelease(release, envelope, host_).ok());
  host_.now += absl::Seconds(1);
  EXPECT_THAT(Refusal(release, envelope), HasSubstr("1970-01-12"));
}

TEST_F(SignedRelease, OnlyOnHostsWithItsLabels) {
  v1::Release release = Demo();
  release.add_host_labels("site=lab");
  release.add_host_labels("site=office");
  release.add_host_labels("stage=test");
  const v1::Envelope envelope = *SignRelease(release, key_);
  EXPECT_THAT(Refusal(release, envelope), HasSubstr("label"));
  host_.labels = {"site=office"};
  EXPECT_THAT(Refusal(release, envelope), HasSubstr("stage"));
  host_.labels = {"site=office", "stage=test", "rack=1"};
  EXPECT_TRUE(VerifyRelease(release, envelope, host_).ok());
}

TEST(HostLabels, OneALine) {
  EXPECT_THAT(*ParseHostLabels("# what\nsite=lab\n\n  a=b=c \n"),
              ElementsAre("site=lab", "a=b=c"));
  EXPECT_FALSE(ParseHostLabels("site\n").ok());
  EXPECT_FALSE(ParseHostLabels("=lab\n").ok());
}

class TrustedKeys : public ::testing::Test {
 protected:
  TrustedKeys() : folder_(*TempDirectory::Make()) {}
  void Put(const std::string& name, const std::string& text,
           uint32_t mode = 0644) {
    const std::string path = JoinPath(folder_.path(), name);
    ASSERT_THAT(WriteFileAtomic(path, text, mode), IsOk());
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  }
  absl::StatusOr<std::vector<PublicKey>> Load(uid_t owner = getuid()) {
    return LoadTrustedKeys(folder_.path(), owner);
  }
  std::string Why() { return std::string(Load().status().message()); }
  const TempDirectory folder_;
};

TEST_F(TrustedKeys, AreRead) {
  const PrivateKey key = *PrivateKey::Generate();
  Put("a.pem", *key.PublicPem());
  Put("README", "not a key");
  const auto keys = Load();
  ASSERT_THAT(keys, IsOk());
  ASSERT_EQ(keys->size(), 1u);
  EXPECT_EQ((*keys)[0].id(), key.Public()->id());
}

TEST_F(TrustedKeys, NoneIsNone) {
  EXPECT_THAT(Why(), HasSubstr("no key is trusted"));
  EXPECT_EQ(LoadTrustedKeys("/nowhere").status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(TrustedKeys, OfOthersAreRefused) {
  Put("a.pem", *PrivateKey::Generate()->PublicPem());
  EXPECT_EQ(Load(getuid() + 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
  Put("b.pem", *PrivateKey::Generate()->PublicPem(), 0664);
  EXPECT_THAT(Why(), HasSubstr("chmod go-w"));
}

TEST_F(TrustedKeys, AFolderThatOthersMayWriteIsRefused) {
  Put("a.pem", *PrivateKey::Generate()->PublicPem());
  ASSERT_EQ(chmod(folder_.path().c_str(), 0777), 0);
  EXPECT_THAT(Why(), HasSubstr("may be written"));
}

TEST_F(TrustedKeys, OneThatIsNoKeyIsNamed) {
  Put("a.pem", "nonsense");
  EXPECT_THAT(Why(), HasSubstr("a.pem"));
  // A private key is no public key; it should not lie there either.
  Put("a.pem", *PrivateKey::Generate()->PrivatePem());
  EXPECT_FALSE(Load().ok());
}

}  // namespace
}  // namespace twinpath::trust
