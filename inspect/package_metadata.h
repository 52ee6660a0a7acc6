// What a package says about itself: file name and WHEEL, METADATA, variant.json
// of a wheel (PEP 427, PEP 825), control of a deb, configuration of an
// oci_image, the name of an archive. Texts are foreign: sizes are capped, what
// is not understood says nothing. Pure; not thread-safe.

#ifndef TWINPATH_INSPECT_PACKAGE_METADATA_H_
#define TWINPATH_INSPECT_PACKAGE_METADATA_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::inspect {

enum class PackageKind { kNone, kArchive, kWheel, kDeb, kOciImage };

// A contradiction inside the metadata.
struct MetadataConflict {
  // "TP236" or "TP237".
  absl::string_view code;
  std::string detail;
};

class PackageMetadata {
 public:
  // `file_name`: base name. `format`: see PackageJudge.
  PackageMetadata(absl::string_view file_name, absl::string_view format);

  bool Wants(absl::string_view path) const;
  void Read(absl::string_view path, absl::string_view bytes);

  PackageKind kind() const { return kind_; }
  // "wheel", "deb", "oci_image", "archive"; "" for kNone.
  absl::string_view kind_name() const;
  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  // Empty: any, or not stated.
  const std::set<v1::CpuArchitecture>& cpus() const { return cpus_; }
  std::optional<uint32_t> cuda_major() const { return cuda_major_; }
  // "sm_90", "compute_120", in the order they stand.
  const std::vector<std::string>& targets() const { return targets_; }
  // What was read, for people.
  const std::vector<std::string>& evidence() const { return evidence_; }
  const std::vector<MetadataConflict>& conflicts() const { return conflicts_; }

  // Name or version say that device code should be in it, and the metadata
  // names no other package for the same CUDA release that may hold it.
  bool PromisesDeviceCode() const;
  // The driver's own package, or the one for forward compatibility.
  bool IsDriverPackage() const;

 private:
  void ReadWheelName(absl::string_view file_name);
  void ReadWheelTags(absl::string_view text);
  void ReadWheelMetadata(absl::string_view text);
  void ReadVariants(absl::string_view text);
  void ReadDebControl(absl::string_view text);
  void ReadOciConfig(absl::string_view text);
  void ReadArchiveName(absl::string_view file_name);
  void SayCuda(std::optional<uint32_t> major, const std::string& words);
  void Evidence(std::string words);

  PackageKind kind_ = PackageKind::kNone;
  std::string name_;
  std::string version_;
  std::string file_tag_;
  std::set<v1::CpuArchitecture> cpus_;
  std::optional<uint32_t> cuda_major_;
  std::string cuda_words_;
  std::vector<std::string> targets_;
  std::vector<std::string> evidence_;
  std::vector<MetadataConflict> conflicts_;
  bool gpu_in_name_ = false;
  bool cuda_in_name_ = false;
  bool needs_sibling_ = false;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_PACKAGE_METADATA_H_
