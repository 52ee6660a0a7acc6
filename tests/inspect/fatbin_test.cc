#include "inspect/fatbin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status_matchers.h"
#include "inspect/byte_source.h"
#include "tests/inspect/fatbin_builder.h"

namespace twinpath::inspect {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMany = 1000;

FatbinWalk Walk(const std::string& bytes, uint64_t offset = 0) {
  const MemorySource source(bytes);
  absl::StatusOr<FatbinWalk> walk =
      WalkFatbin(source, offset, bytes.size(), kMany);
  EXPECT_THAT(walk, IsOk());
  return *std::move(walk);
}

TEST(FatbinWalk, ReadsEntriesWithTheirExtensions) {
  EntrySpec sass = SassEntry({.sm = 120, .suffix = 'a'});
  sass.name = "vector_add.cu";
  const std::string bytes =
      BuildFatbin({sass, PtxEntry({.isa_major = 8, .isa_minor = 7})});
  const FatbinWalk walk = Walk(bytes);
  EXPECT_EQ(walk.state, FatbinState::kSound);
  EXPECT_EQ(walk.size, bytes.size());
  ASSERT_EQ(walk.entries.size(), 2);
  EXPECT_EQ(walk.entries[0].kind, kEntryElf);
  EXPECT_EQ(walk.entries[0].arch, 120);
  EXPECT_EQ(walk.entries[0].name, "vector_add.cu");
  EXPECT_EQ(SuffixOfFlags(walk.entries[0].flags), v1::TARGET_SUFFIX_ARCH);
  EXPECT_EQ(walk.entries[1].kind, kEntryPtx);
  EXPECT_EQ(walk.entries[1].version_major, 8);
  EXPECT_EQ(walk.entries[1].version_minor, 7);
  EXPECT_EQ(walk.entries[1].options, " ");
}

TEST(FatbinWalk, EmptyFatbinIsSound) {
  const FatbinWalk walk = Walk(BuildFatbin({}));
  EXPECT_EQ(walk.state, FatbinState::kSound);
  EXPECT_EQ(walk.size, 16);
  EXPECT_TRUE(walk.entries.empty());
}

TEST(FatbinWalk, WorksAtAnyAlignment) {
  const std::string fatbin = BuildFatbin({SassEntry({.sm = 80})});
  for (size_t shift = 0; shift < 8; ++shift) {
    const std::string bytes = std::string(shift, 'x') + fatbin;
    EXPECT_EQ(Walk(bytes, shift).state, FatbinState::kSound) << shift;
  }
}

TEST(FatbinWalk, AnotherVersionOrHeaderSizeIsNoFatbin) {
  std::string version = BuildFatbin({});
  Patch<uint16_t>(version, 4, 2);
  EXPECT_EQ(Walk(version).state, FatbinState::kNone);
  std::string header = BuildFatbin({});
  Patch<uint16_t>(header, 6, 24);
  EXPECT_EQ(Walk(header).state, FatbinState::kNone);
  EXPECT_EQ(Walk("\x50\xED\x55\xBA").state, FatbinState::kNone);
}

TEST(FatbinWalk, KeepsEntriesBeforeABrokenOne) {
  EntrySpec broken = SassEntry({.sm = 90});
  broken.claimed_header_bytes = 63;
  const FatbinWalk walk = Walk(BuildFatbin({SassEntry({.sm = 80}), broken}));
  EXPECT_EQ(walk.state, FatbinState::kDamaged);
  ASSERT_EQ(walk.entries.size(), 1);
  EXPECT_EQ(walk.entries[0].arch, 80);
  EXPECT_THAT(walk.problem, HasSubstr("entry 1 at offset"));
}

TEST(FatbinWalk, SizesThatOverflowAreDamage) {
  for (const uint64_t size : {~uint64_t{0}, ~uint64_t{0} - 15,
                              uint64_t{1} << 63, uint64_t{1} << 32}) {
    EXPECT_EQ(Walk(BuildFatbin({}, size)).state, FatbinState::kDamaged) << size;
    EntrySpec entry = SassEntry({.sm = 80});
    entry.claimed_payload_bytes = size;
    const FatbinWalk walk = Walk(BuildFatbin({entry}));
    EXPECT_EQ(walk.state, FatbinState::kDamaged) << size;
    EXPECT_TRUE(walk.entries.empty());
  }
}

TEST(FatbinWalk, CutAnywhereKeepsWhatIsWhole) {
  const std::vector<EntrySpec> entries = {
      SassEntry({.sm = 75}), PtxEntry({}, v1::COMPRESSION_ZSTD),
      SassEntry({.sm = 90}, v1::COMPRESSION_LZ4_BLOCK)};
  const std::string whole = BuildFatbin(entries);
  std::vector<size_t> ends = {16};
  for (const EntrySpec& entry : entries) {
    ends.push_back(ends.back() + BuildEntry(entry).size());
  }
  for (size_t cut = 16; cut < whole.size(); ++cut) {
    const FatbinWalk walk = Walk(whole.substr(0, cut));
    ASSERT_EQ(walk.state, FatbinState::kDamaged) << cut;
    size_t complete = 0;
    while (complete + 1 < ends.size() && ends[complete + 1] <= cut) ++complete;
    ASSERT_EQ(walk.entries.size(), complete) << cut;
  }
}

TEST(FatbinWalk, StopsAtTheLimitOfEntries) {
  std::vector<EntrySpec> entries(5);
  const std::string bytes = BuildFatbin(entries);
  const MemorySource source(bytes);
  EXPECT_THAT(WalkFatbin(source, 0, bytes.size(), 4),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(WalkFatbin(source, 0, bytes.size(), 5), IsOk());
}

TEST(FatbinWalk, ExtensionsOutsideTheHeaderAreLeftOut) {
  std::string bytes = BuildFatbin({PtxEntry({})});
  Patch<uint32_t>(bytes, 16 + 0x20, 60);
  Patch<uint32_t>(bytes, 16 + 0x24, 0xffffffff);
  Patch<uint32_t>(bytes, 16 + 0x14, 0xfffffff0);
  const FatbinWalk walk = Walk(bytes);
  ASSERT_EQ(walk.entries.size(), 1);
  EXPECT_EQ(walk.entries[0].name, "");
  EXPECT_EQ(walk.entries[0].options, "");
}

TEST(FatbinFlags, NameTheCodec) {
  EXPECT_EQ(CompressionOfFlags(0x11), v1::COMPRESSION_NONE);
  EXPECT_EQ(CompressionOfFlags(0x1011), v1::COMPRESSION_ZLIB);
  EXPECT_EQ(CompressionOfFlags(0x2011), v1::COMPRESSION_LZ4_BLOCK);
  EXPECT_EQ(CompressionOfFlags(0x4011), v1::COMPRESSION_LZ4_FRAME);
  EXPECT_EQ(CompressionOfFlags(0x8011), v1::COMPRESSION_ZSTD);
  EXPECT_EQ(CompressionOfFlags(0x18011), v1::COMPRESSION_OPAQUE);
  EXPECT_EQ(CompressionOfFlags(0xa011), v1::COMPRESSION_OPAQUE);
  EXPECT_EQ(SuffixOfFlags(0x1208011), v1::TARGET_SUFFIX_FAMILY);
  EXPECT_EQ(SuffixOfFlags(0x108011), v1::TARGET_SUFFIX_ARCH);
  EXPECT_EQ(SuffixOfFlags(0x11), v1::TARGET_SUFFIX_NONE);
}

}  // namespace
}  // namespace twinpath::inspect
