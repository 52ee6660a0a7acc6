#include "runner/program_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/status_matchers.h"

namespace twinpath::runner {
namespace {

using ::testing::HasSubstr;

// The first 20 bytes of an ELF file for one machine, little endian.
std::string ElfHead(unsigned char machine) {
  std::string head(
      "\x7f"
      "ELF\x02\x01\x01",
      7);
  head.resize(64, '\0');
  head[16] = 2;
  head[18] = static_cast<char>(machine);
  return head;
}

TEST(ProgramCheck, RelativeWordsLieInTheArtifact) {
  EXPECT_THAT(ProgramPath("bin/app", "/a"), IsOkAndHolds("/a/bin/app"));
  EXPECT_THAT(ProgramPath("/usr/bin/python3", "/a"),
              IsOkAndHolds("/usr/bin/python3"));
  EXPECT_THAT(ProgramPath("a..b", "/a"), IsOkAndHolds("/a/a..b"));
  for (const char* word : {"", "..", "../x", "bin/../../x"}) {
    EXPECT_THAT(ProgramPath(word, "/a"),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << word;
  }
}

TEST(ProgramCheck, ArchitectureOfTheFileAgainstTheHost) {
  auto folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const std::string path = JoinPath(folder->path(), "app");
  // ELF machine numbers of the gABI: 62 x86-64, 183 AArch64.
  ASSERT_THAT(WriteFileAtomic(path, ElfHead(183), 0755), IsOk());
  EXPECT_THAT(CheckProgram(path, v1::CPU_ARCHITECTURE_AARCH64), IsOk());
  EXPECT_THAT(CheckProgram(path, v1::CPU_ARCHITECTURE_X86_64),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("built for AArch64, this host is x86-64")));
}

TEST(ProgramCheck, FoldersAndMissingFilesAreNamed) {
  EXPECT_THAT(CheckProgram("/usr", v1::CPU_ARCHITECTURE_X86_64),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/usr")));
  EXPECT_THAT(CheckProgram("/no/such", v1::CPU_ARCHITECTURE_X86_64),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such")));
}

}  // namespace
}  // namespace twinpath::runner
