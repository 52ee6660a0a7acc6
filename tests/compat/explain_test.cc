#include "compat/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/compat/fake_host.h"

namespace twinpath::compat {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Explanation First(const std::string& input) {
  const std::vector<Explanation> found = Explain(input, TestTables());
  return found.empty() ? Explanation() : found[0];
}

TEST(Explain, Codes) {
  EXPECT_EQ(First("TP204").title, "TP204 ptx-newer-than-driver");
  EXPECT_EQ(First(" tp204\n").reason_code, "TP204");
  EXPECT_EQ(First("ptx-newer-than-driver").reason_code, "TP204");
  EXPECT_THAT(First("TP204").action, HasSubstr("driver"));
}

TEST(Explain, CudaErrorsInEverySpelling) {
  for (const char* spelling :
       {"209", "error 209", "CUDA error 209", "CUDA error code 209",
        "cudaErrorNoKernelImageForDevice", "CUDA_ERROR_NO_BINARY_FOR_GPU",
        "no kernel image is available for execution on the device",
        "No kernel image is available"}) {
    EXPECT_EQ(First(spelling).cuda_error, 209u) << spelling;
  }
  EXPECT_EQ(First("222").reason_code, "TP204");
}

TEST(Explain, ALibraryThatCannotBeOpened) {
  EXPECT_EQ(First("libcudart.so.12: cannot open shared object file: No such "
                  "file or directory")
                .reason_code,
            "TP312");
}

// One text, two codes.
TEST(Explain, InvalidImageIsTwoErrors) {
  const auto found = Explain("device kernel image is invalid", TestTables());
  std::set<uint32_t> codes;
  for (const Explanation& explanation : found) {
    codes.insert(explanation.cuda_error);
  }
  EXPECT_EQ(codes, (std::set<uint32_t>{200, 300}));
}

TEST(Explain, XidAndCompilerMessages) {
  EXPECT_THAT(First("Xid 79").meaning, HasSubstr("bus"));
  EXPECT_THAT(
      First("NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off").title,
      HasSubstr("Xid 79"));
  EXPECT_THAT(First("ptxas fatal   : Value 'sm_121a' is not defined for option "
                    "'gpu-name'")
                  .meaning,
              HasSubstr("ptxas"));
  EXPECT_THAT(
      First("ptxas t.ptx, line 1; fatal   : Unsupported .version 9.3; current "
            "version is '9.0'")
          .meaning,
      HasSubstr("newer"));
}

TEST(Explain, ALogLeadsToItsDecisiveError) {
  const auto found = Explain(
      "starting\nReturning 201 (CUDA_ERROR_INVALID_CONTEXT) from cuX\n"
      "Returning 222 (CUDA_ERROR_UNSUPPORTED_PTX_VERSION) from "
      "cuLibraryLoadData\n"
      "Returning 400 (CUDA_ERROR_INVALID_HANDLE) from cuLaunchKernel\n",
      TestTables());
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].cuda_error, 222u);
  EXPECT_THAT(found[0].found_in, HasSubstr("cuLibraryLoadData"));
}

TEST(Explain, NothingKnown) {
  EXPECT_THAT(Explain("hello world", TestTables()), IsEmpty());
  EXPECT_THAT(Explain("", TestTables()), IsEmpty());
  EXPECT_THAT(Explain("98765", TestTables()), IsEmpty());
}

constexpr char kMarker[] = "text below is written by hand. -->\n";

std::string PagesDir() {
  return absl::StrCat(std::getenv("TWINPATH_SOURCE_DIR"), "/docs/reasons");
}

bool UpdatePages() { return std::getenv("TWINPATH_UPDATE_PAGES") != nullptr; }

// Compares a page with its generated head; text below the marker is free.
void CheckPage(const std::string& name, const std::string& generated) {
  const std::string path = JoinPath(PagesDir(), name);
  const auto page = ReadFile(path, 1 << 20);
  std::string by_hand;
  if (page.ok()) {
    const size_t at = page->find(kMarker);
    if (at != std::string::npos) {
      by_hand = page->substr(at + sizeof(kMarker) - 1);
    }
  }
  if (UpdatePages()) {
    ASSERT_TRUE(WriteFileAtomic(path, generated + by_hand, 0644).ok());
    return;
  }
  ASSERT_TRUE(page.ok()) << page.status()
                         << "; TWINPATH_UPDATE_PAGES=1 writes the pages";
  EXPECT_EQ(*page, generated + by_hand)
      << path << " differs; TWINPATH_UPDATE_PAGES=1 rewrites it";
}

TEST(ReasonPages, EqualTheTable) {
  std::set<std::string> expected = {"README.md"};
  for (const ReasonInfo& reason : AllReasons()) {
    const std::string name = absl::StrCat(reason.code, ".md");
    expected.insert(name);
    CheckPage(name, ReasonPage(reason));
  }
  CheckPage("README.md", ReasonIndexPage());
  const auto files = ListDirectory(PagesDir());
  ASSERT_TRUE(files.ok());
  for (const std::string& file : *files) {
    EXPECT_EQ(expected.count(file), 1u) << file << " is no code's page";
  }
}

TEST(ReasonPages, CodesAreUniqueAndSorted) {
  std::set<std::string> names;
  std::string last;
  for (const ReasonInfo& reason : AllReasons()) {
    EXPECT_LT(last, std::string(reason.code));
    last = std::string(reason.code);
    EXPECT_TRUE(names.insert(std::string(reason.name)).second) << reason.name;
    EXPECT_FALSE(reason.text.empty());
    EXPECT_FALSE(reason.remedy.empty());
  }
}

}  // namespace
}  // namespace twinpath::compat
