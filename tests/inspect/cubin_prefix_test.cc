#include "inspect/cubin_prefix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_matchers.h"
#include "inspect/byte_source.h"
#include "tests/inspect/linked_cubin.h"

namespace twinpath::inspect {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Field;

constexpr PrefixOptions kNames;
constexpr PrefixOptions kDetails = {.details = true};

auto Is(const std::string& name, uint32_t registers, uint32_t shared,
        std::optional<uint32_t> threads) {
  return AllOf(Field(&CubinKernel::name, name),
               Field(&CubinKernel::registers, Eq(registers)),
               Field(&CubinKernel::shared_bytes, Eq(shared)),
               Field(&CubinKernel::max_threads, Eq(threads)));
}

LinkedCubinSpec Three() {
  return {.kernels = {{.name = "a", .registers = 24, .max_threads = 256},
                      {.name = "bb", .registers = 255},
                      {.name = "c", .registers = 32, .max_threads = 64}}};
}

// The prefix that is taken is all in front of the code.
std::string Prefix(const std::string& cubin) {
  return cubin.substr(0, cubin.find(std::string(64, '\x5a')));
}

TEST(CubinPrefix, ReadsNamesAndDetails) {
  const std::string prefix = Prefix(BuildLinkedCubin(Three()));
  Cubin cubin;
  ASSERT_EQ(ReadCubinPrefix(prefix, kDetails, cubin), PrefixState::kRead);
  EXPECT_THAT(cubin.kernels,
              ElementsAre(Is("a", 24, 0, 256), Is("bb", 255, 0, std::nullopt),
                          Is("c", 32, 0, 64)));
  EXPECT_EQ(cubin.target, 90u);
  EXPECT_EQ(cubin.tool, "ptxas");
  EXPECT_THAT(cubin.virtual_architecture, Eq(90u));

  ASSERT_EQ(ReadCubinPrefix(prefix, kNames, cubin), PrefixState::kRead);
  ASSERT_EQ(cubin.kernels.size(), 3u);
  EXPECT_FALSE(cubin.kernels[0].registers);
}

// The reader of whole cubins, which has the section table, says the same.
TEST(CubinPrefix, SaysWhatTheWholeSays) {
  for (const uint32_t sm : {80u, 90u, 120u}) {
    LinkedCubinSpec spec = Three();
    spec.sm = sm;
    const std::string bytes = BuildLinkedCubin(spec);
    const absl::StatusOr<Cubin> whole =
        ReadCubin(MemorySource(bytes), CubinDetail::kAll);
    ASSERT_THAT(whole, IsOk());
    Cubin cubin;
    ASSERT_EQ(ReadCubinPrefix(Prefix(bytes), kDetails, cubin),
              PrefixState::kRead);
    ASSERT_EQ(cubin.kernels.size(), whole->kernels.size());
    for (size_t i = 0; i < cubin.kernels.size(); ++i) {
      const CubinKernel& kernel = whole->kernels[i];
      EXPECT_THAT(cubin.kernels[i],
                  Is(kernel.name, kernel.registers.value_or(0),
                     kernel.shared_bytes.value_or(1), kernel.max_threads));
    }
    EXPECT_EQ(cubin.options, whole->options);
    EXPECT_EQ(cubin.virtual_architecture, whole->virtual_architecture);
  }
}

// A shorter prefix may be enough, or may not; it never says something else.
TEST(CubinPrefix, AShorterPrefixSaysTheSameOrAsksForMore) {
  const std::string bytes = Prefix(BuildLinkedCubin(Three()));
  Cubin all;
  ASSERT_EQ(ReadCubinPrefix(bytes, kDetails, all), PrefixState::kRead);
  size_t read = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    Cubin cubin;
    const PrefixState state = ReadCubinPrefix(
        absl::string_view(bytes).substr(0, size), kDetails, cubin);
    if (state != PrefixState::kRead) continue;
    ++read;
    ASSERT_EQ(cubin.kernels.size(), all.kernels.size()) << size;
    for (size_t i = 0; i < all.kernels.size(); ++i) {
      EXPECT_EQ(cubin.kernels[i].registers, all.kernels[i].registers) << size;
      EXPECT_EQ(cubin.kernels[i].max_threads, all.kernels[i].max_threads)
          << size;
    }
    EXPECT_EQ(cubin.tool, all.tool) << size;
  }
  EXPECT_GT(read, 0u);
}

TEST(CubinPrefix, ZerosInFrontOfTheSymbolsDoNotShiftThem) {
  for (const size_t gap : {8, 16, 24, 48}) {
    LinkedCubinSpec spec = Three();
    spec.gap = gap;
    Cubin cubin;
    ASSERT_EQ(ReadCubinPrefix(Prefix(BuildLinkedCubin(spec)), kDetails, cubin),
              PrefixState::kRead)
        << gap;
    EXPECT_THAT(cubin.kernels,
                ElementsAre(Is("a", 24, 0, 256), Is("bb", 255, 0, std::nullopt),
                            Is("c", 32, 0, 64)));
  }
}

TEST(CubinPrefix, NotesBehindALongDebugFrameAreRead) {
  LinkedCubinSpec spec = Three();
  spec.frames = 300'000;
  Cubin cubin;
  ASSERT_EQ(ReadCubinPrefix(Prefix(BuildLinkedCubin(spec)), kNames, cubin),
            PrefixState::kRead);
  EXPECT_EQ(cubin.tool, "ptxas");
}

// What only the section table tells is left to the reader of the whole.
TEST(CubinPrefix, LeavesDetailsItCannotKnow) {
  std::vector<LinkedCubinSpec> specs(4, Three());
  specs[0].kernels[1].shared = 4096;
  specs[1].section_symbol_names = false;
  specs[2].relocatable = true;
  // It is not said whose threads these are.
  specs[3].parameters = false;
  for (size_t i = 0; i < specs.size(); ++i) {
    SCOPED_TRACE(i);
    const std::string prefix = Prefix(BuildLinkedCubin(specs[i]));
    Cubin cubin;
    EXPECT_EQ(ReadCubinPrefix(prefix, kDetails, cubin), PrefixState::kUnknown);
    EXPECT_EQ(ReadCubinPrefix(prefix, kNames, cubin), PrefixState::kRead);
    EXPECT_EQ(cubin.kernels.size(), 3u);
  }
}

TEST(CubinPrefix, KernelsWithoutTheirConstantBankAreNotBelieved) {
  LinkedCubinSpec spec = Three();
  spec.constant_banks = false;
  Cubin cubin;
  EXPECT_EQ(ReadCubinPrefix(Prefix(BuildLinkedCubin(spec)), kNames, cubin),
            PrefixState::kUnknown);
}

TEST(CubinPrefix, SurvivesEveryWrongByte) {
  std::string bytes = Prefix(BuildLinkedCubin(Three()));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const char wrong : {'\0', '\x7f', '\xff'}) {
      const char right = std::exchange(bytes[i], wrong);
      for (const PrefixOptions& options : {kNames, kDetails}) {
        Cubin cubin;
        (void)ReadCubinPrefix(bytes, options, cubin);
      }
      bytes[i] = right;
    }
  }
}

}  // namespace
}  // namespace twinpath::inspect
