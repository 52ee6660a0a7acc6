#include "inspect/ar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/inspect/archive_builder.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

using Files = std::vector<std::pair<std::string, std::string>>;

constexpr char kStart[] = "!<arch>\n";
constexpr char kThinStart[] = "!<thin>\n";

// Names and bytes ("external" for files beside the archive).
Files Content(absl::string_view bytes, absl::Status* end = nullptr) {
  const MemorySource source(bytes);
  absl::StatusOr<ArReader> reader = ArReader::Open(source);
  EXPECT_THAT(reader, IsOk());
  Files files;
  ArMember member;
  while (true) {
    const absl::StatusOr<bool> more = reader->Next(&member);
    if (end != nullptr) *end = more.status();
    if (!more.ok() || !*more) return files;
    files.push_back({member.path, member.external
                                      ? "external"
                                      : *ReadBytes(source, member.offset,
                                                   member.size, 1 << 20)});
  }
}

TEST(Ar, GnuNames) {
  const std::string names =
      "a-very-long-name-of-an-object.o/\nanother/one.o/\n";
  const std::string bytes =
      kStart + ArMemberBytes("/", std::string(8, '\0')) +
      ArMemberBytes("//", names) + ArMemberBytes("short.o/", "odd") +
      ArMemberBytes("/0", "first") + ArMemberBytes("/33", "second") +
      ArMemberBytes("with space/", "x");
  absl::Status end;
  EXPECT_THAT(
      Content(bytes, &end),
      ElementsAre(Pair("short.o", "odd"),
                  Pair("a-very-long-name-of-an-object.o", "first"),
                  Pair("another/one.o", "second"), Pair("with space", "x")));
  EXPECT_THAT(end, IsOk());
}

TEST(Ar, BsdNames) {
  const std::string name = "a-very-long-name.o";
  const std::string padded = name + std::string(2, '\0');
  const std::string bytes =
      kStart + ArMemberBytes("__.SYMDEF SORTED", "table") +
      ArMemberBytes("#1/20", padded + "content") +
      ArMemberBytes("#1/12", std::string("__.SYMDEF\0\0\0", 12) + "table") +
      ArMemberBytes("plain.o", "x");
  EXPECT_THAT(Content(bytes),
              ElementsAre(Pair(name, "content"), Pair("plain.o", "x")));
}

TEST(Ar, ThinArchivesNameTheirFiles) {
  const std::string bytes = kThinStart +
                            ArMemberBytes("/", std::string(8, '\0')) +
                            ArMemberBytes("//", "../obj/a.o/\nb.o/\n") +
                            // No bytes behind these.
                            ArHeader("/0", 1 << 30) + ArHeader("/12:68", 77);
  absl::Status end;
  EXPECT_THAT(Content(bytes, &end), ElementsAre(Pair("../obj/a.o", "external"),
                                                Pair("b.o", "external")));
  EXPECT_THAT(end, IsOk());
}

TEST(Ar, DamageIsNamedWithItsPlace) {
  const std::string good = kStart + ArMemberBytes("a.o/", "good");
  const struct {
    std::string tail;
    const char* what;
  } kCases[] = {
      {ArHeader("b.o/", 100) + "short", "claims 100 bytes"},
      {"cut", "cut by the end"},
      {std::string(60, 'x'), "does not end as it must"},
      {ArHeader("/5", 1) + "x", "table of long names"},
      {ArHeader("/x", 1) + "x", "table of long names"},
      {ArHeader("#1/9", 1) + "x", "longer than the member"},
      {[] {
         std::string header = ArHeader("b.o/", 0);
         header.replace(48, 10, "-1        ");
         return header;
       }(),
       "no readable size"},
      {[] {
         std::string header = ArHeader("b.o/", 0);
         header.replace(48, 10, "9999999999");
         return header;
       }(),
       "claims 9999999999"},
  };
  for (const auto& row : kCases) {
    absl::Status end;
    EXPECT_THAT(Content(good + row.tail, &end),
                ElementsAre(Pair("a.o", "good")));
    EXPECT_THAT(end,
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(row.what)));
    EXPECT_THAT(end,
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("offset 72")));
  }
}

TEST(Ar, PaddingAtTheEndIsNoDamage) {
  absl::Status end;
  EXPECT_THAT(Content(kStart + ArMemberBytes("a/", "xx") + "\n", &end),
              ElementsAre(Pair("a", "xx")));
  EXPECT_THAT(end, IsOk());
  EXPECT_THAT(Content(kStart, &end), IsEmpty());
  EXPECT_THAT(end, IsOk());
}

TEST(Ar, OthersAreRefused) {
  EXPECT_THAT(ArReader::Open(MemorySource("!<arch>")),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ArReader::Open(MemorySource("")),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Ar, WhatBinutilsMakes) {
  if (!HasTool("ar")) GTEST_SKIP() << "needs ar";
  const absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  RunIn(folder->path(),
        "printf one > a.txt; printf second > an-object-with-a-long-name.txt; "
        "ar rc plain.a a.txt an-object-with-a-long-name.txt; "
        "ar rcT thin.a a.txt an-object-with-a-long-name.txt");
  const absl::StatusOr<std::string> plain =
      ReadFile(folder->path() + "/plain.a", 1 << 20);
  ASSERT_THAT(plain, IsOk());
  EXPECT_THAT(Content(*plain),
              ElementsAre(Pair("a.txt", "one"),
                          Pair("an-object-with-a-long-name.txt", "second")));
  const absl::StatusOr<std::string> thin =
      ReadFile(folder->path() + "/thin.a", 1 << 20);
  ASSERT_THAT(thin, IsOk());
  EXPECT_THAT(Content(*thin),
              ElementsAre(Pair("a.txt", "external"),
                          Pair("an-object-with-a-long-name.txt", "external")));
}

}  // namespace
}  // namespace twinpath::inspect
