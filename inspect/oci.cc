#include "inspect/oci.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "inspect/oci_layers.h"
#include "inspect/oci_layout.h"

namespace twinpath::inspect {

bool MayBeOciPath(absl::string_view path) {
  if (path == "oci-layout" || path == kOciIndex || path == kDockerManifest ||
      path == "repositories" || path == "blobs" || path == "ingest" ||
      absl::StartsWith(path, "blobs/") || absl::StartsWith(path, "ingest/")) {
    return true;
  }
  // docker save: HEX.json, HEX.tar, HEX/layer.tar, HEX/json, HEX/VERSION.
  const bool enough = path.size() >= kOciHexDigits;
  if (!enough || !IsHexDigest(path.substr(0, kOciHexDigits))) return false;
  path.remove_prefix(kOciHexDigits);
  return path.empty() || path == ".json" || path == ".tar" ||
         path == "/layer.tar" || path == "/json" || path == "/VERSION";
}

bool LooksLikeOci(const std::vector<std::string>& paths) {
  bool found = false;
  for (const std::string& path : paths) {
    if (!MayBeOciPath(path)) return false;
    found |= path == kOciIndex || path == kDockerManifest;
  }
  return found;
}

std::string CleanOciPath(absl::string_view path) {
  std::vector<absl::string_view> parts;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  return absl::StrJoin(parts, "/");
}

absl::Status WalkOci(const OciFiles& files, const OciHooks& hooks,
                     v1::CarrierFacts& facts) {
  OciBlobs blobs(files, hooks);
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<OciImage> images,
                            ReadOciImages(blobs));
  for (const OciImage& image : images) {
    hooks.image(image.label, image.config);
    std::vector<v1::OciLayer> layers(image.layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
      const OciBlob& blob = image.layers[i];
      layers[i].set_digest(blob.digest.empty() ? blob.path : blob.digest);
    }
    const absl::Status walked = WalkOciLayers(blobs, image, hooks, layers);
    for (v1::OciLayer& layer : layers) *facts.add_layers() = std::move(layer);
    TWINPATH_RETURN_IF_ERROR(walked);
  }
  return absl::OkStatus();
}

absl::StatusOr<OciNeeds> SurveyOci(const OciFiles& files,
                                   const OciUnopened& unopened) {
  OciHooks hooks;
  hooks.unopened = &unopened;
  hooks.problem = [](absl::string_view, const std::string&) {};
  OciBlobs blobs(files, hooks);
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<OciImage> images,
                            ReadOciImages(blobs));
  OciNeeds needs;
  needs.documents.assign(blobs.missing().begin(), blobs.missing().end());
  std::set<std::string> seen;
  for (const OciImage& image : images) {
    for (auto layer = image.layers.rbegin(); layer != image.layers.rend();
         ++layer) {
      if (seen.insert(layer->path).second) needs.layers.push_back(layer->path);
    }
  }
  return needs;
}

}  // namespace twinpath::inspect
