// What nvcc really makes of sample.cu, in every form it offers. The outputs are
// built with the tests; without nvcc the tests are skipped by name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/file.h"
#include "base/status_matchers.h"
#include "inspect/inspect.h"
#include "inspect/summary.h"
#include "tests/inspect/inspect_fixture.h"

namespace twinpath::inspect {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr char kBounded[] = "_Z7BoundedPi";
constexpr char kTyped[] = "_Z5TypedIfEvPT_";

class NvccTest : public ::testing::Test {
 protected:
  v1::FileReport Inspect(const std::string& name, bool kernels = true) {
    const absl::StatusOr<UniqueFd> fd =
        OpenRegularFile(std::string(TWINPATH_NVCC_SAMPLES) + "/" + name);
    EXPECT_THAT(fd, IsOk());
    if (!fd.ok()) return {};
    absl::StatusOr<v1::FileReport> report = InspectDescriptor(
        fd->get(), name, {.kernels = kernels, .digest = false});
    EXPECT_THAT(report, IsOk());
    EXPECT_THAT(report->problems(), IsEmpty());
    return *std::move(report);
  }
  void SetUp() override {
    if (std::string(TWINPATH_NVCC_SAMPLES).empty()) {
      GTEST_SKIP() << "nvcc was not found when the tests were configured";
    }
  }
};

TEST_F(NvccTest, Program) {
  for (const bool kernels : {true, false}) {
    const v1::FileReport report = Inspect("program", kernels);
    EXPECT_EQ(report.kind(), v1::FILE_KIND_ELF_EXECUTABLE);
    EXPECT_TRUE(report.elf().static_cudart());
    EXPECT_GE(report.elf().cudart().major(), 12);
    int registered = 0;
    for (const v1::Fatbin& fatbin : report.fatbins()) {
      if (fatbin.registration() == v1::REGISTRATION_REGISTERED) ++registered;
      EXPECT_EQ(fatbin.section(), ".nv_fatbin");
    }
    EXPECT_GE(registered, 1);
    std::vector<std::string> targets;
    for (const TargetCount& count : CountTargets(report)) {
      targets.push_back(TargetName(count.target));
    }
    EXPECT_THAT(targets,
                UnorderedElementsAre("sm_90", "sm_120f", "compute_90"));
  }
}

TEST_F(NvccTest, KernelsAreThoseOfTheSource) {
  const v1::FileReport report = Inspect("program");
  int with_kernels = 0;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      EXPECT_EQ(image.problem(), "");
      EXPECT_TRUE(image.kernels_read());
      if (image.kernels().empty()) continue;
      ++with_kernels;
      EXPECT_THAT(KernelNames(image), UnorderedElementsAre(kBounded, kTyped));
      for (const v1::Kernel& kernel : image.kernels()) {
        const bool bounded = kernel.name() == kBounded;
        if (bounded) {
          EXPECT_EQ(kernel.max_threads(), 128);
        }
        if (image.kind() != v1::IMAGE_KIND_SASS) continue;
        EXPECT_GT(kernel.registers(), 0);
        EXPECT_EQ(kernel.shared_bytes(), bounded ? 128 : 0);
      }
    }
  }
  EXPECT_EQ(with_kernels, 3);
}

TEST_F(NvccTest, RelocatableProgram) {
  const v1::FileReport report = Inspect("program_rdc");
  EXPECT_EQ(report.kind(), v1::FILE_KIND_ELF_EXECUTABLE);
  bool relocatable = false;
  bool linked = false;
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    EXPECT_EQ(fatbin.registration(), v1::REGISTRATION_REGISTERED)
        << fatbin.section();
    for (const v1::Image& image : fatbin.images()) {
      if (fatbin.relocatable_section()) {
        relocatable = true;
        EXPECT_THAT(image.kind(),
                    ::testing::AnyOf(v1::IMAGE_KIND_RELOCATABLE_SASS,
                                     v1::IMAGE_KIND_RELOCATABLE_PTX));
      } else if (image.kind() == v1::IMAGE_KIND_SASS) {
        linked = true;
        EXPECT_EQ(image.producer().tool(), "nvlink");
        EXPECT_THAT(KernelNames(image), UnorderedElementsAre(kBounded, kTyped));
      }
    }
  }
  EXPECT_TRUE(relocatable);
  EXPECT_TRUE(linked);
}

TEST_F(NvccTest, Object) {
  const v1::FileReport report = Inspect("sample.o");
  EXPECT_EQ(report.kind(), v1::FILE_KIND_ELF_OBJECT);
  ASSERT_EQ(report.fatbins_size(), 1);
  EXPECT_EQ(report.fatbins(0).registration(), v1::REGISTRATION_NOT_APPLICABLE);
  EXPECT_TRUE(report.fatbins(0).relocatable_section());
  ASSERT_EQ(report.wrappers_size(), 1);
  EXPECT_TRUE(report.wrappers(0).resolved());
  EXPECT_EQ(report.wrappers(0).fatbin_offset(), report.fatbins(0).offset());
}

TEST_F(NvccTest, Cubin) {
  const v1::FileReport report = Inspect("sample.cubin");
  EXPECT_EQ(report.kind(), v1::FILE_KIND_CUBIN);
  ASSERT_EQ(report.fatbins_size(), 1);
  const v1::Image& image = report.fatbins(0).images(0);
  EXPECT_EQ(TargetName(image), "sm_90a");
  EXPECT_EQ(image.producer().tool(), "ptxas");
  EXPECT_THAT(image.producer().options(), HasSubstr("sm_90a"));
  EXPECT_THAT(KernelNames(image), UnorderedElementsAre(kBounded, kTyped));
}

TEST_F(NvccTest, Ptx) {
  const v1::FileReport report = Inspect("sample.ptx");
  EXPECT_EQ(report.kind(), v1::FILE_KIND_PTX);
  ASSERT_EQ(report.fatbins_size(), 1);
  const v1::Image& image = report.fatbins(0).images(0);
  EXPECT_EQ(TargetName(image), "compute_90a");
  EXPECT_GE(image.ptx_isa().major(), 8);
  EXPECT_THAT(KernelNames(image), UnorderedElementsAre(kBounded, kTyped));
}

// One codec each, and LTO-IR, which is obfuscated where it is compressed.
TEST_F(NvccTest, CompressionModes) {
  const struct {
    const char* file;
    v1::Compression compression;
  } kCases[] = {{"none.fatbin", v1::COMPRESSION_NONE},
                {"speed.fatbin", v1::COMPRESSION_LZ4_BLOCK},
                {"size.fatbin", v1::COMPRESSION_ZSTD},
                {"zlib.fatbin", v1::COMPRESSION_ZLIB},
                {"lz4frame.fatbin", v1::COMPRESSION_LZ4_FRAME}};
  for (const auto& row : kCases) {
    const v1::FileReport report = Inspect(row.file);
    EXPECT_EQ(report.kind(), v1::FILE_KIND_FATBIN) << row.file;
    ASSERT_EQ(report.fatbins_size(), 1) << row.file;
    std::vector<v1::Compression> found;
    for (const v1::Image& image : report.fatbins(0).images()) {
      found.push_back(image.compression());
      EXPECT_EQ(image.problem(), "") << row.file;
      EXPECT_THAT(KernelNames(image), UnorderedElementsAre(kBounded, kTyped));
    }
    EXPECT_THAT(found, Contains(row.compression)) << row.file;
  }
  const v1::FileReport lto = Inspect("lto.fatbin");
  ASSERT_EQ(lto.fatbins_size(), 1);
  const v1::Image& image = lto.fatbins(0).images(0);
  EXPECT_EQ(image.kind(), v1::IMAGE_KIND_LTO_IR);
  EXPECT_EQ(image.compression(), v1::COMPRESSION_OPAQUE);
  EXPECT_EQ(TargetName(image), "lto_90");
}

}  // namespace
}  // namespace twinpath::inspect
