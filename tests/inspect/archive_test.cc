#include "inspect/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "base/status_matchers.h"
#include "tests/inspect/archive_builder.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using Files = std::vector<std::pair<std::string, std::string>>;

// Bytes that no packing makes much smaller.
std::string Noise(size_t size) {
  std::string out(size, '\0');
  uint32_t state = 1;
  for (char& c : out) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return out;
}

absl::StatusOr<std::string> ReadAll(ArchiveReader& reader) {
  std::string bytes;
  TWINPATH_RETURN_IF_ERROR(reader.Read([&](absl::string_view piece) {
    bytes.append(piece.data(), piece.size());
    return absl::OkStatus();
  }));
  return bytes;
}

// Paths and bytes of the regular members, up to the first error.
Files Content(const ByteSource& source, absl::Status* end = nullptr) {
  Files files;
  absl::StatusOr<std::unique_ptr<ArchiveReader>> reader =
      ArchiveReader::Open(source);
  if (!reader.ok()) {
    if (end != nullptr) *end = reader.status();
    return files;
  }
  ArchiveMember member;
  while (true) {
    const absl::StatusOr<bool> more = (*reader)->Next(&member);
    if (!more.ok() || !*more) {
      if (end != nullptr) *end = more.status();
      return files;
    }
    if (!member.regular) continue;
    absl::StatusOr<std::string> bytes = ReadAll(**reader);
    if (!bytes.ok()) {
      if (end != nullptr) *end = bytes.status();
      return files;
    }
    files.push_back({member.path, *std::move(bytes)});
  }
}

class Formats
    : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(Formats, MembersAreRead) {
  const auto& [format, filter] = GetParam();
  const std::string big = Noise(700'000);
  const std::string bytes = BuildArchive(
      format,
      {{"empty", ""}, {"big", big}, {"dir", "", "", "", true}, {"a/b", "b"}},
      {.filters = filter.empty() ? std::vector<std::string>{}
                                 : std::vector<std::string>{filter}});
  const MemorySource source(bytes);
  absl::StatusOr<std::unique_ptr<ArchiveReader>> reader =
      ArchiveReader::Open(source);
  ASSERT_THAT(reader, IsOk());
  EXPECT_EQ((*reader)->format(), format == "zip" ? "zip" : "tar");
  if (filter.empty()) {
    EXPECT_THAT((*reader)->filters(), IsEmpty());
  } else {
    EXPECT_THAT((*reader)->filters(), ElementsAre(filter));
  }
  absl::Status end;
  EXPECT_THAT(
      Content(source, &end),
      ElementsAre(Pair("empty", ""), Pair("big", big), Pair("a/b", "b")));
  EXPECT_THAT(end, IsOk());
}

INSTANTIATE_TEST_SUITE_P(
    All, Formats,
    ::testing::Combine(
        ::testing::Values("zip", "ustar", "gnutar", "pax", "v7tar"),
        ::testing::Values("", "gzip", "xz", "zstd", "bzip2", "lz4")));

TEST(Archive, TheHeadIsDeliveredAgain) {
  const std::string big = Noise(300'000);
  for (const char* const format : {"zip", "gnutar"}) {
    const std::string bytes = BuildArchive(format, {{"a", big}, {"b", "bb"}});
    const MemorySource source(bytes);
    absl::StatusOr<std::unique_ptr<ArchiveReader>> reader =
        ArchiveReader::Open(source);
    ASSERT_THAT(reader, IsOk());
    ArchiveMember member;
    ASSERT_THAT((*reader)->Next(&member), IsOkAndHolds(true));
    EXPECT_EQ(member.size, big.size());
    EXPECT_THAT((*reader)->Head(10), IsOkAndHolds(big.substr(0, 10)));
    EXPECT_THAT((*reader)->Head(100'000), IsOkAndHolds(big.substr(0, 100'000)));
    EXPECT_THAT(ReadAll(**reader), IsOkAndHolds(big));
    // A member that nobody read is passed.
    ASSERT_THAT((*reader)->Next(&member), IsOkAndHolds(true));
    EXPECT_EQ(member.path, "b");
    EXPECT_THAT((*reader)->Head(10), IsOkAndHolds("bb"));
    EXPECT_THAT((*reader)->Next(&member), IsOkAndHolds(false));
  }
}

TEST(Archive, PlainTarMembersLieInPlace) {
  const std::string big = Noise(300'000);
  const std::string long_name(300, 'n');
  for (const char* const format : {"gnutar", "pax"}) {
    const std::string bytes =
        BuildArchive(format, {{long_name, big}, {"b", "bb"}});
    const MemorySource source(bytes);
    absl::StatusOr<std::unique_ptr<ArchiveReader>> reader =
        ArchiveReader::Open(source);
    ASSERT_THAT(reader, IsOk());
    ArchiveMember member;
    for (const std::string& want : {big, std::string("bb")}) {
      ASSERT_THAT((*reader)->Next(&member), IsOkAndHolds(true));
      ASSERT_THAT((*reader)->Head(1 << 16), IsOk());
      const std::unique_ptr<ByteSource> part = (*reader)->InPlace();
      ASSERT_NE(part, nullptr) << format;
      EXPECT_THAT(ReadBytes(*part, 0, part->size(), 1 << 20),
                  IsOkAndHolds(want));
    }
  }
}

TEST(Archive, NamesStayAsTheyAre) {
  const std::string long_name =
      std::string(200, 'd') + "/" + std::string(250, 'n');
  const std::vector<TestMember> members = {{"../../etc/passwd", "1"},
                                           {"/abs", "2"},
                                           {"./x", "3"},
                                           {long_name, "4"},
                                           {"s\xc3\xa4.so", "5"}};
  const Files want = {{"../../etc/passwd", "1"},
                      {"/abs", "2"},
                      {"./x", "3"},
                      {long_name, "4"},
                      {"s\xc3\xa4.so", "5"}};
  for (const char* const format : {"zip", "gnutar", "pax"}) {
    const std::string bytes = BuildArchive(format, members);
    EXPECT_EQ(Content(MemorySource(bytes)), want) << format;
  }
}

TEST(Archive, LinksHaveNoBytes) {
  const std::string bytes = BuildArchive(
      "gnutar", {{"lib.so.1", "code"},
                 {.path = "lib.so", .hard_link = "lib.so.1"},
                 {.path = "link", .symbolic_link = "/etc/passwd"}});
  const MemorySource source(bytes);
  absl::StatusOr<std::unique_ptr<ArchiveReader>> reader =
      ArchiveReader::Open(source);
  ASSERT_THAT(reader, IsOk());
  ArchiveMember member;
  ASSERT_THAT((*reader)->Next(&member), IsOkAndHolds(true));
  EXPECT_TRUE(member.regular);
  ASSERT_THAT((*reader)->Next(&member), IsOkAndHolds(true));
  EXPECT_TRUE(member.hard_link);
  EXPECT_FALSE(member.regular);
  EXPECT_EQ(member.link_target, "lib.so.1");
  ASSERT_THAT((*reader)->Next(&member), IsOkAndHolds(true));
  EXPECT_FALSE(member.regular);
  EXPECT_FALSE(member.hard_link);
  EXPECT_EQ(member.link_target, "/etc/passwd");
}

TEST(Archive, ACompressedFileHasOneMember) {
  for (const char* const filter : {"gzip", "xz", "zstd", "bzip2", "lz4"}) {
    const std::string bytes = Packed(filter, "some content");
    const MemorySource source(bytes);
    absl::StatusOr<std::unique_ptr<ArchiveReader>> reader =
        ArchiveReader::Open(source);
    ASSERT_THAT(reader, IsOk());
    EXPECT_EQ((*reader)->format(), "");
    EXPECT_THAT((*reader)->filters(), ElementsAre(filter));
    EXPECT_THAT(Content(source), ElementsAre(Pair("", "some content")));
  }
}

TEST(Archive, EncryptedMembersAreMarked) {
  const std::string bytes =
      BuildArchive("zip", {{"secret", "x"}},
                   {.options = "zip:encryption=zipcrypt", .passphrase = "p"});
  const MemorySource source(bytes);
  absl::StatusOr<std::unique_ptr<ArchiveReader>> reader =
      ArchiveReader::Open(source);
  ASSERT_THAT(reader, IsOk());
  ArchiveMember member;
  ASSERT_THAT((*reader)->Next(&member), IsOkAndHolds(true));
  EXPECT_EQ(member.path, "secret");
  EXPECT_TRUE(member.encrypted);
  EXPECT_THAT((*reader)->Head(10), StatusIs(absl::StatusCode::kUnimplemented));
}

// Formats libarchive could read and this reader does not.
TEST(Archive, OthersAreRefused) {
  for (const std::string& bytes :
       {BuildArchive("7zip", {{"a", "b"}}), BuildArchive("cpio", {{"a", "b"}}),
        BuildArchive("shar", {{"a", "b"}}),
        BuildArchive("iso9660", {{"a", "b"}}), std::string("plain text"),
        std::string(), Noise(5000)}) {
    EXPECT_THAT(ArchiveReader::Open(MemorySource(bytes)),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

// A disk image or a model may start with zeros, as an empty tar does.
TEST(Archive, ZerosArePackedContentAndNoEmptyTar) {
  const std::string content = std::string(64 << 10, '\0') + "data";
  const std::string bytes = Packed("gzip", content);
  const MemorySource source(bytes);
  absl::StatusOr<std::unique_ptr<ArchiveReader>> reader =
      ArchiveReader::Open(source);
  ASSERT_THAT(reader, IsOk());
  EXPECT_EQ((*reader)->format(), "");
  EXPECT_THAT(Content(source), ElementsAre(Pair("", content)));
}

TEST(Archive, WhatIsCutEndsWithAnErrorAndKeepsItsStart) {
  const std::string first = Noise(50'000);
  for (const char* const filter : {"", "gzip", "xz", "zstd", "bzip2", "lz4"}) {
    const std::string whole = BuildArchive(
        "gnutar", {{"first", first}, {"second", Noise(500'000)}},
        {.filters = *filter == '\0' ? std::vector<std::string>{}
                                    : std::vector<std::string>{filter}});
    const std::string cut = whole.substr(0, whole.size() * 3 / 5);
    absl::Status end;
    const Files files = Content(MemorySource(cut), &end);
    EXPECT_THAT(end, StatusIs(absl::StatusCode::kDataLoss)) << filter;
    EXPECT_LE(files.size(), 1u) << filter;
  }
  // A zip without its directory at the end is read from its start.
  const std::string zip =
      BuildArchive("zip", {{"first", first}, {"second", Noise(500'000)}});
  absl::Status end;
  EXPECT_THAT(Content(MemorySource(zip.substr(0, zip.size() / 2)), &end),
              ElementsAre(Pair("first", first)));
  EXPECT_THAT(end, StatusIs(absl::StatusCode::kDataLoss));
}

// Every byte of small archives is changed in turn: nothing may crash or hang.
TEST(Archive, ChangedBytesAreSurvived) {
  for (const std::string& whole :
       {BuildArchive("zip", {{"a", "aaaa"}, {"b", "bbbb"}}),
        BuildArchive("pax", {{"a", "aaaa"}, {std::string(200, 'n'), "b"}}),
        BuildArchive("gnutar", {{"a", "aaaa"}}, {.filters = {"gzip"}}),
        Packed("xz", "content"), Packed("zstd", "content")}) {
    for (size_t i = 0; i < std::min<size_t>(whole.size(), 3000); ++i) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ 0xff);
      Content(MemorySource(bytes));
    }
  }
}

TEST(Archive, HolesOfSparseFilesAreZeros) {
  if (!HasTool("tar") || !HasTool("truncate")) {
    GTEST_SKIP() << "needs tar and truncate";
  }
  const absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  RunIn(folder->path(),
        "truncate -s 3M sparse; printf end | dd of=sparse bs=1 seek=3145728 "
        "conv=notrunc status=none; truncate -s 4M sparse; "
        "tar -cSf a.tar sparse");
  const absl::StatusOr<std::string> bytes =
      ReadFile(folder->path() + "/a.tar", 64 << 20);
  ASSERT_THAT(bytes, IsOk());
  ASSERT_LT(bytes->size(), size_t{1} << 20);
  const MemorySource source(*bytes);
  absl::StatusOr<std::unique_ptr<ArchiveReader>> reader =
      ArchiveReader::Open(source);
  ASSERT_THAT(reader, IsOk());
  ArchiveMember member;
  ASSERT_THAT((*reader)->Next(&member), IsOkAndHolds(true));
  EXPECT_THAT((*reader)->Head(100), IsOkAndHolds(std::string(100, '\0')));
  EXPECT_EQ((*reader)->InPlace(), nullptr);
  std::string want(4 << 20, '\0');
  want.replace(3 << 20, 3, "end");
  const absl::StatusOr<std::string> got = ReadAll(**reader);
  ASSERT_THAT(got, IsOk());
  EXPECT_TRUE(*got == want) << got->size();
}

}  // namespace
}  // namespace twinpath::inspect
