// What paths of an image layout say. Apart from the rest of oci.h, so that
// programs that only start the inspector are not linked with what it reads
// with.

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "inspect/oci.h"
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

}  // namespace twinpath::inspect
