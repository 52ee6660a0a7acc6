#include "inspect/bare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "inspect/scan.h"
#include "tests/inspect/byte_writer.h"
#include "tests/inspect/device_builder.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// cuPTI's text, as it stands in its .rodata.
constexpr char kDense[] =
    ".version 3.2.target sm_35.address_size 64 .entry Helper{exit;}";

v1::FileReport InRodata(const std::string& rodata) {
  return InspectBytes(BuildElf({.rodata = rodata}));
}

TEST(Bare, ACubinInTheMiddleOfDataIsFoundWholeAndOnce) {
  const std::string cubin = BuildCubin({.sm = 80});
  const v1::FileReport report =
      InRodata(std::string(3, 'x') + cubin + std::string(5, '\0') + cubin);
  ASSERT_EQ(report.fatbins_size(), 2);
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    EXPECT_TRUE(fatbin.bare());
    EXPECT_EQ(fatbin.section(), ".rodata");
    EXPECT_EQ(fatbin.size_bytes(), cubin.size());
    EXPECT_EQ(fatbin.registration(), v1::REGISTRATION_SELF_LOADED);
    const v1::Image& image = fatbin.images(0);
    EXPECT_EQ(image.kind(), v1::IMAGE_KIND_SASS);
    EXPECT_EQ(image.target().number(), 80);
    EXPECT_EQ(image.offset(), fatbin.offset());
    EXPECT_THAT(KernelNames(image), ElementsAre("_Z6kernelPi"));
  }
  EXPECT_THAT(ProblemCodes(report), IsEmpty());
}

TEST(Bare, AnObjectIsLinkedLater) {
  const v1::FileReport report =
      InspectBytes(BuildElf({.type = 1, .rodata = BuildCubin({.sm = 80})}));
  ASSERT_EQ(report.fatbins_size(), 1);
  EXPECT_EQ(report.fatbins(0).registration(), v1::REGISTRATION_NOT_APPLICABLE);
}

TEST(Bare, AZstdFrameOfACubinOrOfPtxCounts) {
  const std::string cubin =
      Pack(BuildCubin({.sm = 90, .suffix = 'a'}), v1::COMPRESSION_ZSTD);
  const std::string ptx = Pack(BuildPtx({}), v1::COMPRESSION_ZSTD);
  const std::string text =
      Pack("text that is no device code", v1::COMPRESSION_ZSTD);
  for (const bool kernels : {false, true}) {
    const v1::FileReport report = InspectBytes(
        BuildElf({.rodata = text + cubin + "y" + ptx}), {.kernels = kernels});
    ASSERT_EQ(report.fatbins_size(), 2);
    const v1::Image& first = report.fatbins(0).images(0);
    EXPECT_EQ(first.compression(), v1::COMPRESSION_ZSTD);
    EXPECT_EQ(first.stored_bytes(), cubin.size());
    EXPECT_EQ(first.target().number(), 90);
    EXPECT_EQ(first.target().suffix(), v1::TARGET_SUFFIX_ARCH);
    EXPECT_EQ(first.kernels_size(), kernels ? 1 : 0);
    EXPECT_EQ(report.fatbins(1).images(0).kind(), v1::IMAGE_KIND_PTX);
    EXPECT_EQ(report.fatbins(1).images(0).kernels_size(), kernels ? 1 : 0);
  }
}

// What the search reads of them is held to the caps on images, too.
TEST(Bare, AFrameAboveTheCapIsNotRead) {
  const std::string frame =
      Pack(BuildCubin({.sm = 90, .filler = 300 << 10}), v1::COMPRESSION_ZSTD);
  for (const bool kernels : {false, true}) {
    const v1::FileReport report =
        InspectBytes(BuildElf({.rodata = frame}),
                     {.kernels = kernels, .max_image_bytes = 64 << 10});
    ASSERT_EQ(report.fatbins_size(), 1);
    const v1::Image& image = report.fatbins(0).images(0);
    EXPECT_THAT(image.problem(), HasSubstr("above the cap"));
    EXPECT_THAT(image.kernels(), IsEmpty());
  }
}

std::string WithSizes(const std::string& plain, const std::string& packed) {
  std::string out;
  Append<uint32_t>(out, static_cast<uint32_t>(plain.size()));
  Append<uint32_t>(out, static_cast<uint32_t>(packed.size()));
  return out + packed;
}

// FFmpeg's filters hold PTX so: a gzip member, or in newer ones a zlib stream
// behind its two sizes (FFmpeg: ffbuild/common.mak, ffbuild/bin2c.c,
// libavfilter/cuda/load_helper.c).
TEST(Bare, DeflatedCodeIsFoundWithItsEnds) {
  const std::string ptx =
      BuildPtx({.isa_major = 8, .isa_minor = 4, .target = "sm_60"});
  const std::string cubin = BuildCubin({.sm = 90, .filler = 200 << 10});
  for (const std::string& plain : {ptx, cubin}) {
    const std::string gzip = Pack(plain, v1::COMPRESSION_GZIP);
    std::string zlib = Pack(plain, v1::COMPRESSION_ZLIB);
    // Packed as well as it goes; the decoder does not look at that.
    zlib[1] = '\xDA';
    for (const bool kernels : {false, true}) {
      const v1::FileReport report =
          InspectBytes(BuildElf({.rodata = "text" + gzip + "more" +
                                           WithSizes(plain, zlib) + "end"}),
                       {.kernels = kernels});
      ASSERT_EQ(report.fatbins_size(), 2);
      EXPECT_TRUE(report.fatbins(0).bare());
      const v1::Image& first = report.fatbins(0).images(0);
      const v1::Image& second = report.fatbins(1).images(0);
      EXPECT_EQ(first.compression(), v1::COMPRESSION_GZIP);
      EXPECT_EQ(first.stored_bytes(), gzip.size());
      EXPECT_EQ(second.compression(), v1::COMPRESSION_ZLIB);
      EXPECT_EQ(second.stored_bytes(), zlib.size());
      for (const v1::Image* image : {&first, &second}) {
        EXPECT_EQ(image->problem(), "");
        EXPECT_EQ(image->kind(),
                  plain == ptx ? v1::IMAGE_KIND_PTX : v1::IMAGE_KIND_SASS);
        EXPECT_EQ(image->target().number(), plain == ptx ? 60 : 90);
        EXPECT_EQ(image->expanded_bytes(), plain.size());
        EXPECT_EQ(image->kernels_size(), kernels ? 1 : 0);
      }
    }
  }
}

TEST(Bare, DeflatedTextThatIsNoCodeIsPassedOver) {
  const std::string text(5000, 'a');
  std::string zlib = Pack(text, v1::COMPRESSION_ZLIB);
  zlib[1] = '\xDA';
  // Of a stream without sizes nothing tells the length.
  std::string alone = Pack(BuildPtx({}), v1::COMPRESSION_ZLIB);
  alone[1] = '\xDA';
  EXPECT_THAT(InRodata("x" + Pack(text, v1::COMPRESSION_GZIP) +
                       WithSizes(text, zlib) + std::string(8, '\xff') + alone)
                  .fatbins(),
              IsEmpty());
}

TEST(Bare, DeflatedCodeThatIsCutOrBrokenIsNamed) {
  PtxSpec spec;
  for (int i = 0; i < 40; ++i) spec.kernels.push_back(absl::StrCat("k", i));
  const std::string ptx = BuildPtx(spec);
  const std::string gzip = Pack(ptx, v1::COMPRESSION_GZIP);
  // Its check sum stands before its length, at the end.
  std::string broken = gzip;
  broken[broken.size() - 8] = static_cast<char>(broken[broken.size() - 8] ^ 1);
  std::string zlib = Pack(ptx, v1::COMPRESSION_ZLIB);
  zlib[1] = '\xDA';
  for (const std::string& bytes : {gzip.substr(0, gzip.size() - 9), broken,
                                   WithSizes(ptx + "longer", zlib)}) {
    const v1::FileReport report = InspectBytes(std::string(64, '\1') + bytes);
    ASSERT_EQ(report.fatbins_size(), 1);
    EXPECT_NE(report.fatbins(0).images(0).problem(), "");
  }
}

// The sizes in front of a zlib stream may claim what stands behind it.
TEST(Bare, SizesThatClaimMoreThanTheStreamHideNothing) {
  const std::string fatbin = BuildFatbin({SassEntry({.sm = 80})});
  for (const std::string& plain : {BuildCubin({.sm = 90}), BuildPtx({})}) {
    std::string zlib = Pack(plain, v1::COMPRESSION_ZLIB);
    zlib[1] = '\xDA';
    std::string claim;
    Append<uint32_t>(claim, static_cast<uint32_t>(plain.size() + 99'999));
    Append<uint32_t>(claim, static_cast<uint32_t>(zlib.size() + 8 + 40));
    const v1::FileReport report = InspectBytes(
        std::string(64, '\1') + claim + zlib + std::string(8, '\1') + fatbin);
    ASSERT_EQ(report.fatbins_size(), 2);
    EXPECT_THAT(report.fatbins(0).images(0).problem(), HasSubstr("sizes say"));
    EXPECT_EQ(report.fatbins(0).images(0).stored_bytes(), zlib.size());
    EXPECT_EQ(report.fatbins(1).images(0).target().number(), 80);
  }
}

TEST(Bare, WhatStandsBehindACubinOrPtxAtTheStartIsFound) {
  const std::string first = BuildCubin({.sm = 90});
  const std::string second = BuildCubin({.sm = 80});
  const std::string fatbin = BuildFatbin({SassEntry({.sm = 75})});
  const std::string ptx = BuildPtx({.target = "sm_70"});
  const std::string nul(1, '\0');
  const std::string zstd = Pack(second, v1::COMPRESSION_ZSTD);
  struct Case {
    std::string bytes;
    std::vector<uint32_t> targets;
    uint64_t stored;
  };
  for (const Case& c :
       {Case{first + second, {90, 80}, first.size()},
        Case{first + fatbin, {90, 75}, first.size()},
        Case{ptx + nul + second, {70, 80}, ptx.size()},
        // Without a NUL the text reaches up to that of what follows.
        Case{ptx + second, {70, 80}, ptx.size() + second.find('\0')},
        Case{ptx + fatbin, {70, 75}, ptx.size() + fatbin.find('\0')},
        Case{ptx + zstd, {70, 80}, ptx.size() + zstd.find('\0')},
        Case{first, {90}, first.size()}, Case{ptx, {70}, ptx.size()},
        Case{ptx + nul, {70}, ptx.size()},
        Case{first + std::string(500, '\0'), {90}, first.size()}}) {
    const v1::FileReport report = InspectBytes(c.bytes);
    std::vector<uint32_t> targets;
    for (const v1::Fatbin& found : report.fatbins()) {
      targets.push_back(found.images(0).target().number());
    }
    EXPECT_EQ(targets, c.targets);
    EXPECT_EQ(report.fatbins(0).images(0).stored_bytes(), c.stored);
    EXPECT_THAT(report.problems(), IsEmpty());
  }
}

TEST(Bare, ACutFrameOfDeviceCodeIsNamed) {
  const std::string frame =
      Pack(BuildCubin({.sm = 90, .filler = 300 << 10}), v1::COMPRESSION_ZSTD);
  const v1::FileReport report =
      InspectBytes(std::string(64, '\1') + frame.substr(0, frame.size() - 4));
  ASSERT_EQ(report.fatbins_size(), 1);
  EXPECT_NE(report.fatbins(0).images(0).problem(), "");
}

TEST(Bare, PtxTextNeedsNoWhiteSpaceAndEndsAtNul) {
  const v1::FileReport report = InRodata(std::string(1, '\0') + kDense +
                                         std::string(1, '\0') + "more text");
  ASSERT_EQ(report.fatbins_size(), 1);
  const v1::Image& image = report.fatbins(0).images(0);
  EXPECT_EQ(image.kind(), v1::IMAGE_KIND_PTX);
  EXPECT_EQ(image.stored_bytes(), sizeof(kDense) - 1);
  EXPECT_EQ(image.target().number(), 35);
  EXPECT_EQ(image.ptx_isa().major(), 3);
  EXPECT_THAT(KernelNames(image), ElementsAre("Helper"));
}

TEST(Bare, CommentsBeforePtxBelongToIt) {
  const std::string ptx = BuildPtx({});
  const v1::FileReport report =
      InRodata(std::string(1, '\0') + ptx + std::string(1, '\0'));
  ASSERT_EQ(report.fatbins_size(), 1);
  EXPECT_EQ(report.fatbins(0).images(0).stored_bytes(), ptx.size());
}

TEST(Bare, WhatOnlySpeaksOfPtxIsNone) {
  for (const char* text :
       {"Missing .version directive at start of file '%s'",
        "Unsupported .version 3.0; current version is '9.0'",
        ".version %d.%d\n.target sm_%d\n", ".version 8.0\n.target sm_%d\n",
        ".version 9.0\n.address_size 64\n",
        "A module starts like this:\n.version 8.0\n.target sm_90\n"}) {
    EXPECT_THAT(
        InRodata(std::string(1, '\0') + text + std::string(1, '\0')).fatbins(),
        IsEmpty())
        << text;
  }
}

TEST(Bare, InAFatbinNothingIsFoundTwice) {
  const v1::FileReport report = InspectBytes(BuildElf(
      {.fatbins = {BuildFatbin({SassEntry({.sm = 80}), PtxEntry({})})}}));
  ASSERT_EQ(report.fatbins_size(), 1);
  EXPECT_FALSE(report.fatbins(0).bare());
}

TEST(Bare, AHeaderWithoutItsTablesIsAProblemOfTheImage) {
  const std::string cubin = BuildCubin({.sm = 80});
  const MemorySource whole(cubin);
  ProbeBudget budget;
  const auto cut = ProbeCubin(whole, 0, cubin.size() - 1, budget);
  ASSERT_THAT(cut, IsOk());
  ASSERT_TRUE(cut->has_value());
  EXPECT_NE((*cut)->problem, "");
  std::string host = cubin;
  Patch<uint16_t>(host, 18, 62);
  const MemorySource other(host);
  EXPECT_FALSE(ProbeCubin(other, 0, host.size(), budget)->has_value());
}

TEST(Bare, TheBudgetBoundsLooking) {
  const std::string cubin = BuildCubin({.sm = 80});
  const MemorySource source(cubin);
  ProbeBudget budget(10);
  EXPECT_THAT(ProbeCubin(source, 0, cubin.size(), budget),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

// Several threads search large files piece by piece; what lies across a
// piece's end is found once, what lies inside something else never.
TEST(Bare, LargeFilesGiveWhatSmallOnesDo) {
  constexpr size_t kPiece = 16 << 20;
  std::string bytes(5 * kPiece, '\0');
  const std::string cubin = BuildCubin({.sm = 80});
  const std::string inner = BuildFatbin(
      {SassEntry({.sm = 80, .filler = kPiece}), SassEntry({.sm = 90})});
  std::vector<uint64_t> places;
  const auto put = [&](uint64_t at, const std::string& what) {
    std::copy(what.begin(), what.end(),
              bytes.begin() + static_cast<std::ptrdiff_t>(at));
    places.push_back(at);
  };
  put(kPiece - 2, cubin);
  // Its first image's end, and the second, lie in the next piece.
  put(2 * kPiece - 4096, inner);
  put(4 * kPiece - 40, std::string("// text\n") + kDense);
  const MemorySource source(bytes);
  std::vector<uint64_t> found;
  ASSERT_THAT(ScanForCode(
                  source, {{0, bytes.size(), false}},
                  [&](const Finding& finding) {
                    found.push_back(finding.offset);
                    return true;
                  },
                  nullptr),
              IsOk());
  EXPECT_EQ(found, places);
}

}  // namespace
}  // namespace twinpath::inspect
