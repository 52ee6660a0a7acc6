#include "inspect/layout_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "inspect/carrier.h"
#include "inspect/child.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/oci_builder.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A store with an image of `layers` layers, each with a library for its own GPU
// or none, and with blobs that nothing leads to.
class OciStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<TempDirectory> made = TempDirectory::Make();
    ASSERT_THAT(made, IsOk());
    folder_ = *std::move(made);
  }
  std::string Path(const std::string& name) const {
    return JoinPath(folder_->path(), name);
  }
  void Write(const std::string& name, const std::string& bytes) {
    const std::string path = Path(name);
    ASSERT_THAT(MakeDirectories(DirName(path)), IsOk());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static std::string Library(uint32_t sm) {
    return BuildElf({.fatbins = {BuildFatbin({SassEntry({.sm = sm})})}});
  }
  // Lowest first; the highest has code for sm_90, the lowest for sm_80.
  static TestImage Image(size_t layers) {
    TestImage image;
    for (size_t i = 0; i < layers; ++i) {
      std::string bytes = i == 0            ? Library(80)
                          : i + 1 == layers ? Library(90)
                                            : "text";
      image.layers.push_back(BuildArchive(
          "ustar", {{absl::StrCat("usr/lib/x", i, ".so"), std::move(bytes)}}));
    }
    return image;
  }
  void WriteStore(const LayoutBuilder& layout, size_t unreferenced) {
    for (const auto& [path, bytes] : layout.files) Write("img/" + path, bytes);
    // They come before and behind the image's own.
    for (size_t i = 0; i < unreferenced; ++i) {
      const std::string text = absl::StrCat("blob ", i);
      Write("img/" + LayoutBuilder::BlobPath(DigestText(text)), text);
    }
  }
  std::vector<v1::FileReport> Inspect() {
    std::vector<v1::FileReport> all;
    EXPECT_THAT(
        InspectFiles(
            {{.path = Path("img"), .name = "in/img", .oci_layout = true}}, {},
            [&](const absl::Status& opened, size_t,
                std::vector<v1::FileReport> reports) {
              all = std::move(reports);
              return opened;
            }),
        IsOk());
    return all;
  }

  std::optional<TempDirectory> folder_;
};

TEST_F(OciStoreTest, OnlyWhatTheIndexLeadsToIsOpened) {
  LayoutBuilder layout;
  // Through an index of its own, as builders with several platforms write it.
  const std::string manifest = layout.AddManifest(Image(18));
  layout.manifests = {
      layout.AddBlob(LayoutBuilder::Index({manifest}),
                     "application/vnd.oci.image.index.v1+json")};
  layout.Finish();
  WriteStore(layout, 2000);
  const std::vector<v1::FileReport> all = Inspect();
  ASSERT_THAT(all, SizeIs(3));
  EXPECT_EQ(all[0].kind(), v1::FILE_KIND_OCI_IMAGE);
  EXPECT_THAT(all[0].problems(), IsEmpty());
  EXPECT_EQ(all[0].carrier().layers_size(), 18);
  EXPECT_EQ(all[0].carrier().members(), 18u);
  EXPECT_EQ(all[1].name(), "in/img!/usr/lib/x17.so");
  EXPECT_EQ(all[2].name(), "in/img!/usr/lib/x0.so");
}

TEST_F(OciStoreTest, AnImageMayNeedMoreThanABatch) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < 4096) GTEST_SKIP() << "needs 4,096 descriptors";
  rlimit low = before;
  low.rlim_cur = 1024;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  LayoutBuilder layout;
  layout.AddImage(Image(900));
  WriteStore(layout, 100);
  const std::vector<v1::FileReport> all = Inspect();
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_THAT(all, SizeIs(3));
  EXPECT_THAT(all[0].problems(), IsEmpty());
  EXPECT_EQ(all[0].carrier().members(), 900u);
}

// Of few blobs, too, those that are needed come first.
TEST_F(OciStoreTest, FewDescriptorsAreForWhatIsNeeded) {
  LayoutBuilder layout;
  layout.AddImage(Image(6));
  WriteStore(layout, 300);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit low = {256, 256};
    if (setrlimit(RLIMIT_NOFILE, &low) != 0) _exit(2);
    const std::vector<v1::FileReport> all = Inspect();
    _exit(all.size() == 3 && all[0].problems().empty() &&
                  all[0].carrier().members() == 6
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Needs all that a survey with every document says.
SurveyLayout Surveyor(const LayoutBuilder& layout) {
  return [&layout](const LayoutFiles& files) {
    std::map<std::string, MemorySource> bytes;
    OciFiles sources;
    for (const std::string& path : files.paths) {
      sources[path] =
          &bytes.try_emplace(path, layout.files.at(path)).first->second;
    }
    return SurveyOci(sources, files.unopened);
  };
}

TEST_F(OciStoreTest, LayersThatDoNotFitAreNamed) {
  LayoutBuilder layout;
  const TestImage image = Image(10);
  layout.AddImage(image);
  WriteStore(layout, 20);
  // index.json, oci-layout, manifest, configuration and the highest two.
  const absl::StatusOr<LayoutFiles> files =
      OpenLayout(Path("img"), Surveyor(layout), {.few = 10, .most = 6});
  ASSERT_THAT(files, IsOk());
  EXPECT_THAT(files->paths, SizeIs(6));
  EXPECT_EQ(files->fds.size(), files->paths.size());
  EXPECT_THAT(files->unopened, SizeIs(8));
  EXPECT_EQ(files->paths.back(),
            LayoutBuilder::BlobPath(DigestText(image.layers[8])));

  OciFiles sources;
  std::map<std::string, MemorySource> bytes;
  for (const std::string& path : files->paths) {
    sources[path] =
        &bytes.try_emplace(path, layout.files.at(path)).first->second;
  }
  Scratch scratch(-1, 0);
  std::vector<v1::FileReport> all;
  ASSERT_THAT(InspectOciLayout(sources, files->unopened, "img", {}, scratch,
                               [&](v1::FileReport report) {
                                 all.push_back(std::move(report));
                                 return absl::OkStatus();
                               }),
              IsOk());
  const v1::FileReport& own = all.back();
  std::vector<std::string> unread;
  for (const v1::OciLayer& layer : own.carrier().layers()) {
    if (!layer.unread().empty()) unread.push_back(layer.digest());
  }
  ASSERT_THAT(unread, SizeIs(8));
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(unread[i], DigestText(image.layers[i]));
    EXPECT_THAT(own.problems(static_cast<int>(i)).detail(),
                HasSubstr("is not read: no more than 6 files"));
    EXPECT_EQ(own.problems(static_cast<int>(i)).code(), "TP232");
  }
}

TEST_F(OciStoreTest, DocumentsThatDoNotFitLeaveTheImagesUnknown) {
  LayoutBuilder layout;
  layout.AddImage(Image(2));
  WriteStore(layout, 20);
  const absl::StatusOr<LayoutFiles> files =
      OpenLayout(Path("img"), Surveyor(layout), {.few = 10, .most = 2});
  ASSERT_THAT(files, IsOk());
  EXPECT_THAT(files->paths, ElementsAre("index.json", "oci-layout"));
  const MemorySource index(layout.files.at("index.json"));
  Scratch scratch(-1, 0);
  v1::FileReport own;
  ASSERT_THAT(InspectOciLayout({{"index.json", &index}}, files->unopened, "img",
                               {}, scratch,
                               [&](v1::FileReport report) {
                                 own = std::move(report);
                                 return absl::OkStatus();
                               }),
              IsOk());
  ASSERT_EQ(own.problems_size(), 2);
  EXPECT_THAT(own.problems(0).detail(), HasSubstr("is not read"));
  EXPECT_EQ(own.problems(1).detail(),
            "which images the layout holds is not known");
}

TEST_F(OciStoreTest, PathsOfASurveyThatLeadElsewhereAreNotOpened) {
  LayoutBuilder layout;
  layout.AddImage(Image(2));
  WriteStore(layout, 20);
  Write("secret", "x");
  ASSERT_EQ(symlink(Path("secret").c_str(), Path("img/blobs/link").c_str()), 0);
  ASSERT_EQ(
      symlink(Path("secret").c_str(), Path("img/blobs/sha256/link").c_str()),
      0);
  const absl::StatusOr<LayoutFiles> files = OpenLayout(
      Path("img"),
      [](const LayoutFiles&) -> absl::StatusOr<OciNeeds> {
        return OciNeeds{
            .documents = {"../secret", "/etc/passwd", "blobs/../x",
                          "blobs/sha256/..", "blobs/sha256/link",
                          "blobs/link/x", "index.json", "blobs/sha256"},
            .layers = {"blobs/../../secret"}};
      },
      {.few = 10});
  ASSERT_THAT(files, IsOk());
  EXPECT_THAT(files->paths, ElementsAre("index.json", "oci-layout"));
}

TEST_F(OciStoreTest, ABrokenSurveyIsAnError) {
  LayoutBuilder layout;
  layout.AddImage(Image(2));
  WriteStore(layout, 20);
  EXPECT_THAT(OpenLayout(Path("img"),
                         [](const LayoutFiles&) -> absl::StatusOr<OciNeeds> {
                           return absl::DataLossError("gone");
                         },
                         {.few = 10})
                  .status(),
              StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace twinpath::inspect
