// The worst files that can be thought of, through twinpath-inspect as callers
// run it: confined, with a scratch file. Each gets a report, and the child's
// resident memory stays under a bound whatever sizes a file claims.
//
// A program of its own: the peak of a child counts what its parent held when it
// was started, so inputs are written in pieces and never held whole.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "inspect/child.h"
#include "inspect/manifest.h"
#include "inspect/scratch.h"
#include "tests/inspect/archive_builder.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::inspect {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What an inspection may keep resident.
constexpr uint64_t kMaxResident = uint64_t{512} << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

struct Ran {
  ProcessResult process;
  // As they came: a file's own report is the last.
  std::vector<v1::FileReport> reports;
  const v1::FileReport& own() const { return reports.back(); }
};

class HostileChild : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<TempDirectory> made = TempDirectory::Make();
    ASSERT_THAT(made, IsOk());
    folder_ = std::make_unique<TempDirectory>(*std::move(made));
    if (const char* bin = std::getenv("TWINPATH_BIN_DIR")) {
      ::setenv("TWINPATH_LIBEXEC", bin, 1);
    }
  }
  void TearDown() override { ::unsetenv("TWINPATH_LIBEXEC"); }

  std::string Path(absl::string_view name) const {
    return JoinPath(folder_->path(), name);
  }
  std::string Write(absl::string_view name, absl::string_view bytes) const {
    EXPECT_THAT(WriteFileAtomic(Path(name), bytes, 0644), IsOk());
    return Path(name);
  }
  // `count` times `piece`, never held as a whole.
  std::string WriteRepeated(absl::string_view name, absl::string_view head,
                            absl::string_view piece, int count) const {
    const UniqueFd fd(::open(Path(name).c_str(), O_WRONLY | O_CREAT, 0644));
    EXPECT_THAT(WriteAll(fd.get(), head), IsOk());
    std::string some;
    for (int i = 0; i < count; ++i) {
      some.append(piece.data(), piece.size());
      if (some.size() < 1 << 20 && i + 1 < count) continue;
      EXPECT_THAT(WriteAll(fd.get(), some), IsOk());
      some.clear();
    }
    return Path(name);
  }

  // Runs the inspector on one file. It has to end well and within its memory.
  Ran Inspect(const std::string& path, bool kernels = true) {
    Ran ran;
    const absl::StatusOr<UniqueFd> file = OpenRegularFile(path);
    const absl::StatusOr<UniqueFd> scratch = OpenScratchFile();
    const absl::StatusOr<std::string> program =
        FindCompanion("twinpath-inspect");
    if (!file.ok() || !scratch.ok() || !program.ok()) {
      ADD_FAILURE() << "no file, scratch file or inspector";
      ran.reports.emplace_back();
      return ran;
    }
    v1::InspectRequest request;
    request.add_names("file");
    request.set_kernels(kernels);
    request.set_details(kernels);
    request.set_members(true);
    request.set_scratch(true);
    ProcessOptions options;
    options.argv = {*program};
    options.environment = MinimalEnvironment();
    options.directory = "/";
    options.input = request.SerializeAsString();
    options.descriptors = {{file->get(), 3}, {scratch->get(), 4}};
    options.head_bytes = kMaxChildOutputBytes;
    options.timeout = absl::Minutes(4);
    absl::StatusOr<ProcessResult> result = RunProcess(options);
    EXPECT_THAT(result, IsOk());
    if (result.ok()) ran.process = *std::move(result);
    EXPECT_TRUE(ran.process.succeeded())
        << ran.process.Describe() << ": " << ran.process.err.head;
    if (!kSanitized) {
      EXPECT_LE(ran.process.max_rss_bytes, kMaxResident);
    }
    RecordProperty("resident_mib",
                   static_cast<int>(ran.process.max_rss_bytes >> 20));
    google::protobuf::io::ArrayInputStream stream(
        ran.process.out.head.data(),
        static_cast<int>(ran.process.out.head.size()));
    v1::InspectResult one;
    v1::FileReport sent_ahead;
    bool end = false;
    while (google::protobuf::util::ParseDelimitedFromZeroCopyStream(
        &one, &stream, &end)) {
      for (v1::Fatbin& fatbin : *one.mutable_fatbins()) {
        sent_ahead.add_fatbins()->Swap(&fatbin);
      }
      if (one.has_report()) {
        v1::FileReport report = std::move(*one.mutable_report());
        if (report.member_of().empty()) {
          for (v1::Fatbin& fatbin : *report.mutable_fatbins()) {
            sent_ahead.add_fatbins()->Swap(&fatbin);
          }
          report.mutable_fatbins()->Swap(sent_ahead.mutable_fatbins());
          sent_ahead.Clear();
        }
        ran.reports.push_back(std::move(report));
      }
      one.Clear();
    }
    EXPECT_TRUE(end) << "a report cannot be parsed";
    if (ran.reports.empty()) ran.reports.emplace_back();
    return ran;
  }

  std::unique_ptr<TempDirectory> folder_;
};

// LZ4 block that decodes to `size` zeros (at least 64).
std::string Lz4Zeros(uint64_t size) {
  // One literal, a match at distance 1, five literals (the format's end).
  uint64_t rest = size - 6 - 4 - 15;
  std::string out("\x1f\0\1\0", 4);
  out.append(rest / 255, '\xff');
  out.push_back(static_cast<char>(rest % 255));
  return out + std::string("\x50\0\0\0\0\0", 6);
}

TEST_F(HostileChild, AFatbinBehindTwoGigabytesOfHole) {
  constexpr uint64_t kAt = (uint64_t{1} << 31) + 8;
  constexpr int64_t kSize = (int64_t{1} << 31) + (16 << 20);
  const std::string path = Write("sparse", "");
  const UniqueFd fd(::open(path.c_str(), O_WRONLY));
  const std::string fatbin = BuildFatbin({SassEntry({.sm = 90})});
  ASSERT_EQ(::pwrite(fd.get(), fatbin.data(), fatbin.size(), kAt),
            static_cast<ssize_t>(fatbin.size()));
  ASSERT_EQ(::ftruncate(fd.get(), kSize), 0);
  const Ran ran = Inspect(path);
  ASSERT_EQ(ran.own().fatbins_size(), 1);
  EXPECT_EQ(ran.own().fatbins(0).offset(), kAt);
  EXPECT_EQ(ran.own().size_bytes(), kSize);
}

TEST_F(HostileChild, MoreFatbinsThanAReportHolds) {
  const Ran ran = Inspect(WriteRepeated("many", "", BuildFatbin({}), 600'000));
  EXPECT_GT(ran.own().fatbins_size(), 100'000);
  EXPECT_THAT(ProblemCodes(ran.own()), Contains("TP232"));
}

TEST_F(HostileChild, AMillionKernelsOfText) {
  const Ran ran =
      Inspect(WriteRepeated("many.ptx", BuildPtx({}), ".entry k{}\n", 1 << 20));
  EXPECT_EQ(ran.own().kind(), v1::FILE_KIND_PTX);
  ASSERT_EQ(ran.own().fatbins_size(), 1);
  EXPECT_GT(ran.own().fatbins(0).images(0).kernels_size(), 100'000);
}

TEST_F(HostileChild, AMillionBracesOfText) {
  const Ran ran = Inspect(
      WriteRepeated("deep.ptx", BuildPtx({}) + ".entry deep", "{", 1 << 20));
  ASSERT_EQ(ran.own().fatbins_size(), 1);
  EXPECT_THAT(ran.own().fatbins(0).images(0).problem(), HasSubstr("ends"));
}

// Every image as large as one may be, all at once on all threads.
TEST_F(HostileChild, ImagesThatExpandToAllThatIsAllowed) {
  std::string bytes;
  for (const uint64_t size :
       {uint64_t{144} << 20, uint64_t{24} << 20, uint64_t{144} << 20,
        uint64_t{24} << 20, uint64_t{24} << 20, uint64_t{24} << 20}) {
    EntrySpec entry;
    entry.kind = 1;
    entry.extra_flags = 0x2000;
    entry.payload = Lz4Zeros(size);
    entry.claimed_compressed_bytes =
        static_cast<uint32_t>(entry.payload.size());
    entry.claimed_expanded_bytes = size;
    bytes += BuildFatbin({entry});
  }
  const Ran ran = Inspect(Write("large", bytes));
  EXPECT_EQ(ran.own().fatbins_size(), 6);
}

TEST_F(HostileChild, SizesThatNobodyHas) {
  for (const uint64_t size :
       {uint64_t{1} << 31, uint64_t{1} << 40, uint64_t{1} << 63,
        ~uint64_t{0} - 16, ~uint64_t{0}}) {
    EntrySpec entry = SassEntry({.sm = 90}, v1::COMPRESSION_ZSTD);
    entry.claimed_expanded_bytes = size;
    Inspect(Write("expanded", BuildFatbin({entry})));
    entry = SassEntry({.sm = 90});
    entry.claimed_payload_bytes = size;
    Inspect(Write("payload", BuildFatbin({entry})));
    const Ran ran = Inspect(Write("claim", BuildFatbin({}, size)));
    EXPECT_THAT(ProblemCodes(ran.own()), Contains("TP229")) << size;
  }
}

// Streams of frames, each of 8 MiB of zeros; a few KiB in all.
TEST_F(HostileChild, BombsAreNamed) {
  const std::string zeros(8 << 20, '\0');
  for (const char* const filter : {"zstd", "bzip2"}) {
    const std::string frame = Packed(filter, zeros);
    const Ran ran = Inspect(WriteRepeated("bomb", "", frame, 100));
    EXPECT_THAT(ProblemCodes(ran.own()), Contains("TP232")) << filter;
    EXPECT_THAT(ran.own().problems(0).detail(), HasSubstr("bomb")) << filter;
  }
}

// The shape of 42.zip: archives of archives, the same at each level.
TEST_F(HostileChild, ArchivesOfArchivesEnd) {
  std::string inner =
      BuildArchive("zip", {{"zeros", std::string(1 << 20, '\0')}});
  for (int level = 0; level < 5; ++level) {
    std::vector<TestMember> members;
    for (int i = 0; i < 6; ++i) {
      members.push_back({.path = absl::StrCat(i, ".zip"), .bytes = inner});
    }
    inner = BuildArchive("zip", members);
  }
  const Ran ran = Inspect(Write("42.zip", inner));
  bool levels = false;
  for (const v1::FileReport& report : ran.reports) {
    for (const v1::Reason& reason : report.problems()) {
      levels |= absl::StrContains(reason.detail(), "down to 4 levels");
    }
  }
  EXPECT_TRUE(levels);
}

// An xz stream whose header asks for a window of 768 MiB. It is refused before
// it is filled; it is no bomb, and no other cap would stop it.
TEST_F(HostileChild, AWindowLargerThanTheMemoryThereIs) {
  if (!HasTool("xz")) GTEST_SKIP() << "xz is not there";
  if (kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be limited";
  ASSERT_NO_FATAL_FAILURE(
      RunIn(folder_->path(),
            "(head -c 1M /dev/urandom; head -c 32M /dev/zero) | "
            "xz -0 -C crc32 >window.xz"));
  absl::StatusOr<std::string> read = ReadFile(Path("window.xz"), 4 << 20);
  ASSERT_THAT(read, IsOk());
  std::string& bytes = *read;
  // Block header: size, flags, filter 0x21, one byte of properties.
  ASSERT_EQ(bytes.substr(14, 2), std::string("\x21\x01"));
  bytes[16] = 35;
  const size_t header = (static_cast<uint8_t>(bytes[12]) + size_t{1}) * 4;
  Patch<uint32_t>(bytes, 12 + header - 4,
                  static_cast<uint32_t>(::crc32(
                      0, reinterpret_cast<const Bytef*>(bytes.data() + 12),
                      static_cast<uInt>(header - 4))));
  const Ran ran = Inspect(Write("window.so.xz", bytes));
  EXPECT_THAT(ran.own().problems(), ::testing::Not(IsEmpty()));
}

// Names are bytes of the file; a report is text for people and other programs.
TEST_F(HostileChild, NamesOfEveryKindOfByte) {
  std::string odd;
  for (int c = 1; c < 256; ++c) odd += static_cast<char>(c);
  const std::string elf = BuildElf(
      {.fatbins = {BuildFatbin({SassEntry({.kernels = {{.name = odd}}})})},
       .soname = odd,
       .needed = {odd, "\xff\xfe"},
       .runpath = odd,
       .interpreter = odd});
  const Ran file = Inspect(Write("odd.so", elf));
  EXPECT_EQ(file.own().fatbins_size(), 1);
  for (const char* const format : {"gnutar", "zip"}) {
    const Ran ran =
        Inspect(Write("odd", BuildArchive(format, {{odd, elf}, {"x\n", elf}})));
    EXPECT_EQ(ran.reports.size(), 3) << format;
  }
}

// Ten thousand small files do not take ten thousand processes.
TEST_F(HostileChild, ATreeOfScriptsTakesFewChildren) {
  constexpr int kFiles = 10'000;
  for (int i = 0; i < kFiles; ++i) {
    if (i % 1000 == 0) {
      ASSERT_EQ(::mkdir(Path(absl::StrCat("d", i / 1000)).c_str(), 0755), 0);
    }
    const std::string path = Path(absl::StrCat("d", i / 1000, "/", i, ".sh"));
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT, 0755));
    ASSERT_THAT(WriteAll(fd.get(), "#!/bin/sh\nexit 0\n"), IsOk());
  }
  const absl::StatusOr<v1::Artifact> artifact =
      ScanArtifact({folder_->path()}, "");
  ASSERT_THAT(artifact, IsOk());
  // Counts the children.
  absl::StatusOr<TempDirectory> counting = TempDirectory::Make();
  ASSERT_THAT(counting, IsOk());
  const absl::StatusOr<std::string> real = FindCompanion("twinpath-inspect");
  ASSERT_THAT(real, IsOk());
  const std::string count = JoinPath(counting->path(), "count");
  ASSERT_THAT(WriteFileAtomic(JoinPath(counting->path(), "twinpath-inspect"),
                              absl::StrCat("#!/bin/sh\necho >>", count,
                                           "\nexec ", *real, "\n"),
                              0755),
              IsOk());
  ::setenv("TWINPATH_LIBEXEC", counting->path().c_str(), 1);
  const absl::StatusOr<v1::ArtifactReport> report = InspectArtifact(
      *artifact,
      [this](const v1::ArtifactFile& file) -> absl::StatusOr<std::string> {
        return JoinPath(folder_->path(), file.name());
      },
      {});
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->files_size(), kFiles);
  const absl::StatusOr<std::string> counted = ReadFile(count, 1 << 20);
  ASSERT_THAT(counted, IsOk());
  EXPECT_LE(counted->size(), kFiles / kMaxBatchFiles + 1);
}

}  // namespace
}  // namespace twinpath::inspect
