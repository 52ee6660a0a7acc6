// Our reader against NVIDIA's cuobjdump, over the libraries of the toolkit and
// over wheels of several projects (wheels.txt): targets, packing and kernel
// names of every image. See compare.h for the rules that explain differences,
// docs/inspect-survey.md for the table. Skipped where tools/oracle has not
// installed cuobjdump and the wheels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "base/subprocess.h"
#include "inspect/byte_source.h"
#include "inspect/carrier.h"
#include "inspect/inspect.h"
#include "inspect/scratch.h"
#include "tests/differential/compare.h"
#include "tests/differential/cuobjdump.h"

namespace twinpath::differential {
namespace {

constexpr char kMarker[] = "<!-- differential: rows below are checked -->\n";

// Names of the toolkit's libraries; tests need their names before they run.
constexpr const char* kLibraries[] = {
    "libcublas.so.13",
    "libcublasLt.so.13",
    "libcudnn_adv.so.9",
    "libcudnn_cnn.so.9",
    "libcudnn_ops.so.9",
    "libcudnn_engines_precompiled.so.9",
    "libcudnn_engines_runtime_compiled.so.9",
    "libcudnn_graph.so.9",
    "libcudnn_heuristic.so.9",
    "libcufft.so.12",
    "libcusparse.so.12",
    "libcusolver.so.12",
    "libcusolverMg.so.12",
    "libnccl.so.2",
    "libcurand.so.10",
    "libcudadevrt.a",
    "libcudart.so.13",
    "libcudart_static.a",
    "libcupti.so.13",
    "libcheckpoint.so",
    "libnvperf_host.so",
    "libnvrtc.so.13",
    "libnvJitLink.so.13",
    "libnvvm.so.4",
};

struct Wheel {
  std::string list;
  std::string project;
  std::string version;
  std::string machine;

  friend void PrintTo(const Wheel& wheel, std::ostream* out) {
    *out << wheel.project << " " << wheel.version << " " << wheel.machine;
  }
};

std::vector<Wheel> ReadWheels() {
  std::vector<Wheel> wheels;
  std::ifstream file(TWINPATH_WHEELS_FILE);
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Wheel& wheel = wheels.emplace_back();
    words >> wheel.list >> wheel.project >> wheel.version >> wheel.machine;
  }
  return wheels;
}

std::string TestName(std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

std::string Page() {
  return absl::StrCat(std::getenv("TWINPATH_SOURCE_DIR"),
                      "/docs/inspect-survey.md");
}

// Rows of this run by their first two cells, for TWINPATH_UPDATE_PAGES.
std::map<std::string, std::string>& Rows() {
  static auto* rows = new std::map<std::string, std::string>();
  return *rows;
}

std::string KeyOf(absl::string_view row) {
  const std::vector<absl::string_view> cells = absl::StrSplit(row, '|');
  return cells.size() < 4 ? std::string() : absl::StrCat(cells[1], cells[2]);
}

// The page's rows behind the marker.
std::map<std::string, std::string> PageRows() {
  std::map<std::string, std::string> rows;
  const absl::StatusOr<std::string> page = ReadFile(Page(), 1 << 20);
  if (!page.ok()) return rows;
  const size_t at = page->find(kMarker);
  if (at == std::string::npos) return rows;
  for (absl::string_view line :
       absl::StrSplit(absl::string_view(*page).substr(at), '\n')) {
    if (!absl::StartsWith(line, "| ") || absl::StartsWith(line, "| from")) {
      continue;
    }
    rows[KeyOf(line)] = std::string(line);
  }
  return rows;
}

class UpdatePage : public ::testing::Environment {
 public:
  void TearDown() override {
    if (std::getenv("TWINPATH_UPDATE_PAGES") == nullptr || Rows().empty()) {
      return;
    }
    std::map<std::string, std::string> rows = PageRows();
    for (const auto& [key, row] : Rows()) rows[key] = row;
    const absl::StatusOr<std::string> page = ReadFile(Page(), 1 << 20);
    ASSERT_THAT(page, IsOk());
    const size_t at = page->find(kMarker);
    ASSERT_NE(at, std::string::npos) << Page() << " has no line " << kMarker;
    std::string text = page->substr(0, at + sizeof(kMarker) - 1);
    absl::StrAppend(&text,
                    "\n| from | file | bytes | ours | cuobjdump | equal | "
                    "kernels | explained by |\n"
                    "|---|---|---|---|---|---|---|---|\n");
    for (const auto& [key, row] : rows) absl::StrAppend(&text, row, "\n");
    ASSERT_THAT(WriteFileAtomic(Page(), text, 0644), IsOk());
  }
};
const ::testing::Environment* const kUpdatePage =
    ::testing::AddGlobalTestEnvironment(new UpdatePage);

class Differential : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<std::string> cuobjdump = FindCuobjdump();
    if (!cuobjdump.ok()) GTEST_SKIP() << cuobjdump.status().message();
    const char* folder = std::getenv("TMPDIR");
    std::string name = absl::StrCat(folder != nullptr ? folder : "/tmp",
                                    "/twinpath-differential.XXXXXX");
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    scratch_ = name;
  }
  void TearDown() override {
    if (!scratch_.empty()) (void)RemoveTree(scratch_);
  }

  // Compares a file and checks its row of the page.
  void CompareFile(const std::string& from, const std::string& path,
                   const std::string& name) {
    SCOPED_TRACE(name);
    const v1::FileReport report = Inspect(path, name, {.digest = false});
    for (const v1::Reason& problem : report.problems()) {
      // Kernels that host code never names are a finding, not a gap.
      if (problem.code() == "TP240") continue;
      ADD_FAILURE() << problem.code() << " " << problem.detail();
    }
    // Names alone come by another way through the files.
    ExpectSameNames(report,
                    Inspect(path, name, {.digest = false, .details = false}));

    Comparison comparison;
    ASSERT_THAT(Compare(path, report, scratch_, comparison), IsOk());
    for (const std::string& difference : comparison.unexplained) {
      ADD_FAILURE() << difference;
    }
    if (comparison.ours == 0 && comparison.theirs == 0) {
      ++without_code_;
      return;
    }
    std::vector<std::string> rules;
    for (const auto& [rule, images] : comparison.rules) {
      rules.push_back(absl::StrCat(rule, " ", images));
    }
    const std::string row = absl::StrCat(
        "| ", from, " | ", name, " | ", report.size_bytes(), " | ",
        comparison.ours, " | ", comparison.theirs, " | ", comparison.compared,
        " | ", comparison.kernels, " | ", absl::StrJoin(rules, ", "), " |");
    Rows()[KeyOf(row)] = row;
    if (std::getenv("TWINPATH_UPDATE_PAGES") != nullptr) return;
    const std::map<std::string, std::string> page = PageRows();
    const auto known = page.find(KeyOf(row));
    if (known == page.end()) return;
    // A library of another release has other numbers.
    const std::string bytes = absl::StrCat("| ", report.size_bytes(), " |");
    if (absl::StrContains(known->second, bytes)) {
      EXPECT_EQ(known->second, row)
          << "TWINPATH_UPDATE_PAGES=1 rewrites " << Page();
    }
  }

  // Report of a file; of an archive with the fatbins of its members.
  v1::FileReport Inspect(const std::string& path, const std::string& name,
                         const inspect::InspectOptions& options) {
    v1::FileReport whole;
    for (v1::FileReport& report : InspectAll(path, name, options)) {
      if (report.member_of().empty()) {
        const google::protobuf::RepeatedPtrField<v1::Fatbin> fatbins =
            whole.fatbins();
        whole = std::move(report);
        whole.mutable_fatbins()->MergeFrom(fatbins);
      } else {
        whole.mutable_fatbins()->MergeFrom(report.fatbins());
        whole.mutable_problems()->MergeFrom(report.problems());
      }
    }
    return whole;
  }

  // Reports of a file and, where it is a carrier, of its members.
  std::vector<v1::FileReport> InspectAll(
      const std::string& path, const std::string& name,
      const inspect::InspectOptions& options) {
    std::vector<v1::FileReport> reports;
    absl::StatusOr<UniqueFd> fd = OpenRegularFile(path);
    EXPECT_THAT(fd, IsOk());
    absl::StatusOr<inspect::FileSource> source =
        inspect::FileSource::Open(fd->get());
    EXPECT_THAT(source, IsOk());
    absl::StatusOr<UniqueFd> room = inspect::OpenScratchFile();
    EXPECT_THAT(room, IsOk());
    inspect::Scratch scratch(room->get(), inspect::kScratchFileBytes);
    EXPECT_THAT(inspect::InspectFile(*source, name, options, scratch,
                                     [&](v1::FileReport report) {
                                       reports.push_back(std::move(report));
                                       return absl::OkStatus();
                                     }),
                IsOk());
    return reports;
  }

  void ExpectSameNames(const v1::FileReport& report,
                       const v1::FileReport& names) {
    ASSERT_EQ(report.fatbins_size(), names.fatbins_size());
    for (int f = 0; f < report.fatbins_size(); ++f) {
      ASSERT_EQ(report.fatbins(f).images_size(),
                names.fatbins(f).images_size());
      for (int i = 0; i < report.fatbins(f).images_size(); ++i) {
        const v1::Image& whole = report.fatbins(f).images(i);
        const v1::Image& fast = names.fatbins(f).images(i);
        std::vector<std::string> a;
        std::vector<std::string> b;
        for (const v1::Kernel& kernel : whole.kernels())
          a.push_back(kernel.name());
        for (const v1::Kernel& kernel : fast.kernels())
          b.push_back(kernel.name());
        std::sort(a.begin(), a.end());
        std::sort(b.begin(), b.end());
        ASSERT_EQ(a, b) << "names without details, image at " << whole.offset();
      }
    }
  }

  std::string scratch_;
  int without_code_ = 0;
};

class Toolkit : public Differential,
                public ::testing::WithParamInterface<const char*> {};

TEST_P(Toolkit, AgreesWithCuobjdump) {
  if (IsSkipped()) return;
  const char* home = std::getenv("CUDA_HOME");
  std::string path;
  for (const std::string& folder :
       {std::string(home != nullptr ? home : "/usr/local/cuda") + "/lib64",
        std::string("/usr/local/cuda/lib64")}) {
    struct stat status;
    const std::string candidate = JoinPath(folder, GetParam());
    if (path.empty() && ::stat(candidate.c_str(), &status) == 0) {
      path = candidate;
    }
  }
  if (path.empty()) {
    GTEST_SKIP() << GetParam() << " is not installed on this machine";
  }
  CompareFile("toolkit", path, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Cuda, Toolkit, ::testing::ValuesIn(kLibraries),
                         [](const auto& info) { return TestName(info.param); });

class WheelFiles : public Differential,
                   public ::testing::WithParamInterface<Wheel> {};

// Path of a downloaded wheel; "" if there is none.
std::string FindWheel(const Wheel& wheel) {
  const std::string folder = JoinPath(std::getenv("TWINPATH_ORACLE"), "wheels");
  const absl::StatusOr<std::vector<std::string>> files = ListDirectory(folder);
  if (!files.ok()) return "";
  const std::string start =
      absl::StrCat(absl::StrReplaceAll(wheel.project, {{"-", "_"}}), "-",
                   wheel.version, "-");
  for (const std::string& file : *files) {
    if (absl::StartsWith(file, start) &&
        absl::EndsWith(file, absl::StrCat(wheel.machine, ".whl"))) {
      return JoinPath(folder, file);
    }
  }
  return "";
}

TEST_P(WheelFiles, AgreeWithCuobjdump) {
  if (IsSkipped()) return;
  const Wheel& wheel = GetParam();
  const std::string path = FindWheel(wheel);
  if (path.empty()) {
    GTEST_SKIP() << wheel.project << " " << wheel.version << " "
                 << wheel.machine << " is not downloaded: tools/oracle"
                 << (wheel.list == "long" ? " --long" : "");
  }
  const std::string folder = JoinPath(scratch_, "wheel");
  ProcessOptions unpack;
  unpack.argv = {"python3", "-m", "zipfile", "-e", path, folder};
  unpack.environment = MinimalEnvironment();
  const char* search = std::getenv("PATH");
  if (search != nullptr) {
    unpack.environment = {absl::StrCat("PATH=", search)};
  }
  unpack.timeout = absl::Minutes(4);
  const absl::StatusOr<ProcessResult> unpacked = RunProcess(unpack);
  ASSERT_THAT(unpacked, IsOk());
  ASSERT_TRUE(unpacked->succeeded())
      << unpacked->Describe() << unpacked->err.head;

  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.is_symlink()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    char magic[4] = {};
    file.read(magic, sizeof(magic));
    if (std::string(magic, 4) ==
        "\x7f"
        "ELF") {
      files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());

  // The wheel read as it is shows what the unpacked files show.
  std::map<std::string, v1::FileReport> members;
  for (v1::FileReport& report :
       InspectAll(path, "wheel", {.kernels = false, .digest = false})) {
    if (report.member_of().empty()) {
      EXPECT_EQ(report.carrier().format(), "wheel");
      continue;
    }
    std::string name = report.name();
    report.clear_name();
    report.clear_member_of();
    members[std::move(name)] = std::move(report);
  }
  for (const std::string& file : files) {
    v1::FileReport unpacked_report =
        Inspect(file, "", {.kernels = false, .digest = false});
    const auto member =
        members.find(absl::StrCat("wheel!/", file.substr(folder.size() + 1)));
    if (member == members.end()) {
      ADD_FAILURE() << "the wheel read as it is lacks " << file;
    } else {
      EXPECT_EQ(member->second.SerializeAsString(),
                unpacked_report.SerializeAsString())
          << file;
    }
    CompareFile(
        absl::StrCat(wheel.project, " ", wheel.version, " ", wheel.machine),
        file, file.substr(folder.size() + 1));
  }
  EXPECT_LT(without_code_, static_cast<int>(files.size()))
      << "no device code in any file of the wheel";
}

INSTANTIATE_TEST_SUITE_P(PyPI, WheelFiles, ::testing::ValuesIn(ReadWheels()),
                         [](const auto& info) {
                           return TestName(absl::StrCat(info.param.project, "_",
                                                        info.param.version, "_",
                                                        info.param.machine));
                         });

}  // namespace
}  // namespace twinpath::differential
