// cuobjdump as a witness: what it prints, and which differences are explained.

#include "runner/witness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "base/status_matchers.h"
#include "runner/witness_rules.h"

namespace twinpath::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// As cuobjdump 13.5.37 prints.
TEST(ParseImageList, CountsByTarget) {
  uint64_t unread = 7;
  const auto counts = ParseImageList(
      "\nmember /x/l.a:rdc.o:\nELF file    1: a.b.1.sm_90a.cubin\n"
      "ELF file    2: a.b.2.sm_90.cubin\nELF file   10: a.b.10.sm_90a.cubin\n"
      "ELF file    1: c.sm_75.cubin\nPTX file    1: a.1.sm_90.ptx\n",
      false, &unread);
  ASSERT_THAT(counts, SizeIs(3));
  EXPECT_EQ(counts[0].target(), "sm_75");
  EXPECT_EQ(counts[2].target(), "sm_90a");
  EXPECT_EQ(counts[2].images(), 2u);
  EXPECT_FALSE(counts[0].ptx());
  EXPECT_EQ(unread, 0u);
}

TEST(ParseImageList, LinesNotUnderstoodAreCounted) {
  uint64_t unread = 0;
  EXPECT_THAT(ParseImageList("PTX file    1: a.1.what.ptx\nPTX file 2: x\n",
                             true, &unread),
              IsEmpty());
  EXPECT_EQ(unread, 2u);
}

struct Piece {
  v1::ImageKind kind;
  uint32_t number;
  v1::TargetSuffix suffix = v1::TARGET_SUFFIX_NONE;
  std::string section = ".nv_fatbin";
  bool bare = false;
};

v1::FileReport Report(const std::vector<Piece>& pieces) {
  v1::FileReport report;
  report.set_kind(v1::FILE_KIND_ELF_SHARED);
  for (const Piece& piece : pieces) {
    v1::Fatbin& fatbin = *report.add_fatbins();
    fatbin.set_section(piece.section);
    fatbin.set_bare(piece.bare);
    v1::Image& image = *fatbin.add_images();
    image.set_kind(piece.kind);
    image.mutable_target()->set_number(piece.number);
    image.mutable_target()->set_suffix(piece.suffix);
  }
  return report;
}

v1::Witness Compared(const v1::FileReport& report, const std::string& elf,
                     const std::string& ptx, bool cut = false) {
  v1::Witness witness;
  uint64_t unread = 0;
  for (const v1::WitnessCount& count : ParseImageList(elf, false, &unread)) {
    *witness.add_counts() = count;
  }
  for (const v1::WitnessCount& count : ParseImageList(ptx, true, &unread)) {
    *witness.add_counts() = count;
  }
  CompareWithReport(report, {}, cut, cut, witness);
  return witness;
}

constexpr char kElf90[] = "ELF file    1: a.1.sm_90.cubin\n";
constexpr char kPtx90[] = "PTX file    1: a.1.sm_90.ptx\n";

TEST(CompareWithReport, EqualCounts) {
  const v1::Witness witness =
      Compared(Report({{v1::IMAGE_KIND_SASS, 90}, {v1::IMAGE_KIND_PTX, 90}}),
               kElf90, kPtx90);
  EXPECT_THAT(witness.differences(), IsEmpty());
  EXPECT_THAT(witness.explained(), IsEmpty());
}

TEST(CompareWithReport, MoreAndLessAreDifferences) {
  const v1::Witness witness =
      Compared(Report({{v1::IMAGE_KIND_SASS, 90}, {v1::IMAGE_KIND_SASS, 90}}),
               kElf90, kPtx90);
  ASSERT_THAT(witness.differences(), SizeIs(2));
  EXPECT_EQ(witness.differences(0).code(), "TP431");
  EXPECT_EQ(witness.differences(0).detail(),
            "sm_90: 2 images read here, cuobjdump lists 1");
  EXPECT_EQ(witness.differences(1).detail(),
            "PTX sm_90: 0 images read here, cuobjdump lists 1");
}

TEST(CompareWithReport, RulesExplainWhatIsNotListed) {
  const v1::Witness witness = Compared(
      Report(
          {{v1::IMAGE_KIND_SASS, 90},
           {v1::IMAGE_KIND_SASS, 90, v1::TARGET_SUFFIX_NONE, ".cask_resource"},
           {v1::IMAGE_KIND_PTX, 75, v1::TARGET_SUFFIX_NONE, ".rodata", true},
           {v1::IMAGE_KIND_RELOCATABLE_PTX, 90, v1::TARGET_SUFFIX_NONE,
            "__nv_relfatbin"},
           {v1::IMAGE_KIND_LTO_IR, 90}}),
      kElf90, kPtx90);
  EXPECT_THAT(witness.differences(), IsEmpty());
  ASSERT_THAT(witness.explained(), SizeIs(2));
  EXPECT_EQ(witness.explained(0),
            "outside-sections: 1 image of sm_90 in other sections than "
            ".nv_fatbin and __nv_relfatbin not listed");
  EXPECT_EQ(witness.explained(1),
            "bare-image: 1 image of PTX sm_75 outside any fatbin not listed");
}

TEST(CompareWithReport, FamilySuffixOfMachineCodeIsNotPrinted) {
  const v1::FileReport report =
      Report({{v1::IMAGE_KIND_SASS, 100, v1::TARGET_SUFFIX_FAMILY},
              {v1::IMAGE_KIND_SASS, 100},
              {v1::IMAGE_KIND_PTX, 100, v1::TARGET_SUFFIX_FAMILY}});
  const std::string two =
      "ELF file    1: a.1.sm_100.cubin\nELF file    2: a.2.sm_100.cubin\n";
  const v1::Witness witness =
      Compared(report, two, "PTX file    1: a.1.sm_100f.ptx\n");
  EXPECT_THAT(witness.differences(), IsEmpty());
  EXPECT_THAT(
      witness.explained(),
      ElementsAre("family-suffix: 1 image of sm_100f listed as sm_100"));
  // It explains as many as there are, and no more.
  EXPECT_THAT(Compared(report, two + "ELF file    3: a.3.sm_100.cubin\n",
                       "PTX file    1: a.1.sm_100f.ptx\n")
                  .differences(),
              SizeIs(1));
  // One that keeps the suffix needs no rule.
  EXPECT_THAT(Compared(report,
                       "ELF file    1: a.1.sm_100.cubin\n"
                       "ELF file    2: a.2.sm_100f.cubin\n",
                       "PTX file    1: a.1.sm_100f.ptx\n")
                  .explained(),
              IsEmpty());
}

TEST(CompareWithReport, WhereItGaveUpFewerAreExplainedAndMoreAreNot) {
  const v1::FileReport report =
      Report({{v1::IMAGE_KIND_SASS, 90}, {v1::IMAGE_KIND_SASS, 80}});
  const v1::Witness witness = Compared(report, kElf90, "", true);
  EXPECT_THAT(witness.differences(), IsEmpty());
  EXPECT_THAT(witness.explained(),
              ElementsAre("cuobjdump-refuses: 1 image of sm_80 behind the "
                          "place where it ended"));
  EXPECT_THAT(Compared(report, "ELF file    1: a.1.sm_75.cubin\n", "", true)
                  .differences(),
              SizeIs(1));
}

TEST(CompareWithReport, CubinAndFatbinFilesAreListed) {
  v1::FileReport cubin =
      Report({{v1::IMAGE_KIND_SASS, 90, v1::TARGET_SUFFIX_NONE, "", true}});
  cubin.set_kind(v1::FILE_KIND_CUBIN);
  EXPECT_THAT(
      Compared(cubin, "ELF file    1: c.sm_90.cubin\n", "").differences(),
      IsEmpty());
  v1::FileReport fatbin =
      Report({{v1::IMAGE_KIND_SASS, 90, v1::TARGET_SUFFIX_NONE, ""}});
  fatbin.set_kind(v1::FILE_KIND_FATBIN);
  EXPECT_THAT(Compared(fatbin, kElf90, "").differences(), IsEmpty());
}

// A cuobjdump whose three answers are given.
v1::Witness Asked(const v1::FileReport& report,
                  const std::vector<v1::Observation>& answers) {
  size_t next = 0;
  WitnessOptions options;
  options.program = "/proc/self/exe";
  options.run = [&](const v1::RunRequest& request) {
    EXPECT_TRUE(request.bare_environment());
    return next < answers.size() ? answers[next++] : v1::Observation();
  };
  return AskWitness("/proc/self/exe", report, {}, options);
}

v1::Observation Says(const std::string& text, int code = 0) {
  v1::Observation run;
  run.set_ending(v1::ENDING_EXITED);
  run.set_exit_code(code);
  run.mutable_stdout()->set_head(text);
  run.mutable_stdout()->set_total_bytes(text.size());
  return run;
}

TEST(AskWitness, AnswersAreCountedAndCompared) {
  const v1::Witness witness =
      Asked(Report({{v1::IMAGE_KIND_SASS, 90}, {v1::IMAGE_KIND_PTX, 90}}),
            {Says("Cuda compilation tools, release 13.0, V13.0.85\n"),
             Says(kElf90), Says(kPtx90)});
  EXPECT_EQ(witness.problem(), "");
  EXPECT_EQ(witness.version(), "13.0.85");
  EXPECT_EQ(witness.digest().sha256().size(), 32u);
  EXPECT_THAT(witness.counts(), SizeIs(2));
  EXPECT_THAT(witness.differences(), IsEmpty());
}

TEST(AskWitness, NoDeviceCodeIsAnAnswer) {
  const v1::Observation none = Says(
      "cuobjdump info    : File '/bin/ls' does not contain device code\n", 255);
  EXPECT_EQ(Asked(Report({}), {Says("V"), none, none}).problem(), "");
  EXPECT_THAT(
      Asked(Report({{v1::IMAGE_KIND_SASS, 90}}), {Says("V"), none, none})
          .differences(),
      SizeIs(1));
}

TEST(AskWitness, WhatKeepsItFromAnswering) {
  const v1::FileReport report = Report({{v1::IMAGE_KIND_SASS, 90}});
  EXPECT_THAT(Asked(report, {Says("", 127)}).problem(),
              HasSubstr("--version: exit 127"));
  v1::Observation slow;
  slow.set_ending(v1::ENDING_TIMED_OUT);
  EXPECT_THAT(Asked(report, {Says("V"), slow}).problem(),
              HasSubstr("-lelf: time limit"));
  v1::Observation cut = Says(kElf90);
  cut.mutable_stdout()->set_total_bytes(uint64_t{1} << 30);
  EXPECT_THAT(Asked(report, {Says("V"), cut}).problem(),
              HasSubstr("more than is read"));
  EXPECT_THAT(Asked(report, {Says("V"), Says("ELF file 1: odd\n")}).problem(),
              HasSubstr("not understood"));
  v1::FileReport text;
  text.set_kind(v1::FILE_KIND_PTX);
  EXPECT_THAT(Asked(text, {}).problem(), HasSubstr("does not read a file"));
}

TEST(FindCuobjdump, NamedThenToolkitThenPath) {
  auto root = TempDirectory::Make();
  ASSERT_THAT(root, IsOk());
  const std::string bin = JoinPath(root->path(), "bin");
  ASSERT_THAT(MakeDirectories(bin), IsOk());
  EXPECT_FALSE(FindCuobjdump({root->path()}, {"PATH=" + bin}).ok());
  const std::string program = JoinPath(bin, "cuobjdump");
  ASSERT_THAT(WriteFileAtomic(program, "#!/bin/sh\n", 0755), IsOk());
  EXPECT_EQ(*FindCuobjdump({root->path()}, {}), program);
  EXPECT_EQ(*FindCuobjdump({}, {"PATH=/nowhere:" + bin}), program);
  EXPECT_EQ(*FindCuobjdump({}, {"TWINPATH_CUOBJDUMP=" + program}), program);
  EXPECT_FALSE(
      FindCuobjdump({root->path()}, {"TWINPATH_CUOBJDUMP=/nowhere"}).ok());
}

}  // namespace
}  // namespace twinpath::runner
