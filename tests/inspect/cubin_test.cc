#include "inspect/cubin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status_matchers.h"
#include "inspect/byte_source.h"
#include "inspect/little_endian.h"
#include "tests/inspect/device_builder.h"

namespace twinpath::inspect {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Cubin Read(const std::string& bytes, bool kernels = true) {
  const MemorySource source(bytes);
  absl::StatusOr<Cubin> cubin = ReadCubin(source, kernels);
  EXPECT_THAT(cubin, IsOk());
  return *std::move(cubin);
}

TEST(Cubin, ReadsWhatToolkit13Writes) {
  const Cubin cubin = Read(BuildCubin({.sm = 120,
                                       .virtual_architecture = 100,
                                       .options = "-arch sm_120f -m 64",
                                       .kernels = {{.name = "_Z1av",
                                                    .registers = 40,
                                                    .shared = 512,
                                                    .max_threads = 256},
                                                   {.name = "_Z1bv"}}}));
  EXPECT_FALSE(cubin.relocatable);
  EXPECT_EQ(cubin.target, 120);
  EXPECT_EQ(cubin.suffix, 'f');
  EXPECT_EQ(cubin.virtual_architecture, 100);
  EXPECT_EQ(cubin.toolkit_major, 13);
  EXPECT_EQ(cubin.toolkit_minor, 0);
  EXPECT_EQ(cubin.tool, "ptxas");
  EXPECT_THAT(cubin.tool_version, HasSubstr("release 13.0"));
  ASSERT_EQ(cubin.kernels.size(), 2);
  EXPECT_EQ(cubin.kernels[0].name, "_Z1av");
  EXPECT_EQ(cubin.kernels[0].registers, 40);
  EXPECT_EQ(cubin.kernels[0].shared_bytes, 512)
      << "without the 1024 bytes that the system reserves since SM 9.0";
  EXPECT_EQ(cubin.kernels[0].max_threads, 256);
  EXPECT_EQ(cubin.kernels[1].shared_bytes, 0);
  EXPECT_EQ(cubin.kernels[1].max_threads, std::nullopt);
  EXPECT_EQ(cubin.problem, "");
}

TEST(Cubin, ReadsTheOlderAbi) {
  const Cubin cubin = Read(BuildCubin(
      {.sm = 70,
       .abi = 7,
       .toolkit = 118,
       .kernels = {{.name = "k", .registers = 32, .shared = 2048}}}));
  EXPECT_EQ(cubin.target, 70);
  EXPECT_EQ(cubin.toolkit_major, 11);
  EXPECT_EQ(cubin.toolkit_minor, 8);
  EXPECT_EQ(cubin.suffix, 0);
  ASSERT_EQ(cubin.kernels.size(), 1);
  EXPECT_EQ(cubin.kernels[0].shared_bytes, 2048);
}

// LLVM defines the flag for sm_90a; on older targets the bit means something
// else.
TEST(Cubin, TheOldArchFlagCountsFromSm90On) {
  EXPECT_EQ(Read(BuildCubin({.sm = 90, .suffix = 'a', .abi = 7})).suffix, 'a');
  EXPECT_EQ(Read(BuildCubin({.sm = 60, .suffix = 'a', .abi = 7})).suffix, 0);
}

TEST(Cubin, TheCompatSectionTellsTheArchSuffix) {
  EXPECT_EQ(Read(BuildCubin({.sm = 90, .suffix = 'a'})).suffix, 'a');
  EXPECT_EQ(Read(BuildCubin({.sm = 90})).suffix, 0);
}

TEST(Cubin, TellsRelocatableCode) {
  EXPECT_TRUE(Read(BuildCubin({.sm = 80, .relocatable = true})).relocatable);
}

TEST(Cubin, WithoutKernelsOnlyNotesAreRead) {
  const Cubin cubin = Read(BuildCubin({}), false);
  EXPECT_THAT(cubin.kernels, IsEmpty());
  EXPECT_EQ(cubin.tool, "ptxas");
}

TEST(Cubin, RegistersFallBackToTheSectionHeader) {
  std::string bytes = BuildCubin({.sm = 80, .kernels = {{.name = "k"}}});
  // Rename .nv.info, so that REGCOUNT is not found, and put 40 registers into
  // sh_info of .text.k.
  const size_t name = bytes.find(std::string("\0.nv.info\0", 10));
  ASSERT_NE(name, std::string::npos);
  bytes[name + 1] = 'x';
  const uint64_t table = LoadU64(bytes.data() + 40);
  // Null, .strtab, .symtab, .nv.info, .text.k.
  Patch<uint32_t>(bytes, table + 4 * 64 + 44, 40u << 24 | 1);
  const Cubin cubin = Read(bytes);
  ASSERT_EQ(cubin.kernels.size(), 1);
  EXPECT_EQ(cubin.kernels[0].registers, 40);
}

TEST(Cubin, HostFilesAreNone) {
  const std::string bytes = ElfHeader(3, 62, 1, 0, 0, 0);
  const MemorySource source(bytes);
  EXPECT_THAT(ReadCubin(source, true),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_FALSE(LooksLikeCubin(bytes));
  EXPECT_TRUE(LooksLikeCubin(BuildCubin({})));
}

// Any single byte may be wrong: the reader says something and does not die.
TEST(Cubin, SurvivesEveryWrongByte) {
  const std::string good =
      BuildCubin({.kernels = {{.name = "a", .max_threads = 32}}});
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string bad = good;
      bad[at] = value;
      const MemorySource source(bad);
      (void)ReadCubin(source, true);
    }
  }
}

TEST(Cubin, SurvivesBeingCutAnywhere) {
  const std::string good = BuildCubin({});
  for (size_t cut = 0; cut < good.size(); ++cut) {
    const MemorySource source(absl::string_view(good).substr(0, cut));
    const absl::StatusOr<Cubin> cubin = ReadCubin(source, true);
    if (cubin.ok()) {
      EXPECT_NE(cubin->problem, "") << cut;
    }
  }
}

// Many symbols that share one long name: a small file, gigabytes of names.
TEST(Cubin, SharedNamesDoNotMultiply) {
  constexpr size_t kNameBytes = 60'000;
  constexpr size_t kSymbols = 4'000;
  std::string strings(1, '\0');
  const uint32_t name = AppendName(strings, std::string(kNameBytes, 'k'));
  std::string symbols;
  for (size_t i = 0; i < kSymbols; ++i) {
    Append<uint32_t>(symbols, name);
    symbols.append("\x12\x10", 2);
    Append<uint16_t>(symbols, 1);
    symbols.append(16, '\0');
  }
  std::string bytes = ElfHeader(2, 190, 1, 0x04 | 90 << 8, 0x41, 8);
  SectionLayout layout;
  const uint32_t table =
      layout.Add({.name = ".strtab", .type = 3, .data = strings});
  layout.Add({.name = ".symtab",
              .type = 2,
              .data = symbols,
              .link = table,
              .entry_size = 24});
  layout.Finish(bytes);
  const Cubin cubin = Read(bytes);
  EXPECT_THAT(cubin.problem, HasSubstr("kernels"));
  EXPECT_LT(cubin.kernels.size() * kNameBytes, kMaxCubinTableBytes);
}

}  // namespace
}  // namespace twinpath::inspect
