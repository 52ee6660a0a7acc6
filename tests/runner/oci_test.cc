// Containers without a container: what CDI specifications and image layouts
// say, and which variables the program gets. tests/nspawn runs them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "runner/oci_cdi.h"
#include "runner/oci_image.h"
#include "runner/oci_layout.h"
#include "runner/oci_run.h"
#include "runner/oci_users.h"

namespace twinpath::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OciTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TempDirectory::Make();
    ASSERT_TRUE(folder.ok()) << folder.status();
    folder_.emplace(*std::move(folder));
  }
  std::string Path(absl::string_view name) const {
    return JoinPath(folder_->path(), name);
  }
  void Write(absl::string_view name, absl::string_view text) {
    ASSERT_TRUE(MakeDirectories(DirName(Path(name))).ok());
    ASSERT_TRUE(WriteFileAtomic(Path(name), text, 0600).ok());
  }
  // Writes a blob; returns its digest.
  std::string Blob(const std::string& layout, const std::string& text) {
    const std::string hex = Sha256Of(text).Hex();
    Write(absl::StrCat(layout, "/blobs/sha256/", hex), text);
    return "sha256:" + hex;
  }
  // Writes a manifest; returns its digest.
  std::string Manifest(const std::string& layout, const std::string& config) {
    return Blob(layout,
                absl::StrCat(R"({"schemaVersion":2,"config":{"digest":")",
                             Blob(layout, config), R"("},"layers":[]})"));
  }

  std::optional<TempDirectory> folder_;
};

// As nvidia-ctk 1.17 writes it, shortened.
constexpr char kSpecification[] = R"(---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
containerEdits:
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  hooks:
  - args: [nvidia-cdi-hook, update-ldcache, --folder, /usr/lib]
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    env: [OWN=1]
  name: GPU-01234567
)";

TEST_F(OciTest, ReadsGpusOfCdiSpecifications) {
  Write("etc/nvidia.yaml", kSpecification);
  Write("etc/other.json",
        R"({"cdiVersion": "0.3.0", "kind": "vendor.com/net",
            "devices": [{"name": "GPU-net", "containerEdits": {}}]})");
  Write("etc/notes.txt", "no specification");
  Write("etc/broken.yaml", "kind: [");
  const CdiDevices cdi = ReadCdi({Path("none"), Path("etc")});
  ASSERT_NE(cdi.Find("0"), nullptr);
  const CdiDevice* const gpu = cdi.Find("GPU-01234567");
  ASSERT_NE(gpu, nullptr);
  EXPECT_THAT(gpu->environment,
              ElementsAre("NVIDIA_VISIBLE_DEVICES=void", "OWN=1"));
  EXPECT_EQ(cdi.Find("GPU-net"), nullptr);
  EXPECT_EQ(cdi.Find("all"), nullptr);
  EXPECT_EQ(cdi.files.size(), 3u);
  EXPECT_THAT(cdi.problems, ElementsAre(HasSubstr("broken.yaml")));
}

TEST_F(OciTest, FindsImagesOfALayout) {
  const std::string amd = Manifest("l", R"({"architecture":"amd64"})");
  const std::string arm = Manifest("l", R"({"architecture":"arm64"})");
  const std::string inner = Blob(
      "l", absl::StrCat(R"({"manifests":[{"digest":")", amd,
                        R"(","platform":{"architecture":"amd64"}},{"digest":")",
                        arm, R"(","platform":{"architecture":"arm64"}}]})"));
  Write("l/index.json",
        absl::StrCat(R"({"manifests":[{"digest":")", inner, R"("}]})"));
  const auto digests = [&](const std::string& wanted) {
    std::vector<std::string> found;
    const auto images =
        LayoutImages(Path("l"), wanted, v1::CPU_ARCHITECTURE_AARCH64);
    EXPECT_TRUE(images.ok()) << images.status();
    if (images.ok()) {
      for (const LayoutImage& image : *images) found.push_back(image.digest);
    }
    return found;
  };
  EXPECT_THAT(digests(amd), ElementsAre(amd, arm));
  // The index itself stands for the image of this CPU.
  EXPECT_THAT(digests(inner), ElementsAre(inner));
}

TEST_F(OciTest, AManifestThatIsAnotherIsRefused) {
  const std::string digest = Manifest("l", "{}");
  Write("l/index.json",
        absl::StrCat(R"({"manifests":[{"digest":")", digest, R"("}]})"));
  Write("l/blobs/sha256/" + digest.substr(7), R"({"config":{},"layers":[]})");
  const auto images =
      LayoutImages(Path("l"), digest, v1::CPU_ARCHITECTURE_X86_64);
  EXPECT_THAT(images.status().message(), HasSubstr("TP405"));
}

TEST_F(OciTest, LayoutsThatAreNoneAreErrors) {
  EXPECT_FALSE(
      LayoutImages(Path("none"), "", v1::CPU_ARCHITECTURE_X86_64).ok());
  Write("l/index.json", "[");
  EXPECT_FALSE(LayoutImages(Path("l"), "", v1::CPU_ARCHITECTURE_X86_64).ok());
  // A path for a digest leads nowhere.
  Write("l/index.json", R"({"manifests":[{"digest":"sha256:../../x"}]})");
  const auto images = LayoutImages(Path("l"), "", v1::CPU_ARCHITECTURE_X86_64);
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_THAT(*images, IsEmpty());
}

TEST(OciFacts, AreWhatPodmanSays) {
  // podman 4.3 image inspect, shortened.
  const auto image = ReadImage(R"([{"Id":"537733b4","Digest":"sha256:36",
      "Architecture":"amd64","Config":{"Env":["PATH=/bin","A=b"],
      "Entrypoint":["/entry","x"],"User":"1000","WorkingDir":"/app",
      "Volumes":{"/data":{},"/data/":{},"cache/models":{}}}}])");
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(image->volumes, ElementsAre("/cache/models", "/data"));
  const v1::OciImageFacts* const facts = &image->facts;
  EXPECT_EQ(facts->id(), "sha256:537733b4");
  EXPECT_EQ(facts->digest(), "sha256:36");
  EXPECT_EQ(facts->cpu_architecture(), v1::CPU_ARCHITECTURE_X86_64);
  EXPECT_THAT(facts->environment(), ElementsAre("PATH=/bin", "A=b"));
  EXPECT_THAT(facts->entrypoint(), ElementsAre("/entry", "x"));
  EXPECT_EQ(facts->user(), "1000");
  EXPECT_EQ(facts->working_directory(), "/app");
  EXPECT_FALSE(ReadImage("[]").ok());
  EXPECT_FALSE(ReadImage("Error").ok());
}

TEST(OciFacts, VolumesThatNoContainerCanHaveAreRefused) {
  const auto read = [](const std::string& volumes) {
    return std::string(
        ReadImage(absl::StrCat(R"([{"Config":{"Volumes":{)", volumes, "}}}]"))
            .status()
            .message());
  };
  EXPECT_EQ(read(R"("/a":{})"), "");
  for (const char* name : {"/", "", "/a/../b", "/proc/self", "/dev/x", "/sys",
                           "/twinpath", "/twinpath/home"}) {
    EXPECT_THAT(read(absl::StrCat("\"", name, "\":{}")),
                HasSubstr("TP134 containers-unavailable: the oci_image has the "
                          "volume"))
        << name;
  }
  EXPECT_EQ(read(R"("/processes":{},"/device":{})"), "");
  std::string many = R"("/v":{})";
  for (size_t i = 0; i < kMaxVolumes; ++i) {
    absl::StrAppend(&many, ",\"/v", i, "\":{}");
  }
  EXPECT_THAT(read(many), HasSubstr("at most 64"));
}

TEST(OciEnvironment, IsTheImagesThenCdisThenThePaths) {
  v1::OciImageFacts image;
  for (const char* text :
       {"PATH=/opt/bin", "LANG=de_DE.UTF-8", "KEPT=1", "CUDA_FORCE_PTX_JIT=1",
        "CUDA_CACHE_PATH=/there", "NVIDIA_VISIBLE_DEVICES=all", "HOME=/root",
        "no variable"}) {
    image.add_environment(text);
  }
  std::vector<v1::EnvironmentVariable> own;
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"PATH", "/bin"},
                                          {"LANG", "C.UTF-8"},
                                          {"HOME", "/twinpath/home"},
                                          {"CUDA_CACHE_DISABLE", "1"},
                                          {"OWN", "2"}}) {
    own.emplace_back().set_name(name);
    own.back().set_value(value);
  }
  v1::Entry entry;
  entry.add_environment()->set_name("LANG");
  std::vector<std::string> got;
  for (const v1::EnvironmentVariable& variable : ContainerEnvironment(
           image, {"NVIDIA_VISIBLE_DEVICES=void", "CUDA_DISABLE_JIT=1"}, entry,
           own)) {
    got.push_back(absl::StrCat(variable.name(), "=", variable.value()));
  }
  EXPECT_THAT(
      got, ElementsAre("CUDA_CACHE_DISABLE=1", "HOME=/twinpath/home", "KEPT=1",
                       "LANG=C.UTF-8", "NVIDIA_VISIBLE_DEVICES=void", "OWN=2",
                       "PATH=/opt/bin"));
}

// user_namespaces(7): number inside, number outside, how many.
TEST(OciUsers, RootIsTakenForRootUnlessTheMapSaysOtherwise) {
  // No namespace, as the kernel writes it.
  EXPECT_TRUE(RootMayBeReal("         0          0 4294967295\n"));
  // Root alone, by `unshare --map-root-user` of root; a part of the numbers.
  EXPECT_TRUE(RootMayBeReal("         0          0          1\n"));
  EXPECT_TRUE(RootMayBeReal("         0          0      65536\n"));
  EXPECT_TRUE(RootMayBeReal("1 100000 65536\n0 0 1\n"));
  // Of an ordinary user; of a container with users of its own.
  EXPECT_FALSE(RootMayBeReal("         0       1000          1\n"));
  EXPECT_FALSE(RootMayBeReal("0 1000 1\n1 100000 65536\n"));
  // Nothing that can be known.
  EXPECT_TRUE(RootMayBeReal(absl::PermissionDeniedError("no /proc")));
  EXPECT_TRUE(RootMayBeReal(""));
  EXPECT_TRUE(RootMayBeReal("0 1000\n"));
  EXPECT_TRUE(RootMayBeReal("0 1000 many\n"));
  EXPECT_TRUE(RootMayBeReal("5 1000 1\n"));
}

TEST(OciDigest, IsSha256InSmallLetters) {
  EXPECT_TRUE(IsOciDigest("sha256:" + std::string(64, 'a')));
  EXPECT_FALSE(IsOciDigest("sha256:" + std::string(64, 'A')));
  EXPECT_FALSE(IsOciDigest("sha256:" + std::string(63, 'a')));
  EXPECT_FALSE(IsOciDigest("latest"));
}

}  // namespace
}  // namespace twinpath::runner
