// Files that lie, are cut, or are something else than their name says. Each is
// named as what it is; what can be read is read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inspect/inspect.h"
#include "inspect/summary.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"

namespace twinpath::inspect {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Hostile, EmptyFile) {
  const v1::FileReport report = InspectBytes("");
  EXPECT_EQ(report.kind(), v1::FILE_KIND_OTHER);
  EXPECT_EQ(report.size_bytes(), 0);
  EXPECT_THAT(report.fatbins(), IsEmpty());
}

TEST(Hostile, ScriptsAndLinkerTextAreText) {
  EXPECT_EQ(InspectBytes("#!/bin/sh\nexec python3\n").kind(),
            v1::FILE_KIND_TEXT);
  EXPECT_EQ(InspectBytes("/* GNU ld script */\nGROUP ( libc.so.6 )\n").kind(),
            v1::FILE_KIND_TEXT);
}

TEST(Hostile, AScriptWithBinaryDataBehindItIsPacked) {
  const v1::FileReport report =
      InspectBytes("#!/bin/sh\ntail -n +3 $0 | xz -d\n" +
                   std::string("\xfd"
                               "7zXZ\0\0\4",
                               8) +
                   std::string(9000, '\1'));
  EXPECT_EQ(report.kind(), v1::FILE_KIND_PACKED);
  EXPECT_THAT(ProblemCodes(report), ElementsAre("TP215"));
}

TEST(Hostile, UpxIsPacked) {
  std::string bytes = BuildElf({.type = 2, .without_sections = true});
  bytes.insert(bytes.size() - 16, "UPX!");
  const v1::FileReport report = InspectBytes(bytes);
  EXPECT_EQ(report.kind(), v1::FILE_KIND_PACKED);
  EXPECT_THAT(ProblemCodes(report), Contains("TP215"));
}

TEST(Hostile, AProgramThatOnlyMentionsUpxIsNotPacked) {
  EXPECT_EQ(InspectBytes(BuildElf({.type = 2, .rodata = "UPX!"})).kind(),
            v1::FILE_KIND_ELF_EXECUTABLE);
}

TEST(Hostile, ArchivesAreNamed) {
  const struct {
    std::string head;
    const char* name;
  } kCases[] = {{"!<thin>\nx", "thin ar archive"},
                {std::string("PK\3\4\24\0", 6), "zip"},
                {std::string("\x1f\x8b\x08\0", 4), "gzip"},
                {std::string("\xfd"
                             "7zXZ\0",
                             6),
                 "xz"},
                {"\x28\xb5\x2f\xfd....", "zstd"},
                {std::string(257, '\0') + "ustar", "tar"}};
  for (const auto& row : kCases) {
    const v1::FileReport report = InspectBytes(row.head);
    EXPECT_EQ(report.kind(), v1::FILE_KIND_ARCHIVE) << row.name;
    ASSERT_EQ(report.problems_size(), 1);
    EXPECT_EQ(report.problems(0).code(), "TP232");
    EXPECT_THAT(report.problems(0).detail(), HasSubstr(row.name));
  }
}

// Members of a static archive lie at even offsets, not at multiples of 8.
TEST(Hostile, FatbinsInAStaticArchiveAreFoundUnaligned) {
  const v1::FileReport report =
      InspectBytes("!<arch>\n" + std::string(62, ' ') +
                   BuildFatbin({SassEntry({.sm = 90})}));
  EXPECT_EQ(report.kind(), v1::FILE_KIND_ARCHIVE);
  ASSERT_EQ(report.fatbins_size(), 1);
  EXPECT_EQ(report.fatbins(0).offset(), 70);
  EXPECT_THAT(KernelNames(report.fatbins(0).images(0)),
              ElementsAre("_Z6kernelPi"));
}

TEST(Hostile, MagicInCodeIsNoFatbin) {
  const v1::FileReport report = InspectBytes(
      BuildElf({.text = std::string(40, '\x90') + BuildFatbin({}, 1 << 20)}));
  EXPECT_THAT(report.fatbins(), IsEmpty());
  EXPECT_THAT(report.problems(), IsEmpty());
}

TEST(Hostile, CutElfIsDamagedAndStillRead) {
  const std::string whole =
      BuildElf({.fatbins = {BuildFatbin({SassEntry({.sm = 90})})}});
  // The section table stands at the end; without it the segments serve.
  const v1::FileReport report =
      InspectBytes(absl::string_view(whole).substr(0, whole.size() - 64));
  EXPECT_EQ(report.kind(), v1::FILE_KIND_DAMAGED_ELF);
  EXPECT_THAT(ProblemCodes(report), Contains("TP233"));
  ASSERT_EQ(report.fatbins_size(), 1);
  EXPECT_EQ(report.fatbins(0).registration(), v1::REGISTRATION_REGISTERED);
}

TEST(Hostile, ElfCutAnywhereNeverBreaksTheReader) {
  const std::string whole = BuildElf(
      {.fatbins = {BuildFatbin(
           {SassEntry({.sm = 90}, v1::COMPRESSION_ZSTD), PtxEntry({})})},
       .soname = "libx.so",
       .needed = {"libc.so.6"}});
  for (size_t cut = 0; cut < whole.size(); cut += 7) {
    const v1::FileReport report =
        InspectBytes(absl::string_view(whole).substr(0, cut));
    if (cut >= 4) {
      EXPECT_EQ(report.kind(), v1::FILE_KIND_DAMAGED_ELF) << cut;
    }
  }
}

TEST(Hostile, SectionTableOutsideTheFile) {
  std::string bytes =
      BuildElf({.fatbins = {BuildFatbin({SassEntry({.sm = 90})})}});
  Patch<uint64_t>(bytes, 40, ~uint64_t{0} - 63);
  const v1::FileReport report = InspectBytes(bytes);
  EXPECT_EQ(report.kind(), v1::FILE_KIND_DAMAGED_ELF);
  ASSERT_EQ(report.problems_size(), 1);
  EXPECT_THAT(report.problems(0).detail(), HasSubstr("section table"));
  EXPECT_EQ(report.fatbins_size(), 1);
}

TEST(Hostile, SectionCountBeyondTheFile) {
  std::string bytes = BuildElf({});
  Patch<uint16_t>(bytes, 60, 0xfff0);
  EXPECT_EQ(InspectBytes(bytes).kind(), v1::FILE_KIND_DAMAGED_ELF);
}

TEST(Hostile, ForeignElfIsNamedAndScanned) {
  std::string bytes = BuildElf({.fatbins = {BuildFatbin({})}});
  bytes[4] = 1;
  const v1::FileReport report = InspectBytes(bytes);
  EXPECT_EQ(report.kind(), v1::FILE_KIND_OTHER);
  ASSERT_EQ(report.problems_size(), 1);
  EXPECT_THAT(report.problems(0).detail(), HasSubstr("32-bit"));
  EXPECT_EQ(report.fatbins_size(), 1);
}

TEST(Hostile, DamagedFatbinKeepsItsImagesAndItsNeighbour) {
  EntrySpec broken = SassEntry({.sm = 100});
  broken.claimed_payload_bytes = ~uint64_t{0};
  const v1::FileReport report = InspectBytes(
      BuildElf({.fatbins = {BuildFatbin({SassEntry({.sm = 80}), broken}),
                            BuildFatbin({SassEntry({.sm = 90})})}}));
  ASSERT_EQ(report.fatbins_size(), 2);
  EXPECT_TRUE(report.fatbins(0).damaged());
  EXPECT_THAT(report.fatbins(0).problem(), HasSubstr("entry 1 at offset"));
  ASSERT_EQ(report.fatbins(0).images_size(), 1);
  EXPECT_THAT(KernelNames(report.fatbins(0).images(0)),
              ElementsAre("_Z6kernelPi"));
  EXPECT_FALSE(report.fatbins(1).damaged());
  EXPECT_THAT(ProblemCodes(report), ElementsAre("TP229"));
}

TEST(Hostile, ALieAboutTheExpandedSizeIsTheImagesProblem) {
  for (const v1::Compression compression :
       {v1::COMPRESSION_ZSTD, v1::COMPRESSION_LZ4_BLOCK,
        v1::COMPRESSION_LZ4_FRAME, v1::COMPRESSION_ZLIB}) {
    for (const uint64_t lie :
         {uint64_t{0}, uint64_t{1}, uint64_t{4000}, uint64_t{1} << 29,
          uint64_t{1} << 40, ~uint64_t{0}}) {
      EntrySpec entry = SassEntry({.sm = 90}, compression);
      entry.claimed_expanded_bytes = lie;
      const v1::FileReport report =
          InspectBytes(BuildFatbin({entry, PtxEntry({})}));
      ASSERT_EQ(report.fatbins_size(), 1);
      const v1::Image& image = report.fatbins(0).images(0);
      EXPECT_NE(image.problem(), "") << compression << " " << lie;
      EXPECT_FALSE(image.kernels_read());
      EXPECT_TRUE(report.fatbins(0).images(1).kernels_read());
    }
  }
}

TEST(Hostile, TheCapOnExpandedBytesIsStated) {
  const v1::FileReport report = InspectBytes(
      BuildFatbin(
          {SassEntry({.sm = 90, .filler = 1 << 20}, v1::COMPRESSION_ZSTD)}),
      {.digest = false, .max_image_bytes = 1 << 19});
  EXPECT_THAT(report.fatbins(0).images(0).problem(),
              HasSubstr("above the cap of 524288"));
}

// Above the size that is held in memory: read while it is decoded.
TEST(Hostile, LargeImagesAreReadInAWindow) {
  const size_t size = size_t{150} << 20;
  for (const v1::Compression compression :
       {v1::COMPRESSION_NONE, v1::COMPRESSION_ZSTD}) {
    const v1::FileReport report = InspectBytes(
        BuildFatbin({SassEntry({.sm = 90, .filler = size}, compression)}));
    ASSERT_EQ(report.fatbins_size(), 1);
    const v1::Image& image = report.fatbins(0).images(0);
    EXPECT_EQ(image.problem(), "");
    EXPECT_GT(image.expanded_bytes(), size);
    EXPECT_THAT(KernelNames(image), ElementsAre("_Z6kernelPi"));
  }
  const v1::FileReport report = InspectBytes(BuildFatbin(
      {SassEntry({.sm = 90, .filler = size}, v1::COMPRESSION_LZ4_BLOCK)}));
  EXPECT_THAT(report.fatbins(0).images(0).problem(),
              HasSubstr("only be decoded as a whole"));
}

TEST(Hostile, APtxFileMayStartWithALongComment) {
  const v1::FileReport report =
      InspectBytes("/*" + std::string(20'000, '*') + "*/\n" + BuildPtx({}));
  EXPECT_EQ(report.kind(), v1::FILE_KIND_PTX);
}

TEST(Hostile, CompressedSizeBeyondThePayload) {
  EntrySpec entry = SassEntry({.sm = 90}, v1::COMPRESSION_ZSTD);
  entry.claimed_compressed_bytes = 0xffffffff;
  const v1::FileReport report = InspectBytes(BuildFatbin({entry}));
  EXPECT_THAT(report.fatbins(0).images(0).problem(),
              HasSubstr("4294967295 compressed bytes"));
}

TEST(Hostile, UnknownKindsAreNamedAndPassedOver) {
  EntrySpec odd;
  odd.kind = 0x80;
  odd.payload = "????????";
  const v1::FileReport report =
      InspectBytes(BuildFatbin({odd, SassEntry({.sm = 90})}));
  const v1::Image& image = report.fatbins(0).images(0);
  EXPECT_EQ(image.kind(), v1::IMAGE_KIND_OTHER);
  EXPECT_EQ(image.kind_number(), 0x80);
  EXPECT_THAT(image.problem(), HasSubstr("entry kind 0x80"));
  EXPECT_EQ(TargetName(image), "kind_128_sm_90");
  EXPECT_TRUE(report.fatbins(0).images(1).kernels_read());
}

TEST(Hostile, UnknownFlagsAreNamedWhereThePayloadCannotBeRead) {
  EntrySpec odd = SassEntry({.sm = 90});
  odd.payload = "not an ELF file, packed by a codec of the future";
  odd.extra_flags = uint64_t{1} << 40;
  const v1::FileReport report = InspectBytes(BuildFatbin({odd}));
  EXPECT_EQ(report.fatbins(0).images(0).flags(), 0x10000000011);
  EXPECT_THAT(report.fatbins(0).images(0).problem(),
              HasSubstr("does not know 0x10000000000"));
}

TEST(Hostile, ObfuscatedPayloadsAreOpaque) {
  EntrySpec lto;
  lto.kind = 8;
  lto.payload = "scrambled";
  lto.compression = v1::COMPRESSION_OPAQUE;
  EntrySpec ptx = lto;
  ptx.kind = 1;
  const v1::FileReport report = InspectBytes(BuildFatbin({lto, ptx}));
  const v1::Image& first = report.fatbins(0).images(0);
  EXPECT_EQ(first.kind(), v1::IMAGE_KIND_LTO_IR);
  EXPECT_EQ(first.compression(), v1::COMPRESSION_OPAQUE);
  EXPECT_EQ(first.problem(), "") << "LTO-IR always comes like this";
  EXPECT_FALSE(first.kernels_read());
  EXPECT_THAT(report.fatbins(0).images(1).problem(), HasSubstr("opaque"));
}

TEST(Hostile, APayloadForAnotherTargetThanItsEntrySays) {
  EntrySpec entry = SassEntry({.sm = 90});
  entry.arch = 121;
  const v1::FileReport report = InspectBytes(BuildFatbin({entry}));
  const v1::Image& image = report.fatbins(0).images(0);
  EXPECT_EQ(image.target().number(), 121);
  EXPECT_THAT(image.problem(), HasSubstr("its payload says 90"));
}

// Each of these headers claims the rest of the file and starts a chain; walking
// all of them would take the square of their number.
TEST(Hostile, NestedChainsEndAtACap) {
  EntrySpec entry;
  entry.payload = BuildFatbin({}, uint64_t{1} << 60);
  std::string bytes;
  const std::string unit = BuildEntry(entry);
  for (int i = 0; i < 20'000; ++i) bytes += unit;
  const v1::FileReport report =
      InspectBytes(BuildFatbin({}, uint64_t{1} << 60) + bytes);
  EXPECT_THAT(ProblemCodes(report), Contains("TP232"));
  EXPECT_LT(report.ByteSizeLong(), kMaxReportBytes);
}

TEST(Hostile, AReportHasACap) {
  std::string bytes;
  for (int i = 0; i < 600'000; ++i) bytes += BuildFatbin({});
  const v1::FileReport report = InspectBytes(bytes);
  EXPECT_GT(report.fatbins_size(), 100'000);
  EXPECT_LT(report.fatbins_size(), 600'000);
  EXPECT_THAT(ProblemCodes(report), Contains("TP232"));
  EXPECT_LT(report.SpaceUsedLong(), kMaxReportBytes * 3 / 2);
}

TEST(Hostile, EveryWrongByteOfAnElfFileIsSurvived) {
  const std::string good =
      BuildElf({.fatbins = {BuildFatbin({SassEntry({.sm = 90}), PtxEntry({})})},
                .soname = "libx.so"});
  for (size_t at = 0; at < good.size(); at += 3) {
    for (const char value : {'\x01', '\xff'}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ value);
      (void)InspectBytes(bad);
    }
  }
}

}  // namespace
}  // namespace twinpath::inspect
