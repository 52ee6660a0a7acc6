// What paths of an image layout say. Apart from the rest of oci.h, so that
// programs that only start the inspector are not linked with what it reads
// with.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "inspect/oci.h"
#include "inspect/oci_layout.h"

namespace twinpath::inspect {

bool MayBeOciPath(absl::string_view path) {
  if (path == kOciLayoutFile || path == kOciIndex || path == kDockerManifest ||
      path == "repositories" || path == "blobs" || path == "ingest" ||
      absl::StartsWith(path, "blobs/") || absl::StartsWith(path, "ingest/")) {
    return true;
  }
  // docker save: HEX.json, HEX.tar, HEX/layer.tar, HEX/json, HEX/VERSION.
  // go-containerregistry (crane, ko, kaniko): sha256:HEX, HEX.tar.gz.
  const bool config = absl::ConsumePrefix(&path, "sha256:");
  const bool enough = path.size() >= kOciHexDigits;
  if (!enough || !IsHexDigest(path.substr(0, kOciHexDigits))) return false;
  path.remove_prefix(kOciHexDigits);
  if (config) return path.empty();
  return path.empty() || path == ".json" || path == ".tar" ||
         path == ".tar.gz" || path == "/layer.tar" || path == "/json" ||
         path == "/VERSION";
}

bool MayBeSavedImagePath(absl::string_view path, bool directory) {
  if (MayBeOciPath(path)) return true;
  const auto folders = std::count(path.begin(), path.end(), '/');
  if (directory) return folders == 0;
  if (folders > 1) return false;
  const absl::string_view name = path.substr(path.rfind('/') + 1);
  for (const absl::string_view ending :
       {".json", ".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz"}) {
    if (absl::EndsWith(name, ending)) return true;
  }
  // A folder's documents in docker save; digests without an ending.
  return name == "json" || name == "VERSION" ||
         absl::StartsWith(name, "sha256:");
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

}  // namespace twinpath::inspect
