// Archives of which something is missing or damaged: that is never passed by,
// and what is whole beside it is read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "inspect/carrier.h"
#include "inspect/zip_directory.h"
#include "tests/inspect/archive_builder.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr size_t kBlock = 512;

std::string Library(uint32_t sm) {
  return BuildElf({.fatbins = {BuildFatbin({SassEntry({.sm = sm})})}});
}

struct Outcome {
  // Paths of members that have a report.
  std::vector<std::string> members;
  // "CODE detail" of the file's own problems.
  std::vector<std::string> problems;
  v1::FileReport top;
};

Outcome Inspect(absl::string_view bytes) {
  const UniqueFd fd = FileWith("");
  Scratch scratch(fd.get(), kScratchFileBytes);
  Outcome outcome;
  EXPECT_THAT(
      InspectFile(MemorySource(bytes), "x", {.digest = false}, scratch,
                  [&](v1::FileReport report) {
                    if (report.member_of() == "x") {
                      outcome.members.push_back(report.name().substr(3));
                    }
                    outcome.top = std::move(report);
                    return absl::OkStatus();
                  }),
      IsOk());
  for (const v1::Reason& reason : outcome.top.problems()) {
    outcome.problems.push_back(
        absl::StrCat(reason.code(), " ", reason.detail()));
  }
  return outcome;
}

std::vector<std::string> Packings() {
  return {"", "gzip", "xz", "zstd", "bzip2", "lz4"};
}
std::string Pack(const std::string& filter, const std::string& bytes) {
  return filter.empty() ? bytes : Packed(filter, bytes);
}

// A tar of three libraries and where the headers of the second and the third
// are.
struct Tar {
  Tar() {
    bytes = BuildArchive("ustar", {{"one.so", Library(80)},
                                   {"two.so", Library(90)},
                                   {"three.so", Library(100)}});
    second = bytes.find("two.so");
    third = bytes.find("three.so");
  }
  std::string bytes;
  size_t second;
  size_t third;
};

TEST(DamagedTar, AHeaderWithAWrongChecksumIsNamedAndTheRestRead) {
  Tar tar;
  ASSERT_EQ(tar.second % kBlock, 0u);
  const std::string want =
      absl::StrCat("TP233 the header of a member at offset ", tar.second);
  tar.bytes[tar.second] ^= 1;
  for (const std::string& filter : Packings()) {
    SCOPED_TRACE(filter);
    const Outcome outcome = Inspect(Pack(filter, tar.bytes));
    EXPECT_THAT(outcome.members, ElementsAre("one.so", "three.so"));
    EXPECT_THAT(outcome.problems, ElementsAre(StartsWith(want)));
  }
}

TEST(DamagedTar, OfTheFirstAndTheLastHeaderToo) {
  Tar tar;
  tar.bytes[0] ^= 1;
  Outcome outcome = Inspect(tar.bytes);
  EXPECT_THAT(outcome.members, ElementsAre("two.so", "three.so"));
  EXPECT_THAT(outcome.problems,
              ElementsAre(HasSubstr("TP233 the header of a member at offset "
                                    "0 is damaged")));
  // Inside a packing it is the mark that tells.
  EXPECT_THAT(Inspect(Pack("gzip", tar.bytes)).problems,
              ElementsAre(HasSubstr("TP233 the header of a member at offset "
                                    "0 is damaged")));
  tar = Tar();
  tar.bytes.replace(tar.third, kBlock, kBlock, '\x5a');
  outcome = Inspect(tar.bytes);
  EXPECT_THAT(outcome.members, ElementsAre("one.so", "two.so"));
  EXPECT_THAT(outcome.problems, ElementsAre(StartsWith("TP233 ")));
}

TEST(DamagedTar, ABrokenSizeIsNoticed) {
  Tar tar;
  // The size of the second is that of nothing, and its checksum right again.
  const std::string header = tar.bytes.substr(tar.second, kBlock);
  std::string changed = header;
  changed.replace(124, 11, "00000000000");
  uint32_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    sum += i >= 148 && i < 156 ? uint32_t{' '}
                               : static_cast<unsigned char>(changed[i]);
  }
  std::string digits;
  for (int i = 0; i < 6; ++i, sum /= 8) {
    digits.insert(digits.begin(), static_cast<char>('0' + sum % 8));
  }
  changed.replace(148, 6, digits);
  tar.bytes.replace(tar.second, kBlock, changed);
  const Outcome outcome = Inspect(tar.bytes);
  EXPECT_THAT(outcome.members, ElementsAre("one.so", "three.so"));
  EXPECT_THAT(outcome.problems, ElementsAre(StartsWith("TP233 ")));
}

// GNU tar: "A lone zero block", and nothing behind it is unpacked.
TEST(DamagedTar, ABlockOfZerosBetweenMembersIsNoEnd) {
  Tar tar;
  tar.bytes.insert(tar.second, kBlock, '\0');
  for (const std::string& filter : Packings()) {
    SCOPED_TRACE(filter);
    const Outcome outcome = Inspect(Pack(filter, tar.bytes));
    EXPECT_THAT(outcome.members, ElementsAre("one.so", "two.so", "three.so"));
    EXPECT_THAT(outcome.problems,
                ElementsAre(HasSubstr(absl::StrCat(
                    "TP233 a block of zeros stands between members at offset ",
                    tar.second))));
  }
}

TEST(DamagedTar, WhatIsBehindTheEndIsNamed) {
  const Tar tar;
  for (const std::string& filter : Packings()) {
    SCOPED_TRACE(filter);
    const Outcome outcome = Inspect(Pack(filter, tar.bytes + "something else"));
    EXPECT_THAT(outcome.members, ElementsAre("one.so", "two.so", "three.so"));
    EXPECT_THAT(
        outcome.problems,
        ElementsAre(absl::StrCat("TP233 behind the end of the tar there is "
                                 "something else, at offset ",
                                 tar.bytes.size())));
  }
}

TEST(DamagedTar, ATarBehindATarIsReadAndNoDamage) {
  const Tar tar;
  const std::string other =
      BuildArchive("pax", {{"four.so", Library(120)}, {"text", "text"}});
  for (const std::string& filter : Packings()) {
    SCOPED_TRACE(filter);
    const Outcome outcome = Inspect(Pack(filter, tar.bytes + other));
    EXPECT_THAT(outcome.members,
                ElementsAre("one.so", "two.so", "three.so", "four.so"));
    EXPECT_THAT(outcome.problems,
                ElementsAre(HasSubstr(absl::StrCat(
                    "TP215 another tar begins behind the end of this one, at "
                    "offset ",
                    tar.bytes.size()))));
    EXPECT_EQ(outcome.top.carrier().members(), 5u);
  }
}

TEST(DamagedTar, ZerosBehindTheEndAreNothing) {
  const Tar tar;
  for (const std::string& filter : Packings()) {
    for (const size_t zeros : {size_t{512}, size_t{10240}, size_t{700'001}}) {
      const Outcome outcome =
          Inspect(Pack(filter, tar.bytes + std::string(zeros, '\0')));
      EXPECT_THAT(outcome.members, ElementsAre("one.so", "two.so", "three.so"));
      EXPECT_THAT(outcome.problems, IsEmpty()) << filter << " " << zeros;
    }
  }
}

// It may have been cut between two members.
TEST(DamagedTar, WithoutItsEndMarkItMayBeCut) {
  const Tar tar;
  const std::string cut = tar.bytes.substr(0, tar.third);
  Outcome outcome = Inspect(cut);
  EXPECT_THAT(outcome.members, ElementsAre("one.so", "two.so"));
  EXPECT_THAT(
      outcome.problems,
      ElementsAre(HasSubstr("TP232 the tar ends without its end mark")));
  // A packing that is whole was not cut.
  EXPECT_THAT(Inspect(Pack("gzip", cut)).problems, IsEmpty());
}

TEST(DamagedTar, InADebsDataToo) {
  Tar tar;
  tar.bytes[tar.second] ^= 1;
  const Outcome outcome = Inspect(
      "!<arch>\n" + ArMemberBytes("debian-binary", "2.0\n") +
      ArMemberBytes("control.tar", BuildArchive("ustar", {{"control", "a"}})) +
      ArMemberBytes("data.tar.gz", Packed("gzip", tar.bytes)));
  EXPECT_THAT(outcome.members, ElementsAre("one.so", "three.so"));
  EXPECT_THAT(outcome.problems,
              ElementsAre(StartsWith("TP233 data.tar.gz: the header of")));
}

// Whether a CRC-32 is right shows where all of a member was read.
TEST(DamagedZip, AWrongChecksumIsTheMembers) {
  for (const char* const method : {"store", "deflate"}) {
    SCOPED_TRACE(method);
    const std::string whole = BuildArchive(
        "zip",
        {{"a.so", Library(80)}, {"b.so", Library(90)}, {"c.txt", "text"}},
        {.options = absl::StrCat("zip:compression=", method)});
    EXPECT_THAT(Inspect(whole).problems, IsEmpty());
    // Of the second member, in the directory: 16 bytes into its entry.
    std::string bytes = whole;
    const size_t first = bytes.find("PK\x01\x02");
    const size_t entry = bytes.find("PK\x01\x02", first + 4);
    ASSERT_NE(entry, std::string::npos);
    bytes[entry + 16] ^= 1;
    const size_t member = bytes.find("b.so") - 30;
    if (bytes.compare(member + 14, 4, std::string(4, '\0')) != 0) {
      bytes[member + 14] ^= 1;
    }
    const Outcome outcome = Inspect(bytes);
    EXPECT_THAT(outcome.members, ElementsAre("a.so", "b.so"));
    EXPECT_THAT(outcome.problems,
                ElementsAre(HasSubstr("TP233 b.so: ZIP bad CRC")));
  }
}

TEST(DamagedZip, AChangedByteOfAStoredMemberIsItsDamage) {
  std::string bytes =
      BuildArchive("zip", {{"a.so", Library(80)}, {"b.so", Library(90)}},
                   {.options = "zip:compression=store"});
  bytes[bytes.find("b.so") + 200] ^= 1;
  const Outcome outcome = Inspect(bytes);
  EXPECT_THAT(outcome.members, ElementsAre("a.so", "b.so"));
  EXPECT_THAT(outcome.problems, ElementsAre(StartsWith("TP233 b.so: ")));
}

// pip and Python's zipfile refuse it.
TEST(DamagedZip, WithoutItsEndItIsCut) {
  const std::string whole =
      BuildArchive("zip", {{"a.so", Library(80)}, {"b.so", Library(90)}});
  for (const size_t cut : {size_t{1}, size_t{10}, size_t{22}, size_t{60}}) {
    const Outcome outcome = Inspect(whole.substr(0, whole.size() - cut));
    EXPECT_THAT(outcome.members, ElementsAre("a.so", "b.so"));
    ASSERT_FALSE(outcome.problems.empty()) << cut;
    EXPECT_THAT(outcome.problems[0],
                StartsWith("TP233 the zip has no directory at its end"));
  }
  // Between two members nothing else tells.
  const Outcome outcome = Inspect(whole.substr(0, whole.find("b.so") - 30));
  ASSERT_FALSE(outcome.problems.empty());
  EXPECT_THAT(outcome.problems[0],
              StartsWith("TP233 the zip has no directory"));
  // Packed, it can only be read from its start to its end.
  for (const char* const filter : {"gzip", "zstd"}) {
    EXPECT_THAT(Inspect(Packed(filter, whole)).problems, IsEmpty());
    EXPECT_THAT(
        Inspect(Packed(filter, whole.substr(0, whole.size() - 10))).problems,
        ElementsAre(StartsWith("TP233 the zip has no directory")));
  }
}

TEST(DamagedZip, TheDirectoryIsHeldAgainstTheMembers) {
  const std::string whole =
      BuildArchive("zip", {{"a.so", Library(80)}, {"b.so", Library(90)}});
  const size_t end = whole.rfind("PK\x05\x06");
  const size_t first = whole.find("PK\x01\x02");
  const size_t second = whole.find("PK\x01\x02", first + 4);
  // The end record counts one member less.
  std::string bytes = whole;
  bytes[end + 8] = bytes[end + 10] = 1;
  EXPECT_THAT(Inspect(bytes).problems,
              ElementsAre("TP233 its directory has 2 members and its end "
                          "record says 1"));
  // The directory leaves out the first.
  bytes = whole.substr(0, first) + whole.substr(second);
  const size_t moved = bytes.rfind("PK\x05\x06");
  bytes[moved + 8] = bytes[moved + 10] = 1;
  const uint32_t size = static_cast<uint32_t>(end - second);
  for (int i = 0; i < 4; ++i) {
    bytes[moved + 12 + i] = static_cast<char>(size >> (8 * i));
  }
  EXPECT_THAT(Inspect(bytes).problems,
              ElementsAre("TP233 at offset 0 there is a member that its "
                          "directory does not name"));
  // It names one more, which is not there.
  bytes = whole;
  bytes[whole.find("b.so") - 30] = 'X';
  EXPECT_THAT(Inspect(bytes).problems[0],
              HasSubstr("TP233 b.so: no member begins at offset"));
  // It has another name there.
  bytes = whole;
  bytes[whole.find("b.so")] = 'X';
  EXPECT_THAT(Inspect(bytes).problems[0], HasSubstr("has another name"));
}

TEST(DamagedZip, WhatIsBehindAZipIsNamed) {
  const std::string whole = BuildArchive("zip", {{"a.so", Library(80)}});
  EXPECT_THAT(Inspect(whole + "tail").problems,
              ElementsAre(absl::StrCat("TP233 behind its end there is "
                                       "something else, at offset ",
                                       whole.size())));
  EXPECT_THAT(Inspect(whole + std::string(100, '\0')).problems, IsEmpty());
  // A second one hides the first from those who unpack it.
  const Outcome outcome =
      Inspect(whole + BuildArchive("zip", {{"b.so", Library(90)}}));
  EXPECT_THAT(outcome.members, ElementsAre("b.so"));
  EXPECT_THAT(outcome.problems,
              ElementsAre("TP233 at offset 0 there is a member that its "
                          "directory does not name"));
}

// Comments are up to 64 KiB.
TEST(DamagedZip, ALongCommentHidesNoDirectory) {
  std::string bytes = BuildArchive("zip", {{"a.so", Library(80)}});
  bytes[bytes.size() - 2] = static_cast<char>(50'000 & 0xff);
  bytes[bytes.size() - 1] = static_cast<char>(50'000 >> 8);
  bytes += std::string(50'000, 'c');
  const Outcome outcome = Inspect(bytes);
  EXPECT_THAT(outcome.members, ElementsAre("a.so"));
  EXPECT_THAT(outcome.problems, IsEmpty());
  EXPECT_THAT(Inspect(bytes.substr(0, bytes.size() - 1)).problems,
              ElementsAre("TP233 it is cut in the comment at its end"));
}

// The end record says that the number is elsewhere.
TEST(DamagedZip, ALargeOneInsideAPackingIsWhole) {
  const std::string zip = AsZip64(
      BuildArchive("zip", {{"a.so", Library(80)}, {"b.so", Library(90)}}));
  for (const std::string& filter : Packings()) {
    SCOPED_TRACE(filter);
    const Outcome outcome = Inspect(Pack(filter, zip));
    EXPECT_THAT(outcome.members, ElementsAre("a.so", "b.so"));
    EXPECT_THAT(outcome.problems, IsEmpty());
  }
  std::string other = zip;
  other[zip.rfind("PK\x06\x06") + 32] = 3;
  EXPECT_THAT(Inspect(Pack("gzip", other)).problems,
              ElementsAre("TP233 the zip has 2 members and its end record "
                          "says 3"));
}

// libarchive looks at the directory's mark, and takes nothing of it.
TEST(DamagedZip, ADirectoryAtAWindowsEdgeIsFound) {
  const auto build = [](size_t filler) {
    return BuildArchive(
        "zip", {{"a.so", Library(80)}, {"filler", std::string(filler, 'f')}},
        {.options = "zip:compression=store"});
  };
  const size_t least = build(1).find("PK\x01\x02") - 1;
  for (size_t before = 0; before <= 5; ++before) {
    const size_t place = (256 << 10) - before;
    const std::string zip = build(place - least);
    ASSERT_EQ(zip.find("PK\x01\x02"), place);
    const Outcome outcome = Inspect(Packed("gzip", zip));
    EXPECT_THAT(outcome.members, ElementsAre("a.so")) << before;
    EXPECT_THAT(outcome.problems, IsEmpty()) << before;
  }
}

TEST(DamagedZip, AnEmptyOneIsWhole) {
  const Outcome outcome = Inspect("PK\x05\x06" + std::string(18, '\0'));
  EXPECT_EQ(outcome.top.carrier().format(), "zip");
  EXPECT_THAT(outcome.problems, IsEmpty());
}

// Every byte of the directory is changed in turn: no crash, and reading it
// ends.
TEST(ZipDirectory, ChangedBytesAreSurvived) {
  const std::string whole =
      BuildArchive("zip", {{"a", "aaaa"}, {"b", "bbbb"}, {"c", ""}});
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ mask);
      for (const bool begins : {false, true}) {
        EXPECT_THAT(ReadZipDirectory(MemorySource(bytes), begins), IsOk());
      }
    }
  }
}

// RFC 1952, 2.3.1: CRC-32 and size of what was packed.
TEST(DamagedGzip, ItsChecksumAndSizeAreHeldAgainstTheContent) {
  const std::string library = Library(90);
  const std::string whole = Packed("gzip", library);
  for (const size_t from_end : {size_t{8}, size_t{4}}) {
    std::string bytes = whole;
    bytes[bytes.size() - from_end] ^= 1;
    const Outcome outcome = Inspect(bytes);
    EXPECT_THAT(outcome.members, ElementsAre("content"));
    EXPECT_THAT(outcome.problems,
                ElementsAre(AllOf(StartsWith("TP233 gzip: "),
                                  HasSubstr("is not the one stated"))));
  }
  // Around a tar they are at its end, behind what members need.
  std::string tar =
      BuildArchive("ustar", {{"a.so", library}}, {.filters = {"gzip"}});
  tar[tar.size() - 8] ^= 1;
  const Outcome outcome = Inspect(tar);
  EXPECT_THAT(outcome.members, ElementsAre("a.so"));
  EXPECT_THAT(outcome.problems, ElementsAre(StartsWith("TP233 gzip: ")));
}

TEST(DamagedGzip, SeveralMembersAreOneFile) {
  const std::string library = Library(90);
  const std::string bytes = Packed("gzip", library.substr(0, 1000)) +
                            Packed("gzip", library.substr(1000));
  const Outcome outcome = Inspect(bytes + std::string(200'000, '\0'));
  EXPECT_THAT(outcome.members, ElementsAre("content"));
  EXPECT_THAT(outcome.problems, IsEmpty());
}

// What is behind a member with a wrong checksum or size is read all the same.
TEST(DamagedGzip, AMemberBehindADamagedOneIsRead) {
  const std::string library = Library(90);
  for (const size_t from_end : {size_t{8}, size_t{4}}) {
    std::string first = Packed("gzip", library.substr(0, 1000));
    first[first.size() - from_end] ^= 1;
    const Outcome outcome =
        Inspect(first + Packed("gzip", library.substr(1000)));
    EXPECT_THAT(outcome.members, ElementsAre("content"));
    EXPECT_EQ(outcome.top.carrier().expanded_bytes(), library.size());
    EXPECT_THAT(outcome.problems,
                ElementsAre(AllOf(StartsWith("TP233 gzip: "),
                                  HasSubstr("is not the one stated"))));
  }
}

// Bytes that no member counts: those behind what is packed inside a packing.
TEST(DamagedPacking, ABombBehindTheContentIsNamed) {
  const std::string zeros = Packed("gzip", std::string(1 << 20, '\0'));
  for (const char* const inner : {"gzip", "bzip2"}) {
    SCOPED_TRACE(inner);
    std::string middle = Packed("gzip", Packed(inner, Library(90)));
    for (int i = 0; i < 200; ++i) middle += zeros;
    const Outcome outcome = Inspect(Packed("gzip", middle));
    EXPECT_THAT(outcome.members, ElementsAre("content"));
    EXPECT_THAT(outcome.problems,
                ElementsAre(AllOf(StartsWith("TP232 what is behind the end"),
                                  HasSubstr("a bomb"))));
  }
}

TEST(DamagedPacking, WhatIsBehindItIsNamed) {
  const std::string library = Library(90);
  for (const char* const filter : {"gzip", "bzip2"}) {
    const std::string whole = Packed(filter, library);
    const Outcome outcome = Inspect(whole + "something else");
    EXPECT_THAT(outcome.members, ElementsAre("content")) << filter;
    EXPECT_THAT(
        outcome.problems,
        ElementsAre(absl::StrCat("TP233 behind the end of the ", filter,
                                 " data there is something else, at offset ",
                                 whole.size())));
  }
  // Those readers take it for a part of the data.
  for (const char* const filter : {"xz", "zstd", "lz4"}) {
    EXPECT_THAT(Inspect(Packed(filter, library) + "something else").problems,
                ElementsAre(StartsWith("TP233 ")))
        << filter;
  }
}

TEST(DamagedPacking, WhatIsCutIsDamaged) {
  for (const char* const filter : {"gzip", "xz", "zstd", "bzip2", "lz4"}) {
    const std::string whole = Packed(filter, std::string(300'000, 'a') + "b");
    const Outcome outcome = Inspect(whole.substr(0, whole.size() - 3));
    ASSERT_FALSE(outcome.problems.empty()) << filter;
    EXPECT_THAT(outcome.problems[0], StartsWith("TP233 ")) << filter;
  }
}

}  // namespace
}  // namespace twinpath::inspect
