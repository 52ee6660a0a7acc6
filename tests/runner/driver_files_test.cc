#include "runner/driver_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/status_matchers.h"
#include "runner/facts.h"
#include "runner/leaks.h"
#include "runner/loader.h"
#include "tests/inspect/device_builder.h"

namespace twinpath::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

void Write(const std::string& path, const std::string& content = "") {
  std::filesystem::create_directories(DirName(path));
  ASSERT_THAT(WriteFileAtomic(path, content), IsOk());
}

// A library with the note of a cuda-compat package.
std::string CompatLibrary(const std::string& json) {
  std::string note;
  inspect::Append<uint32_t>(note, 19);
  inspect::Append<uint32_t>(note, static_cast<uint32_t>(json.size()));
  inspect::Append<uint32_t>(note, 1);
  note += std::string("NVIDIA Corporation\0\0", 20) + json;
  std::string out = inspect::ElfHeader(3, 62, 1, 0, 0, 0);
  inspect::SectionLayout layout;
  layout.Add({.name = ".note.cuda.fwd_compatibility",
              .type = 7,
              .flags = 2,
              .data = note});
  layout.Finish(out);
  return out;
}

TEST(DriverFiles, PackagesAreFoundOnceByTheirFile) {
  auto dir = TempDirectory::Make();
  ASSERT_THAT(dir, IsOk());
  const std::string root = dir->path();
  const std::string folder = root + "/usr/local/cuda-13.1/compat";
  Write(folder + "/libcuda.so.590.44.01",
        CompatLibrary(R"({"CUDA Version":"13.1","Driver":[535,580]})"));
  std::filesystem::create_symlink("libcuda.so.590.44.01",
                                  folder + "/libcuda.so.1");
  std::filesystem::create_directory_symlink("cuda-13.1",
                                            root + "/usr/local/cuda");
  // A toolkit without the package, and a stub that has no note.
  Write(root + "/usr/local/cuda-12.4/compat/libcuda.so.1",
        inspect::ElfHeader(3, 62, 1, 0, 0, 0));
  const auto libraries = ForwardCompatLibraries(root);
  ASSERT_THAT(libraries, SizeIs(1));
  EXPECT_EQ(libraries[0].path(),
            "/usr/local/cuda-13.1/compat/libcuda.so.590.44.01");
  EXPECT_EQ(libraries[0].libcuda_version(), "590.44.01");
  EXPECT_EQ(libraries[0].note().cuda_version().minor(), 1u);
  EXPECT_THAT(libraries[0].note().driver_branches(), ElementsAre(535, 580));

  v1::Driver driver;
  driver.set_libcuda_path(libraries[0].path());
  AddDriverFiles(root, driver);
  EXPECT_TRUE(driver.has_forward_compat());
  EXPECT_THAT(driver.forward_compat_libraries(), SizeIs(1));
}

TEST(DriverFiles, NodesAreMissedOnlyBesideOthers) {
  auto dir = TempDirectory::Make();
  ASSERT_THAT(dir, IsOk());
  const std::string root = dir->path();
  // None at all: a unit with PrivateDevices sees none either.
  EXPECT_THAT(MissingNodes(root), IsEmpty());
  Write(root + "/dev/nvidia3");
  EXPECT_THAT(MissingNodes(root),
              ElementsAre("/dev/nvidiactl", "/dev/nvidia-uvm"));
  Write(root + "/dev/nvidiactl");
  EXPECT_THAT(MissingNodes(root), ElementsAre("/dev/nvidia-uvm"));
  Write(root + "/dev/nvidia-uvm");
  EXPECT_THAT(MissingNodes(root), IsEmpty());
}

TEST(LibraryPath, OfTheProcessElseOfTheFiles) {
  auto dir = TempDirectory::Make();
  ASSERT_THAT(dir, IsOk());
  const std::string root = dir->path();
  Write(root + "/etc/profile.d/cuda.sh",
        "\nexport "
        "LD_LIBRARY_PATH=/opt/cuda/lib64:lib:$LD_LIBRARY_PATH:/opt/b\n");
  const auto files = LibraryPath(root, {"HOME=/root"});
  ASSERT_THAT(files, SizeIs(2));
  EXPECT_EQ(files[0].path(), "/opt/cuda/lib64");
  EXPECT_EQ(files[0].origin(), "/etc/profile.d/cuda.sh");
  EXPECT_EQ(files[0].line(), 2u);
  EXPECT_EQ(files[1].path(), "/opt/b");
  const auto process = LibraryPath(root, {"LD_LIBRARY_PATH=/x::/y"});
  ASSERT_THAT(process, SizeIs(2));
  EXPECT_EQ(process[1].path(), "/y");
  EXPECT_EQ(process[1].origin(), "process");
}

TEST(LibrariesIn, VersionedNamesForThisCpu) {
  auto dir = TempDirectory::Make();
  ASSERT_THAT(dir, IsOk());
  const std::string root = dir->path();
  const uint16_t mine =
      HostCpuArchitecture() == v1::CPU_ARCHITECTURE_AARCH64 ? 183 : 62;
  const uint16_t other = mine == 62 ? 183 : 62;
  Write(root + "/opt/lib/libcudart.so.13",
        inspect::ElfHeader(3, mine, 1, 0, 0, 0));
  Write(root + "/opt/lib/libcudart.so.13.0.96", "");
  Write(root + "/opt/lib/libcufft.so.12",
        inspect::ElfHeader(3, other, 1, 0, 0, 0));
  Write(root + "/opt/lib/libcublas.so.13", "no ELF file");
  Write(root + "/opt/lib/libz.so.1", inspect::ElfHeader(3, mine, 1, 0, 0, 0));
  const auto libraries = CudaLibrariesIn(
      {"/opt/lib", "/opt/none"}, v1::LIBRARY_PLACE_LIBRARY_PATH, {}, root);
  ASSERT_THAT(libraries, SizeIs(1));
  EXPECT_EQ(libraries[0].path(), "/opt/lib/libcudart.so.13");
  EXPECT_EQ(libraries[0].place(), v1::LIBRARY_PLACE_LIBRARY_PATH);
  EXPECT_THAT(
      CudaLibrariesIn({"/opt/lib"}, v1::LIBRARY_PLACE_CACHE, libraries, root),
      IsEmpty());
}

}  // namespace
}  // namespace twinpath::runner
