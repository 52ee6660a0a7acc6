#include "inspect/oci.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "inspect/carrier.h"
#include "inspect/oci_view.h"
#include "tests/inspect/archive_builder.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"
#include "tests/inspect/oci_builder.h"

namespace twinpath::inspect {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr uint16_t kAarch64 = 183;

// A library with machine code for `sm`.
std::string Library(uint32_t sm) {
  return BuildElf({.fatbins = {BuildFatbin({SassEntry({.sm = sm})})}});
}

std::string Layer(const std::vector<TestMember>& members,
                  const std::vector<std::string>& filters = {}) {
  return BuildArchive("pax", members, {.filters = filters});
}

struct Outcome {
  // Names of members' reports, and what they hold.
  std::vector<std::string> Members() const {
    std::vector<std::string> out;
    for (const v1::FileReport& report : reports) {
      if (report.member_of().empty()) continue;
      std::string line = report.name();
      for (const v1::Fatbin& fatbin : report.fatbins()) {
        for (const v1::Image& image : fatbin.images()) {
          absl::StrAppend(&line, " ", image.target().number());
        }
      }
      out.push_back(line);
    }
    return out;
  }
  const v1::FileReport& top() const { return reports.back(); }
  const v1::CarrierFacts& facts() const { return top().carrier(); }
  std::string Problems() const {
    std::string all;
    for (const v1::Reason& reason : top().problems()) {
      absl::StrAppend(&all, reason.code(), " ", reason.detail(), "\n");
    }
    return all;
  }
  // "files/hidden" of each layer.
  std::vector<std::string> Layers() const {
    std::vector<std::string> out;
    for (const v1::OciLayer& layer : facts().layers()) {
      out.push_back(absl::StrCat(layer.files(), "/", layer.hidden()));
    }
    return out;
  }
  std::vector<v1::FileReport> reports;
};

Outcome InspectTar(const std::string& bytes, const CarrierLimits& limits = {}) {
  const UniqueFd fd = FileWith("");
  Scratch scratch(fd.get(), kScratchFileBytes);
  Outcome outcome;
  EXPECT_THAT(InspectFile(
                  MemorySource(bytes), "image.tar", {.digest = false}, scratch,
                  [&](v1::FileReport report) {
                    outcome.reports.push_back(std::move(report));
                    return absl::OkStatus();
                  },
                  limits),
              IsOk());
  EXPECT_FALSE(outcome.reports.empty());
  if (outcome.reports.empty()) outcome.reports.emplace_back();
  EXPECT_EQ(FileSource::Open(fd.get())->size(), 0u);
  return outcome;
}

Outcome InspectLayers(const std::vector<std::string>& layers) {
  LayoutBuilder layout;
  layout.AddImage({.layers = layers});
  return InspectTar(layout.Tar());
}

// layer.md, "Changeset over existing files".
TEST(Oci, LaterLayerReplacesFile) {
  const Outcome outcome = InspectLayers(
      {Layer({{"usr/lib/a.so", Library(80)}, {"usr/lib/b.so", Library(86)}}),
       Layer({{"./usr/lib/a.so", Library(90)}})});
  EXPECT_EQ(outcome.top().kind(), v1::FILE_KIND_OCI_IMAGE);
  EXPECT_EQ(outcome.facts().format(), "oci_image");
  EXPECT_THAT(outcome.Members(),
              UnorderedElementsAre("image.tar!/usr/lib/a.so 90",
                                   "image.tar!/usr/lib/b.so 86"));
  EXPECT_THAT(outcome.Layers(), ElementsAre("2/1", "1/0"));
  EXPECT_EQ(outcome.Problems(), "");
  EXPECT_EQ(outcome.facts().members(), 3u);
  EXPECT_EQ(outcome.facts().reported(), 2u);
}

TEST(Oci, LayersAreNamedLowestFirstByTheirDigests) {
  const std::string low = Layer({{"a", "text"}});
  const std::string high = Layer({{"b", "text"}});
  const Outcome outcome = InspectLayers({low, high});
  ASSERT_EQ(outcome.facts().layers_size(), 2);
  EXPECT_EQ(outcome.facts().layers(0).digest(), DigestText(low));
  EXPECT_EQ(outcome.facts().layers(1).digest(), DigestText(high));
}

// layer.md, "Whiteouts".
TEST(Oci, WhiteoutRemovesFileAndFolderOfLowerLayersOnly) {
  const Outcome outcome = InspectLayers(
      {Layer({{"a.so", Library(80)},
              {"dir/b.so", Library(80)},
              {"dir2/c.so", Library(80)}}),
       Layer(
           {{".wh.a.so", ""}, {".wh.dir", ""}, {"dir/new.so", Library(90)}})});
  EXPECT_THAT(outcome.Members(),
              UnorderedElementsAre("image.tar!/dir/new.so 90",
                                   "image.tar!/dir2/c.so 80"));
  // Whiteouts are no files.
  EXPECT_THAT(outcome.Layers(), ElementsAre("3/2", "1/0"));
}

// The example of layer.md: the opaque whiteout is applied first, wherever it
// stands.
TEST(Oci, OpaqueWhiteoutHidesWhatLowerLayersHaveBesideIt) {
  for (const bool first : {true, false}) {
    std::vector<TestMember> upper = {{"a/b/c/foo.so", Library(90)}};
    upper.insert(first ? upper.begin() : upper.end(),
                 {.path = "a/.wh..wh..opq"});
    const Outcome outcome = InspectLayers(
        {Layer({{"a/b/c/bar.so", Library(80)}, {"z.so", Library(75)}}),
         Layer(upper)});
    EXPECT_THAT(outcome.Members(),
                UnorderedElementsAre("image.tar!/a/b/c/foo.so 90",
                                     "image.tar!/z.so 75"));
  }
}

TEST(Oci, OpaqueWhiteoutOfTheRoot) {
  const Outcome outcome =
      InspectLayers({Layer({{"a.so", Library(80)}, {"d/b.so", Library(80)}}),
                     Layer({{".wh..wh..opq", ""}, {"c.so", Library(90)}})});
  EXPECT_THAT(outcome.Members(), ElementsAre("image.tar!/c.so 90"));
}

TEST(Oci, FileReplacesFolderAndFolderReplacesFile) {
  const Outcome outcome =
      InspectLayers({Layer({{"a/x.so", Library(80)}, {"b", Library(80)}}),
                     Layer({{"a", Library(90)}, {"b/y.so", Library(90)}})});
  EXPECT_THAT(outcome.Members(),
              UnorderedElementsAre("image.tar!/a 90", "image.tar!/b/y.so 90"));
}

TEST(Oci, LinkReplacesFile) {
  const Outcome outcome =
      InspectLayers({Layer({{"lib/x.so", Library(80)}}),
                     Layer({{.path = "lib", .symbolic_link = "usr/lib"}})});
  EXPECT_THAT(outcome.Members(), IsEmpty());
}

TEST(Oci, FolderAgainHidesNothing) {
  const Outcome outcome =
      InspectLayers({Layer({{"a/x.so", Library(80)}}),
                     Layer({{.path = "a/", .folder = true}})});
  EXPECT_THAT(outcome.Members(), ElementsAre("image.tar!/a/x.so 80"));
}

TEST(Oci, ReplacedAndReplacedAgain) {
  // The folder of layer 0 is gone, though layer 2 has one of that name.
  const Outcome outcome = InspectLayers({Layer({{"a/x.so", Library(75)}}),
                                         Layer({{"a", Library(80)}}),
                                         Layer({{"a/y.so", Library(90)}})});
  EXPECT_THAT(outcome.Members(), ElementsAre("image.tar!/a/y.so 90"));
  EXPECT_THAT(outcome.Layers(), ElementsAre("1/1", "1/1", "1/0"));
}

TEST(Oci, HardLinkKeepsWhatItsFirstNameLost) {
  const std::vector<TestMember> members = {
      {"first.so", Library(80)},
      {.path = "second.so", .hard_link = "first.so"}};
  // Both names are there: one report.
  EXPECT_THAT(InspectLayers({Layer(members)}).Members(),
              ElementsAre("image.tar!/first.so 80"));
  // The first is removed.
  const Outcome outcome =
      InspectLayers({Layer(members), Layer({{".wh.first.so", ""}})});
  EXPECT_THAT(outcome.Members(), ElementsAre("image.tar!/second.so 80"));
  EXPECT_THAT(outcome.Layers(), ElementsAre("1/0", "0/0"));
  // A link to a file of a lower layer, whose own name is replaced later.
  EXPECT_THAT(
      InspectLayers({Layer({{"first.so", Library(80)}}),
                     Layer({{.path = "l.so", .hard_link = "first.so"}}),
                     Layer({{"first.so", Library(90)}})})
          .Members(),
      UnorderedElementsAre("image.tar!/first.so 90", "image.tar!/l.so 80"));
}

TEST(Oci, LayersOfEveryPacking) {
  for (const char* const filter : {"gzip", "zstd"}) {
    EXPECT_THAT(
        InspectLayers({Layer({{"x.so", Library(90)}}, {filter})}).Members(),
        ElementsAre("image.tar!/x.so 90"))
        << filter;
  }
}

TEST(Oci, EmptyLayersAreFine) {
  const Outcome outcome = InspectLayers(
      {Layer({}), Layer({}, {"gzip"}), Layer({{"x.so", Library(90)}})});
  EXPECT_EQ(outcome.Problems(), "");
  EXPECT_THAT(outcome.Members(), ElementsAre("image.tar!/x.so 90"));
}

TEST(Oci, PackedArchive) {
  LayoutBuilder layout;
  layout.AddImage({.layers = {Layer({{"x.so", Library(90)}})}});
  const Outcome outcome = InspectTar(layout.Tar({"gzip"}));
  EXPECT_EQ(outcome.top().kind(), v1::FILE_KIND_OCI_IMAGE);
  EXPECT_THAT(outcome.facts().filters(), ElementsAre("gzip"));
  EXPECT_THAT(outcome.Members(), ElementsAre("image.tar!/x.so 90"));
}

TEST(Oci, PackagesInTheImageAreOpened) {
  const Outcome outcome = InspectLayers(
      {Layer({{"w.zip", BuildArchive("zip", {{"a.so", Library(90)}})}})});
  EXPECT_THAT(outcome.Members(),
              ElementsAre("image.tar!/w.zip!/a.so 90", "image.tar!/w.zip"));
}

TEST(Oci, PromiseOfTheConfiguration) {
  LayoutBuilder layout;
  layout.AddImage({.layers = {Layer({{"x.so", Library(90)}})},
                   .env = {"PATH=/bin", "CUDA_VERSION=12.8.1",
                           "NVIDIA_REQUIRE_CUDA=cuda>=12.8 brand=tesla"}});
  const v1::PackagePromise promise = InspectTar(layout.Tar()).facts().promise();
  EXPECT_EQ(promise.kind(), "oci_image");
  EXPECT_EQ(promise.cuda_major(), 12u);
  EXPECT_THAT(promise.cpu_architectures(),
              ElementsAre(v1::CPU_ARCHITECTURE_X86_64));
  EXPECT_THAT(
      promise.evidence(),
      UnorderedElementsAre("architecture amd64", "CUDA_VERSION=12.8.1",
                           "NVIDIA_REQUIRE_CUDA=cuda>=12.8 brand=tesla"));
}

TEST(Oci, SeveralPlatformsAreToldApartAndJudgedApart) {
  LayoutBuilder layout;
  layout.AddImage({.layers = {Layer({{"usr/x.so", Library(90)}})}});
  layout.AddImage({.layers = {Layer({{"usr/x.so", Library(121)}})},
                   .architecture = "arm64"});
  const Outcome outcome = InspectTar(layout.Tar());
  EXPECT_THAT(outcome.Members(),
              UnorderedElementsAre("image.tar!/linux-amd64:/usr/x.so 90",
                                   "image.tar!/linux-arm64:/usr/x.so 121"));
  // The second holds host code for the first's CPU.
  EXPECT_THAT(outcome.Problems(), HasSubstr("TP236 linux-arm64: "));
  EXPECT_THAT(outcome.Problems(), Not(HasSubstr("TP236 linux-amd64")));
}

TEST(Oci, CpuOfTheImageAgainstItsFiles) {
  LayoutBuilder layout;
  layout.AddImage(
      {.layers = {Layer({{"bin/tool", BuildElf({.machine = kAarch64})}})}});
  EXPECT_THAT(InspectTar(layout.Tar()).Problems(), HasSubstr("TP236"));
}

TEST(Oci, SameImageUnderTwoTagsIsOne) {
  LayoutBuilder layout;
  const std::vector<std::string> layers = {Layer({{"x.so", Library(90)}})};
  layout.AddImage({.layers = layers, .tag = "app:1"});
  layout.AddImage({.layers = layers, .tag = "app:latest"});
  EXPECT_THAT(InspectTar(layout.Tar()).Members(),
              ElementsAre("image.tar!/x.so 90"));
}

TEST(Oci, TagsTellImagesOfOnePlatformApart) {
  LayoutBuilder layout;
  layout.AddImage({.layers = {Layer({{"x.so", Library(80)}})}, .tag = "a:1"});
  layout.AddImage({.layers = {Layer({{"x.so", Library(90)}})}, .tag = "a:2"});
  EXPECT_THAT(InspectTar(layout.Tar()).Members(),
              UnorderedElementsAre("image.tar!/a:1:/x.so 80",
                                   "image.tar!/a:2:/x.so 90"));
}

TEST(Oci, IndexInsideIndex) {
  LayoutBuilder layout;
  const std::string manifest =
      layout.AddManifest({.layers = {Layer({{"x.so", Library(90)}})}});
  layout.manifests = {
      layout.AddBlob(LayoutBuilder::Index({manifest}),
                     "application/vnd.oci.image.index.v1+json")};
  layout.Finish();
  const Outcome outcome = InspectTar(layout.Tar());
  EXPECT_THAT(outcome.Members(), ElementsAre("image.tar!/x.so 90"));
  EXPECT_EQ(outcome.Problems(), "");
}

TEST(Oci, DockerSaveInBothForms) {
  const std::string layer = Layer({{"x.so", Library(90)}});
  const TestImage image = {.layers = {layer}};
  const std::string config = LayoutBuilder::Config(image);
  const std::string id = Sha256Of(config).Hex();
  const std::string folder(64, 'c');
  const auto tar = [&](const std::string& bytes) {
    return BuildArchive(
        "ustar", {{folder + "/VERSION", "1.0"},
                  {folder + "/json", "{}"},
                  {folder + "/layer.tar", bytes},
                  {id + ".json", config},
                  {"manifest.json",
                   absl::StrCat(R"([{"Config":")", id,
                                R"(.json","RepoTags":["app:1"],"Layers":[")",
                                folder, R"(/layer.tar"]}])")},
                  {"repositories", "{}"}});
  };
  const Outcome older = InspectTar(tar(layer));
  EXPECT_THAT(older.Members(), ElementsAre("image.tar!/x.so 90"));
  EXPECT_EQ(older.Problems(), "");
  EXPECT_EQ(older.facts().layers(0).digest(), DigestText(layer));
  // diff_ids tell that the layer is another.
  EXPECT_THAT(InspectTar(tar(Layer({{"y.so", Library(90)}}))).Problems(),
              HasSubstr("TP233"));

  LayoutBuilder newer;
  newer.AddImage(image);
  newer.files["manifest.json"] = absl::StrCat(
      R"([{"Config":")", LayoutBuilder::BlobPath(DigestText(config)),
      R"(","RepoTags":["app:1"],"Layers":[")",
      LayoutBuilder::BlobPath(DigestText(layer)), "\"]}]");
  EXPECT_THAT(InspectTar(newer.Tar()).Members(),
              ElementsAre("image.tar!/x.so 90"));
  newer.files.erase("index.json");
  const Outcome plain = InspectTar(newer.Tar());
  EXPECT_THAT(plain.Members(), ElementsAre("image.tar!/x.so 90"));
  EXPECT_EQ(plain.Problems(), "");
}

// What a builder's own writer calls its files; `layers` as they are stored.
std::string Saved(const std::string& config_name, const std::string& config,
                  const std::vector<TestMember>& layers,
                  const std::vector<std::string>& filters = {},
                  const std::vector<TestMember>& more = {}) {
  std::vector<TestMember> members = {{config_name, config}};
  std::vector<std::string> names;
  for (const TestMember& layer : layers) {
    members.push_back(layer);
    names.push_back(absl::StrCat("\"", layer.path, "\""));
  }
  members.insert(members.end(), more.begin(), more.end());
  members.push_back(
      {"manifest.json", absl::StrCat("[{\"Config\":\"", config_name,
                                     "\",\"RepoTags\":[\"app:1\"],\"Layers\":[",
                                     absl::StrJoin(names, ","), "]}]")});
  return BuildArchive("ustar", members, {.filters = filters});
}

// pkg/v1/tarball/write.go of go-containerregistry: crane, ko, kaniko.
TEST(Oci, SavedByGoContainerregistry) {
  const std::vector<std::string> layers = {
      Layer({{"a/b.so", Library(80)}, {"c.so", Library(86)}}),
      Layer({{.path = "a/.wh..wh..opq"}, {"a/new.so", Library(90)}})};
  const std::string config =
      LayoutBuilder::Config({.layers = layers, .architecture = "arm64"});
  std::vector<TestMember> stored;
  for (const std::string& layer : layers) {
    const std::string packed = Packed("gzip", layer);
    stored.push_back({Sha256Of(packed).Hex() + ".tar.gz", packed});
  }
  for (const auto& filters :
       {std::vector<std::string>{}, std::vector<std::string>{"gzip"}}) {
    Outcome outcome =
        InspectTar(Saved(DigestText(config), config, stored, filters));
    EXPECT_EQ(outcome.top().kind(), v1::FILE_KIND_OCI_IMAGE);
    EXPECT_THAT(
        outcome.Members(),
        UnorderedElementsAre("image.tar!/a/new.so 90", "image.tar!/c.so 86"));
    EXPECT_THAT(outcome.Layers(), ElementsAre("2/1", "1/0"));
    EXPECT_EQ(outcome.facts().images(0).id(), DigestText(config));
    EXPECT_EQ(outcome.facts().layers(0).digest(),
              absl::StrCat("sha256:", stored[0].path.substr(0, 64)));
    // The configuration is for arm64, the libraries are for x86-64.
    EXPECT_THAT(outcome.Problems(), HasSubstr("TP236"));
    EXPECT_EQ(outcome.top().problems_size(), 1);
  }
  // Layers are verified by their names.
  stored[0].bytes = Packed("gzip", layers[1]);
  EXPECT_THAT(InspectTar(Saved(DigestText(config), config, stored)).Problems(),
              HasSubstr("it is another"));
}

// What names the files is the manifest; rules_docker calls them 000.tar.
TEST(Oci, NamesAreThoseOfTheManifest) {
  const std::vector<std::string> layers = {
      Layer({{"a.so", Library(80)}, {"b.so", Library(86)}}),
      Layer({{.path = ".wh.a.so"}})};
  const std::string config = LayoutBuilder::Config({.layers = layers});
  for (const auto& filters :
       {std::vector<std::string>{}, std::vector<std::string>{"zstd"}}) {
    for (const bool packed : {false, true}) {
      const auto stored = [packed](const std::string& layer) {
        return packed ? Packed("gzip", layer) : layer;
      };
      const Outcome outcome =
          InspectTar(Saved("c.json", config,
                           {{"000.tar", stored(layers[0])},
                            {"./sub/layer.tar", stored(layers[1])}},
                           filters));
      EXPECT_EQ(outcome.top().kind(), v1::FILE_KIND_OCI_IMAGE);
      EXPECT_THAT(outcome.Members(), ElementsAre("image.tar!/b.so 86"));
      EXPECT_EQ(outcome.Problems(), "");
    }
  }
  // What is no part of the image is said.
  const Outcome outcome = InspectTar(
      Saved("c.json", config, {{"000.tar", layers[0]}, {"001.tar", layers[1]}},
            {}, {{"usr/lib/x.so", Library(90)}}));
  EXPECT_THAT(outcome.Members(), ElementsAre("image.tar!/b.so 86"));
  EXPECT_THAT(outcome.Problems(),
              HasSubstr("TP232 1 files beside the image are no part of it, and "
                        "not inspected: usr/lib/x.so"));
  // A manifest of something else is none.
  EXPECT_EQ(
      InspectTar(BuildArchive("ustar", {{"manifest.json", "{\"name\":\"x\"}"},
                                        {"x.so", Library(90)}}))
          .facts()
          .format(),
      "tar");
}

TEST(Oci, ADamagedHeaderInALayerIsNamed) {
  std::string layer = Layer(
      {{"a.so", Library(80)}, {"b.so", Library(86)}, {"c.so", Library(90)}});
  const size_t second = layer.find("b.so", layer.find("a.so") + 512);
  layer[second / 512 * 512] ^= 1;
  const Outcome outcome = InspectLayers({layer});
  EXPECT_THAT(outcome.Problems(),
              HasSubstr(absl::StrCat("TP233 layer ", DigestText(layer),
                                     ": the header of a member at offset ")));
  EXPECT_THAT(outcome.Members(), Contains("image.tar!/c.so 90"));
}

TEST(Oci, DigestMismatchIsDamageAndWhatIsThereIsRead) {
  const std::string layer = Layer({{"x.so", Library(80)}});
  LayoutBuilder layout;
  layout.AddImage({.layers = {layer}});
  layout.files[LayoutBuilder::BlobPath(DigestText(layer))] =
      Layer({{"x.so", Library(90)}});
  const Outcome outcome = InspectTar(layout.Tar());
  EXPECT_THAT(outcome.Problems(),
              HasSubstr(absl::StrCat("TP233 layer ", DigestText(layer))));
  EXPECT_THAT(outcome.Members(), ElementsAre("image.tar!/x.so 90"));
}

TEST(Oci, MissingBlobIsNamed) {
  const std::string low = Layer({{"x.so", Library(80)}});
  LayoutBuilder layout;
  layout.AddImage({.layers = {low, Layer({{"y.so", Library(90)}})}});
  layout.files.erase(LayoutBuilder::BlobPath(DigestText(low)));
  const Outcome outcome = InspectTar(layout.Tar());
  EXPECT_THAT(
      outcome.Problems(),
      HasSubstr(absl::StrCat("TP232 layer ", DigestText(low), " is missing")));
  EXPECT_THAT(outcome.Members(), ElementsAre("image.tar!/y.so 90"));
  EXPECT_EQ(outcome.facts().layers_size(), 2);
}

TEST(Oci, LayerThatIsNoTar) {
  EXPECT_THAT(InspectLayers({"no tar at all"}).Problems(),
              HasSubstr("is no tar"));
  const std::string cut = Layer({{"x.so", Library(80)}}).substr(0, 700);
  EXPECT_THAT(InspectLayers({cut}).Problems(), HasSubstr("TP23"));
}

TEST(Oci, HostileDocuments) {
  std::string deep(100'000, '[');
  for (const std::string& index : {
           std::string(""),
           std::string("{"),
           std::string("null"),
           std::string("[]"),
           std::string("\"\xff\xfe\""),
           deep,
           std::string(R"({"manifests":7})"),
           std::string(R"({"manifests":[7,null,"x",[],{}]})"),
           std::string(R"({"manifests":[{"digest":7}]})"),
           std::string(R"({"manifests":[{"digest":"sha256:../../x"}]})"),
           std::string(R"({"manifests":[{"digest":"sha256:0","size":-1}]})"),
           std::string(R"({"manifests":[{"digest":"sha256:0","size":1e99}]})"),
           std::string(R"({"manifests":[{"digest":"a:b","size":1e99999}]})"),
           std::string(R"({"manifests":[{"digest":"a:b","annotations":[],)"
                       R"("platform":"x"}]})"),
       }) {
    LayoutBuilder layout;
    layout.Finish();
    layout.files["index.json"] = index;
    const Outcome outcome = InspectTar(layout.Tar());
    EXPECT_THAT(outcome.Problems(), HasSubstr("TP23")) << index.substr(0, 60);
    EXPECT_THAT(outcome.Members(), IsEmpty());
  }
}

TEST(Oci, HostileManifests) {
  for (const std::string manifest : {
           R"({"config":{},"layers":[]})",
           R"({"config":7,"layers":[7,null]})",
           R"({"config":{"digest":[]},"layers":[{"digest":"sha256:"}]})",
           R"({"config":{"mediaType":"x/y","digest":"a:b"},"layers":[]})",
           R"({"layers":{}})",
       }) {
    LayoutBuilder layout;
    layout.manifests = {layout.AddBlob(manifest, "")};
    layout.Finish();
    EXPECT_THAT(InspectTar(layout.Tar()).Problems(), HasSubstr("TP23"))
        << manifest;
  }
}

TEST(Oci, IndexThatNamesItselfAndIndexesWithoutEnd) {
  LayoutBuilder layout;
  std::string inner =
      layout.AddManifest({.layers = {Layer({{"x.so", Library(90)}})}});
  for (int i = 0; i < 20; ++i) {
    inner = layout.AddBlob(LayoutBuilder::Index({inner}), "");
  }
  layout.manifests = {inner};
  layout.Finish();
  EXPECT_THAT(InspectTar(layout.Tar()).Problems(), HasSubstr("TP232"));
}

TEST(Oci, CapOnLayersAndMembers) {
  LayoutBuilder layout;
  std::vector<std::string> layers(kMaxOciLayers + 1, Layer({{"a", "x"}}));
  layout.AddImage({.layers = layers});
  const Outcome outcome = InspectTar(layout.Tar());
  EXPECT_THAT(outcome.Problems(), HasSubstr("TP232"));
  EXPECT_EQ(outcome.facts().layers_size(), static_cast<int>(kMaxOciLayers));
  EXPECT_THAT(InspectTar(layout.Tar(), {.members = 50}).Problems(),
              HasSubstr("TP232"));
}

TEST(Oci, NamesOfAnImageHaveACap) {
  LayerView view(100);
  view.BeginLayer();
  int taken = 0;
  while (taken < 1000 && view.Add(absl::StrCat("f", taken), false) ==
                             LayerView::Outcome::kVisible) {
    ++taken;
  }
  EXPECT_EQ(taken, 100);
  LayerView long_names(100);
  long_names.BeginLayer();
  taken = 0;
  while (taken < 1000 &&
         long_names.Add(absl::StrCat(std::string(1000, 'x'), taken), false) ==
             LayerView::Outcome::kVisible) {
    ++taken;
  }
  EXPECT_EQ(taken, 6);
}

TEST(Oci, TarThatOnlyStartsLikeAnImageIsATar) {
  const Outcome outcome = InspectTar(BuildArchive(
      "ustar", {{"blobs/sha256/x.so", Library(90)}, {"other", "text"}}));
  EXPECT_EQ(outcome.top().kind(), v1::FILE_KIND_ARCHIVE);
  EXPECT_EQ(outcome.facts().format(), "tar");
  EXPECT_THAT(outcome.Members(),
              ElementsAre("image.tar!/blobs/sha256/x.so 90"));
}

TEST(Oci, Paths) {
  EXPECT_EQ(CleanOciPath("./usr//lib/x"), "usr/lib/x");
  EXPECT_EQ(CleanOciPath("/usr/bin/../lib/x/"), "usr/lib/x");
  EXPECT_EQ(CleanOciPath("../../etc/x"), "etc/x");
  EXPECT_EQ(CleanOciPath(""), "");
  EXPECT_TRUE(MayBeOciPath(std::string(64, 'a') + "/layer.tar"));
  EXPECT_FALSE(MayBeOciPath(std::string(64, 'a') + "/x.so"));
  EXPECT_FALSE(MayBeOciPath("usr/lib"));
  EXPECT_TRUE(MayBeOciPath("sha256:" + std::string(64, 'a')));
  EXPECT_FALSE(MayBeOciPath("sha256:" + std::string(64, 'a') + ".tar"));
  EXPECT_TRUE(MayBeOciPath(std::string(64, 'a') + ".tar.gz"));
  EXPECT_TRUE(MayBeSavedImagePath("000.tar", false));
  EXPECT_TRUE(MayBeSavedImagePath("l1/layer.tar", false));
  EXPECT_TRUE(MayBeSavedImagePath("l1", true));
  EXPECT_FALSE(MayBeSavedImagePath("a/b/layer.tar", false));
  EXPECT_FALSE(MayBeSavedImagePath("pkg/README", false));
  EXPECT_FALSE(MayBeSavedImagePath("a/b", true));
}

}  // namespace
}  // namespace twinpath::inspect
