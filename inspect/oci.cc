#include "inspect/oci.h"

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/status.h"
#include "inspect/json.h"
#include "inspect/oci_layers.h"
#include "inspect/oci_layout.h"

namespace twinpath::inspect {
namespace {

// Of a configuration; what is beyond is left out.
constexpr size_t kMaxConfigTexts = 1000;
constexpr size_t kMaxConfigText = size_t{32} << 10;
constexpr size_t kMaxConfigBytes = size_t{256} << 10;

v1::CpuArchitecture ArchitectureOf(const std::string& name) {
  if (name == "amd64") return v1::CPU_ARCHITECTURE_X86_64;
  if (name == "arm64") return v1::CPU_ARCHITECTURE_AARCH64;
  return v1::CPU_ARCHITECTURE_UNSPECIFIED;
}

// What a container of the image starts with (OCI image-spec, config.md).
void AddImageFacts(const OciImage& image, v1::CarrierFacts& facts) {
  v1::OciImageFacts& out = *facts.add_images();
  out.set_digest(image.digest);
  out.set_id(image.id);
  out.set_label(image.label);
  const std::optional<Json> root = ParseJson(image.config);
  if (!root) return;
  out.set_cpu_architecture(ArchitectureOf(TextField(*root, "architecture")));
  const Json* const config = ObjectField(*root, "config");
  if (config == nullptr) return;
  size_t bytes = 0;
  const auto take = [&](const char* name, auto add) {
    const Json* const texts = ArrayField(*config, name);
    if (texts == nullptr) return;
    size_t count = 0;
    for (const Json& item : *texts) {
      std::string text = TextOf(item).substr(0, kMaxConfigText);
      bytes += text.size();
      if (++count > kMaxConfigTexts || bytes > kMaxConfigBytes) return;
      add(std::move(text));
    }
  };
  take("Env", [&](std::string text) { out.add_environment(std::move(text)); });
  take("Entrypoint",
       [&](std::string text) { out.add_entrypoint(std::move(text)); });
  take("Cmd", [&](std::string text) { out.add_command(std::move(text)); });
  out.set_working_directory(
      TextField(*config, "WorkingDir").substr(0, kMaxConfigText));
  out.set_user(TextField(*config, "User").substr(0, kMaxConfigText));
}

}  // namespace

absl::Status WalkOci(const OciFiles& files, const OciHooks& hooks,
                     v1::CarrierFacts& facts) {
  OciBlobs blobs(files, hooks);
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<OciImage> images,
                            ReadOciImages(blobs));
  for (const OciImage& image : images) {
    hooks.image(image.label, image.config);
    AddImageFacts(image, facts);
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
