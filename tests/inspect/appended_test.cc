// Programs and scripts with something behind them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "inspect/carrier.h"
#include "inspect/elf_view.h"
#include "inspect/packed.h"
#include "tests/inspect/archive_builder.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"

namespace twinpath::inspect {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Library(uint32_t sm) {
  return BuildElf({.fatbins = {BuildFatbin({SassEntry({.sm = sm})})}});
}
// Host code alone.
std::string Program() { return BuildElf({.type = 2}); }

// The reports, those of members first.
std::vector<v1::FileReport> Inspect(absl::string_view bytes,
                                    bool members = true) {
  const UniqueFd fd = FileWith("");
  Scratch scratch(fd.get(), kScratchFileBytes);
  std::vector<v1::FileReport> reports;
  EXPECT_THAT(InspectFile(MemorySource(bytes), "x",
                          {.digest = false, .members = members}, scratch,
                          [&](v1::FileReport report) {
                            reports.push_back(std::move(report));
                            return absl::OkStatus();
                          }),
              IsOk());
  if (reports.empty()) reports.emplace_back();
  EXPECT_EQ(reports.back().name(), "x");
  return reports;
}

std::vector<std::string> Problems(const v1::FileReport& report) {
  std::vector<std::string> out;
  for (const v1::Reason& reason : report.problems()) {
    // These libraries' host code names no kernel.
    if (reason.code() == "TP240") continue;
    out.push_back(absl::StrCat(reason.code(), " ", reason.detail()));
  }
  return out;
}

TEST(Appended, AProgramEndsWhereItsTablesAndSectionsDo) {
  for (const std::string& elf :
       {Program(), Library(90), BuildElf({.type = 1}),
        BuildElf({.type = 2, .without_sections = true})}) {
    const MemorySource source(elf);
    const absl::StatusOr<ElfView> view = ElfView::Open(source);
    ASSERT_THAT(view, IsOk());
    EXPECT_THAT(EndOfElf(source, *view), IsOkAndHolds(elf.size()));
    EXPECT_THAT(Problems(Inspect(elf).back()), IsEmpty());
    EXPECT_THAT(Problems(Inspect(elf + std::string(9000, '\0')).back()),
                IsEmpty());
  }
}

TEST(Appended, AZipBehindAProgramIsOpened) {
  const std::string zip =
      BuildArchive("zip", {{"a.so", Library(90)}, {"README", "text"}});
  for (const std::string& program : {Program(), Library(80)}) {
    const std::vector<v1::FileReport> reports = Inspect(program + zip);
    ASSERT_EQ(reports.size(), 2u);
    EXPECT_EQ(reports[0].name(), "x!/a.so");
    EXPECT_EQ(reports[0].member_of(), "x");
    const v1::FileReport& own = reports[1];
    // It stays what it is, and is a carrier too.
    EXPECT_EQ(own.kind(), Inspect(program).back().kind());
    EXPECT_TRUE(own.has_elf());
    EXPECT_EQ(own.fatbins_size(), Inspect(program).back().fatbins_size());
    EXPECT_EQ(own.size_bytes(), program.size() + zip.size());
    EXPECT_EQ(own.carrier().format(), "zip");
    EXPECT_EQ(own.carrier().members(), 2u);
    EXPECT_EQ(own.carrier().passed_over(), 1u);
    EXPECT_THAT(Problems(own), IsEmpty());
    // As a member of something.
    const std::vector<v1::FileReport> inside =
        Inspect(BuildArchive("ustar", {{"run", program + zip}}));
    ASSERT_EQ(inside.size(), 3u);
    EXPECT_EQ(inside[0].name(), "x!/run!/a.so");
    EXPECT_EQ(inside[1].name(), "x!/run");
    EXPECT_EQ(inside[1].member_of(), "x");
    // Where it is not opened it is named.
    EXPECT_THAT(
        Problems(Inspect(program + zip, /*members=*/false).back()),
        ElementsAre(HasSubstr(absl::StrCat(
            "TP215 a zip archive behind it, at offset ", program.size()))));
  }
}

TEST(Appended, AScriptWithAZipIsOpened) {
  const std::string zip = BuildArchive("zip", {{"a.so", Library(90)}});
  const std::vector<v1::FileReport> reports =
      Inspect("#!/usr/bin/env python3\n" + zip);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].name(), "x!/a.so");
  EXPECT_EQ(reports[1].carrier().format(), "zip");
  EXPECT_THAT(Problems(reports[1]), IsEmpty());
}

TEST(Appended, DamageOfTheZipIsNamed) {
  std::string bytes = Program() + BuildArchive("zip", {{"a.so", Library(90)},
                                                       {"b.so", Library(80)}});
  bytes[bytes.rfind("PK\x05\x06") + 10] = 1;
  bytes[bytes.rfind("PK\x05\x06") + 8] = 1;
  EXPECT_THAT(Problems(Inspect(bytes).back()),
              ElementsAre(HasSubstr("TP233 its directory has 2 members")));
}

TEST(Appended, WhatIsNotOpenedIsNamed) {
  const std::string tar = BuildArchive("ustar", {{"a.so", Library(90)}});
  const struct {
    std::string bytes;
    std::string what;
  } kCases[] = {
      {Packed("gzip", tar), "a gzip file"},
      {Packed("xz", tar), "a xz file"},
      {Packed("zstd", tar), "a zstd file"},
      {std::string(100, '\0') + Packed("gzip", tar), "a gzip file"},
      // AppImage.
      {"hsqs" + std::string(5000, '\1'), "a squashfs image"},
      {std::string(300, '\1') + "MEI\014\013\012\013\016" +
           std::string(80, '\2'),
       "a PyInstaller archive"},
      {BuildArchive("7zip", {{"a", "a"}}), "a 7z archive"},
  };
  for (const auto& row : kCases) {
    SCOPED_TRACE(row.what);
    v1::FileReport own = Inspect(Program() + row.bytes).back();
    EXPECT_THAT(
        Problems(own),
        ElementsAre(HasSubstr(absl::StrCat("TP215 ", row.what, " behind it"))));
    EXPECT_EQ(own.kind(), v1::FILE_KIND_PACKED);
    // Device code of its own is there all the same.
    own = Inspect(Library(90) + row.bytes).back();
    EXPECT_EQ(Problems(own).size(), 1u);
    EXPECT_EQ(own.kind(), v1::FILE_KIND_ELF_SHARED);
  }
  const v1::FileReport unknown =
      Inspect(Program() + std::string(5000, '\1')).back();
  EXPECT_THAT(Problems(unknown),
              ElementsAre(HasSubstr("TP215 5000 bytes behind it")));
  EXPECT_EQ(unknown.kind(), v1::FILE_KIND_ELF_EXECUTABLE);
}

TEST(Appended, SignaturesAndTextAreNothing) {
  const std::string object = BuildElf({.type = 1});
  EXPECT_THAT(Problems(Inspect(object + std::string(6000, '\1') +
                               "~Module signature appended~\n")
                           .back()),
              IsEmpty());
  EXPECT_THAT(Problems(Inspect(Program() + std::string(90, '\1')).back()),
              IsEmpty());
  EXPECT_THAT(Problems(Inspect(Program() + std::string(9000, 't')).back()),
              IsEmpty());
}

// Device code that lies behind a program as it is counts.
TEST(Appended, BareCodeBehindAProgramIsFound) {
  const v1::FileReport own =
      Inspect(Program() + BuildFatbin({SassEntry({.sm = 90})})).back();
  EXPECT_EQ(own.fatbins_size(), 1);
  EXPECT_THAT(Problems(own), IsEmpty());
}

// Of large zips the end record is found where the zip's offsets say.
TEST(Appended, ALargeZipBehindAProgramIsWhole) {
  const std::string front = Program();
  const std::string zip = AsZip64(
      BuildArchive("zip", {{"a.so", Library(90)}, {"b.so", Library(80)}}));
  const std::vector<v1::FileReport> reports = Inspect(front + zip);
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[2].carrier().members(), 2u);
  EXPECT_THAT(Problems(reports[2]), IsEmpty());
}

// A zip behind it hides none of it, whatever its offsets count from.
TEST(Appended, BareCodeBetweenAProgramAndAZipIsFound) {
  const std::string code = BuildFatbin({SassEntry({.sm = 90})});
  const std::string zip = BuildArchive("zip", {{"a.so", Library(80)}});
  for (const std::string& program :
       {Program(), std::string("#!/bin/sh\nexec it\n")}) {
    const std::string front = program + code;
    for (const bool adjusted : {false, true}) {
      std::string behind = zip;
      if (adjusted) {
        // As `zip -A` leaves them.
        const auto add = [&](size_t at) {
          uint32_t value = 0;
          for (int i = 0; i < 4; ++i) {
            value |= uint32_t{static_cast<unsigned char>(behind[at + i])}
                     << (8 * i);
          }
          value += static_cast<uint32_t>(front.size());
          for (int i = 0; i < 4; ++i) {
            behind[at + i] = static_cast<char>(value >> (8 * i));
          }
        };
        add(zip.find("PK\x01\x02") + 42);
        add(zip.rfind("PK\x05\x06") + 16);
      }
      const std::vector<v1::FileReport> reports = Inspect(front + behind);
      ASSERT_EQ(reports.size(), 2u);
      EXPECT_EQ(reports[0].name(), "x!/a.so");
      if (reports[1].has_elf()) {
        EXPECT_EQ(reports[1].fatbins_size(), 1);
      } else {
        EXPECT_THAT(Problems(reports[1]),
                    ElementsAre(HasSubstr("TP215 a script with binary data")));
      }
      EXPECT_EQ(reports[1].carrier().format(), "zip");
      EXPECT_EQ(reports[1].carrier().members(), 1u);
    }
  }
  // What is not known is said.
  EXPECT_THAT(
      Problems(Inspect(Program() + std::string(9000, '\1') + zip).back()),
      ElementsAre(HasSubstr("TP215 9000 bytes behind it")));
}

TEST(Appended, AProgramBehindAProgramIsNamed) {
  const v1::FileReport own = Inspect(Program() + Library(90)).back();
  EXPECT_EQ(own.fatbins_size(), 1);
  EXPECT_EQ(own.kind(), v1::FILE_KIND_ELF_EXECUTABLE);
  EXPECT_THAT(Problems(own),
              Contains(HasSubstr("TP215 another ELF file behind it")));
}

// Offsets and sizes come from the file.
TEST(Appended, ChangedHeadersAreSurvived) {
  const std::string whole = Program() + BuildArchive("zip", {{"a", "aaaa"}});
  for (size_t i = 4; i < 64; ++i) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ mask);
      Inspect(bytes);
    }
  }
}

}  // namespace
}  // namespace twinpath::inspect
