// What an OCI layout says: its images and their layers, read from indexes,
// manifests and configurations, with every blob verified against the digest it
// is named by. For oci.cc and oci_layers.cc. Not thread-safe.

#ifndef TWINPATH_INSPECT_OCI_LAYOUT_H_
#define TWINPATH_INSPECT_OCI_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/byte_source.h"
#include "inspect/oci.h"

namespace twinpath::inspect {

// The layout's documents where nothing else names them.
inline constexpr char kOciIndex[] = "index.json";
inline constexpr char kOciLayoutFile[] = "oci-layout";
inline constexpr char kDockerManifest[] = "manifest.json";
inline constexpr size_t kOciHexDigits = 64;

// Whether it is a SHA-256 in lower-case hexadecimal digits.
bool IsHexDigest(absl::string_view text);

// A blob as something refers to it.
struct OciBlob {
  // As stated, "sha256:..."; empty for a file that is only named by its path.
  std::string digest;
  std::string path;
  std::optional<uint64_t> size;
};

struct OciImage {
  // Of its manifest; empty: it has none (older docker save).
  std::string digest;
  // Of its configuration; empty where its file is not named by it.
  std::string id;
  // "linux-arm64"; empty where it is not stated.
  std::string platform;
  std::string tag;
  // As OciHooks.image.
  std::string label;
  // Empty: none was readable.
  std::string config;
  // Lowest first.
  std::vector<OciBlob> layers;
};

// The files of a layout by what refers to them. Keeps references to both
// arguments.
class OciBlobs {
 public:
  OciBlobs(const OciFiles& files, const OciHooks& hooks)
      : files_(files), hooks_(hooks) {}

  bool Has(absl::string_view path) const {
    return files_.contains(std::string(path));
  }
  // Returns the bytes of a blob, null where they are missing, which is a
  // problem then. Verifies them, once a blob. `what` is for messages: "layer".
  absl::StatusOr<const ByteSource*> Find(const OciBlob& blob,
                                         absl::string_view what);
  // Whether the file at `path` is packed. False where it is not there. Read
  // errors.
  absl::StatusOr<bool> IsPacked(const std::string& path) const;
  // Why a blob cannot be found: "is missing", "is not read: ...". Empty: it
  // can.
  std::string WhyAbsent(const OciBlob& blob) const;
  // Paths of what was looked for and is missing.
  const std::set<std::string>& missing() const { return missing_; }
  void Problem(absl::string_view code, const std::string& detail) const {
    hooks_.problem(code, detail);
  }

 private:
  const OciFiles& files_;
  const OciHooks& hooks_;
  // Paths of blobs.
  std::set<std::string> verified_;
  std::set<std::string> missing_;
};

// Finds the images of a layout, each once. Odd content is a problem; returns
// errors of reading.
absl::StatusOr<std::vector<OciImage>> ReadOciImages(OciBlobs& blobs);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_OCI_LAYOUT_H_
