#include "inspect/elf_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status_matchers.h"
#include "inspect/byte_source.h"
#include "inspect/dynamic.h"
#include "inspect/little_endian.h"
#include "tests/inspect/elf_builder.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ElfView, RefusesWhatIsNoElf) {
  for (const std::string& bytes :
       {std::string(), std::string("\177EL"), std::string(100, 'x')}) {
    const MemorySource source(bytes);
    EXPECT_THAT(ElfView::Open(source),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(ElfView, TellsACutHeaderAndForeignClasses) {
  const std::string good = BuildElf({});
  const MemorySource cut(absl::string_view(good).substr(0, 63));
  EXPECT_THAT(ElfView::Open(cut),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("63 bytes")));
  std::string big = good;
  big[5] = 2;
  const MemorySource source(big);
  EXPECT_THAT(ElfView::Open(source), StatusIs(absl::StatusCode::kUnimplemented,
                                              HasSubstr("big-endian")));
}

TEST(ElfView, FindsSectionsByNameAndByPlace) {
  const std::string bytes = BuildElf({.rodata = "0123456789"});
  const MemorySource source(bytes);
  const absl::StatusOr<ElfView> elf = ElfView::Open(source);
  ASSERT_THAT(elf, IsOk());
  const ElfSection* rodata = elf->FindSection(".rodata");
  ASSERT_NE(rodata, nullptr);
  EXPECT_EQ(bytes.substr(rodata->offset, rodata->size), "0123456789");
  EXPECT_EQ(elf->SectionAtOffset(rodata->offset), rodata);
  EXPECT_EQ(elf->SectionAtOffset(rodata->offset + 9), rodata);
  EXPECT_NE(elf->SectionAtOffset(rodata->offset + 10), rodata);
  EXPECT_EQ(elf->SectionAtOffset(0), nullptr);
  EXPECT_EQ(elf->FindSection(".none"), nullptr);
  EXPECT_EQ(elf->OffsetOfAddress(rodata->address), rodata->offset);
  EXPECT_EQ(elf->OffsetOfAddress(1), std::nullopt);
}

// Files with 65,280 sections or more state their number in section 0 (gABI).
TEST(ElfView, ReadsTheCountFromSectionZero) {
  std::string bytes = BuildElf({});
  const uint64_t table = LoadU64(bytes.data() + 40);
  const uint16_t count = LoadU16(bytes.data() + 60);
  const uint16_t names = LoadU16(bytes.data() + 62);
  Patch<uint64_t>(bytes, table + 32, count);
  Patch<uint32_t>(bytes, table + 40, names);
  Patch<uint16_t>(bytes, 60, 0);
  Patch<uint16_t>(bytes, 62, 0xffff);
  const MemorySource source(bytes);
  const absl::StatusOr<ElfView> elf = ElfView::Open(source);
  ASSERT_THAT(elf, IsOk());
  EXPECT_THAT(elf->sections(), SizeIs(count));
  EXPECT_NE(elf->FindSection(".text"), nullptr);

  Patch<uint64_t>(bytes, table + 32, uint64_t{1} << 40);
  const MemorySource hostile(bytes);
  const absl::StatusOr<ElfView> refused = ElfView::Open(hostile);
  ASSERT_THAT(refused, IsOk());
  EXPECT_THAT(refused->sections(), IsEmpty());
  EXPECT_THAT(refused->section_problem(), HasSubstr("above the cap"));
}

TEST(ElfView, NamesOutsideTheTableAreEmpty) {
  std::string bytes = BuildElf({});
  const uint64_t table = LoadU64(bytes.data() + 40);
  Patch<uint32_t>(bytes, table + 64, 0x7fffffff);
  const MemorySource source(bytes);
  const absl::StatusOr<ElfView> elf = ElfView::Open(source);
  ASSERT_THAT(elf, IsOk());
  EXPECT_EQ(elf->sections()[1].name, "");
}

TEST(ElfView, MovingKeepsTheNames) {
  const std::string bytes = BuildElf({});
  const MemorySource source(bytes);
  absl::StatusOr<ElfView> elf = ElfView::Open(source);
  ASSERT_THAT(elf, IsOk());
  const ElfView moved = *std::move(elf);
  EXPECT_NE(moved.FindSection(".text"), nullptr);
}

TEST(Dynamic, ReadsNamesWithoutASectionTable) {
  const std::string bytes = BuildElf({.soname = "libx.so",
                                      .needed = {"liba.so", "libb.so"},
                                      .runpath = "/x:/y",
                                      .without_sections = true});
  const MemorySource source(bytes);
  const absl::StatusOr<ElfView> elf = ElfView::Open(source);
  ASSERT_THAT(elf, IsOk());
  const absl::StatusOr<DynamicTable> table = ReadDynamic(source, *elf);
  ASSERT_THAT(table, IsOk());
  EXPECT_TRUE(table->present);
  EXPECT_EQ(table->soname, "libx.so");
  EXPECT_THAT(table->needed, ElementsAre("liba.so", "libb.so"));
  EXPECT_EQ(table->runpath, "/x:/y");
}

TEST(Dynamic, ATableOutsideTheFileIsAProblem) {
  std::string bytes = BuildElf({.needed = {"liba.so"}});
  const MemorySource good(bytes);
  absl::StatusOr<ElfView> elf = ElfView::Open(good);
  ASSERT_THAT(elf, IsOk());
  // The first program header of type 2.
  for (size_t i = 0; i < elf->segments().size(); ++i) {
    if (elf->segments()[i].type == kSegmentDynamic) {
      Patch<uint64_t>(bytes, 64 + 56 * i + 8, uint64_t{1} << 60);
    }
  }
  const MemorySource bad(bytes);
  elf = ElfView::Open(bad);
  ASSERT_THAT(elf, IsOk());
  const absl::StatusOr<DynamicTable> table = ReadDynamic(bad, *elf);
  ASSERT_THAT(table, IsOk());
  EXPECT_THAT(table->problem, HasSubstr("dynamic section"));
  EXPECT_THAT(table->needed, IsEmpty());
}

}  // namespace
}  // namespace twinpath::inspect
