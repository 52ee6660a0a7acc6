#include "base/digest.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>

#include "base/file.h"
#include "base/status_matchers.h"

namespace twinpath {
namespace {

using ::testing::HasSubstr;

// FIPS 180-4 examples, https://csrc.nist.gov/projects/cryptographic-standards-
// and-guidelines/example-values (SHA256.pdf, and SHA2_Additional.pdf).
constexpr char kEmpty[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kAbc[] =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kTwoBlocks[] =
    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
constexpr char kMillionA[] =
    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(Sha256, MatchesKnownVectors) {
  EXPECT_EQ(Sha256Of("").Hex(), kEmpty);
  EXPECT_EQ(Sha256Of("abc").Hex(), kAbc);
  EXPECT_EQ(Sha256Of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")
                .Hex(),
            kTwoBlocks);
  EXPECT_EQ(Sha256Of(std::string(1'000'000, 'a')).Hex(), kMillionA);
}

TEST(Sha256, StreamIsTheSameInPiecesAndStartsAnew) {
  Sha256Stream stream;
  for (int i = 0; i < 1000; ++i) stream.Update(std::string(1000, 'a'));
  stream.Update("");
  EXPECT_EQ(stream.Finish().Hex(), kMillionA);
  EXPECT_EQ(stream.Finish().Hex(), kEmpty);
  stream.Update("a");
  stream.Update("bc");
  EXPECT_EQ(stream.Finish().Hex(), kAbc);
}

TEST(Sha256, TextFormsReadBack) {
  const Sha256 digest = Sha256Of("abc");
  EXPECT_THAT(Sha256::FromHex(kAbc), IsOkAndHolds(digest));
  EXPECT_THAT(
      Sha256::FromHex(
          "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"),
      IsOkAndHolds(digest));
  EXPECT_THAT(Sha256::FromRaw(digest.Raw()), IsOkAndHolds(digest));
  EXPECT_EQ(digest.Raw().size(), 32u);
}

TEST(Sha256, RefusesOtherText) {
  for (const std::string& bad :
       {std::string(""), std::string(63, 'a'), std::string(65, 'a'),
        std::string(63, 'a') + "g", std::string(63, 'a') + "\xff"}) {
    EXPECT_THAT(Sha256::FromHex(bad),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(Sha256::FromRaw(std::string(31, 'x')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("31")));
}

TEST(Sha256, OrdersAsItsBytes) {
  Sha256 low;
  Sha256 high;
  low.bytes[0] = 1;
  high.bytes[0] = 0xff;
  EXPECT_LT(low, high);
  EXPECT_NE(low, high);
}

TEST(Sha256, HashesAFileFromItsStart) {
  absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const std::string path = JoinPath(folder->path(), "file");
  ASSERT_THAT(WriteFileAtomic(path, std::string(1'000'000, 'a')), IsOk());
  absl::StatusOr<UniqueFd> fd = OpenForRead(path);
  ASSERT_THAT(fd, IsOk());
  ASSERT_EQ(lseek(fd->get(), 77, SEEK_SET), 77);
  absl::StatusOr<Sha256> digest = Sha256OfDescriptor(fd->get());
  ASSERT_THAT(digest, IsOk());
  EXPECT_EQ(digest->Hex(), kMillionA);
  EXPECT_EQ(lseek(fd->get(), 0, SEEK_CUR), 77);

  digest = Sha256OfFile(path);
  ASSERT_THAT(digest, IsOk());
  EXPECT_EQ(digest->Hex(), kMillionA);
}

TEST(Sha256, RefusesWhatNeverEnds) {
  EXPECT_THAT(Sha256OfFile("/dev/zero"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Sha256OfFile("/nonexistent/x"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Sha256OfDescriptor(-1), ::testing::Not(IsOk()));
}

TEST(RandomHex, HasTheLengthAndDiffers) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string value = RandomHex(16);
    EXPECT_THAT(value, ::testing::MatchesRegex("[0-9a-f]+"));
    EXPECT_EQ(value.size(), 32u);
    seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(RandomHex(0), "");
}

}  // namespace
}  // namespace twinpath
