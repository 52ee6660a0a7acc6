#include "inspect/host_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"

namespace twinpath::inspect {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

std::string Holding(const std::vector<std::string>& kernels, uint32_t sm = 90) {
  std::vector<TestKernel> list;
  for (const std::string& name : kernels) list.push_back({.name = name});
  return BuildFatbin({SassEntry({.sm = sm, .kernels = list})});
}

std::string Strings(const std::vector<std::string>& strings) {
  std::string bytes(1, '\0');
  for (const std::string& string : strings) {
    absl::StrAppend(&bytes, string);
    bytes.push_back('\0');
  }
  return bytes;
}

TEST(HostNames, NamesThatHostCodeLacks) {
  const v1::FileReport report = InspectBytes(
      BuildElf({.fatbins = {Holding({"_Z1av", "_Z1bv", "extern_c"}),
                            Holding({"_Z1bv", "_Z1cv"}, 80)},
                .rodata = Strings({"_Z1av", "_Z1c", "xextern_cx"}),
                .data = Strings({"_Z1cvx"})}));
  EXPECT_THAT(report.unnamed_kernels(),
              ElementsAre("_Z1bv", "_Z1cv", "extern_c"));
  EXPECT_EQ(report.unnamed_kernel_count(), 3);
  EXPECT_THAT(ProblemCodes(report), ElementsAre("TP240"));
}

TEST(HostNames, AllNamed) {
  const v1::FileReport report = InspectBytes(
      BuildElf({.fatbins = {Holding({"_Z1av", "_Z1bv", "extern_c", "abc"})},
                .rodata = Strings({"_Z1av"}),
                .data = Strings({"_Z1bv", "extern_c"})}));
  EXPECT_THAT(report.unnamed_kernels(), IsEmpty());
  EXPECT_THAT(report.problems(), IsEmpty());
}

// Linkers keep of "add" and "badd" the longer one and point into it.
TEST(HostNames, EndsOfOtherStringsCount) {
  const v1::FileReport report = InspectBytes(
      BuildElf({.fatbins = {Holding({"kernel_add", "_Z3addv"})},
                .rodata = Strings({"bad_kernel_add", "stub_Z3addv"})}));
  EXPECT_THAT(report.problems(), IsEmpty());
}

// Link inputs that are registered, as NCCL has them: the driver links them.
TEST(HostNames, RegisteredLinkInputs) {
  const std::string inputs = BuildFatbin({SassEntry({.relocatable = true})});
  EXPECT_THAT(InspectBytes(BuildElf({.relocatable_fatbins = {inputs}}))
                  .unnamed_kernels(),
              ElementsAre("_Z6kernelPi"));
  EXPECT_THAT(InspectBytes(BuildElf({.relocatable_fatbins = {inputs},
                                     .rodata = Strings({"_Z6kernelPi"})}))
                  .unnamed_kernels(),
              IsEmpty());
}

TEST(HostNames, SilentWhereTheAnswerWouldBeAGuess) {
  const std::string fatbin = Holding({"_Z1av"});
  // The library finds its kernels by itself.
  EXPECT_EQ(InspectBytes(BuildElf({.fatbins = {fatbin}, .registered = false}))
                .unnamed_kernel_count(),
            0);
  // Not linked yet, no host half, kernels not asked for.
  EXPECT_EQ(InspectBytes(BuildElf({.type = 1, .fatbins = {fatbin}}))
                .unnamed_kernel_count(),
            0);
  EXPECT_EQ(InspectBytes(fatbin).unnamed_kernel_count(), 0);
  EXPECT_EQ(InspectBytes(BuildElf({.fatbins = {fatbin}}),
                         {.kernels = false, .digest = false})
                .unnamed_kernel_count(),
            0);
  // A damaged fatbin may be the one that matters.
  std::string broken = fatbin;
  broken.replace(16, 16, std::string(16, '\xff'));
  const v1::FileReport damaged =
      InspectBytes(BuildElf({.fatbins = {fatbin, broken}}));
  ASSERT_THAT(ProblemCodes(damaged), Contains("TP229"));
  EXPECT_THAT(ProblemCodes(damaged), Not(Contains("TP240")));
}

TEST(HostNames, LeftOversDoNotMatter) {
  // The stub of a device link has no kernels and no name.
  const v1::FileReport report =
      InspectBytes(BuildElf({.fatbins = {Holding({}), Holding({"_Z1av"})},
                             .rodata = Strings({"_Z1av"})}));
  EXPECT_THAT(report.problems(), IsEmpty());
}

TEST(HostNames, ListIsCapped) {
  std::vector<std::string> kernels;
  for (int i = 1000; i < 2500; ++i) kernels.push_back(absl::StrCat("_Z4k", i));
  const v1::FileReport report =
      InspectBytes(BuildElf({.fatbins = {Holding(kernels)}}));
  EXPECT_EQ(report.unnamed_kernel_count(), 1500);
  EXPECT_EQ(report.unnamed_kernels_size(), kMaxUnnamedKernels);
}

// Names across the edges of windows: the search over one MiB pieces finds what
// a plain search finds.
TEST(HostNames, AgreesWithAPlainSearch) {
  std::mt19937 random(20260131);
  for (int round = 0; round < 4; ++round) {
    std::vector<std::string> kernels;
    for (int i = 0; i < 40; ++i) {
      std::string name = random() % 3 == 0 ? "c_" : "_Z";
      const size_t length = 3 + random() % (random() % 4 == 0 ? 4000 : 30);
      while (name.size() < length) {
        name.push_back(static_cast<char>("_ZabS"[random() % 5]));
      }
      kernels.push_back(absl::StrCat(name, i));
    }
    std::string rodata(3 << 20, '\0');
    for (char& c : rodata) c = "_Zab\0S1"[random() % 7];
    for (const std::string& kernel : kernels) {
      if (random() % 2 == 0) continue;
      size_t at = random() % (rodata.size() - 5000);
      if (random() % 2 == 0) {
        at = (1 + random() % 2) * (1 << 20) - random() % (kernel.size() + 2);
      }
      rodata.replace(at, kernel.size() + 1, absl::StrCat(kernel, "x"));
      rodata[at + kernel.size()] = '\0';
    }
    rodata.push_back('\0');
    std::vector<std::string> expected;
    for (const std::string& kernel : kernels) {
      if (rodata.find(kernel + std::string(1, '\0')) == std::string::npos) {
        expected.push_back(kernel);
      }
    }
    std::sort(expected.begin(), expected.end());
    const v1::FileReport report = InspectBytes(
        BuildElf({.fatbins = {Holding(kernels)}, .rodata = rodata}));
    EXPECT_EQ(std::vector<std::string>(report.unnamed_kernels().begin(),
                                       report.unnamed_kernels().end()),
              expected);
  }
}

// Made to make the search compare for ever: it ends, whatever it says.
TEST(HostNames, HostileRepetitions) {
  std::vector<std::string> kernels;
  for (size_t i = 1; i <= 400; ++i) {
    std::string name = "_Z";
    while (name.size() < 16 * i) name += "_Z";
    kernels.push_back(name + "!");
  }
  std::string rodata;
  while (rodata.size() < (2u << 20)) rodata += "_Z";
  const v1::FileReport report = InspectBytes(
      BuildElf({.fatbins = {Holding(kernels)},
                .rodata = absl::StrCat(rodata, "?") + std::string(1, '\0')}));
  EXPECT_TRUE(report.has_elf());
}

}  // namespace
}  // namespace twinpath::inspect
