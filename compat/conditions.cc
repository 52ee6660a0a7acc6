#include "compat/conditions.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "compat/tables.h"

namespace twinpath::compat {
namespace {

std::string DigestHex(const v1::Digest& digest) {
  const auto sha = Sha256::FromRaw(digest.sha256());
  return sha.ok() ? sha->Hex() : "unknown";
}

absl::string_view CpuWord(v1::CpuArchitecture cpu) {
  switch (cpu) {
    case v1::CPU_ARCHITECTURE_X86_64:
      return "x86-64";
    case v1::CPU_ARCHITECTURE_AARCH64:
      return "aarch64";
    case v1::CPU_ARCHITECTURE_OTHER:
      return "other";
    default:
      return "unknown";
  }
}

absl::string_view PlatformWord(v1::Platform platform) {
  switch (platform) {
    case v1::PLATFORM_STANDARD:
      return "standard";
    case v1::PLATFORM_TEGRA:
      return "tegra";
    case v1::PLATFORM_WSL:
      return "wsl";
    default:
      return "unknown";
  }
}

absl::string_view MigWord(v1::MigMode mode) {
  switch (mode) {
    case v1::MIG_MODE_UNSUPPORTED:
      return "unsupported";
    case v1::MIG_MODE_DISABLED:
      return "disabled";
    case v1::MIG_MODE_ENABLED:
      return "enabled";
    default:
      return "unknown";
  }
}

absl::string_view StateWord(v1::ProbeState state) {
  switch (state) {
    case v1::PROBE_STATE_OK:
      return "ok";
    case v1::PROBE_STATE_ABSENT:
      return "absent";
    case v1::PROBE_STATE_FAILED:
      return "failed";
    case v1::PROBE_STATE_HUNG:
      return "hung";
    default:
      return "unknown";
  }
}

std::string VersionWord(const v1::Version& version) {
  return version.major() == 0 ? "unknown" : TwoPart::From(version).ToString();
}

// Builds the lines. UUIDs can be left out: hosts of a class differ in them.
class ConditionLines {
 public:
  explicit ConditionLines(bool with_uuids) : with_uuids_(with_uuids) {}

  v1::Conditions Build(
      const v1::HostFacts& facts,
      const google::protobuf::RepeatedPtrField<v1::ResolvedLibrary>& resolved =
          {}) {
    Host(facts);
    for (int i = 0; i < facts.gpus_size(); ++i) AddGpu(i, facts.gpus(i));
    for (const v1::Library& library : facts.libraries()) {
      // Runs start without LD_LIBRARY_PATH, and no loader takes one that only
      // lies in a toolkit's folder.
      if (library.place() == v1::LIBRARY_PLACE_LIBRARY_PATH ||
          library.place() == v1::LIBRARY_PLACE_TOOLKIT) {
        continue;
      }
      Add(absl::StrCat("library.", library.soname()),
          library.has_digest() ? DigestHex(library.digest())
                               : absl::string_view(library.path()));
    }
    for (const v1::ResolvedLibrary& library : resolved) {
      if (library.source() == v1::LIBRARY_SOURCE_UNKNOWN) continue;
      Add(absl::StrCat("needs.", library.soname()),
          library.path().empty() ? "none" : library.path());
    }
    std::sort(lines_.begin(), lines_.end());
    lines_.erase(std::unique(lines_.begin(), lines_.end()), lines_.end());
    v1::Conditions conditions;
    Sha256Stream stream;
    for (std::string& line : lines_) {
      stream.Update(line);
      stream.Update("\n");
      conditions.add_lines(std::move(line));
    }
    conditions.mutable_digest()->set_sha256(stream.Finish().Raw());
    return conditions;
  }

 private:
  // Names are ours but for sonames, which may hold anything.
  void Add(absl::string_view name, absl::string_view value) {
    std::string escaped = EscapeConditionValue(name);
    // The first '=' ends the name.
    std::string safe;
    for (const char c : escaped) {
      if (c == '=') {
        safe += "\\x3D";
      } else {
        safe.push_back(c);
      }
    }
    lines_.push_back(absl::StrCat(
        safe, "=", value.empty() ? "unknown" : EscapeConditionValue(value)));
  }

  void Host(const v1::HostFacts& facts) {
    const v1::Driver& driver = facts.driver();
    Add("cpu", CpuWord(facts.cpu_architecture()));
    Add("platform", PlatformWord(facts.platform()));
    Add("os", absl::StrCat(facts.os().id(), " ", facts.os().version_id()));
    Add("kernel", facts.os().kernel_release());
    Add("driver.probe", StateWord(driver.probe().state()));
    Add("driver.kernel-module", driver.kernel_module_version());
    Add("driver.libcuda", driver.libcuda_version());
    Add("driver.libcuda-digest", DigestHex(driver.libcuda_digest()));
    Add("driver.cuda", VersionWord(driver.cuda_version()));
    if (driver.has_forward_compat()) {
      Add("driver.forward-compat",
          VersionWord(driver.forward_compat().cuda_version()));
    }
    Add("driver.jit-library", StateWord(driver.jit_library().state()));
    Add("gpus", absl::StrCat(facts.gpus_size()));
    if (facts.simulated()) Add("simulated", facts.profile());
  }

  void AddGpu(int index, const v1::Gpu& gpu) {
    const std::string prefix = absl::StrFormat("gpu.%03d.", index);
    Add(prefix + "name", gpu.name());
    Add(prefix + "capability",
        gpu.capability_probe().state() == v1::PROBE_STATE_OK
            ? VersionWord(gpu.compute_capability())
            : absl::StrCat("probe-",
                           StateWord(gpu.capability_probe().state())));
    Add(prefix + "mig", MigWord(gpu.mig_mode()));
    if (!gpu.parent_uuid().empty()) Add(prefix + "mig-instance", "yes");
    if (!with_uuids_) return;
    Add(prefix + "uuid", gpu.uuid());
    if (!gpu.parent_uuid().empty()) {
      Add(prefix + "parent-uuid", gpu.parent_uuid());
    }
  }

  bool with_uuids_;
  std::vector<std::string> lines_;
};

// name -> value of a conditions message. Names are unique but for libraries
// found twice; then the values are joined.
std::map<std::string, std::string> AsMap(const v1::Conditions& conditions) {
  std::map<std::string, std::string> result;
  for (const std::string& line : conditions.lines()) {
    const size_t at = line.find('=');
    const std::string name = line.substr(0, at);
    std::string value = at == std::string::npos ? "" : line.substr(at + 1);
    auto [it, inserted] = result.try_emplace(name, value);
    if (!inserted) absl::StrAppend(&it->second, ", ", value);
  }
  return result;
}

}  // namespace

std::string EscapeConditionValue(absl::string_view value) {
  std::string escaped;
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F || c == '\\') {
      absl::StrAppendFormat(&escaped, "\\x%02X", byte);
    } else {
      escaped.push_back(c);
    }
  }
  return escaped;
}

v1::Conditions ConditionsOf(const v1::HostFacts& facts) {
  return ConditionLines(/*with_uuids=*/true).Build(facts);
}

v1::Conditions ConditionsOf(
    const v1::HostFacts& facts,
    const google::protobuf::RepeatedPtrField<v1::ResolvedLibrary>& resolved) {
  return ConditionLines(/*with_uuids=*/true).Build(facts, resolved);
}

std::string ClassOf(const v1::HostFacts& facts) {
  return DigestHex(ConditionLines(/*with_uuids=*/false).Build(facts).digest());
}

std::vector<std::string> DescribeChange(const v1::Conditions& before,
                                        const v1::Conditions& after) {
  std::map<std::string, std::string> old_values = AsMap(before);
  std::map<std::string, std::string> new_values = AsMap(after);
  std::set<std::string> names;
  for (const auto& [name, value] : old_values) names.insert(name);
  for (const auto& [name, value] : new_values) names.insert(name);
  std::vector<std::string> changes;
  for (const std::string& name : names) {
    const auto was = old_values.find(name);
    const auto is = new_values.find(name);
    const std::string from = was == old_values.end() ? "absent" : was->second;
    const std::string to = is == new_values.end() ? "absent" : is->second;
    if (from != to)
      changes.push_back(absl::StrCat(name, ": ", from, " -> ", to));
  }
  return changes;
}

}  // namespace twinpath::compat
