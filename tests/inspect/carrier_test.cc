#include "inspect/carrier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/inspect/archive_builder.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A library with machine code for one target, no two of the same bytes.
std::string Library(uint32_t sm, size_t filler = 0) {
  return BuildElf({.fatbins = {BuildFatbin({SassEntry({.sm = sm})})},
                   .rodata = std::string(filler, 'r')});
}

struct Outcome {
  std::vector<v1::FileReport> reports;

  const v1::FileReport& top() const { return reports.back(); }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const v1::FileReport& report : reports) names.push_back(report.name());
    return names;
  }
  const v1::FileReport& At(absl::string_view name) const {
    for (const v1::FileReport& report : reports) {
      if (report.name() == name) return report;
    }
    ADD_FAILURE() << "no report of " << name;
    static const v1::FileReport kNone;
    return kNone;
  }
  // Details of the file's own problems.
  std::string Problems() const {
    std::string all;
    for (const v1::Reason& reason : top().problems()) {
      absl::StrAppend(&all, reason.code(), " ", reason.detail(), "\n");
    }
    return all;
  }
};

Outcome Inspect(absl::string_view bytes, absl::string_view name,
                const InspectOptions& options = {.digest = false},
                const CarrierLimits& limits = {}, bool scratch_file = true) {
  UniqueFd fd;
  if (scratch_file) fd = FileWith("");
  Outcome outcome;
  Scratch scratch(fd.get(), kScratchFileBytes);
  EXPECT_THAT(InspectFile(
                  MemorySource(bytes), name, options, scratch,
                  [&](v1::FileReport report) {
                    outcome.reports.push_back(std::move(report));
                    return absl::OkStatus();
                  },
                  limits),
              IsOk());
  EXPECT_FALSE(outcome.reports.empty());
  if (outcome.reports.empty()) outcome.reports.emplace_back();
  EXPECT_EQ(outcome.top().name(), name);
  EXPECT_EQ(outcome.top().member_of(), "");
  if (fd.valid()) {
    // Everything was given back.
    EXPECT_EQ(FileSource::Open(fd.get())->size(), 0u);
  }
  return outcome;
}

uint32_t TargetOf(const v1::FileReport& report) {
  if (report.fatbins_size() == 0) return 0;
  return report.fatbins(0).images(0).target().number();
}

TEST(Carrier, MembersOfArchivesAreReported) {
  const std::string a = Library(90);
  const std::string b = Library(120, 9 << 20);
  const struct {
    const char* format;
    const char* filter;
  } kCases[] = {{"zip", ""},   {"gnutar", ""},    {"gnutar", "gzip"},
                {"pax", "xz"}, {"ustar", "zstd"}, {"gnutar", "bzip2"},
                {"v7tar", ""}, {"gnutar", "lz4"}};
  for (const auto& row : kCases) {
    SCOPED_TRACE(absl::StrCat(row.format, " ", row.filter));
    const std::vector<std::string> filters =
        *row.filter == '\0' ? std::vector<std::string>{}
                            : std::vector<std::string>{row.filter};
    const std::string bytes = BuildArchive(row.format,
                                           {{"README", "text"},
                                            {"./lib/a.so", a},
                                            {"lib", "", "", "", true},
                                            {"lib/b.so", b},
                                            {"logo", "\x89PNG\r\n\x1a\n..."}},
                                           {.filters = filters});
    const Outcome outcome = Inspect(bytes, "dir/x", {});
    EXPECT_THAT(outcome.Names(),
                ElementsAre("dir/x!/lib/a.so", "dir/x!/lib/b.so", "dir/x"));
    EXPECT_EQ(outcome.Problems(), "");
    EXPECT_EQ(outcome.top().kind(), v1::FILE_KIND_ARCHIVE);
    EXPECT_EQ(outcome.top().size_bytes(), bytes.size());
    EXPECT_EQ(outcome.top().digest().sha256(), Sha256Of(bytes).Raw());
    const v1::CarrierFacts& facts = outcome.top().carrier();
    EXPECT_EQ(facts.format(), row.format == std::string("zip") ? "zip" : "tar");
    EXPECT_EQ(std::vector<std::string>(facts.filters().begin(),
                                       facts.filters().end()),
              filters);
    EXPECT_EQ(facts.members(), 4u);
    EXPECT_EQ(facts.reported(), 2u);
    EXPECT_EQ(facts.passed_over(), 2u);
    EXPECT_GE(facts.expanded_bytes(), a.size() + b.size());
    const v1::FileReport& member = outcome.reports[1];
    EXPECT_EQ(member.member_of(), "dir/x");
    EXPECT_EQ(member.kind(), v1::FILE_KIND_ELF_SHARED);
    EXPECT_EQ(member.size_bytes(), b.size());
    EXPECT_EQ(member.digest().sha256(), Sha256Of(b).Raw());
    EXPECT_EQ(TargetOf(outcome.reports[0]), 90u);
    EXPECT_EQ(TargetOf(member), 120u);
    EXPECT_THAT(KernelNames(member.fatbins(0).images(0)),
                ElementsAre("_Z6kernelPi"));
  }
}

TEST(Carrier, WithoutMembersNothingIsOpened) {
  const std::string bytes = BuildArchive("zip", {{"a.so", Library(90)}});
  const Outcome outcome =
      Inspect(bytes, "x.zip", {.digest = false, .members = false});
  EXPECT_THAT(outcome.Names(), ElementsAre("x.zip"));
  EXPECT_FALSE(outcome.top().has_carrier());
  EXPECT_THAT(outcome.Problems(), HasSubstr("not opened"));
}

TEST(Carrier, AFileThatIsNoneIsInspectedAsBefore) {
  const Outcome outcome = Inspect(Library(90), "a.so");
  EXPECT_THAT(outcome.Names(), ElementsAre("a.so"));
  EXPECT_EQ(TargetOf(outcome.top()), 90u);
  EXPECT_FALSE(outcome.top().has_carrier());
}

TEST(Carrier, EveryKindOfDeviceCodeIsAMember) {
  const std::string bytes = BuildArchive(
      "zip", {{"k.cubin", BuildCubin({.sm = 100})},
              {"k.ptx", BuildPtx({.target = "sm_90"})},
              {"k.fatbin", BuildFatbin({SassEntry({.sm = 80})})},
              {"data.bin", std::string(1000, 'x') + std::string(24, '\0') +
                               BuildFatbin({SassEntry({.sm = 86})})},
              {"noise.bin", std::string(5000, '\1')}});
  const Outcome outcome = Inspect(bytes, "x");
  EXPECT_THAT(outcome.Names(), ElementsAre("x!/k.cubin", "x!/k.ptx",
                                           "x!/k.fatbin", "x!/data.bin", "x"));
  EXPECT_EQ(outcome.At("x!/k.cubin").kind(), v1::FILE_KIND_CUBIN);
  EXPECT_EQ(outcome.At("x!/k.ptx").kind(), v1::FILE_KIND_PTX);
  EXPECT_EQ(TargetOf(outcome.At("x!/data.bin")), 86u);
  EXPECT_EQ(outcome.top().carrier().passed_over(), 1u);
}

TEST(Carrier, StaticArchives) {
  const std::string object =
      BuildElf({.type = 1, .fatbins = {BuildFatbin({SassEntry({.sm = 90})})}});
  const std::string bytes =
      "!<arch>\n" + ArMemberBytes("/", std::string(4, '\0')) +
      ArMemberBytes("//", "an-object-with-a-long-name.o/\n") +
      ArMemberBytes("/0", object) + ArMemberBytes("b.o/", object) +
      ArMemberBytes("readme/", "text");
  const Outcome outcome = Inspect(bytes, "libx.a");
  EXPECT_THAT(outcome.Names(),
              ElementsAre("libx.a!/an-object-with-a-long-name.o", "libx.a!/b.o",
                          "libx.a"));
  EXPECT_EQ(outcome.reports[0].kind(), v1::FILE_KIND_ELF_OBJECT);
  EXPECT_EQ(TargetOf(outcome.reports[1]), 90u);
  EXPECT_EQ(outcome.top().carrier().format(), "ar");
  EXPECT_EQ(outcome.top().carrier().members(), 3u);
  EXPECT_EQ(outcome.top().carrier().passed_over(), 1u);
  // Its device code is that of its members.
  EXPECT_EQ(outcome.top().fatbins_size(), 0);
  EXPECT_EQ(outcome.Problems(), "");
}

// What `xz` and its like make of an empty file is whole.
TEST(Carrier, AnEmptyFilePackedIsNoDamage) {
  const struct {
    const char* format;
    const char* hex;
  } kCases[] = {
      {"gzip", "1f8b080000000000000303000000000000000000"},
      {"xz",
       "fd377a585a000004e6d6b446000000001cdf44211fb6f37d01000000"
       "0004595a"},
      {"zstd", "28b52ffd240001000099e9d851"},
      {"bzip2", "425a683917724538509000000000"},
      {"lz4", "04224d186440a700000000055dcc02"},
  };
  for (const auto& row : kCases) {
    SCOPED_TRACE(row.format);
    const Outcome outcome = Inspect(absl::HexStringToBytes(row.hex), "x");
    EXPECT_EQ(outcome.top().carrier().format(), row.format);
    EXPECT_EQ(outcome.Problems(), "");
  }
}

TEST(Carrier, OfTwoMembersOfOneNameUnpackingLeavesTheLater) {
  for (const char* const format : {"zip", "gnutar"}) {
    const Outcome outcome =
        Inspect(BuildArchive(format, {{"a.so", Library(80)},
                                      {"README", "one"},
                                      {"./a.so", "replaced"},
                                      {"README", "two"}}),
                "x");
    EXPECT_THAT(outcome.Names(), ElementsAre("x!/a.so", "x"));
    EXPECT_EQ(outcome.Problems(),
              "TP215 a.so is in it twice: each is inspected, and unpacking "
              "leaves the later one\n");
  }
}

TEST(Carrier, PtxBehindAByteOrderMark) {
  const Outcome outcome = Inspect(
      BuildArchive("zip",
                   {{"k.ptx", "\xef\xbb\xbf" + BuildPtx({.target = "sm_90"})}}),
      "x");
  const v1::FileReport& report = outcome.At("x!/k.ptx");
  EXPECT_EQ(report.kind(), v1::FILE_KIND_PTX);
  ASSERT_EQ(report.fatbins_size(), 1);
  EXPECT_EQ(report.fatbins(0).images(0).target().number(), 90u);
  EXPECT_EQ(report.fatbins(0).images(0).problem(), "");
  EXPECT_EQ(report.fatbins(0).images(0).kernels_size(), 1);
}

TEST(Carrier, ThinArchivesNameTheirMembers) {
  const std::string bytes = "!<thin>\n" +
                            ArMemberBytes("//", "../obj/a.o/\nb.o/\n") +
                            ArHeader("/0", 100) + ArHeader("/12", 100);
  const Outcome outcome = Inspect(bytes, "libx.a");
  EXPECT_THAT(outcome.Names(), ElementsAre("libx.a"));
  EXPECT_EQ(outcome.top().carrier().format(), "thin ar");
  EXPECT_THAT(outcome.top().carrier().external_members(),
              ElementsAre("../obj/a.o", "b.o"));
}

TEST(Carrier, ACompressedFileIsACarrierOfOne) {
  const std::string library = Library(90);
  const struct {
    const char* filter;
    const char* name;
    const char* member;
  } kCases[] = {{"gzip", "d/x.so.gz", "d/x.so.gz!/x.so"},
                {"xz", "x.so.xz", "x.so.xz!/x.so"},
                {"zstd", "x.zst", "x.zst!/x"},
                {"bzip2", "x.so", "x.so!/content"},
                {"lz4", ".lz4", ".lz4!/content"}};
  for (const auto& row : kCases) {
    const Outcome outcome = Inspect(Packed(row.filter, library), row.name);
    EXPECT_THAT(outcome.Names(), ElementsAre(row.member, row.name));
    EXPECT_EQ(TargetOf(outcome.reports[0]), 90u);
    EXPECT_EQ(outcome.top().carrier().format(), row.filter);
    EXPECT_THAT(outcome.top().carrier().filters(), IsEmpty());
    EXPECT_EQ(outcome.top().carrier().members(), 1u);
  }
}

std::string Deb(const std::string& filter, const std::string& data) {
  return "!<arch>\n" + ArMemberBytes("debian-binary", "2.0\n") +
         ArMemberBytes("control.tar.xz",
                       BuildArchive("gnutar",
                                    {{"./control",
                                      "Package: libdemo\nVersion: 1.2\n"
                                      "Architecture: amd64\n"},
                                     {"./md5sums", "none"}},
                                    {.filters = {"xz"}})) +
         ArMemberBytes("data.tar." + filter, data);
}

TEST(Carrier, ADebsMembersAreThoseOfItsData) {
  const std::string library = Library(90);
  const std::string data = BuildArchive(
      "gnutar",
      {{"./usr/lib/libdemo.so.1", library},
       {.path = "./usr/lib/libdemo.so", .symbolic_link = "libdemo.so.1"},
       {.path = "./usr/lib/copy.so", .hard_link = "./usr/lib/libdemo.so.1"},
       {"./usr/share/doc/copyright", "free"}},
      {.filters = {"zstd"}});
  const Outcome outcome = Inspect(Deb("zst", data), "libdemo_1.2_amd64.deb");
  EXPECT_THAT(outcome.Names(),
              ElementsAre("libdemo_1.2_amd64.deb!/usr/lib/libdemo.so.1",
                          "libdemo_1.2_amd64.deb"));
  const v1::CarrierFacts& facts = outcome.top().carrier();
  EXPECT_EQ(facts.format(), "deb");
  EXPECT_THAT(facts.filters(), ElementsAre("zstd"));
  EXPECT_EQ(facts.members(), 2u);
  EXPECT_EQ(facts.passed_over(), 1u);
  EXPECT_EQ(facts.promise().name(), "libdemo");
  EXPECT_EQ(facts.promise().version(), "1.2");
}

TEST(Carrier, AWheelIsNamedByItsMetadata) {
  const std::string bytes = BuildArchive(
      "zip", {{"demo/_c.so", Library(90)},
              {"demo-1.0.dist-info/METADATA",
               "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n\ntext\n"},
              {"demo-1.0.dist-info/WHEEL",
               "Wheel-Version: 1.0\nTag: cp312-cp312-manylinux_2_28_x86_64\n"},
              {"demo-1.0.dist-info/RECORD", ""}});
  const Outcome outcome =
      Inspect(bytes, "demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl");
  EXPECT_EQ(outcome.top().carrier().format(), "wheel");
  EXPECT_EQ(outcome.top().carrier().promise().name(), "demo");
  EXPECT_EQ(outcome.top().carrier().promise().version(), "1.0");
}

TEST(Carrier, CarriersInCarriers) {
  const std::string whl = BuildArchive("zip", {{"pkg/_c.so", Library(90)}});
  const std::string text_only = BuildArchive("zip", {{"a.py", "pass"}});
  const std::string bytes = BuildArchive(
      "gnutar",
      {{"in/x.whl", whl}, {"lib.zip", text_only}, {"b.so", Library(120)}},
      {.filters = {"gzip"}});
  const Outcome outcome = Inspect(bytes, "all.tgz");
  EXPECT_THAT(outcome.Names(),
              ElementsAre("all.tgz!/in/x.whl!/pkg/_c.so", "all.tgz!/in/x.whl",
                          "all.tgz!/b.so", "all.tgz"));
  EXPECT_EQ(outcome.reports[0].member_of(), "all.tgz!/in/x.whl");
  EXPECT_EQ(outcome.reports[1].member_of(), "all.tgz");
  EXPECT_EQ(outcome.reports[1].carrier().reported(), 1u);
  EXPECT_EQ(outcome.top().carrier().reported(), 2u);
  EXPECT_EQ(outcome.top().carrier().passed_over(), 1u);
}

TEST(Carrier, FourLevelsAreOpenedAndTheFifthIsNamed) {
  std::string bytes = Library(90);
  for (int level = 4; level >= 1; --level) {
    bytes = BuildArchive(level % 2 == 0 ? "zip" : "gnutar",
                         {{absl::StrCat("m", level), bytes}});
  }
  Outcome outcome = Inspect(bytes, "x");
  EXPECT_THAT(outcome.Names(), ElementsAre("x!/m1!/m2!/m3!/m4", "x!/m1!/m2!/m3",
                                           "x!/m1!/m2", "x!/m1", "x"));
  EXPECT_EQ(TargetOf(outcome.reports[0]), 90u);

  bytes = BuildArchive("gnutar", {{"m0", bytes}});
  outcome = Inspect(bytes, "x");
  const std::string deep = "x!/m0!/m1!/m2!/m3";
  EXPECT_EQ(outcome.reports[0].name(), deep);
  EXPECT_FALSE(outcome.reports[0].has_carrier());
  EXPECT_THAT(ProblemCodes(outcome.At("x!/m0!/m1!/m2")), ElementsAre("TP232"));
  EXPECT_THAT(outcome.At("x!/m0!/m1!/m2").problems(0).detail(),
              HasSubstr(deep));
}

TEST(Carrier, BombsEndTheWalkAndAreNamed) {
  const std::string library = Library(90);
  const std::string zeros(100 << 20, '\0');
  for (const char* const format : {"zip", "gnutar"}) {
    const std::string bytes = BuildArchive(
        format, {{"a.so", library}, {"bomb", zeros}, {"b.so", library}},
        {.filters = format == std::string("zip")
                        ? std::vector<std::string>{}
                        : std::vector<std::string>{"xz"}});
    ASSERT_LT(bytes.size(), size_t{200} << 10) << format;
    const Outcome outcome = Inspect(bytes, "x", {.digest = false},
                                    {.ratio = 100, .ratio_slack = 1 << 20});
    EXPECT_THAT(outcome.Names(), ElementsAre("x!/a.so", "x"));
    EXPECT_THAT(outcome.Problems(), HasSubstr("TP232 bomb unpacks"));
    EXPECT_LT(outcome.top().carrier().expanded_bytes(), zeros.size());
  }
  // A bomb inside ends what it lies in, too.
  const std::string inner = BuildArchive("zip", {{"bomb", zeros}});
  const Outcome outcome =
      Inspect(BuildArchive("gnutar", {{"in.zip", inner}, {"b.so", library}}),
              "x", {.digest = false}, {.ratio = 100, .ratio_slack = 1 << 20});
  EXPECT_THAT(outcome.Names(), ElementsAre("x!/in.zip", "x"));
  EXPECT_THAT(outcome.Problems(), HasSubstr("bomb"));
}

// What is unpacked is held against what was read for it, also where a member is
// only passed.
TEST(Carrier, LargeTextIsNoBomb) {
  std::string text(4 << 20, ' ');
  uint32_t state = 7;
  for (char& c : text) {
    state = state * 1664525 + 1013904223;
    c = "0123456789abcdef"[state >> 28];
  }
  const std::string bytes =
      BuildArchive("gnutar", {{"a.csv", text}, {"a.so", Library(90)}},
                   {.filters = {"gzip"}});
  ASSERT_GT(bytes.size() * 3, text.size());
  const Outcome outcome = Inspect(bytes, "x", {.digest = false},
                                  {.ratio = 3, .ratio_slack = 1 << 16});
  EXPECT_THAT(outcome.Names(), ElementsAre("x!/a.so", "x"));
  EXPECT_EQ(outcome.Problems(), "");
}

TEST(Carrier, CapsAreNamed) {
  const std::string a = Library(90);
  const std::string big = Library(120, 3 << 20);
  const std::string bytes =
      BuildArchive("gnutar", {{"a.so", a}, {"big.so", big}, {"c.so", a}},
                   {.filters = {"gzip"}});
  // One member too large: the others are read.
  Outcome outcome =
      Inspect(bytes, "x", {.digest = false}, {.member_bytes = 1 << 20});
  EXPECT_THAT(outcome.Names(), ElementsAre("x!/a.so", "x!/c.so", "x"));
  EXPECT_THAT(outcome.Problems(), HasSubstr("TP232 big.so is not inspected"));
  EXPECT_THAT(outcome.Problems(), HasSubstr("cap of 1.0 MB"));
  // All together too large: what was read stays.
  outcome = Inspect(bytes, "x", {.digest = false}, {.total_bytes = 1 << 20});
  EXPECT_THAT(outcome.Names(), ElementsAre("x!/a.so", "x"));
  EXPECT_THAT(outcome.Problems(), HasSubstr("reached at big.so"));
  // Too many.
  outcome = Inspect(bytes, "x", {.digest = false}, {.members = 2});
  EXPECT_THAT(outcome.Names(), ElementsAre("x!/a.so", "x!/big.so", "x"));
  EXPECT_THAT(outcome.Problems(),
              HasSubstr("the cap of 2 members is reached at c.so"));
}

TEST(Carrier, WithoutScratchSpaceLargeMembersAreNamed) {
  const std::string bytes =
      BuildArchive("zip", {{"small.so", Library(90)},
                           {"large.so", Library(90, 9 << 20)},
                           {"other.so", Library(120)}});
  const Outcome outcome =
      Inspect(bytes, "x", {.digest = false}, {}, /*scratch_file=*/false);
  EXPECT_THAT(outcome.Names(), ElementsAre("x!/small.so", "x!/other.so", "x"));
  EXPECT_THAT(outcome.Problems(), HasSubstr("large.so"));
  EXPECT_THAT(outcome.Problems(), HasSubstr("no scratch space"));
}

TEST(Carrier, TruncatedArchivesKeepWhatWasRead) {
  const std::string a = Library(90);
  const std::string bytes =
      BuildArchive("gnutar", {{"a.so", a}, {"b.so", Library(120, 1 << 20)}});
  const Outcome outcome = Inspect(bytes.substr(0, bytes.size() / 2), "x.tar");
  EXPECT_EQ(outcome.reports[0].name(), "x.tar!/a.so");
  EXPECT_EQ(TargetOf(outcome.reports[0]), 90u);
  EXPECT_GE(outcome.top().problems_size(), 1);

  const std::string ar = "!<arch>\n" + ArMemberBytes("a.o/", a) +
                         ArHeader("b.o/", a.size()) + "cut";
  const Outcome cut = Inspect(ar, "x.a");
  EXPECT_THAT(cut.Names(), ElementsAre("x.a!/a.o", "x.a"));
  EXPECT_THAT(cut.Problems(), HasSubstr("TP233"));
}

TEST(Carrier, EncryptedMembersAreNamed) {
  const std::string bytes =
      BuildArchive("zip", {{"secret.so", Library(90)}},
                   {.options = "zip:encryption=zipcrypt", .passphrase = "p"});
  const Outcome outcome = Inspect(bytes, "x.zip");
  EXPECT_THAT(outcome.Names(), ElementsAre("x.zip"));
  EXPECT_THAT(outcome.Problems(), HasSubstr("TP232 secret.so is encrypted"));
}

TEST(Carrier, HostileNamesAreLabels) {
  const std::string library = Library(90);
  const std::string bytes =
      BuildArchive("gnutar", {{"../../../../tmp/evil.so", library},
                              {"/etc/evil.so", library},
                              {"evil\n\x1b[31m.so", library}});
  const Outcome outcome = Inspect(bytes, "x");
  EXPECT_THAT(outcome.Names(),
              ElementsAre("x!/../../../../tmp/evil.so", "x!//etc/evil.so",
                          "x!/evil\n\x1b[31m.so", "x"));
}

// Garbage behind an archive's magic is a report with a problem.
TEST(Carrier, DamagedFromTheStart) {
  for (const std::string& bytes :
       {std::string("PK\x03\x04garbage"), std::string("\x1f\x8b\x08garbage"),
        "\xfd"
        "7zXZ" +
            std::string(20, '\0'),
        std::string("\x28\xb5\x2f\xfdgarbage"), std::string("BZh9garbage"),
        "!<arch>\n" + std::string(70, 'x')}) {
    const Outcome outcome = Inspect(bytes, "x");
    EXPECT_EQ(outcome.top().kind(), v1::FILE_KIND_ARCHIVE);
    EXPECT_GE(outcome.top().problems_size(), 1);
    // Inside another it is reported for its problem.
    const Outcome nested =
        Inspect(BuildArchive("gnutar", {{"bad", bytes}}), "y");
    EXPECT_THAT(nested.Names(), ElementsAre("y!/bad", "y"));
  }
}

TEST(Carrier, ErrorsOfTheReceiverEndIt) {
  const std::string bytes = BuildArchive("zip", {{"a.so", Library(90)}});
  Scratch scratch(-1, 0);
  EXPECT_THAT(InspectFile(MemorySource(bytes), "x", {}, scratch,
                          [](const v1::FileReport&) {
                            return absl::CancelledError("enough");
                          }),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST(Carrier, WhatTheSystemsToolsMake) {
  const absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const std::string& at = folder->path();
  ASSERT_THAT(WriteFileAtomic(at + "/a.so", Library(90), 0644), IsOk());
  ASSERT_THAT(WriteFileAtomic(at + "/b.txt", "text", 0644), IsOk());
  const struct {
    const char* tool;
    const char* command;
    const char* file;
    const char* member;
    const char* format;
  } kCases[] = {
      {"python3",
       "python3 -c \"import zipfile; z = zipfile.ZipFile('p.zip', 'w', "
       "zipfile.ZIP_DEFLATED); z.write('a.so'); z.write('b.txt')\"",
       "p.zip", "a.so", "zip"},
      {"tar", "tar -czf t.tgz a.so b.txt", "t.tgz", "a.so", "tar"},
      {"xz", "tar -cJf t.txz ./a.so b.txt", "t.txz", "a.so", "tar"},
      {"zstd", "zstd -q a.so -o a.so.zst", "a.so.zst", "a.so", "zstd"},
      {"gzip", "gzip -k a.so", "a.so.gz", "a.so", "gzip"},
      {"ar", "ar rc l.a a.so b.txt", "l.a", "a.so", "ar"},
      {"dpkg-deb",
       "mkdir -p d/DEBIAN d/usr/lib; cp a.so d/usr/lib; printf 'Package: "
       "demo\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@b>\\n"
       "Description: x\\n' > d/DEBIAN/control; dpkg-deb -b d d.deb",
       "d.deb", "usr/lib/a.so", "deb"},
  };
  int run = 0;
  for (const auto& row : kCases) {
    if (!HasTool(row.tool)) continue;
    SCOPED_TRACE(row.file);
    ++run;
    RunIn(at, row.command);
    const absl::StatusOr<std::string> bytes =
        ReadFile(at + "/" + row.file, 64 << 20);
    ASSERT_THAT(bytes, IsOk());
    const Outcome outcome = Inspect(*bytes, row.file);
    EXPECT_THAT(
        outcome.Names(),
        ElementsAre(absl::StrCat(row.file, "!/", row.member), row.file));
    EXPECT_EQ(TargetOf(outcome.reports[0]), 90u);
    EXPECT_EQ(outcome.top().carrier().format(), row.format);
  }
  if (run == 0) GTEST_SKIP() << "needs python3, tar, xz, zstd, gzip, ar, dpkg";
}

}  // namespace
}  // namespace twinpath::inspect
