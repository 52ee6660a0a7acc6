// Holes of sparse files are not read, whatever is asked.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "inspect/byte_source.h"
#include "inspect/inspect.h"
#include "inspect/report_budget.h"
#include "inspect/scan.h"
#include "tests/inspect/fatbin_builder.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;

// Counts the bytes that are read.
class CountingSource final : public ByteSource {
 public:
  explicit CountingSource(const ByteSource& source) : source_(source) {}
  uint64_t size() const override { return source_.size(); }
  absl::Status ReadAt(uint64_t offset, size_t size, char* out) const override {
    read_ += size;
    return source_.ReadAt(offset, size, out);
  }
  uint64_t NextData(uint64_t offset) const override {
    return source_.NextData(offset);
  }
  uint64_t read() const { return read_; }

 private:
  const ByteSource& source_;
  mutable std::atomic<uint64_t> read_{0};
};

// A file of `size` bytes without data but for what is put into it.
class SparseFile {
 public:
  explicit SparseFile(uint64_t size) {
    std::string path = ::testing::TempDir() + "/sparse-XXXXXX";
    fd_ = UniqueFd(::mkstemp(path.data()));
    if (fd_.valid()) ::unlink(path.c_str());
    made_ =
        fd_.valid() && ::ftruncate(fd_.get(), static_cast<off_t>(size)) == 0;
  }
  void Put(uint64_t offset, const std::string& bytes) {
    made_ = made_ && ::pwrite(fd_.get(), bytes.data(), bytes.size(),
                              static_cast<off_t>(offset)) ==
                         static_cast<ssize_t>(bytes.size());
  }
  bool made() const { return made_; }
  // Whether the file system says where the holes are.
  bool knows_holes() const { return ::lseek(fd_.get(), 0, SEEK_DATA) != 0; }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  bool made_ = false;
};

constexpr uint64_t kSize = uint64_t{4} << 30;
// Of what is read for a piece of the search before its hole is seen, and of
// blocks of the file system around the data.
constexpr uint64_t kLittle = uint64_t{8} << 20;

TEST(Sparse, AHoleIsNotRead) {
  const std::string fatbin = BuildFatbin({SassEntry({.sm = 70})});
  SparseFile file(kSize);
  file.Put(kSize / 2 + 12345, fatbin);
  ASSERT_TRUE(file.made());
  if (!file.knows_holes()) {
    GTEST_SKIP() << "the file system of " << ::testing::TempDir()
                 << " does not say where holes are (SEEK_DATA)";
  }
  const absl::StatusOr<FileSource> opened = FileSource::Open(file.fd());
  ASSERT_THAT(opened, IsOk());
  const CountingSource source(*opened);
  std::vector<uint64_t> found;
  ASSERT_THAT(ScanForFatbins(source, {{0, kSize, false}},
                             [&](FatbinWalk walk) {
                               found.push_back(walk.offset);
                               return true;
                             }),
              IsOk());
  EXPECT_THAT(found, ElementsAre(kSize / 2 + 12345));
  EXPECT_LT(source.read(), kLittle);
}

TEST(Sparse, AWholeFileOfNothingIsInspected) {
  SparseFile file(kSize);
  ASSERT_TRUE(file.made());
  if (!file.knows_holes()) {
    GTEST_SKIP() << "the file system of " << ::testing::TempDir()
                 << " does not say where holes are (SEEK_DATA)";
  }
  const absl::StatusOr<FileSource> opened = FileSource::Open(file.fd());
  ASSERT_THAT(opened, IsOk());
  const CountingSource source(*opened);
  ReportBudget budget(kMaxReportBytes);
  v1::FileReport report;
  ASSERT_THAT(InspectSource(source, {.digest = false}, budget, report), IsOk());
  EXPECT_EQ(report.fatbins_size(), 0);
  EXPECT_EQ(report.size_bytes(), kSize);
  EXPECT_LT(source.read(), kLittle);
}

// The digest is that of the zeros: 4 MiB of them, by sha256sum.
TEST(Sparse, TheDigestOfAHoleIsThatOfZeros) {
  constexpr uint64_t kZeros = uint64_t{4} << 20;
  SparseFile file(kZeros);
  ASSERT_TRUE(file.made());
  const absl::StatusOr<FileSource> opened = FileSource::Open(file.fd());
  ASSERT_THAT(opened, IsOk());
  const std::string zeros(kZeros, '\0');
  const absl::StatusOr<Sha256> of_hole = Sha256OfSource(*opened);
  const absl::StatusOr<Sha256> of_zeros = Sha256OfSource(MemorySource(zeros));
  ASSERT_THAT(of_hole, IsOk());
  ASSERT_THAT(of_zeros, IsOk());
  EXPECT_EQ(of_hole->Raw(), of_zeros->Raw());
  EXPECT_EQ(of_hole->Hex(),
            "bb9f8df61474d25e71fa00722318cd387396ca1736605e1248821cc0de3d3af8");
}

}  // namespace
}  // namespace twinpath::inspect
