// Makes OCI image layouts and docker-save archives in memory.
//
//   LayoutBuilder layout;
//   layout.AddImage({.layers = {BuildArchive("ustar", {...})}});
//   std::string tar = layout.Tar();

#ifndef TWINPATH_TESTS_INSPECT_OCI_BUILDER_H_
#define TWINPATH_TESTS_INSPECT_OCI_BUILDER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/digest.h"
#include "tests/inspect/archive_builder.h"

namespace twinpath::inspect {

inline std::string DigestText(const std::string& bytes) {
  return absl::StrCat("sha256:", Sha256Of(bytes).Hex());
}

struct TestImage {
  // Tars, packed or not, lowest first.
  std::vector<std::string> layers = {};
  std::string os = "linux";
  std::string architecture = "amd64";
  // "NAME=VALUE".
  std::vector<std::string> env = {};
  std::string tag = {};
};

class LayoutBuilder {
 public:
  static std::string BlobPath(const std::string& digest) {
    return absl::StrCat("blobs/sha256/", digest.substr(7));
  }
  static std::string Config(const TestImage& image) {
    const auto quote = [](std::string* out, const std::string& text) {
      absl::StrAppend(out, "\"", text, "\"");
    };
    std::vector<std::string> diffs;
    for (const std::string& layer : image.layers) {
      diffs.push_back(DigestText(layer));
    }
    return absl::StrCat(R"({"architecture":")", image.architecture,
                        R"(","os":")", image.os, R"(","config":{"Env":[)",
                        absl::StrJoin(image.env, ",", quote),
                        R"(]},"rootfs":{"type":"layers","diff_ids":[)",
                        absl::StrJoin(diffs, ",", quote), "]}}");
  }

  // Adds a blob; returns a descriptor of it.
  std::string AddBlob(const std::string& bytes, const std::string& type,
                      const std::string& more = "") {
    const std::string digest = DigestText(bytes);
    files[BlobPath(digest)] = bytes;
    return absl::StrCat(R"({"mediaType":")", type, R"(","digest":")", digest,
                        R"(","size":)", bytes.size(), more, "}");
  }
  // Returns a descriptor of the image's manifest.
  std::string AddManifest(const TestImage& image) {
    std::vector<std::string> layers;
    for (const std::string& layer : image.layers) {
      layers.push_back(
          AddBlob(layer, "application/vnd.oci.image.layer.v1.tar"));
    }
    const std::string config =
        AddBlob(Config(image), "application/vnd.oci.image.config.v1+json");
    return AddBlob(
        absl::StrCat(R"({"schemaVersion":2,"config":)", config,
                     R"(,"layers":[)", absl::StrJoin(layers, ","), "]}"),
        "application/vnd.oci.image.manifest.v1+json",
        absl::StrCat(
            R"(,"platform":{"os":")", image.os, R"(","architecture":")",
            image.architecture, "\"}",
            image.tag.empty()
                ? ""
                : absl::StrCat(R"(,"annotations":{)"
                               R"("org.opencontainers.image.ref.name":")",
                               image.tag, "\"}")));
  }
  static std::string Index(const std::vector<std::string>& manifests) {
    return absl::StrCat(R"({"schemaVersion":2,"manifests":[)",
                        absl::StrJoin(manifests, ","), "]}");
  }
  // Adds it to the top index.
  void AddImage(const TestImage& image) {
    manifests.push_back(AddManifest(image));
    Finish();
  }
  void Finish() {
    files["oci-layout"] = R"({"imageLayoutVersion":"1.0.0"})";
    files["index.json"] = Index(manifests);
  }

  std::string Tar(const std::vector<std::string>& filters = {}) const {
    std::vector<TestMember> members;
    for (const auto& [path, bytes] : files) {
      members.push_back({.path = path, .bytes = bytes});
    }
    return BuildArchive("ustar", members, {.filters = filters});
  }

  // By path.
  std::map<std::string, std::string> files;
  std::vector<std::string> manifests;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_TESTS_INSPECT_OCI_BUILDER_H_
