// Files that fail under the reader, and tables made to take its time or
// memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "inspect/carrier.h"
#include "inspect/report_budget.h"
#include "inspect/scratch.h"
#include "tests/inspect/archive_builder.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"

namespace twinpath::inspect {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Bytes of which only some can be read: a file cut meanwhile, or a disk that
// fails.
class FailingSource final : public ByteSource {
 public:
  // The first `reads` reads succeed, and only below `end`.
  FailingSource(absl::string_view bytes, int reads, uint64_t end)
      : whole_(bytes), reads_(reads), end_(end) {}
  uint64_t size() const override { return whole_.size(); }
  absl::Status ReadAt(uint64_t offset, size_t size, char* out) const override {
    if (reads_.fetch_sub(1) <= 0 || offset + size > end_) {
      return absl::DataLossError("the file was cut while it was read");
    }
    return whole_.ReadAt(offset, size, out);
  }
  bool failed() const { return reads_.load() < 0; }

 private:
  MemorySource whole_;
  mutable std::atomic<int> reads_;
  uint64_t end_;
};

std::string Library() {
  return BuildElf(
      {.fatbins = {BuildFatbin({SassEntry({.sm = 90}, v1::COMPRESSION_ZSTD),
                                SassEntry({.sm = 80}), PtxEntry({})})},
       .soname = "libx.so",
       .needed = {"libc.so.6"}});
}

// Either an error or a report that says something of it.
void ExpectSaid(const std::string& bytes, const FailingSource& source) {
  Scratch scratch(-1, 0);
  int problems = 0;
  const absl::Status status = InspectFile(
      source, "file", {}, scratch, [&](const v1::FileReport& report) {
        problems += report.problems_size();
        for (const v1::Fatbin& fatbin : report.fatbins()) {
          problems += fatbin.damaged() ? 1 : 0;
          for (const v1::Image& image : fatbin.images()) {
            problems += image.problem().empty() ? 0 : 1;
          }
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(!status.ok() || problems > 0)
      << bytes.size() << " bytes were read as if nothing were wrong";
}

constexpr int kEvery = std::numeric_limits<int>::max();

TEST(HostileReader, AFileCutWhileItIsRead) {
  for (const std::string& bytes :
       {Library(), BuildArchive("gnutar", {{"libx.so", Library()}}),
        BuildArchive("zip", {{"libx.so", Library()}}),
        "!<arch>\n" + ArMemberBytes("x.o/", Library())}) {
    for (uint64_t end = 0; end < bytes.size(); end += bytes.size() / 40) {
      const FailingSource source(bytes, kEvery, end);
      ExpectSaid(bytes, source);
    }
  }
}

TEST(HostileReader, AReadThatFailsAtAnyMoment) {
  const std::string bytes = Library();
  for (int reads = 0; reads < 10'000; ++reads) {
    const FailingSource source(bytes, reads, bytes.size());
    Scratch scratch(-1, 0);
    (void)InspectFile(source, "file", {}, scratch,
                      [](const v1::FileReport&) { return absl::OkStatus(); });
    if (!source.failed()) return;
  }
  FAIL() << "a small library takes more than ten thousand reads";
}

// Section tables as large as their 16-bit count allows; each section claims the
// whole file.
std::string ManySections(uint64_t flags) {
  std::string out =
      BuildElf({.fatbins = {BuildFatbin({SassEntry({.sm = 90})})}});
  const uint64_t size = out.size();
  Align(out, 8);
  const uint64_t table = out.size();
  constexpr int kSections = 65'279;
  for (int i = 0; i < kSections; ++i) {
    Append<uint32_t>(out, 0);
    Append<uint32_t>(out, i == 0 ? 0 : 1);
    Append<uint64_t>(out, flags);
    Append<uint64_t>(out, 0);
    Append<uint64_t>(out, 0);
    Append<uint64_t>(out, size);
    out.append(24, '\0');
  }
  Patch<uint64_t>(out, 40, table);
  Patch<uint16_t>(out, 60, kSections);
  Patch<uint16_t>(out, 62, 0);
  return out;
}

TEST(HostileReader, SectionsThatAllClaimTheWholeFile) {
  const v1::FileReport data = InspectBytes(ManySections(2));
  ASSERT_EQ(data.fatbins_size(), 1);
  // All of it is said to be machine code: what is sound in it could only be
  // found by looking there, and no section but code is left.
  const v1::FileReport code = InspectBytes(ManySections(6));
  EXPECT_LE(code.fatbins_size(), 1);
}

TEST(HostileReader, AHundredThousandFatbinsOfNoSize) {
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) bytes += BuildFatbin({});
  const v1::FileReport report = InspectBytes(bytes);
  EXPECT_EQ(report.fatbins_size(), 100'000);
  EXPECT_THAT(report.problems(), IsEmpty());
}

TEST(HostileReader, AFatbinThatClaimsMoreThanThereIs) {
  for (const uint64_t size :
       {uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 15}) {
    const v1::FileReport report =
        InspectBytes(BuildFatbin({SassEntry({.sm = 90})}, size));
    ASSERT_EQ(report.fatbins_size(), 1) << size;
    EXPECT_TRUE(report.fatbins(0).damaged());
    EXPECT_THAT(ProblemCodes(report), Contains("TP229"));
  }
}

TEST(HostileReader, BracesAndCommentsThatNeverEnd) {
  for (const std::string& tail :
       {std::string(1 << 20, '{'), std::string(1 << 20, '('), std::string("/*"),
        std::string("\"\\"), std::string(1 << 20, '"'),
        std::string(1 << 20, '/')}) {
    const v1::FileReport report =
        InspectBytes(BuildPtx({}) + ".entry deep" + tail);
    ASSERT_EQ(report.fatbins_size(), 1);
    EXPECT_THAT(KernelNames(report.fatbins(0).images(0)),
                Contains("_Z6kernelPi"));
    EXPECT_THAT(report.fatbins(0).images(0).problem(), HasSubstr("ends"));
  }
}

}  // namespace
}  // namespace twinpath::inspect
