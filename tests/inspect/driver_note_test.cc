// The note of a forward-compatibility libcuda. What real ones hold: CUDA 13.1
// (590.44.01) lists 535 550 570 575 580 590, the build for Orin a CUDA version
// alone (NVIDIA/nvidia-container-toolkit#1784, its test libraries).

#include "inspect/driver_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/status_matchers.h"
#include "inspect/byte_source.h"
#include "inspect/little_endian.h"
#include "tests/inspect/device_builder.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kCuda131[] =
    R"({"Format":1,"CUDA Version":"13.1",)"
    R"("Driver":[535,550,570,575,580,590],"Device":[1,5]})";

std::string Note(const std::string& owner, const std::string& json,
                 size_t alignment = 4) {
  std::string note;
  Append<uint32_t>(note, static_cast<uint32_t>(owner.size()));
  Append<uint32_t>(note, static_cast<uint32_t>(json.size()));
  Append<uint32_t>(note, 1);
  std::string name = owner;
  while (name.size() % alignment != 0) name.push_back('\0');
  return note + name + json;
}

std::string Library(const std::string& note, uint32_t type = 7,
                    const std::string& section = kForwardCompatSection) {
  std::string out = ElfHeader(3, 62, 1, 0, 0, 0);
  SectionLayout layout;
  layout.Add({.name = section, .type = type, .flags = 2, .data = note});
  layout.Finish(out);
  return out;
}

std::string Owner() { return std::string("NVIDIA Corporation\0", 19); }

std::optional<v1::ForwardCompatNote> Read(const std::string& bytes) {
  const MemorySource source(bytes);
  const auto note = ReadForwardCompatOf(source);
  EXPECT_THAT(note, IsOk());
  return note.ok() ? *note : std::nullopt;
}

TEST(DriverNote, ReadsVersionBranchesAndClasses) {
  for (const size_t alignment : {size_t{4}, size_t{8}}) {
    const auto note = Read(Library(Note(Owner(), kCuda131, alignment)));
    ASSERT_TRUE(note.has_value());
    EXPECT_EQ(note->problem(), "");
    EXPECT_EQ(note->cuda_version().major(), 13u);
    EXPECT_EQ(note->cuda_version().minor(), 1u);
    EXPECT_THAT(note->driver_branches(),
                ElementsAre(535, 550, 570, 575, 580, 590));
    EXPECT_THAT(note->device_classes(), ElementsAre(1, 5));
  }
}

TEST(DriverNote, OrinStatesTheVersionAlone) {
  const auto note =
      Read(Library(Note(Owner(), R"({"CUDA Version":"13.2.1"})")));
  ASSERT_TRUE(note.has_value());
  EXPECT_EQ(note->problem(), "");
  EXPECT_EQ(note->cuda_version().minor(), 2u);
  EXPECT_THAT(note->driver_branches(), IsEmpty());
}

TEST(DriverNote, TheDriversOwnLibraryHasNone) {
  EXPECT_FALSE(Read(ElfHeader(3, 62, 1, 0, 0, 0)).has_value());
  EXPECT_FALSE(
      Read(Library(Note(Owner(), kCuda131), 7, ".note.other")).has_value());
  EXPECT_FALSE(Read(Library(Note(Owner(), kCuda131), 1)).has_value());
  EXPECT_FALSE(
      Read(Library(Note(std::string("GNU\0", 4), kCuda131))).has_value());
  EXPECT_FALSE(Read("no ELF file").has_value());
  EXPECT_FALSE(Read("").has_value());
}

TEST(DriverNote, BrokenNotesAreNamed) {
  const auto problem = [](const std::string& json) {
    const auto note = Read(Library(Note(Owner(), json)));
    return note.has_value() ? note->problem() : "absent";
  };
  EXPECT_THAT(problem("{"), HasSubstr("no JSON object"));
  EXPECT_THAT(problem("[]"), HasSubstr("no description"));
  EXPECT_THAT(problem(R"({"CUDA Version":13.1})"), HasSubstr("no version"));
  EXPECT_THAT(problem(R"({"CUDA Version":"13"})"), HasSubstr("no version"));
  EXPECT_THAT(problem(R"({"CUDA Version":"13.1","Driver":["580"]})"),
              HasSubstr("no list of numbers"));
  EXPECT_THAT(problem(R"({"CUDA Version":"13.1","Driver":[-1]})"),
              HasSubstr("no list of numbers"));
  EXPECT_THAT(problem(R"({"CUDA Version":"13.1","Device":{"a":1}})"),
              HasSubstr("no list of numbers"));
  std::string deep = R"({"CUDA Version":"13.1","x":)";
  deep += std::string(100000 / 2, '[');
  EXPECT_THAT(problem(deep), HasSubstr("no JSON object"));
}

// No length in the note may lead outside the section.
TEST(DriverNote, LengthsAreBounded) {
  const std::string good = Note(Owner(), kCuda131);
  for (const uint32_t length :
       {0u, 1u, 18u, 20u, 4096u, 0x7fffffffu, 0xfffffff4u, 0xffffffffu}) {
    for (const size_t at : {size_t{0}, size_t{4}}) {
      std::string note = good;
      Patch<uint32_t>(note, at, length);
      Read(Library(note));
    }
  }
  for (size_t size = 0; size < good.size(); ++size) {
    Read(Library(good.substr(0, size)));
  }
  std::string whole = Library(good);
  for (size_t size = 0; size < whole.size(); ++size) {
    Read(whole.substr(0, size));
  }
}

}  // namespace
}  // namespace twinpath::inspect
