#include "inspect/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status_matchers.h"
#include "inspect/decoding_source.h"
#include "tests/inspect/fatbin_builder.h"

namespace twinpath::inspect {
namespace {

using ::testing::HasSubstr;

std::string Sample(size_t size) {
  std::string text;
  for (uint32_t i = 0; text.size() < size; ++i) {
    absl::StrAppend(&text, "line ", i * 2654435761u, "\n");
  }
  text.resize(size);
  return text;
}

class CodecTest : public ::testing::TestWithParam<v1::Compression> {
 protected:
  Decoder decoder_;
  Buffer buffer_;
};

TEST_P(CodecTest, DecodesAll) {
  const std::string plain = Sample(300'000);
  const std::string packed = Pack(plain, GetParam());
  ASSERT_THAT(decoder_.DecodeAll(GetParam(), packed, plain.size(), buffer_),
              IsOk());
  EXPECT_EQ(buffer_.view(), plain);
}

TEST_P(CodecTest, ALieAboutTheLengthIsDataLoss) {
  const std::string plain = Sample(5000);
  const std::string packed = Pack(plain, GetParam());
  for (const uint64_t lie : {uint64_t{0}, uint64_t{1}, plain.size() - 1,
                             plain.size() + 1, plain.size() * 7}) {
    EXPECT_THAT(decoder_.DecodeAll(GetParam(), packed, lie, buffer_),
                StatusIs(absl::StatusCode::kDataLoss))
        << lie;
    EXPECT_LE(buffer_.view().size(), lie);
  }
  ASSERT_THAT(decoder_.DecodeAll(GetParam(), packed, plain.size(), buffer_),
              IsOk())
      << "a decoder has to work again after an error";
}

TEST_P(CodecTest, CutPayloadIsDataLoss) {
  const std::string plain = Sample(20'000);
  const std::string packed = Pack(plain, GetParam());
  for (size_t cut = 0; cut < packed.size(); cut += 97) {
    EXPECT_THAT(decoder_.DecodeAll(GetParam(), packed.substr(0, cut),
                                   plain.size(), buffer_),
                StatusIs(absl::StatusCode::kDataLoss))
        << cut;
  }
}

// Blocks are decoded straight to where they are wanted, as far as is asked for.
TEST_P(CodecTest, DecodesAPrefixStepByStep) {
  const std::string plain = Sample(900'000);
  const std::string packed = Pack(plain, GetParam());
  const size_t some = std::min<size_t>(packed.size(), kPrefixStoredBytes);
  ASSERT_THAT(decoder_.StartPrefix(GetParam(),
                                   absl::string_view(packed).substr(0, some),
                                   plain.size(), buffer_),
              IsOk());
  for (const size_t size : {size_t{100}, size_t{200'000}, plain.size()}) {
    ASSERT_THAT(decoder_.ExtendPrefix(size, buffer_), IsOk());
    EXPECT_EQ(buffer_.view(), plain.substr(0, buffer_.view().size()));
    decoder_.ContinuePrefix(packed);
  }
  ASSERT_THAT(decoder_.ExtendPrefix(plain.size(), buffer_), IsOk());
  EXPECT_EQ(buffer_.view(), plain);
}

TEST_P(CodecTest, DecodesAPrefixFromThePayloadsBeginning) {
  const std::string plain = Sample(900'000);
  const std::string packed = Pack(plain, GetParam());
  const absl::StatusOr<absl::string_view> prefix = decoder_.DecodePrefix(
      GetParam(), absl::string_view(packed).substr(0, kPrefixStoredBytes), 64);
  EXPECT_THAT(prefix, IsOkAndHolds(plain.substr(0, 64)));
}

INSTANTIATE_TEST_SUITE_P(
    All, CodecTest,
    ::testing::Values(v1::COMPRESSION_NONE, v1::COMPRESSION_ZLIB,
                      v1::COMPRESSION_LZ4_BLOCK, v1::COMPRESSION_LZ4_FRAME,
                      v1::COMPRESSION_ZSTD, v1::COMPRESSION_GZIP),
    [](const auto& info) { return v1::Compression_Name(info.param); });

class DecodingSourceTest : public ::testing::TestWithParam<v1::Compression> {};

TEST_P(DecodingSourceTest, ReadsForwardAndBack) {
  const std::string plain = Sample(5'000'000);
  const std::string packed = Pack(plain, GetParam());
  const MemorySource stored(packed);
  auto source = DecodingSource::Open(GetParam(), stored, plain.size());
  ASSERT_THAT(source, IsOk());
  for (const uint64_t at : {0u, 10u, 1'048'570u, 4'000'000u, 3u, 2'500'000u}) {
    std::string out(1000, '\0');
    ASSERT_THAT((*source)->ReadAt(at, out.size(), out.data()), IsOk()) << at;
    EXPECT_EQ(out, plain.substr(at, 1000)) << at;
  }
  char one;
  EXPECT_THAT((*source)->ReadAt(plain.size(), 1, &one),
              StatusIs(absl::StatusCode::kOutOfRange));
}

TEST_P(DecodingSourceTest, AStreamShorterThanItsClaimIsDataLoss) {
  const std::string plain = Sample(10'000);
  const std::string packed = Pack(plain, GetParam());
  const MemorySource stored(packed);
  auto source = DecodingSource::Open(GetParam(), stored, 1 << 20);
  ASSERT_THAT(source, IsOk());
  char one;
  EXPECT_THAT((*source)->ReadAt(20'000, 1, &one),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("10000")));
}

INSTANTIATE_TEST_SUITE_P(
    Streams, DecodingSourceTest,
    ::testing::Values(v1::COMPRESSION_ZLIB, v1::COMPRESSION_LZ4_FRAME,
                      v1::COMPRESSION_ZSTD, v1::COMPRESSION_GZIP),
    [](const auto& info) { return v1::Compression_Name(info.param); });

// The format calls offset 0 invalid; liblz4 copies whatever memory held.
TEST(Decoder, RefusesLz4MatchesOfOffsetZero) {
  Decoder decoder;
  Buffer out;
  // Four literals, a match of four, twelve literals: a block ends with some.
  const std::string good(
      "\x40"
      "abcd"
      "\x04\x00"
      "\xC0"
      "efghijklmnop",
      20);
  ASSERT_THAT(decoder.DecodeAll(v1::COMPRESSION_LZ4_BLOCK, good, 20, out),
              IsOk());
  EXPECT_EQ(out.view(), "abcdabcdefghijklmnop");
  std::string bad = good;
  bad[5] = '\0';
  EXPECT_THAT(decoder.DecodeAll(v1::COMPRESSION_LZ4_BLOCK, bad, 20, out),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("offset 0")));
  EXPECT_THAT(decoder.DecodePrefix(v1::COMPRESSION_LZ4_BLOCK, bad, 8),
              StatusIs(absl::StatusCode::kDataLoss));
  // Lengths that go on over several bytes are walked over.
  std::string plain(100'000, 'x');
  plain += Sample(100'000);
  const std::string packed = Pack(plain, v1::COMPRESSION_LZ4_BLOCK);
  ASSERT_THAT(
      decoder.DecodeAll(v1::COMPRESSION_LZ4_BLOCK, packed, plain.size(), out),
      IsOk());
  EXPECT_EQ(out.view(), plain);
}

TEST(Decoder, RefusesOpaquePayloads) {
  Decoder decoder;
  Buffer buffer;
  EXPECT_THAT(decoder.DecodeAll(v1::COMPRESSION_OPAQUE, "abc", 3, buffer),
              StatusIs(absl::StatusCode::kUnimplemented));
}

}  // namespace
}  // namespace twinpath::inspect
