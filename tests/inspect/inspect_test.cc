// What a report says of whole files: kinds, carriers, registration, host facts.

#include "inspect/inspect.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/digest.h"
#include "inspect/summary.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Native() {
  return BuildFatbin({SassEntry({.sm = 90}), PtxEntry({.target = "sm_90"})});
}

TEST(Inspect, SharedLibraryWithRegisteredFatbin) {
  const v1::FileReport report = InspectBytes(
      BuildElf({.fatbins = {Native()},
                .rodata = std::string("_Z6kernelPi\0", 12),
                .soname = "libdemo.so.1",
                .needed = {"libcudart.so.12", "libnvrtc.so.12", "libc.so.6"},
                .rpath = "$ORIGIN/../lib:/opt/lib",
                .runpath = "$ORIGIN"}));
  EXPECT_EQ(report.kind(), v1::FILE_KIND_ELF_SHARED);
  EXPECT_EQ(report.elf().cpu_architecture(), v1::CPU_ARCHITECTURE_X86_64);
  EXPECT_EQ(report.elf().soname(), "libdemo.so.1");
  EXPECT_THAT(report.elf().needed(),
              ElementsAre("libcudart.so.12", "libnvrtc.so.12", "libc.so.6"));
  EXPECT_THAT(report.elf().rpath(), ElementsAre("$ORIGIN/../lib", "/opt/lib"));
  EXPECT_THAT(report.elf().runpath(), ElementsAre("$ORIGIN"));
  EXPECT_EQ(report.elf().cudart().major(), 12);
  EXPECT_FALSE(report.elf().static_cudart());
  ASSERT_EQ(report.runtime_compilers_size(), 1);
  EXPECT_EQ(report.runtime_compilers(0).name(), "nvrtc");
  EXPECT_EQ(report.runtime_compilers(0).evidence(), "libnvrtc.so.12");

  ASSERT_EQ(report.fatbins_size(), 1);
  const v1::Fatbin& fatbin = report.fatbins(0);
  EXPECT_EQ(fatbin.section(), ".nv_fatbin");
  EXPECT_EQ(fatbin.registration(), v1::REGISTRATION_REGISTERED);
  ASSERT_EQ(fatbin.images_size(), 2);
  const v1::Image& sass = fatbin.images(0);
  EXPECT_EQ(sass.kind(), v1::IMAGE_KIND_SASS);
  EXPECT_EQ(TargetName(sass), "sm_90");
  EXPECT_EQ(sass.producer().toolkit().major(), 13);
  EXPECT_EQ(sass.virtual_architecture(), 90);
  EXPECT_THAT(KernelNames(sass), ElementsAre("_Z6kernelPi"));
  const v1::Image& ptx = fatbin.images(1);
  EXPECT_EQ(TargetName(ptx), "compute_90");
  EXPECT_EQ(ptx.index(), 1);
  EXPECT_EQ(ptx.ptx_isa().major(), 9);
  EXPECT_THAT(KernelNames(ptx), ElementsAre("_Z6kernelPi"));
  EXPECT_THAT(report.problems(), IsEmpty());
}

TEST(Inspect, ListModeTouchesNoPayload) {
  const v1::FileReport report = InspectBytes(
      BuildElf({.fatbins = {Native()}}), {.kernels = false, .digest = false});
  ASSERT_EQ(report.fatbins_size(), 1);
  for (const v1::Image& image : report.fatbins(0).images()) {
    EXPECT_FALSE(image.kernels_read());
    EXPECT_THAT(image.kernels(), IsEmpty());
  }
  EXPECT_EQ(report.fatbins(0).images(1).ptx_isa().major(), 9)
      << "from the entry's header";
}

TEST(Inspect, ExecutablesOfBothFormats) {
  EXPECT_EQ(InspectBytes(BuildElf({.type = 2})).kind(),
            v1::FILE_KIND_ELF_EXECUTABLE);
  EXPECT_EQ(InspectBytes(BuildElf({.pie = true})).kind(),
            v1::FILE_KIND_ELF_EXECUTABLE);
  const v1::FileReport report = InspectBytes(
      BuildElf({.machine = 183, .interpreter = "/lib/ld-linux-aarch64.so.1"}));
  EXPECT_EQ(report.kind(), v1::FILE_KIND_ELF_EXECUTABLE);
  EXPECT_EQ(report.elf().interpreter(), "/lib/ld-linux-aarch64.so.1");
  EXPECT_EQ(report.elf().cpu_architecture(), v1::CPU_ARCHITECTURE_AARCH64);
}

// libc and the loader have an interpreter or none and a name of their own.
TEST(Inspect, ALibraryThatCanBeRunIsALibrary) {
  EXPECT_EQ(InspectBytes(BuildElf({.soname = "libc.so.6",
                                   .interpreter = "/lib64/ld.so"}))
                .kind(),
            v1::FILE_KIND_ELF_SHARED);
}

TEST(Inspect, WrapperPointersStandInTheFileOrInRelocations) {
  for (const bool rela : {true, false}) {
    for (const uint16_t machine : {uint16_t{62}, uint16_t{183}}) {
      for (const bool bare : {true, false}) {
        const v1::FileReport report =
            InspectBytes(BuildElf({.machine = machine,
                                   .fatbins = {Native(), Native()},
                                   .pointers_in_rela = rela,
                                   .without_sections = bare}));
        ASSERT_EQ(report.fatbins_size(), 2);
        EXPECT_EQ(report.wrappers_size(), 2)
            << "rela " << rela << " machine " << machine << " bare " << bare;
        for (const v1::Fatbin& fatbin : report.fatbins()) {
          EXPECT_EQ(fatbin.registration(), v1::REGISTRATION_REGISTERED);
        }
      }
    }
  }
}

TEST(Inspect, AWrapperThatPointsBesideTheFatbinIsReported) {
  const v1::FileReport report =
      InspectBytes(BuildElf({.fatbins = {Native()}, .pointer_error = 8}));
  ASSERT_EQ(report.wrappers_size(), 1);
  EXPECT_FALSE(report.wrappers(0).resolved());
  EXPECT_THAT(ProblemCodes(report), ElementsAre("TP230"));
  EXPECT_EQ(report.fatbins(0).registration(), v1::REGISTRATION_SELF_LOADED);
}

TEST(Inspect, RegistrationOfUnregisteredFatbins) {
  const std::string relocatable = BuildFatbin(
      {SassEntry({.sm = 80, .relocatable = true}, v1::COMPRESSION_ZSTD),
       PtxEntry({.target = "sm_80"})});
  for (const bool kernels : {true, false}) {
    const v1::FileReport report =
        InspectBytes(BuildElf({.fatbins = {Native()},
                               .relocatable_fatbins = {relocatable},
                               .registered = false}),
                     {.kernels = kernels, .digest = false});
    ASSERT_EQ(report.fatbins_size(), 2);
    EXPECT_EQ(report.fatbins(0).registration(), v1::REGISTRATION_SELF_LOADED);
    EXPECT_EQ(report.fatbins(1).registration(), v1::REGISTRATION_LEFT_OVER);
    EXPECT_TRUE(report.fatbins(1).relocatable_section());
    EXPECT_EQ(report.fatbins(1).images(0).kind(),
              v1::IMAGE_KIND_RELOCATABLE_SASS);
    EXPECT_EQ(report.fatbins(1).images(1).kind(),
              v1::IMAGE_KIND_RELOCATABLE_PTX);
  }
}

// cuSPARSE keeps link inputs for nvJitLink in .rodata: nothing registers them,
// and they are no left-overs.
TEST(Inspect, LinkInputsALibraryKeepsForItselfAreSelfLoaded) {
  const std::string inputs = BuildFatbin(
      {SassEntry({.sm = 80, .relocatable = true}, v1::COMPRESSION_LZ4_BLOCK),
       PtxEntry({.target = "sm_80"})});
  for (const bool kernels : {true, false}) {
    const v1::FileReport report = InspectBytes(
        BuildElf({.rodata = inputs, .needed = {"libnvJitLink.so.13"}}),
        {.kernels = kernels, .digest = false});
    ASSERT_EQ(report.fatbins_size(), 1);
    EXPECT_EQ(report.fatbins(0).section(), ".rodata");
    EXPECT_EQ(report.fatbins(0).registration(), v1::REGISTRATION_SELF_LOADED);
    EXPECT_EQ(report.fatbins(0).images(0).kind(),
              v1::IMAGE_KIND_RELOCATABLE_SASS)
        << "the payload's first bytes tell, not the section's name";
    EXPECT_EQ(report.fatbins(0).images(1).kind(),
              v1::IMAGE_KIND_RELOCATABLE_PTX);
    EXPECT_EQ(report.runtime_compilers(0).name(), "nvjitlink");
  }
}

TEST(Inspect, ObjectFilesHaveNoRegistrationYet) {
  const v1::FileReport report =
      InspectBytes(BuildElf({.type = 1, .fatbins = {Native()}}));
  EXPECT_EQ(report.kind(), v1::FILE_KIND_ELF_OBJECT);
  ASSERT_EQ(report.fatbins_size(), 1);
  EXPECT_EQ(report.fatbins(0).registration(), v1::REGISTRATION_NOT_APPLICABLE);
  ASSERT_EQ(report.wrappers_size(), 1);
  EXPECT_TRUE(report.wrappers(0).resolved());
  EXPECT_THAT(report.problems(), IsEmpty());
}

TEST(Inspect, BareFiles) {
  const std::string cubin = BuildCubin({.sm = 103, .suffix = 'a'});
  for (const bool kernels : {true, false}) {
    const InspectOptions options = {.kernels = kernels, .digest = false};
    v1::FileReport report = InspectBytes(cubin, options);
    EXPECT_EQ(report.kind(), v1::FILE_KIND_CUBIN);
    ASSERT_EQ(report.fatbins_size(), 1);
    EXPECT_TRUE(report.fatbins(0).bare());
    EXPECT_EQ(TargetName(report.fatbins(0).images(0)), "sm_103a");
    EXPECT_EQ(report.fatbins(0).images(0).kernels_size(), kernels ? 1 : 0);

    report =
        InspectBytes(BuildPtx({.isa_minor = 2, .target = "sm_121f"}), options);
    EXPECT_EQ(report.kind(), v1::FILE_KIND_PTX);
    ASSERT_EQ(report.fatbins_size(), 1);
    EXPECT_TRUE(report.fatbins(0).bare());
    EXPECT_EQ(TargetName(report.fatbins(0).images(0)), "compute_121f");
    EXPECT_EQ(report.fatbins(0).images(0).ptx_isa().minor(), 2);

    report = InspectBytes(Native(), options);
    EXPECT_EQ(report.kind(), v1::FILE_KIND_FATBIN);
    ASSERT_EQ(report.fatbins_size(), 1);
    EXPECT_EQ(report.fatbins(0).registration(),
              v1::REGISTRATION_NOT_APPLICABLE);
  }
}

TEST(Inspect, EveryCodecIsRead) {
  std::vector<EntrySpec> entries;
  const v1::Compression all[] = {
      v1::COMPRESSION_NONE, v1::COMPRESSION_ZLIB, v1::COMPRESSION_LZ4_BLOCK,
      v1::COMPRESSION_LZ4_FRAME, v1::COMPRESSION_ZSTD};
  for (const v1::Compression compression : all) {
    entries.push_back(SassEntry({.sm = 90}, compression));
    entries.push_back(PtxEntry({}, compression));
  }
  const v1::FileReport report = InspectBytes(
      BuildFatbin(entries), {.digest = false, .image_digests = true});
  ASSERT_EQ(report.fatbins_size(), 1);
  ASSERT_EQ(report.fatbins(0).images_size(), 10);
  for (int i = 0; i < 10; ++i) {
    const v1::Image& image = report.fatbins(0).images(i);
    EXPECT_EQ(image.compression(), all[i / 2]);
    EXPECT_EQ(image.problem(), "");
    EXPECT_THAT(KernelNames(image), ElementsAre("_Z6kernelPi"));
    // Unpacked payloads end in padding of unknown length.
    EXPECT_GE(image.expanded_bytes(), entries[i].payload.size());
    EXPECT_LT(image.expanded_bytes(), entries[i].payload.size() + 8);
    if (i % 2 == 0) {
      EXPECT_EQ(image.digest().sha256(), Sha256Of(entries[i].payload).Raw());
    }
  }
}

TEST(Inspect, StaticRuntimeIsKnownByItsText) {
  const std::string text = "x/cudart.shm.%x.%x.%llx";
  v1::FileReport report =
      InspectBytes(BuildElf({.fatbins = {Native()}, .rodata = text}));
  EXPECT_TRUE(report.elf().static_cudart());
  EXPECT_EQ(report.elf().cudart().major(), 13);
  EXPECT_EQ(report.elf().cudart().minor(), 0);
  report =
      InspectBytes(BuildElf({.rodata = text, .soname = "libcudart.so.12"}));
  EXPECT_FALSE(report.elf().static_cudart()) << "it is the shared runtime";
  EXPECT_EQ(report.elf().cudart().major(), 12);
}

TEST(Inspect, ListModeTellsTheStaticRuntimesRelease) {
  // What a device link leaves: a small image without kernels, first.
  const std::string stub =
      BuildFatbin({SassEntry({.sm = 90, .toolkit = 128, .kernels = {}})});
  const v1::FileReport report = InspectBytes(
      BuildElf({.fatbins = {stub, Native()}, .rodata = "/cudart.shm."}),
      {.kernels = false, .digest = false});
  EXPECT_EQ(report.elf().cudart().major(), 12);
  EXPECT_EQ(report.elf().cudart().minor(), 8);
}

TEST(Inspect, DigestOfTheFile) {
  const std::string bytes = Native();
  const v1::FileReport report =
      InspectBytes(bytes, {.kernels = false, .digest = true});
  EXPECT_EQ(report.digest().sha256(), Sha256Of(bytes).Raw());
  EXPECT_EQ(report.size_bytes(), bytes.size());
  EXPECT_EQ(report.name(), "file");
}

TEST(Inspect, FoldersAndDevicesAreErrors) {
  const UniqueFd folder(::open("/", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(
      InspectDescriptor(folder.get(), "/", {}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a folder")));
  const UniqueFd device(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(InspectDescriptor(device.get(), "zero", {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("zero: it is not a regular file")));
}

}  // namespace
}  // namespace twinpath::inspect
