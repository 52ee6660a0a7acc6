#include "inspect/promise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "inspect/cuda_release.h"
#include "tests/inspect/inspect_fixture.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kX86 = 62;
constexpr uint32_t kArm = 183;

struct MemberSpec {
  std::string path;
  uint32_t machine = kX86;
  std::vector<std::string> needed = {};
  std::vector<std::string> targets = {};
  std::string soname = {};
};

// A package, and what its judge says.
class Package {
 public:
  Package(const std::string& name, const std::string& format)
      : name_(name), judge_(name, format) {
    carrier_.set_name(name);
    carrier_.mutable_carrier()->set_format(format);
  }
  Package& Text(const std::string& path, const std::string& text) {
    EXPECT_TRUE(judge_.Wants(path)) << path;
    judge_.Metadata(path, text);
    return *this;
  }
  Package& Holds(const MemberSpec& spec) {
    v1::FileReport member;
    member.set_name(absl::StrCat(name_, "!/", spec.path));
    member.set_kind(v1::FILE_KIND_ELF_SHARED);
    member.mutable_elf()->set_machine(spec.machine);
    member.mutable_elf()->set_soname(spec.soname);
    for (const std::string& needed : spec.needed) {
      member.mutable_elf()->add_needed(needed);
    }
    for (const std::string& target : spec.targets) {
      v1::Image& image = *member.add_fatbins()->add_images();
      image.set_kind(v1::IMAGE_KIND_SASS);
      image.mutable_target()->set_number(
          static_cast<uint32_t>(std::stoi(target)));
      image.mutable_target()->set_suffix(v1::TARGET_SUFFIX_NONE);
    }
    judge_.Member(member);
    return *this;
  }
  const v1::FileReport& Judged() {
    judge_.Finish(carrier_);
    return carrier_;
  }
  std::vector<std::string> Codes() { return ProblemCodes(Judged()); }
  v1::FileReport& carrier() { return carrier_; }

 private:
  std::string name_;
  v1::FileReport carrier_;
  PackageJudge judge_;
};

std::string Wheel(const std::string& name, const std::string& cpu) {
  return absl::StrCat("dir/", name, "-cp312-cp312-manylinux_2_28_", cpu,
                      ".whl");
}

TEST(Promise, WheelSaysNameVersionCpuAndCuda) {
  Package wheel(Wheel("torch-2.9.0+cu130", "aarch64"), "zip");
  wheel.Text("torch-2.9.0+cu130.dist-info/WHEEL",
             "Wheel-Version: 1.0\n"
             "Tag: cp312-cp312-manylinux_2_28_aarch64\n\n");
  wheel.Holds(
      {"torch/lib/libtorch_cuda.so", kArm, {"libcudart.so.13"}, {"90"}});
  const v1::FileReport& report = wheel.Judged();
  EXPECT_EQ(report.carrier().format(), "wheel");
  const v1::PackagePromise& promise = report.carrier().promise();
  EXPECT_EQ(promise.kind(), "wheel");
  EXPECT_EQ(promise.name(), "torch");
  EXPECT_EQ(promise.version(), "2.9.0+cu130");
  EXPECT_THAT(promise.cpu_architectures(),
              ElementsAre(v1::CPU_ARCHITECTURE_AARCH64));
  EXPECT_EQ(promise.cuda_major(), 13);
  EXPECT_THAT(report.problems(), IsEmpty());
}

// microsoft/onnxruntime#26351, ollama/ollama#6921: the other CPU's files in a
// package.
TEST(Promise, WheelForOneCpuWithFilesForAnother) {
  Package wheel(Wheel("x-1", "aarch64"), "zip");
  wheel.Holds({"x/_ext.cpython-312-x86_64-linux-gnu.so", kX86});
  wheel.Holds({"x/libb.so", kX86});
  const v1::FileReport& report = wheel.Judged();
  ASSERT_THAT(ProblemCodes(report), ElementsAre("TP236"));
  EXPECT_THAT(report.problems(0).detail(),
              HasSubstr("for x86_64: 2 files, first "
                        "x/_ext.cpython-312-x86_64-linux-gnu.so"));
}

TEST(Promise, FilesForAnotherCpuThatSaySoAreByDesign) {
  Package wheel(Wheel("x-1", "x86_64"), "zip");
  wheel.Holds({"x/host.so", kX86});
  wheel.Holds({"x/target/linux-aarch64/agent", kArm});
  wheel.Holds({"x/firmware.elf", 243});
  wheel.Holds({"x/probe.bpf.o", 247});
  EXPECT_THAT(wheel.Codes(), IsEmpty());
}

TEST(Promise, ExtensionLeftFromAnotherBuildIsNotByDesign) {
  Package wheel(Wheel("x-1", "x86_64"), "zip");
  wheel.Holds({"x/host.so", kX86});
  wheel.Holds({"x/_ext.cpython-312-aarch64-linux-gnu.so", kArm});
  EXPECT_THAT(wheel.Codes(), ElementsAre("TP236"));
}

TEST(Promise, FileNameAndWheelDisagree) {
  Package wheel(Wheel("x-1", "aarch64"), "zip");
  wheel.Text("x-1.dist-info/WHEEL", "Tag: cp312-cp312-linux_x86_64\n");
  EXPECT_THAT(wheel.Codes(), ElementsAre("TP236"));
  // cupy 14.2.0: WHEEL says linux_, the name manylinux.
  Package renamed(Wheel("x-1", "x86_64"), "zip");
  renamed.Text("x-1.dist-info/WHEEL", "Tag: cp312-cp312-linux_x86_64\n");
  EXPECT_THAT(renamed.Codes(), IsEmpty());
}

// infiniflow/ragflow#14565: the name says 12, the content is 13.
TEST(Promise, WheelForOneCudaThatNeedsAnother) {
  Package wheel(Wheel("x_cu12-1", "x86_64"), "zip");
  wheel.Holds({"x/lib.so", kX86, {"libm.so.6", "libcublas.so.13"}, {"90"}});
  const v1::FileReport& report = wheel.Judged();
  ASSERT_THAT(ProblemCodes(report), ElementsAre("TP237"));
  EXPECT_THAT(report.problems(0).detail(),
              HasSubstr("for CUDA 13 (needs libcublas.so.13): x/lib.so"));
}

TEST(Promise, RequirementsTellTheCudaRelease) {
  Package wheel(Wheel("x-1", "x86_64"), "zip");
  wheel.Text("x-1.dist-info/METADATA",
             "Name: x\nVersion: 1\n"
             "Requires-Dist: numpy\n"
             "Requires-Dist: nvidia-cublas-cu12 (>=12.1); "
             "platform_system == 'Linux'\n"
             "Requires-Dist: nvidia-cublas-cu11; extra == 'old'\n\n"
             "Requires-Dist: nvidia-cublas-cu13\n");
  wheel.Holds({"x/lib.so", kX86, {"libcudart.so.13"}, {"90"}});
  EXPECT_THAT(wheel.Codes(), ElementsAre("TP237"));
  EXPECT_EQ(wheel.carrier().carrier().promise().cuda_major(), 12);
}

TEST(Promise, NameAndRequirementsDisagree) {
  Package wheel(Wheel("x-1+cu126", "x86_64"), "zip");
  wheel.Text("x-1.dist-info/METADATA",
             "Requires-Dist: cuda-toolkit[cudart]==13.0.2\n");
  EXPECT_THAT(wheel.Codes(), ElementsAre("TP237"));
}

TEST(Promise, FilesThatNeedTwoCudaReleases) {
  Package zip("bundle.zip", "zip");
  zip.Holds({"a.so", kX86, {"libcudart.so.12"}, {"90"}});
  zip.Holds({"b.so", kX86, {"libcufft.so.12"}, {"90"}});
  const v1::FileReport& report = zip.Judged();
  ASSERT_THAT(ProblemCodes(report), ElementsAre("TP239"));
  EXPECT_THAT(report.problems(0).detail(), HasSubstr("a.so needs libcudart"));
  EXPECT_FALSE(report.carrier().has_promise());
}

// bitsandbytes ships a library for each release and loads one of them.
TEST(Promise, FilesNamedForTheirReleaseAreByDesign) {
  Package wheel(Wheel("bitsandbytes-0.50.2", "x86_64"), "zip");
  wheel.Holds({"b/libb_cuda118.so", kX86, {"libcublas.so.11"}, {"80"}});
  wheel.Holds({"b/libb_cuda124.so", kX86, {"libcublas.so.12"}, {"80"}});
  wheel.Holds({"b/libb_cuda130.so", kX86, {"libcublas.so.13"}, {"80"}});
  EXPECT_THAT(wheel.Codes(), IsEmpty());
}

TEST(Promise, LibrariesOfOneReleaseAgree) {
  Package wheel(Wheel("x-1+cu124", "x86_64"), "zip");
  wheel.Holds({"a.so",
               kX86,
               {"libcufft.so.11", "libcurand.so.10", "libcusolver.so.11",
                "libcusparse.so.12", "libcublasLt.so.12", "libcudnn.so.9",
                "libcudart-9335f6a2.so.12.4.127"},
               {"90"}});
  EXPECT_THAT(wheel.Codes(), IsEmpty());
}

// wheel-next and PyTorch's CPU build under a CUDA name
// (pytorch/pytorch#152690).
TEST(Promise, CudaWheelWithoutDeviceCode) {
  Package wheel(Wheel("x-1+cu130", "x86_64"), "zip");
  wheel.Holds({"x/libx.so", kX86, {"libstdc++.so.6"}});
  EXPECT_THAT(wheel.Codes(), ElementsAre("TP241"));
  Package gpu(Wheel("x_gpu-1", "x86_64"), "zip");
  gpu.Holds({"x/libx.so", kX86});
  EXPECT_THAT(gpu.Codes(), ElementsAre("TP241"));
}

TEST(Promise, WheelsThatHoldNoDeviceCodeByDesign) {
  // NVIDIA's parts of the toolkit.
  Package runtime(Wheel("nvidia_cuda_runtime_cu12-12.9.79", "x86_64"), "zip");
  runtime.Holds({"lib/libcudart.so.12", kX86});
  EXPECT_THAT(runtime.Codes(), IsEmpty());
  // Host code that uses CUDA: bindings.
  Package bindings(Wheel("x_cu12-1", "x86_64"), "zip");
  bindings.Holds({"x/b.so", kX86, {"libcuda.so.1"}});
  EXPECT_THAT(bindings.Codes(), IsEmpty());
  // RAPIDS: cudf-cu12 is host code, its kernels are in libcudf-cu12.
  Package split(Wheel("cudf_cu12-25.10", "x86_64"), "zip");
  split.Text("cudf_cu12-25.10.dist-info/METADATA",
             "Requires-Dist: libcudf-cu12==25.10.*\n");
  split.Holds({"cudf/a.so", kX86, {"libcudf.so"}});
  EXPECT_THAT(split.Codes(), IsEmpty());
  // No ELF at all, no CUDA in the name, or not read to the end.
  EXPECT_THAT(Package(Wheel("x_cu12-1", "x86_64"), "zip").Codes(), IsEmpty());
  Package plain(Wheel("x-1", "x86_64"), "zip");
  plain.Holds({"x.so", kX86});
  EXPECT_THAT(plain.Codes(), IsEmpty());
  Package capped(Wheel("x_cu12-1", "x86_64"), "zip");
  capped.Holds({"x.so", kX86});
  capped.carrier().add_problems()->set_code("TP232");
  EXPECT_THAT(capped.Codes(), ElementsAre("TP232"));
}

// EricLBuehler/mistral.rs#2411: auditwheel packed the driver.
TEST(Promise, PackageWithTheDriversLibrary) {
  Package wheel(Wheel("x-1", "x86_64"), "zip");
  wheel.Holds({"x.libs/libcuda-1d2e3f4a.so.580.65.06", kX86});
  const v1::FileReport& report = wheel.Judged();
  ASSERT_THAT(ProblemCodes(report), ElementsAre("TP242"));
  EXPECT_THAT(report.problems(0).detail(),
              HasSubstr("x.libs/libcuda-1d2e3f4a.so.580.65.06"));
  Package renamed(Wheel("x-1", "x86_64"), "zip");
  renamed.Holds({"x/libdriver.so", kX86, {}, {}, "libcuda.so.1"});
  EXPECT_THAT(renamed.Codes(), ElementsAre("TP242"));
}

TEST(Promise, DriverLibrariesWhereTheyBelong) {
  Package devel("root.tar", "tar");
  devel.Holds({"usr/local/cuda-13.0/lib64/stubs/libcuda.so",
               kX86,
               {},
               {},
               "libcuda.so.1"});
  devel.Holds({"usr/local/cuda-13.0/compat/libcuda.so.1", kX86});
  devel.Holds({"usr/lib/libcudadebugger.so.1", kX86});
  EXPECT_THAT(devel.Codes(), IsEmpty());
  Package driver("libnvidia-compute-580_amd64.deb", "ar");
  driver.Text("control.tar.xz!/./control", "Package: libnvidia-compute-580\n");
  driver.Holds({"data.tar.xz!/./usr/lib/libcuda.so.580.65.06", kX86});
  EXPECT_THAT(driver.Codes(), IsEmpty());
}

TEST(Promise, Deb) {
  Package deb("pool/x_1_arm64.deb", "ar");
  deb.Text("control.tar.zst!/./control",
           "Package: x\nVersion: 1.0-1\nArchitecture: arm64\n"
           "Depends: libc6 (>= 2.34),\n cuda-cudart-13-0 (>= 13.0.48),"
           " libcublas-12-4 | libcublas-13-0\n");
  deb.Holds({"data.tar.zst!/./usr/lib/x.so", kX86, {"libcudart.so.12"}});
  const v1::FileReport& report = deb.Judged();
  EXPECT_EQ(report.carrier().format(), "deb");
  const v1::PackagePromise& promise = report.carrier().promise();
  EXPECT_EQ(promise.name(), "x");
  EXPECT_EQ(promise.version(), "1.0-1");
  EXPECT_EQ(promise.cuda_major(), 13);
  EXPECT_THAT(ProblemCodes(report), ElementsAre("TP236", "TP237"));
  // The archives inside leave it to the deb.
  Package inner("pool/x_1_arm64.deb!/data.tar.zst", "tar");
  inner.Holds({"usr/lib/libcuda.so.1", kX86});
  EXPECT_THAT(inner.Codes(), IsEmpty());
}

TEST(Promise, OciImage) {
  Package image("image.tar", "oci_image");
  PackageJudge judge("image.tar", "oci_image");
  judge.Metadata("config",
                 R"({"architecture": "arm64", "os": "linux",
                     "config": {"Env": ["PATH=/bin", "CUDA_VERSION=12.4.1"]}})");
  v1::FileReport member;
  member.set_name("image.tar!/usr/lib/x.so");
  member.mutable_elf()->set_machine(kX86);
  member.mutable_elf()->add_needed("libcudart.so.13");
  judge.Member(member);
  v1::FileReport report;
  judge.Finish(report);
  EXPECT_THAT(ProblemCodes(report), ElementsAre("TP236", "TP237"));
  EXPECT_EQ(report.carrier().promise().kind(), "oci_image");
}

TEST(Promise, ArchiveNamesItsCudaAndCpu) {
  Package zip("llama-b6000-bin-ubuntu-cuda-12.4-x64.zip", "zip");
  zip.Holds({"libggml-cuda.so", kX86, {"libcudart.so.13"}, {"90"}});
  EXPECT_THAT(zip.Codes(), ElementsAre("TP237"));
  Package tar("tool-linux-arm64.tar.gz", "tar");
  tar.Holds({"bin/tool", kX86});
  EXPECT_THAT(tar.Codes(), ElementsAre("TP236"));
}

TEST(Promise, PackagesInsideAreLeftToTheirJudges) {
  Package tar("wheels.tar", "tar");
  tar.Holds({"a_cu12-1-py3-none-any.whl!/a.so", kX86, {"libcudart.so.12"}});
  tar.Holds({"b_cu13-1-py3-none-any.whl!/b.so", kX86, {"libcudart.so.13"}});
  EXPECT_THAT(tar.Codes(), IsEmpty());
}

// PEP 825: variant.json of a wheel has one variant.
TEST(Promise, VariantNamesTargets) {
  const std::string json = R"({
    "$schema": "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json",
    "default-priorities": {"namespace": ["nvidia"]},
    "variants": {"cu128": {"nvidia": {
      "cuda_version_lower_bound": ["12.8"],
      "sm_arch": ["90_real", "120_virtual", "100a_real"]}}}})";
  Package wheel(Wheel("x-1", "x86_64"), "zip");
  wheel.Text("x-1.dist-info/variant.json", json);
  wheel.Holds({"x.so", kX86, {"libcudart.so.12"}, {"90"}});
  const v1::FileReport& report = wheel.Judged();
  EXPECT_THAT(report.carrier().promise().targets(),
              ElementsAre("sm_90", "compute_120", "sm_100a"));
  EXPECT_EQ(report.carrier().promise().cuda_major(), 12);
  ASSERT_THAT(ProblemCodes(report), ElementsAre("TP238"));
  EXPECT_THAT(report.problems(0).detail(), HasSubstr("compute_120, sm_100a"));
}

TEST(Promise, MetadataThatIsNoMetadata) {
  const std::string deep(100000, '[');
  for (const std::string& text :
       {deep, std::string("{\"variants\": 3}"), std::string(1 << 21, '\xff'),
        std::string("\0\0:\n:\n", 6), std::string("Tag:\nTag: \nName:")}) {
    for (const char* file : {"WHEEL", "METADATA", "variant.json"}) {
      Package wheel(Wheel("x-1", "x86_64"), "zip");
      wheel.Text(absl::StrCat("x-1.dist-info/", file), text);
      EXPECT_THAT(wheel.Codes(), IsEmpty()) << file;
    }
  }
  PackageJudge image("i", "oci_image");
  image.Metadata("config", deep);
  PackageJudge other("x.gz", "gzip");
  v1::FileReport report;
  other.Finish(report);
  EXPECT_FALSE(report.has_carrier());
}

TEST(CudaRelease, Words) {
  const struct {
    const char* text;
    uint32_t major;  // 0: none
  } kCases[] = {
      {"2.9.0+cu130", 13},
      {"cupy-cuda13x", 13},
      {"faiss_gpu_cu12", 12},
      {"0.2+pt21cu118", 11},
      {"1.0+cu92", 9},
      {"cuda-12.4", 12},
      {"cuda_v13", 13},
      {"2.8.3+cu12torch2", 12},
      {"libb_cuda121.so", 12},
      {"nvidia_cublas_cu12", 12},
      {"2.22.3-1+cuda12.4", 12},
      {"cuda-9.2", 9},
      {"cutlass", 0},
      {"cu2qu", 0},
      {"cuda-python", 0},
      {"gcu120", 0},
      {"cuda", 0},
      {"cuda-2024", 0},
      {"cu", 0},
      {"libcublas.so.12", 0},
      {"", 0},
      {"cu99", 0},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(CudaMajorOfWords(c.text).value_or(0), c.major) << c.text;
  }
}

// Sonames of the toolkits' libraries: CUDA 13.0's own folder, NVIDIA's
// nvidia-*-cu12 and -cu11 packages.
TEST(CudaRelease, Libraries) {
  const struct {
    const char* soname;
    const char* majors;
  } kCases[] = {
      {"libcudart.so.13", "CUDA 13"},
      {"libcudart.so.11.0", "CUDA 11"},
      {"libcufft.so.11", "CUDA 12"},
      {"libcufft.so.12", "CUDA 13"},
      {"libcusolver.so.11", "CUDA 11 or 12"},
      {"libcusparse.so.12", "CUDA 12 or 13"},
      {"libnppif.so.12", "CUDA 12"},
      {"libnvrtc.so.12", "CUDA 12"},
      {"libcublasLt-01234567.so.12.9.1", "CUDA 12"},
      {"libcurand.so.10", "CUDA "},
      {"libcudnn.so.9", "CUDA "},
      {"libnccl.so.2", "CUDA "},
      {"libcudart.so", "CUDA "},
      {"libc.so.6", "CUDA "},
      {"libcudart.so.x", "CUDA "},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(CudaMajorsName(CudaMajorsOfLibrary(c.soname)), c.majors)
        << c.soname;
  }
  EXPECT_TRUE(IsDriverLibrary("libcuda.so.1"));
  EXPECT_TRUE(IsDriverLibrary("libcuda-0a1b2c3d.so.580.65.06"));
  EXPECT_FALSE(IsDriverLibrary("libcudart.so.13"));
  EXPECT_FALSE(IsDriverLibrary("libcuda_wrapper.so"));
}

TEST(CudaRelease, DebianPackages) {
  EXPECT_EQ(CudaMajorOfDebName("cuda-cudart-13-0"), 13);
  EXPECT_EQ(CudaMajorOfDebName("libcublas-12-4"), 12);
  EXPECT_EQ(CudaMajorOfDebName("libcudart12"), 12);
  EXPECT_EQ(CudaMajorOfDebName("libcudart11.0"), 11);
  EXPECT_EQ(CudaMajorOfDebName("libcudnn9-cuda-13"), 13);
  EXPECT_EQ(CudaMajorOfDebName("libcurand10"), std::nullopt);
  EXPECT_EQ(CudaMajorOfDebName("libboost-13-0"), std::nullopt);
  EXPECT_EQ(CudaMajorOfDebName("12"), std::nullopt);
}

}  // namespace
}  // namespace twinpath::inspect
