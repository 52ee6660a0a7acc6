// Counts over NVIDIA's own libraries of CUDA 13.0: fatbins, images, kernels.
// The expected numbers are those of an independent walk of the same files,
// kept in docs/inspect-survey.md. A library that is not installed, or is of
// another release (known by its size), is skipped by name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "inspect/inspect.h"
#include "inspect/summary.h"

namespace twinpath::inspect {
namespace {

constexpr uint64_t kNotSurveyed = ~uint64_t{0};

// Containers; images that stand alone are counted apart (kBareImages).
struct Library {
  const char* name;
  uint64_t bytes;
  int fatbins;
  uint64_t images;
  int wrappers;
  // Wrappers that a fatbin answers to; all of them resolve.
  // Images by kind: "sm", "compute", "lto".
  uint64_t sass;
  uint64_t ptx;
  uint64_t lto;
  // Kernels in machine code; kNotSurveyed: unknown.
  uint64_t kernels;
};

// docs/inspect-survey.md, table "CUDA 13.0 libraries".
constexpr Library kLibraries[] = {
    {"libcublas.so.13", 54177976, 193, 1257, 193, 1069, 188, 0, 23178},
    {"libcublasLt.so.13", 541595600, 3165, 6120, 2782, 5832, 288, 0, 45327},
    {"libcudnn_adv.so.9", 109169104, 33, 241, -1, 231, 10, 0, 28126},
    {"libcudnn_cnn.so.9", 4203904, 12, 82, -1, 72, 10, 0, kNotSurveyed},
    {"libcudnn_ops.so.9", 39855888, 22, 154, -1, 132, 22, 0, kNotSurveyed},
    {"libcudnn_engines_precompiled.so.9", 245391920, 1501, 4161, 1379, 4068, 93,
     0, 56336},
    {"libcudnn_engines_runtime_compiled.so.9", 29386400, 46, 299, -1, 258, 41,
     0, kNotSurveyed},
    {"libcufft.so.12", 286542352, 23984, 23984, 0, 3125, 8131, 12728, 3124},
    {"libcusparse.so.12", 162565256, 168, 1513, 133, 1036, 273, 204, 40400},
    {"libcusolver.so.12", 141152872, 226, 2277, 225, 2027, 250, 0, 26480},
    {"libcusolverMg.so.12", 103956840, 103, 1047, -1, 920, 127, 0,
     kNotSurveyed},
    {"libnccl.so.2", 217995896, 143, 976, 143, 838, 138, 0, 830},
    {"libcurand.so.10", 132698328, 11, 109, 10, 99, 10, 0, 2664},
    {"libcudadevrt.a", 1024340, 1, 11, 0, 10, 1, 0, kNotSurveyed},
    {"libcupti.so.13", 4152208, 3, 33, 0, 33, 0, 0, kNotSurveyed},
    {"libcheckpoint.so", 1382856, 3, 33, 0, 33, 0, 0, kNotSurveyed},
    {"libcudart.so.13", 704288, 0, 0, 0, 0, 0, 0, 0},
    {"libcudnn.so.9", 129240, 0, 0, 0, 0, 0, 0, 0},
    {"libcudnn_graph.so.9", 4451728, 0, 0, 0, 0, 0, 0, 0},
    {"libcudnn_heuristic.so.9", 60822040, 0, 0, 0, 0, 0, 0, 0},
    {"libnvrtc.so.13", 109338064, 0, 0, 0, 0, 0, 0, 0},
    {"libnvJitLink.so.13", 98806736, 0, 0, 0, 0, 0, 0, 0},
    {"libnvvm.so.4", 63019680, 0, 0, 0, 0, 0, 0, 0},
};

// Images by target, as "KIND: NUMBERxIMAGES ...", from the same table.
struct LibraryTargets {
  const char* name;
  const char* targets;
};
constexpr LibraryTargets kTargets[] = {
    {"libcublas.so.13",
     "sm: 75x190 80x191 86x114 90x191 100x191 120x192; compute: 120x188"},
    {"libcublasLt.so.13",
     "sm: 75x166 80x482 86x105 89x247 90x221 90ax1376 100x1187 100ax30 "
     "100fx326 103x64 103fx12 120x463 120fx1149 121x4; compute: 75x1 120x287"},
    {"libcudnn_adv.so.9",
     "sm: 75x33 80x33 86x33 90ax33 100fx33 120fx33 121x33; compute: 121x10"},
    {"libcudnn_cnn.so.9",
     "sm: 75x12 80x10 86x10 90ax10 100fx10 120fx10 121x10; compute: 121x10"},
    {"libcudnn_ops.so.9",
     "sm: 75x22 80x22 90ax22 100fx22 120fx22 121x22; compute: 121x22"},
    {"libcudnn_engines_precompiled.so.9",
     "sm: 70x2 75x473 80x662 86x375 90x294 90ax288 100x709 100ax5 100fx445 "
     "103x7 120x301 120fx407 121x100; compute: 121x93"},
    {"libcudnn_engines_runtime_compiled.so.9",
     "sm: 75x23 80x35 86x31 90ax46 100fx41 120fx41 121x41; compute: 121x41"},
    {"libcufft.so.12",
     "sm: 75x310 80x357 86x358 87x155 89x358 90x393 100x420 110x354 120x420; "
     "compute: 75x7189 80x583 86x291 90x68; lto: 75x12728"},
    {"libcusparse.so.12",
     "sm: 70x34 75x110 80x148 86x114 89x106 90x148 100x148 103x114 120x114; "
     "compute: 70x34 80x34 90x42 100x42 103x8 120x113; lto: 50x34 60x34 70x34 "
     "80x34 90x34 100x34"},
    {"libcusolver.so.12",
     "sm: 75x222 80x225 86x225 89x225 90x226 100x226 103x226 120x226 121x226; "
     "compute: 80x3 86x3 89x3 90x4 100x4 103x4 120x4 121x225"},
    {"libcusolverMg.so.12",
     "sm: 75x99 80x102 86x102 89x102 90x103 100x103 103x103 120x103 121x103; "
     "compute: 80x3 86x3 89x3 90x4 100x4 103x4 120x4 121x102"},
    {"libnccl.so.2",
     "sm: 75x139 80x139 90x139 100x139 100fx4 110x139 120x139; compute: "
     "120x138"},
    {"libcurand.so.10",
     "sm: 75x11 80x11 86x11 89x11 90x11 100x11 103x11 120x11 121x11; compute: "
     "121x10"},
    {"libcudadevrt.a",
     "sm: 75x1 80x1 86x1 89x1 90x1 100x1 103x1 110x1 120x1 121x1; compute: "
     "121x1"},
    {"libcupti.so.13",
     "sm: 75x3 80x3 86x3 87x3 89x3 90x3 100x3 103x3 110x3 120x3 121x3"},
};

// Images outside any container, the same way, with section and packing. In
// libcublasLt zstd frames, else as they are.
struct BareImages {
  const char* name;
  const char* images;
};
constexpr BareImages kBareImages[] = {
    {"libcublasLt.so.13",
     ".data zstd: sm_80x2 sm_90x2 sm_120x2; .ldata zstd: sm_75x14 sm_80x92 "
     "sm_86x1 sm_90x92 sm_100x95 sm_120x93"},
    {"libcupti.so.13",
     ".data none: sm_75x5 sm_80x5 sm_86x1 sm_87x5 sm_89x5 sm_90x3 sm_100x3 "
     "sm_103x1 sm_110x3 sm_120x3 sm_121x3; .rodata none: compute_35x1 sm_35x1 "
     "sm_50x1 sm_60x1 sm_62x1 sm_80x1"},
    {"libcheckpoint.so", ".rodata none: sm_35x1 sm_50x1 sm_60x1 sm_62x1"},
    {"libcudnn_graph.so.9", ".rodata none: compute_50x1"},
};

// Path of an installed library; "" if there is none.
std::string FindLibrary(const std::string& name) {
  const char* home = std::getenv("CUDA_HOME");
  for (const std::string& folder :
       {std::string(home != nullptr ? home : "/usr/local/cuda") + "/lib64",
        std::string("/usr/local/cuda/lib64"),
        std::string("/usr/local/cuda/lib"),
        std::string("/usr/lib/x86_64-linux-gnu")}) {
    const std::string path = JoinPath(folder, name);
    struct stat status;
    if (::stat(path.c_str(), &status) == 0) return path;
  }
  return "";
}

// The report without images that stand alone.
v1::FileReport Containers(const v1::FileReport& report) {
  v1::FileReport result;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    if (!fatbin.bare()) *result.add_fatbins() = fatbin;
  }
  return result;
}

// Those images, in the form of kBareImages; code to link counts as its kind.
std::string BareList(const v1::FileReport& report) {
  std::map<std::string, std::map<ImageTarget, uint64_t>> places;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    if (!fatbin.bare()) continue;
    for (const v1::Image& image : fatbin.images()) {
      ImageTarget target = TargetOf(image);
      if (target.kind == v1::IMAGE_KIND_RELOCATABLE_SASS) {
        target.kind = v1::IMAGE_KIND_SASS;
      }
      // PTX first.
      if (target.kind == v1::IMAGE_KIND_PTX) {
        target.kind = v1::IMAGE_KIND_UNSPECIFIED;
      }
      ++places[absl::StrCat(
          fatbin.section(), " ",
          image.compression() == v1::COMPRESSION_ZSTD ? "zstd" : "none")]
              [target];
    }
  }
  std::vector<std::string> parts;
  for (const auto& [place, targets] : places) {
    std::string part = absl::StrCat(place, ":");
    for (const auto& [key, images] : targets) {
      ImageTarget target = key;
      if (target.kind == v1::IMAGE_KIND_UNSPECIFIED) {
        target.kind = v1::IMAGE_KIND_PTX;
      }
      absl::StrAppend(&part, " ", TargetName(target), "x", images);
    }
    parts.push_back(part);
  }
  return absl::StrJoin(parts, "; ");
}

// The report's images in the form of kTargets; code to link counts as its kind.
std::string TargetList(const v1::FileReport& report) {
  std::map<std::string, std::map<ImageTarget, uint64_t>> kinds;
  for (const TargetCount& count : CountTargets(report)) {
    ImageTarget target = count.target;
    target.kind = v1::IMAGE_KIND_UNSPECIFIED;
    const std::string name = TargetName(count.target);
    kinds[name.substr(0, name.find('_'))][target] += count.images;
  }
  std::vector<std::string> parts;
  for (const char* kind : {"sm", "compute", "lto"}) {
    if (!kinds.contains(kind)) continue;
    std::string part = absl::StrCat(kind, ":");
    for (const auto& [target, images] : kinds[kind]) {
      const char* suffix = target.suffix == v1::TARGET_SUFFIX_ARCH     ? "a"
                           : target.suffix == v1::TARGET_SUFFIX_FAMILY ? "f"
                                                                       : "";
      absl::StrAppend(&part, " ", target.number, suffix, "x", images);
    }
    parts.push_back(part);
  }
  return absl::StrJoin(parts, "; ");
}

std::vector<std::string> NamesOf(const v1::Image& image) {
  std::vector<std::string> names;
  for (const v1::Kernel& kernel : image.kernels()) {
    names.push_back(kernel.name());
  }
  return names;
}

class LibrarySurvey : public ::testing::TestWithParam<Library> {
 protected:
  void SetUp() override {
    const Library& library = GetParam();
    path_ = FindLibrary(library.name);
    if (path_.empty()) {
      GTEST_SKIP() << library.name << " is not installed on this machine";
    }
    struct stat status;
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    if (static_cast<uint64_t>(status.st_size) != library.bytes) {
      GTEST_SKIP() << path_ << " has " << status.st_size
                   << " bytes, the file surveyed " << library.bytes
                   << ": another release";
    }
  }
  v1::FileReport Inspect(bool kernels, bool details = true) {
    absl::StatusOr<UniqueFd> fd = OpenRegularFile(path_);
    EXPECT_THAT(fd, IsOk());
    absl::StatusOr<v1::FileReport> report = InspectDescriptor(
        fd->get(), GetParam().name,
        {.kernels = kernels, .digest = false, .details = details});
    EXPECT_THAT(report, IsOk());
    return *std::move(report);
  }
  std::string path_;
};

TEST_P(LibrarySurvey, ListsEveryFatbinAndImage) {
  const Library& library = GetParam();
  const v1::FileReport whole = Inspect(false);
  std::string bare;
  for (const BareImages& row : kBareImages) {
    if (std::string(row.name) == library.name) bare = row.images;
  }
  EXPECT_EQ(BareList(whole), bare);
  const v1::FileReport report = Containers(whole);
  EXPECT_EQ(report.fatbins_size(), library.fatbins);
  EXPECT_EQ(CountImages(report), library.images);
  if (library.wrappers >= 0) {
    EXPECT_EQ(whole.wrappers_size(), library.wrappers);
  }
  for (const v1::Wrapper& wrapper : whole.wrappers()) {
    EXPECT_TRUE(wrapper.resolved()) << wrapper.ShortDebugString();
  }
  std::map<std::string, uint64_t> kinds;
  for (const TargetCount& count : CountTargets(report)) {
    const std::string name = TargetName(count.target);
    kinds[name.substr(0, name.find('_'))] += count.images;
  }
  EXPECT_EQ(kinds["sm"], library.sass);
  EXPECT_EQ(kinds["compute"], library.ptx);
  EXPECT_EQ(kinds["lto"], library.lto);
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    EXPECT_FALSE(fatbin.damaged()) << fatbin.problem();
  }
  for (const LibraryTargets& row : kTargets) {
    if (std::string(row.name) == library.name) {
      EXPECT_EQ(TargetList(report), row.targets);
    }
  }
}

TEST_P(LibrarySurvey, ReadsEveryKernel) {
  const Library& library = GetParam();
  const v1::FileReport report = Inspect(true);
  uint64_t kernels = 0;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      EXPECT_EQ(image.problem(), "");
      if (image.kind() == v1::IMAGE_KIND_LTO_IR) continue;
      const bool sass = image.kind() == v1::IMAGE_KIND_SASS ||
                        image.kind() == v1::IMAGE_KIND_RELOCATABLE_SASS;
      EXPECT_TRUE(image.kernels_read());
      if (sass && !fatbin.bare()) {
        kernels += static_cast<uint64_t>(image.kernels_size());
      }
      if (fatbin.bare()) {
        EXPECT_EQ(fatbin.registration(), v1::REGISTRATION_SELF_LOADED);
      }
    }
  }
  if (library.kernels != kNotSurveyed) {
    EXPECT_EQ(kernels, library.kernels);
  }

  // Names alone are read from the first bytes of most cubins: they are the
  // same ones, and so is what an image is.
  const v1::FileReport names = Inspect(true, false);
  ASSERT_EQ(names.fatbins_size(), report.fatbins_size());
  for (int i = 0; i < report.fatbins_size(); ++i) {
    const v1::Fatbin& whole = report.fatbins(i);
    const v1::Fatbin& fast = names.fatbins(i);
    ASSERT_EQ(fast.images_size(), whole.images_size());
    for (int j = 0; j < whole.images_size(); ++j) {
      EXPECT_EQ(TargetName(fast.images(j)), TargetName(whole.images(j)));
      EXPECT_EQ(fast.images(j).kind(), whole.images(j).kind());
      EXPECT_EQ(NamesOf(fast.images(j)), NamesOf(whole.images(j)))
          << "image at " << whole.images(j).offset();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda13, LibrarySurvey, ::testing::ValuesIn(kLibraries),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) {
                               c = '_';
                             }
                           }
                           return name;
                         });

// An oracle inside the file: cuBLAS's PTX and its sm_120 machine code are made
// from the same sources, so both have to show the same kernels.
TEST(LibraryCross, PtxAndMachineCodeOfCublasHoldTheSameKernels) {
  const std::string path = FindLibrary("libcublas.so.13");
  if (path.empty()) {
    GTEST_SKIP() << "libcublas.so.13 is not installed on this machine";
  }
  absl::StatusOr<UniqueFd> fd = OpenRegularFile(path);
  ASSERT_THAT(fd, IsOk());
  const absl::StatusOr<v1::FileReport> report =
      InspectDescriptor(fd->get(), "libcublas.so.13", {.digest = false});
  ASSERT_THAT(report, IsOk());
  int compared = 0;
  for (const v1::Fatbin& fatbin : report->fatbins()) {
    std::map<std::string, std::vector<std::string>> names;
    for (const v1::Image& image : fatbin.images()) {
      std::vector<std::string>& of_target = names[TargetName(image)];
      for (const v1::Kernel& kernel : image.kernels()) {
        of_target.push_back(kernel.name());
      }
      std::sort(of_target.begin(), of_target.end());
    }
    if (!names.contains("compute_120") || !names.contains("sm_120")) continue;
    EXPECT_EQ(names["compute_120"], names["sm_120"])
        << "fatbin at " << fatbin.offset();
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace twinpath::inspect
