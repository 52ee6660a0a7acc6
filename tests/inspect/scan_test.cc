#include "inspect/scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status_matchers.h"
#include "inspect/byte_source.h"
#include "inspect/find_beginning.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Hit {
  uint64_t offset;
  FatbinState state;
  friend bool operator==(const Hit&, const Hit&) = default;
};

std::vector<Hit> Scan(const std::string& bytes,
                      std::vector<ScanRange> ranges = {}) {
  const MemorySource source(bytes);
  if (ranges.empty()) ranges = {{0, bytes.size(), false}};
  std::vector<Hit> hits;
  EXPECT_THAT(ScanForFatbins(source, ranges,
                             [&](FatbinWalk walk) {
                               hits.push_back({walk.offset, walk.state});
                               return true;
                             }),
              IsOk());
  return hits;
}

TEST(FindFatbinMagic, FindsItAtEveryPlace) {
  for (size_t at = 0; at < 200; ++at) {
    for (const size_t behind : {size_t{0}, size_t{1}, size_t{100}}) {
      const std::string bytes =
          std::string(at, '\x50') + kFatbinMagic + std::string(behind, '\xED');
      EXPECT_EQ(FindFatbinMagic(bytes), at);
    }
  }
  EXPECT_EQ(FindFatbinMagic(std::string(500, '\x50')), absl::string_view::npos);
  EXPECT_EQ(FindFatbinMagic("\x50\xED\x55"), absl::string_view::npos);
}

TEST(Scan, FindsFatbinsBackToBackAndBehindPadding) {
  const std::string fatbin = BuildFatbin({SassEntry({.sm = 80})});
  const std::string bytes =
      fatbin + fatbin + std::string(24, '\0') + fatbin + BuildFatbin({});
  const uint64_t n = fatbin.size();
  EXPECT_THAT(Scan(bytes), ElementsAre(Hit{0, FatbinState::kSound},
                                       Hit{n, FatbinState::kSound},
                                       Hit{2 * n + 24, FatbinState::kSound},
                                       Hit{3 * n + 24, FatbinState::kSound}));
}

// Windows grow while nothing is found; wherever their ends fall, nothing is
// missed and nothing is found twice.
TEST(Scan, WindowEndsMissNothing) {
  const std::string fatbin = BuildFatbin({SassEntry({.sm = 80})});
  EntrySpec broken = SassEntry({.sm = 90});
  broken.claimed_header_bytes = 1;
  const std::string damaged = BuildFatbin({broken});
  for (const size_t end : {size_t{4096}, size_t{4096 + 8192 - 64},
                           size_t{4096 + 8192 + 16384 - 128}}) {
    for (size_t shift = 0; shift < 80; ++shift) {
      const std::string bytes =
          std::string(end - shift, 'x') + fatbin + std::string(5000, 'x');
      EXPECT_THAT(Scan(bytes),
                  ElementsAre(Hit{end - shift, FatbinState::kSound}))
          << end << " " << shift;
      const std::string other =
          std::string(end - shift, 'x') + damaged + std::string(5000, 'x');
      EXPECT_THAT(Scan(other),
                  ElementsAre(Hit{end - shift, FatbinState::kDamaged}))
          << end << " " << shift;
    }
  }
}

TEST(Scan, GoesOnBehindADamagedFatbin) {
  EntrySpec broken = SassEntry({.sm = 90});
  broken.claimed_payload_bytes = 1 << 30;
  const std::string damaged = BuildFatbin({SassEntry({.sm = 75}), broken});
  const std::string sound = BuildFatbin({SassEntry({.sm = 80})});
  EXPECT_THAT(Scan(damaged + sound),
              ElementsAre(Hit{0, FatbinState::kDamaged},
                          Hit{damaged.size(), FatbinState::kSound}));
}

TEST(Scan, InCodeOnlySoundFatbinsCount) {
  const std::string sound = BuildFatbin({SassEntry({.sm = 80})});
  const std::string bytes = BuildFatbin({}, 12345678) + sound;
  EXPECT_THAT(Scan(bytes, {{0, bytes.size(), true}}),
              ElementsAre(Hit{16, FatbinState::kSound}));
}

TEST(Scan, StopsWhenTold) {
  const std::string bytes = BuildFatbin({}) + BuildFatbin({});
  const MemorySource source(bytes);
  int count = 0;
  EXPECT_THAT(ScanForFatbins(source, {{0, bytes.size(), false}},
                             [&](FatbinWalk) { return ++count < 1; }),
              IsOk());
  EXPECT_EQ(count, 1);
}

TEST(ScanRanges, LeaveExecutableSectionsOut) {
  const std::string bytes = BuildElf({.text = std::string(256, '\x90')});
  const MemorySource source(bytes);
  const absl::StatusOr<ElfView> elf = ElfView::Open(source);
  ASSERT_THAT(elf, IsOk());
  const ElfSection* text = elf->FindSection(".text");
  ASSERT_NE(text, nullptr);
  EXPECT_THAT(ScanRanges(*elf, bytes.size()),
              ElementsAre(ScanRange{0, text->offset, false},
                          ScanRange{text->offset + 256, bytes.size(), false}));
}

// Without sections an executable segment may hold read-only data: it is looked
// at, as code.
TEST(ScanRanges, WithoutSectionsEverythingIsLookedAt) {
  const std::string bytes = BuildElf({.without_sections = true});
  const MemorySource source(bytes);
  const absl::StatusOr<ElfView> elf = ElfView::Open(source);
  ASSERT_THAT(elf, IsOk());
  ASSERT_THAT(elf->sections(), IsEmpty());
  const std::vector<ScanRange> ranges = ScanRanges(*elf, bytes.size());
  ASSERT_EQ(ranges.size(), 3);
  EXPECT_EQ(ranges[0].begin, 0);
  EXPECT_TRUE(ranges[1].code);
  EXPECT_EQ(ranges[2].end, bytes.size());
}

TEST(ScanRanges, SectionsThatOverlapAreLookedAtOnce) {
  std::string bytes = ElfHeader(3, 62, 1, 0, 0, 0);
  SectionLayout layout;
  const std::string data(100, 'x');
  for (int i = 0; i < 50; ++i) {
    layout.Add({.name = ".a",
                .flags = i % 2 == 0 ? 6u : 2u,
                .data = data,
                .offset = 64});
  }
  bytes += data;
  layout.Finish(bytes);
  const MemorySource source(bytes);
  const absl::StatusOr<ElfView> elf = ElfView::Open(source);
  ASSERT_THAT(elf, IsOk());
  EXPECT_THAT(ScanRanges(*elf, bytes.size()),
              ElementsAre(ScanRange{0, 64, false},
                          ScanRange{164, bytes.size(), false}));
}

}  // namespace
}  // namespace twinpath::inspect
