#include "compat/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

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

TEST(Explain, AListThatPromisesNothing) {
  const Explanation found = First(
      "Orin with CUDA capability sm_87 is not compatible with the current "
      "PyTorch installation.\nThe current PyTorch install supports CUDA "
      "capabilities sm_80 sm_86.\n");
  EXPECT_EQ(found.effect, "hint");
  EXPECT_EQ(found.reason_code, "TP210");
  EXPECT_THAT(found.meaning, HasSubstr("promises nothing"));
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

TEST(Explain, StatusesOfLibraries) {
  EXPECT_EQ(First("NVML 18").reason_code, "TP104");
  EXPECT_EQ(First("cublas 14").title,
            "CUBLAS_STATUS_INTERNAL_ERROR (cublas 14)");
  EXPECT_EQ(First("CUFFT_INTERNAL_ERROR").reason_code, "TP222");
  EXPECT_EQ(First("cufft error 5").title, "CUFFT_INTERNAL_ERROR (cufft 5)");
}

TEST(Explain, AnXidSaysWhoseFaultItIs) {
  EXPECT_EQ(First("Xid 79").reason_code, "TP322");
  EXPECT_THAT(First("xid 31").title, HasSubstr("application"));
  EXPECT_THAT(First("Xid 4711").action, HasSubstr("docs.nvidia.com"));
}

TEST(Explain, AFalseAlarmIsSaidToBeOne) {
  const Explanation warning = First(
      "Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.\nMinimum and "
      "Maximum cuda capability supported by this version of PyTorch is (8.0) "
      "- (12.0)");
  EXPECT_EQ(warning.effect, "harmless");
  EXPECT_THAT(warning.meaning, HasSubstr("Harmless"));
  EXPECT_EQ(warning.reason_code, "");
}

// A log comes in pieces that end anywhere; what is found does not depend on it.
TEST(LogExplainer, PiecesDoNotMatter) {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text +=
        "step done\rprogress 10%\n"
        "Kernel (_Z6kernelPi) cannot be found in library 0x55\n"
        "Returning 209 (CUDA_ERROR_NO_BINARY_FOR_GPU) from "
        "cuLibraryGetKernel\n"
        "NVRM: Xid (PCI:0000:01:00): 31, pid=1, MMU Fault\n"
        "warning: no usable GPU found, --gpu-layers option will be "
        "ignored\n";
  }
  text += "CUDA error: invalid argument";
  std::vector<std::string> first;
  for (const size_t size : {text.size(), size_t{1}, size_t{7}, size_t{4096}}) {
    LogExplainer log(TestTables());
    for (size_t at = 0; at < text.size(); at += size) {
      log.Feed(absl::string_view(text).substr(at, size));
    }
    std::vector<std::string> now;
    for (const Explanation& one : log.Finish()) {
      now.push_back(absl::StrCat(one.title, "|", one.first_line, "|", one.count,
                                 "|", one.found_in));
    }
    if (first.empty()) first = now;
    EXPECT_EQ(now, first) << size;
  }
  ASSERT_EQ(first.size(), 4u);
  // The image error first, with its count, line and kernel; then the fault of
  // the application, what the program did about it, and what followed.
  EXPECT_THAT(first[0], HasSubstr("CUDA error 209"));
  EXPECT_THAT(first[0], HasSubstr("|4|100|"));
  EXPECT_THAT(first[0], HasSubstr("(kernel _Z6kernelPi)"));
  EXPECT_THAT(first[1], HasSubstr("Xid 31"));
  EXPECT_THAT(first[2], HasSubstr("llama.cpp"));
  EXPECT_THAT(first[3], HasSubstr("CUDA error 1 "));
}

TEST(LogExplainer, AKernelOfALibraryIsSaidToBeSo) {
  LogExplainer log(TestTables());
  log.Feed(
      "Kernel (_ZN6cublas3nopEv) cannot be found in library 0x1\nReturning 209 "
      "(CUDA_ERROR_NO_BINARY_FOR_GPU) from cuLibraryGetKernel\n");
  EXPECT_THAT(log.Finish().at(0).meaning,
              HasSubstr("of cuBLAS, not of your own files"));
}

// One line of many megabytes, as of a job's JSON: read to its end, in parts.
TEST(LogExplainer, ALineWithoutEndIsReadWhole) {
  LogExplainer log(TestTables());
  const std::string filler(1 << 20, 'x');
  for (int i = 0; i < 8; ++i) log.Feed(filler);
  log.Feed(" cudaErrorNoKernelImageForDevice ");
  for (int i = 0; i < 8; ++i) log.Feed(filler);
  const auto found = log.Finish();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].cuda_error, 209u);
}

TEST(LogExplainer, WhatIsFoundIsBounded) {
  LogExplainer log(TestTables());
  for (int i = 0; i < 10000; ++i) {
    log.Feed(absl::StrCat("NVRM: Xid (PCI:0000:01:00): ", i, ", x\n"));
  }
  EXPECT_EQ(log.Finish().size(), LogExplainer::kMaxExplanations);
  EXPECT_EQ(log.lines(), 10000u);
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

// What people need beside the sentence: how it is derived, how it looks, a
// command, and where the claim can be looked up.
TEST(ReasonPages, EveryPageIsWrittenByHandAndCitesASource) {
  for (const ReasonInfo& reason : AllReasons()) {
    const auto page = ReadFile(
        JoinPath(PagesDir(), absl::StrCat(reason.code, ".md")), 1 << 20);
    ASSERT_TRUE(page.ok()) << page.status();
    const size_t at = page->find(kMarker);
    ASSERT_NE(at, std::string::npos) << reason.code;
    const std::string by_hand = page->substr(at + sizeof(kMarker) - 1);
    const size_t how = by_hand.find("## How it is found\n\n");
    const size_t example = by_hand.find("\n## Example\n\n```\n$ ");
    const size_t source = by_hand.find("\nSource: ");
    ASSERT_NE(how, std::string::npos) << reason.code;
    ASSERT_NE(example, std::string::npos) << reason.code;
    ASSERT_NE(source, std::string::npos) << reason.code;
    EXPECT_GT(example, how + 60) << reason.code << ": says too little";
    const std::string cited = by_hand.substr(source);
    EXPECT_TRUE(absl::StrContains(cited, "](https://") ||
                absl::StrContains(cited, "](../"))
        << reason.code << ": " << cited;
  }
}

TEST(ReasonPages, RelativeLinksLead) {
  for (const ReasonInfo& reason : AllReasons()) {
    const auto page = ReadFile(
        JoinPath(PagesDir(), absl::StrCat(reason.code, ".md")), 1 << 20);
    ASSERT_TRUE(page.ok()) << page.status();
    for (size_t at = page->find("](../"); at != std::string::npos;
         at = page->find("](../", at + 1)) {
      const size_t end = page->find_first_of(")#", at);
      ASSERT_NE(end, std::string::npos) << reason.code;
      const std::string target =
          JoinPath(PagesDir(), page->substr(at + 2, end - at - 2));
      EXPECT_EQ(access(target.c_str(), F_OK), 0)
          << reason.code << " " << target;
    }
  }
}

// Sources and tables of the product, base/reason.cc left out.
std::string ProductText() {
  std::string all;
  const std::string root = std::getenv("TWINPATH_SOURCE_DIR");
  for (const char* folder :
       {"agent", "cli", "cli/commands", "compat", "compat/tables",
        "coordinator", "inspect", "runner", "trust", "verdict"}) {
    const auto names = ListDirectory(JoinPath(root, folder));
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      if (!absl::EndsWith(name, ".cc") && !absl::EndsWith(name, ".yaml")) {
        continue;
      }
      const auto text =
          ReadFile(JoinPath(JoinPath(root, folder), name), 8 << 20);
      if (text.ok()) absl::StrAppend(&all, *text, "\n");
    }
  }
  return all;
}

// A code that nothing gives is a promise to nobody.
TEST(ReasonCodes, EachIsGivenByTheProduct) {
  const std::string text = ProductText();
  ASSERT_GT(text.size(), 1000000u);
  for (const ReasonInfo& reason : AllReasons()) {
    EXPECT_TRUE(absl::StrContains(text, reason.code))
        << reason.code << " " << reason.name
        << " is in base/reason.cc and nowhere else: give it or remove it";
  }
}

TEST(ReasonCodes, TheProductGivesNoOther) {
  const std::string text = ProductText();
  for (size_t at = text.find("\"TP"); at != std::string::npos;
       at = text.find("\"TP", at + 1)) {
    const std::string code = text.substr(at + 1, 5);
    if (text[at + 6] != '"') continue;
    EXPECT_NE(FindReason(code), nullptr) << code;
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
