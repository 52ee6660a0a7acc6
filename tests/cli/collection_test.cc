#include "cli/collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_matchers.h"
#include "cli/console.h"
#include "cli/expect.h"
#include "cli/inputs.h"
#include "cli/json.h"
#include "cli/report_stream.h"
#include "cli/table.h"
#include "cli/view_options.h"

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

v1::FileReport Library(absl::string_view name, uint32_t sass,
                       uint64_t stored_bytes) {
  v1::FileReport report;
  report.set_name(std::string(name));
  report.set_kind(v1::FILE_KIND_ELF_SHARED);
  report.mutable_elf()->set_cpu_architecture(v1::CPU_ARCHITECTURE_X86_64);
  report.set_kernels_read(true);
  v1::Fatbin& fatbin = *report.add_fatbins();
  fatbin.set_registration(v1::REGISTRATION_REGISTERED);
  v1::Image& image = *fatbin.add_images();
  image.set_kind(v1::IMAGE_KIND_SASS);
  image.mutable_target()->set_number(sass);
  image.mutable_target()->set_suffix(v1::TARGET_SUFFIX_NONE);
  image.set_kernels_read(true);
  image.add_kernels()->set_name("k");
  image.set_stored_bytes(stored_bytes);
  return report;
}

v1::FileReport Broken(absl::string_view name) {
  v1::FileReport report;
  report.set_name(std::string(name));
  report.set_kind(v1::FILE_KIND_DAMAGED_ELF);
  v1::Reason& problem = *report.add_problems();
  problem.set_code("TP233");
  problem.set_detail("ends too early");
  return report;
}

TargetWords Words(const std::string& text) {
  absl::StatusOr<TargetWords> words = ParseTargetWords({text});
  EXPECT_THAT(words, IsOk());
  return words.ok() ? *words : TargetWords();
}

std::vector<std::string> Names(const Collection& files) {
  std::vector<std::string> names;
  for (const FileRow& row : files.SortedRows()) names.push_back(row.name);
  return names;
}

TEST(Collection, WorstFirstThenTheMostCode) {
  Collection files({});
  files.Add(Library("small.so", 90, 10), "small.so");
  files.Add(Library("large.so", 121, 1000), "large.so");
  files.Add(Library("lacking.so", 90, 5), "lacking.so", {"sm_121"});
  files.Add(Broken("broken.so"), "broken.so");
  v1::FileReport plain;
  plain.mutable_elf();
  files.Add(plain, "plain.so");
  EXPECT_THAT(Names(files),
              ElementsAre("broken.so", "lacking.so", "large.so", "small.so"));
  EXPECT_EQ(files.Counts(),
            "3 with device code, 1 ELF file without, 1 other file");
  const std::string text = files.Render({}, 0);
  EXPECT_THAT(text, AllOf(HasSubstr("lacks sm_121"), HasSubstr("TP233"),
                          HasSubstr("broken.so: ends too early"),
                          Not(HasSubstr("plain.so"))));
}

// An oci_image in a folder: two lists that cannot be and a missing layer.
TEST(Collection, EveryProblemOfAFileIsSaid) {
  v1::FileReport image;
  image.mutable_carrier()->set_format("oci_image");
  const auto add = [&image](absl::string_view code, absl::string_view detail) {
    v1::Reason& problem = *image.add_problems();
    problem.set_code(std::string(code));
    problem.set_detail(std::string(detail));
  };
  add("TP237", "layer 1 is for another CPU");
  add("TP236", "its name says aarch64");
  add("TP237", "layer 2 is not there");
  Collection files({});
  files.Add(image, "up");
  EXPECT_THAT(files.Render({}, 0),
              AllOf(HasSubstr("up: layer 1 is for another CPU"),
                    HasSubstr("up: its name says aarch64"),
                    HasSubstr("up: layer 2 is not there"),
                    HasSubstr("TP236, TP237"), Not(HasSubstr(" more"))));
  for (int i = 0; i < 30; ++i) add("TP233", absl::StrCat("damage ", i));
  Collection many({});
  many.Add(image, "up");
  EXPECT_THAT(many.Render({}, 0), HasSubstr("and 23 more problems"));
}

TEST(Collection, ManyFilesAreAScreenful) {
  Collection files({});
  for (int i = 0; i < 3000; ++i) {
    files.Add(Library("x", 90, 10), absl::StrCat("lib", i, ".so"));
  }
  const std::string text = files.Render({}, 40);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_LT(lines.size(), 50u);
  EXPECT_THAT(text, AllOf(HasSubstr("and 2960 more files"),
                          // The totals are over all of them.
                          HasSubstr("3000")));
}

TEST(Collection, LongPathsKeepTheirEnd) {
  Collection files({});
  const std::string path =
      absl::StrCat("a/", std::string(200, 'd'), "/lib/libthing.so");
  files.Add(Library(path, 90, 10), path);
  const std::string text = files.Render({}, 0);
  EXPECT_THAT(text, HasSubstr("/lib/libthing.so"));
  EXPECT_THAT(text, Not(HasSubstr("a/ddd")));
}

// One file with the targets of libcusparseLt 0.10: without a second there is no
// table of totals that would show what a cell cuts.
TEST(Collection, NoTargetIsLostInANarrowTerminal) {
  v1::FileReport report = Library("x", 75, 10);
  const std::vector<std::pair<uint32_t, v1::TargetSuffix>> more = {
      {80, v1::TARGET_SUFFIX_NONE},    {86, v1::TARGET_SUFFIX_NONE},
      {89, v1::TARGET_SUFFIX_NONE},    {90, v1::TARGET_SUFFIX_ARCH},
      {100, v1::TARGET_SUFFIX_ARCH},   {100, v1::TARGET_SUFFIX_FAMILY},
      {103, v1::TARGET_SUFFIX_ARCH},   {120, v1::TARGET_SUFFIX_ARCH},
      {120, v1::TARGET_SUFFIX_FAMILY}, {121, v1::TARGET_SUFFIX_ARCH}};
  for (const auto& [number, suffix] : more) {
    for (const v1::ImageKind kind : {v1::IMAGE_KIND_SASS, v1::IMAGE_KIND_PTX}) {
      v1::Image& image = *report.mutable_fatbins(0)->add_images();
      image.set_kind(kind);
      image.mutable_target()->set_number(number);
      image.mutable_target()->set_suffix(suffix);
    }
  }
  const std::string path = "package/lib/libcusparseLt.so.0.10.0.1";
  for (const int width : {40, 60, 80, 100, 120}) {
    Collection files({});
    files.Add(report, path, {"sm_121", "sm_110", "compute_90a"});
    ViewOptions options;
    options.width = width;
    const std::string text = files.Render(options, 0);
    for (const absl::string_view target :
         {"75", "80", "86", "89", "90a", "100a", "100f", "103a", "120a", "120f",
          "121a", "sm_121", "sm_110", "compute_90a"}) {
      EXPECT_THAT(
          absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty()),
          ::testing::Contains(target))
          << width << "\n"
          << text;
    }
    if (width < 100) continue;
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      EXPECT_LE(DisplayWidth(line), static_cast<size_t>(width)) << text;
    }
  }
}

TEST(Collection, TargetsNarrowTheTable) {
  Collection files(Words("sm_121"));
  files.Add(Library("a", 90, 10), "a.so");
  files.Add(Library("b", 121, 10), "b.so");
  EXPECT_THAT(Names(files), ElementsAre("b.so"));
  EXPECT_THAT(files.totals().Names(), ElementsAre("sm_121"));
}

TEST(Health, OnlyWhatIsUnreadIsIncomplete) {
  const auto with = [](absl::string_view code) {
    v1::FileReport report;
    report.add_problems()->set_code(std::string(code));
    return HealthOf(report);
  };
  EXPECT_EQ(with("TP240"), Health::kWhole);
  EXPECT_EQ(with("TP239"), Health::kRemarks);
  EXPECT_EQ(with("TP232"), Health::kUnread);
  EXPECT_EQ(with("TP236"), Health::kBroken);
  v1::FileReport report = Library("a", 90, 1);
  report.mutable_fatbins(0)->mutable_images(0)->set_problem("does not decode");
  EXPECT_EQ(HealthOf(report), Health::kUnread);
}

TEST(Expected, TheFilesTogetherHaveToHoldThem) {
  ExpectedTargets expected(Words("sm_90,sm_121"));
  EXPECT_THAT(expected.Add(Library("a", 90, 1)), ElementsAre("sm_121"));
  EXPECT_THAT(expected.Missing(), ElementsAre("sm_121"));
  EXPECT_EQ(expected.Describe("pkg"),
            "pkg: no image for sm_121; there is sm_90");
  EXPECT_THAT(expected.Add(Library("b", 121, 1)), ElementsAre("sm_90"));
  EXPECT_THAT(expected.Missing(), IsEmpty());
  EXPECT_EQ(expected.Describe("pkg"), "");
  // A script lacks nothing.
  EXPECT_THAT(expected.Add(v1::FileReport()), IsEmpty());
  EXPECT_EQ(expected.Counts(), "sm_90 in 1 of 2 files, sm_121 in 1 of 2 files");
}

TEST(Expected, WhatCannotRunGivesNoTarget) {
  v1::FileReport left_over = Library("a", 90, 1);
  left_over.mutable_fatbins(0)->set_registration(v1::REGISTRATION_LEFT_OVER);
  v1::FileReport stub = Library("b", 90, 1);
  stub.mutable_fatbins(0)->mutable_images(0)->clear_kernels();
  // Relocatable code that nothing hands to the driver.
  v1::FileReport unlinked = Library("c", 90, 1);
  unlinked.mutable_fatbins(0)->mutable_images(0)->set_kind(
      v1::IMAGE_KIND_RELOCATABLE_SASS);
  unlinked.mutable_fatbins(0)->set_registration(v1::REGISTRATION_SELF_LOADED);
  // The device runtime of a program that launches kernels from kernels.
  v1::FileReport runtime = Library("d", 90, 1);
  v1::Image& part = *runtime.mutable_fatbins(0)->mutable_images(0);
  part.set_kind(v1::IMAGE_KIND_RELOCATABLE_SASS);
  part.mutable_kernels(0)->set_name(
      "__cuda_sm90_cuda_device_runtime_cu_a1b2_graph");
  for (const v1::FileReport& report : {left_over, stub, unlinked, runtime}) {
    ExpectedTargets expected(Words("sm_90"));
    EXPECT_THAT(expected.Add(report), ElementsAre("sm_90"));
  }
  // In an object file code without kernels is still to be linked.
  stub.set_kind(v1::FILE_KIND_ELF_OBJECT);
  ExpectedTargets expected(Words("sm_90"));
  EXPECT_THAT(expected.Add(stub), IsEmpty());
}

// The driver links registered relocatable code at load: a library whose device
// link was for another GPU ran (docs/gpu-runs.md). So it is in the table,
// marked, and satisfies what is expected, as it does what predict asks for.
TEST(Expected, RegisteredRelocatableCodeIsThere) {
  v1::FileReport report = Library("l.so", 80, 1);
  v1::Fatbin& pieces = *report.add_fatbins();
  pieces.set_registration(v1::REGISTRATION_REGISTERED);
  const auto add = [&pieces](v1::ImageKind kind, uint32_t number) {
    v1::Image& image = *pieces.add_images();
    image.set_kind(kind);
    image.mutable_target()->set_number(number);
    image.mutable_target()->set_suffix(v1::TARGET_SUFFIX_NONE);
    image.set_kernels_read(true);
    image.add_kernels()->set_name("k");
  };
  add(v1::IMAGE_KIND_RELOCATABLE_SASS, 80);
  add(v1::IMAGE_KIND_RELOCATABLE_SASS, 90);
  add(v1::IMAGE_KIND_RELOCATABLE_PTX, 90);
  ExpectedTargets expected(Words("sm_80,sm_90,compute_90,ptx"));
  EXPECT_THAT(expected.Add(report), IsEmpty());
  Collection files({});
  files.Add(report, "l.so");
  const std::vector<FileRow> rows = files.SortedRows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].sass, "80 90*");
  EXPECT_EQ(rows[0].ptx, "90*");
  EXPECT_THAT(files.Render({}, 0),
              HasSubstr("* relocatable code, which the driver links at load"));
  // Nothing is marked where device link was for all of them.
  Collection plain({});
  plain.Add(Library("m.so", 90, 1), "m.so");
  EXPECT_THAT(plain.Render({}, 0), Not(HasSubstr("*")));
}

TEST(ReportStream, IsTheTextOfTheWholeMessage) {
  for (const int count : {0, 1, 3}) {
    v1::ArtifactReport whole;
    whole.set_inspector_version("1");
    for (int i = 0; i < count; ++i) {
      *whole.add_files() = Library(absl::StrCat("line\nfeed", i), 90, 1);
    }
    char* text = nullptr;
    size_t size = 0;
    FILE* out = open_memstream(&text, &size);
    {
      Console console(out, stderr, {});
      ReportStream stream(console);
      for (const v1::FileReport& report : whole.files()) {
        EXPECT_THAT(stream.Add(report), IsOk());
      }
      v1::ArtifactReport rest;
      rest.set_inspector_version("1");
      EXPECT_THAT(stream.Finish(rest), IsOk());
      EXPECT_THAT(console.Flush(), IsOk());
    }
    fclose(out);
    const absl::StatusOr<std::string> expected = ToJson(whole);
    ASSERT_THAT(expected, IsOk());
    EXPECT_EQ(std::string(text, size), *expected);
    free(text);
  }
}

TEST(Inputs, NamesInsideFoldersAndCarriers) {
  InputGroup folder;
  folder.path = "dist/";
  folder.folder = true;
  EXPECT_EQ(NameInGroup("dist/lib/a.so", folder), "lib/a.so");
  folder.path = "dist";
  EXPECT_EQ(NameInGroup("dist/x.whl!/a.so", folder), "x.whl!/a.so");
  InputGroup carrier;
  carrier.path = "x.whl";
  EXPECT_EQ(NameInGroup("x.whl!/pkg/a.so", carrier), "pkg/a.so");
}

}  // namespace
}  // namespace twinpath::cli
