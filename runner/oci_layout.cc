#include "runner/oci_layout.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "inspect/json.h"
#include "inspect/oci.h"

namespace twinpath::runner {
namespace {

using inspect::ArrayField;
using inspect::Json;
using inspect::ObjectField;
using inspect::TextField;

constexpr size_t kMaxDocuments = 1024;
constexpr int kMaxNesting = 4;

absl::Status NoLayout(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("no OCI layout: ", why));
}

std::string BlobPath(const std::string& folder, absl::string_view digest) {
  return JoinPath(folder, absl::StrCat("blobs/sha256/",
                                       absl::StripPrefix(digest, "sha256:")));
}

// A document of the layout, which must have the digest it is named by.
absl::StatusOr<std::string> ReadBlob(const std::string& folder,
                                     absl::string_view digest) {
  if (!IsOciDigest(digest)) return NoLayout("a digest that is none");
  TWINPATH_ASSIGN_OR_RETURN(
      std::string text,
      ReadFile(BlobPath(folder, digest), inspect::kMaxOciJsonBytes));
  if (absl::StrCat("sha256:", Sha256Of(text).Hex()) != digest) {
    return absl::DataLossError(absl::StrCat(
        "TP405 digest-differs: blob ", digest, " of the layout is another"));
  }
  return text;
}

// Walks the indexes of a layout.
class LayoutWalk {
 public:
  LayoutWalk(std::string folder, absl::string_view wanted,
             v1::CpuArchitecture architecture)
      : folder_(std::move(folder)),
        wanted_(wanted),
        architecture_(architecture) {}

  // `as`: the digest that was asked for and stands for what is in the index.
  absl::Status Index(const Json& index, absl::string_view as, int depth) {
    const Json* const manifests = ArrayField(index, "manifests");
    if (manifests == nullptr) return NoLayout("an index without manifests");
    for (const Json& descriptor : *manifests) {
      TWINPATH_RETURN_IF_ERROR(Descriptor(descriptor, as, depth));
    }
    return absl::OkStatus();
  }
  std::vector<LayoutImage>& images() { return images_; }

 private:
  absl::Status Descriptor(const Json& descriptor, absl::string_view as,
                          int depth) {
    const std::string digest = TextField(descriptor, "digest");
    if (++documents_ > kMaxDocuments) return NoLayout("too many documents");
    if (!IsOciDigest(digest) ||
        access(BlobPath(folder_, digest).c_str(), F_OK) != 0) {
      return absl::OkStatus();  // Of another platform, and left out.
    }
    TWINPATH_ASSIGN_OR_RETURN(const std::string text,
                              ReadBlob(folder_, digest));
    const std::optional<Json> document = inspect::ParseJson(text);
    if (!document) return NoLayout("a manifest that is no JSON");
    if (ArrayField(*document, "manifests") != nullptr) {
      if (depth >= kMaxNesting) return NoLayout("indexes too deep");
      return Index(*document, digest == wanted_ ? wanted_ : as, depth + 1);
    }
    const Json* const config = ObjectField(*document, "config");
    if (config == nullptr) return absl::OkStatus();
    LayoutImage image;
    image.descriptor = descriptor.dump();
    image.digest = digest;
    image.id = TextField(*config, "digest");
    if (!as.empty()) {
      // Of the index that is wanted, the image for this host.
      const Json* const platform = ObjectField(descriptor, "platform");
      if (platform == nullptr ||
          ArchitectureOfOci(TextField(*platform, "architecture")) !=
              architecture_) {
        return absl::OkStatus();
      }
      image.digest = std::string(as);
    }
    images_.push_back(std::move(image));
    return absl::OkStatus();
  }

  const std::string folder_;
  const absl::string_view wanted_;
  const v1::CpuArchitecture architecture_;
  size_t documents_ = 0;
  std::vector<LayoutImage> images_;
};

}  // namespace

bool IsOciDigest(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "sha256:") || text.size() != 64) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

absl::StatusOr<std::vector<LayoutImage>> LayoutImages(
    const std::string& folder, absl::string_view wanted,
    v1::CpuArchitecture architecture) {
  TWINPATH_ASSIGN_OR_RETURN(
      const std::string text,
      ReadFile(JoinPath(folder, "index.json"), inspect::kMaxOciJsonBytes));
  const std::optional<Json> index = inspect::ParseJson(text);
  if (!index) return NoLayout("index.json is no JSON");
  LayoutWalk walk(folder, wanted, architecture);
  TWINPATH_RETURN_IF_ERROR(walk.Index(*index, "", 0));
  return std::move(walk.images());
}

v1::CpuArchitecture ArchitectureOfOci(absl::string_view name) {
  if (name == "amd64") return v1::CPU_ARCHITECTURE_X86_64;
  if (name == "arm64") return v1::CPU_ARCHITECTURE_AARCH64;
  return v1::CPU_ARCHITECTURE_UNSPECIFIED;
}

bool MayBeSavedImage(const std::string& path, absl::string_view name) {
  const auto file = OpenRegularFile(path);
  if (!file.ok()) return false;
  const auto head = PreadUpTo(file->get(), 0, 512);
  if (!head.ok() || head->size() < 512) return false;
  if (head->substr(257, 5) == "ustar") {
    // A header that says more of the one behind it (pax).
    if ((*head)[156] == 'x' || (*head)[156] == 'g') return true;
    return inspect::MayBeOciPath(absl::string_view(*head).substr(
        0, std::min<size_t>(100, head->find('\0'))));
  }
  const bool packed = absl::StartsWith(*head, "\x1f\x8b") ||
                      absl::StartsWith(*head,
                                       "\xfd"
                                       "7zXZ") ||
                      absl::StartsWith(*head, "\x28\xb5\x2f\xfd");
  for (const absl::string_view ending : {".tar", ".tgz", ".txz"}) {
    if (packed && absl::StrContains(name, ending)) return true;
  }
  return false;
}

}  // namespace twinpath::runner
