#include "runner/oci_cdi.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "base/yaml_document.h"

namespace twinpath::runner {
namespace {

constexpr size_t kMaxFiles = 256;

std::vector<std::string> EnvironmentOf(YamlReader owner) {
  return owner.Optional("containerEdits").Optional("env").StringSequence();
}

absl::Status ReadSpecification(const std::string& path, CdiDevices& found) {
  TWINPATH_ASSIGN_OR_RETURN(YamlDocument document, YamlDocument::Load(path));
  YamlReader root = document.root();
  const std::string kind = root.Required("kind").String();
  const std::vector<std::string> common = EnvironmentOf(root);
  std::vector<CdiDevice> devices;
  for (YamlReader item : root.Required("devices").Sequence()) {
    CdiDevice& device = devices.emplace_back();
    device.name = item.Required("name").String();
    device.environment = common;
    for (std::string& variable : EnvironmentOf(item)) {
      device.environment.push_back(std::move(variable));
    }
  }
  TWINPATH_RETURN_IF_ERROR(document.status());
  if (kind != kCdiGpuKind) return absl::OkStatus();
  for (CdiDevice& device : devices) found.devices.push_back(std::move(device));
  return absl::OkStatus();
}

}  // namespace

const CdiDevice* CdiDevices::Find(absl::string_view name) const {
  for (const CdiDevice& device : devices) {
    if (device.name == name) return &device;
  }
  return nullptr;
}

std::vector<std::string> CdiFolders() { return {"/var/run/cdi", "/etc/cdi"}; }

CdiDevices ReadCdi(absl::Span<const std::string> folders) {
  CdiDevices found;
  for (const std::string& folder : folders) {
    const auto names = ListDirectory(folder);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      if (!absl::EndsWith(name, ".yaml") && !absl::EndsWith(name, ".json")) {
        continue;
      }
      if (found.files.size() >= kMaxFiles) break;
      const std::string path = JoinPath(folder, name);
      found.files.push_back(path);
      if (const absl::Status status = ReadSpecification(path, found);
          !status.ok()) {
        found.problems.push_back(
            absl::StrCat(Printable(path), ": ", MessageOf(status)));
      }
    }
  }
  return found;
}

}  // namespace twinpath::runner
