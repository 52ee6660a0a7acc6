#include "compat/profile.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "base/version.h"
#include "base/yaml_document.h"
#include "compat/tables.h"
#include "compat/target.h"

namespace twinpath::compat {
namespace {

constexpr char kSuffix[] = ".yaml";
constexpr int kMaxGpusOfARow = 64;

// A UUID in the driver's spelling, made from a text.
std::string MadeUuid(absl::string_view prefix, absl::string_view seed) {
  const std::string hex = Sha256Of(seed).Hex();
  return absl::StrCat(prefix, hex.substr(0, 8), "-", hex.substr(8, 4), "-",
                      hex.substr(12, 4), "-", hex.substr(16, 4), "-",
                      hex.substr(20, 12));
}

v1::Version ReadVersion(YamlReader reader) {
  v1::Version version;
  if (!reader.present()) return version;
  const std::string text = reader.String();
  const auto parsed = TwoPart::Parse(text);
  if (!parsed) {
    reader.Error(absl::StrCat("expected a version such as \"13.0\", got \"",
                              text, "\""));
    return version;
  }
  version.set_major(parsed->major);
  version.set_minor(parsed->minor);
  return version;
}

void ReadHost(YamlReader host, v1::HostFacts& facts) {
  const std::string cpu =
      host.Required("cpu").Choice({"x86-64", "aarch64", "other"});
  facts.set_cpu_architecture(cpu == "x86-64"    ? v1::CPU_ARCHITECTURE_X86_64
                             : cpu == "aarch64" ? v1::CPU_ARCHITECTURE_AARCH64
                                                : v1::CPU_ARCHITECTURE_OTHER);
  const std::string platform =
      host.Required("platform").Choice({"standard", "tegra", "wsl"});
  facts.set_platform(platform == "standard" ? v1::PLATFORM_STANDARD
                     : platform == "tegra"  ? v1::PLATFORM_TEGRA
                                            : v1::PLATFORM_WSL);
  v1::OperatingSystem& os = *facts.mutable_os();
  os.set_id(host.Required("os").String());
  os.set_version_id(host.Required("os_version").String());
  os.set_pretty_name(host.Optional("os_name").String());
  os.set_kernel_release(host.Required("kernel").String());
  host.RejectUnknownKeys();
}

void ReadDriver(YamlReader reader, v1::Driver& driver) {
  YamlReader version = reader.Required("version");
  const std::string text = version.String();
  const auto parsed = DriverVersion::Parse(text);
  if (version.present() && !parsed) {
    version.Error(
        absl::StrCat("expected a driver version, got \"", text, "\""));
  }
  driver.mutable_probe()->set_state(v1::PROBE_STATE_OK);
  driver.set_kernel_module_version(text);
  YamlReader libcuda_version = reader.Optional("libcuda_version");
  driver.set_libcuda_version(
      libcuda_version.present() ? libcuda_version.String() : text);
  driver.set_libcuda_path(reader.Required("libcuda").String());
  if (parsed) driver.set_branch(absl::StrCat("R", parsed->branch()));
  *driver.mutable_cuda_version() = ReadVersion(reader.Required("cuda"));
  // Nothing was measured, so the tables say what the compiler takes.
  driver.mutable_ptx_isa_probe()->set_state(v1::PROBE_STATE_UNSPECIFIED);
  YamlReader jit = reader.Optional("jit_library");
  driver.mutable_jit_library()->set_state(jit.present() && !jit.Bool()
                                              ? v1::PROBE_STATE_ABSENT
                                              : v1::PROBE_STATE_OK);
  // The driver does not start: a half-done upgrade, a package that is refused.
  YamlReader error = reader.Optional("init_error");
  if (error.present()) {
    driver.mutable_probe()->set_state(v1::PROBE_STATE_FAILED);
    driver.mutable_probe()->set_cuda_error(
        static_cast<uint32_t>(error.Int(1, 9999)));
    driver.mutable_probe()->set_error(
        absl::StrCat("cuInit: CUDA error ", driver.probe().cuda_error()));
  }
  // The libcuda found is one of a cuda-compat package; `cuda` is then what the
  // driver has without it.
  YamlReader compat = reader.Optional("forward_compat");
  if (compat.present()) {
    v1::ForwardCompatNote& note = *driver.mutable_forward_compat();
    *note.mutable_cuda_version() = ReadVersion(compat.Required("cuda"));
    YamlReader branches = compat.Optional("drivers");
    if (branches.present()) {
      for (YamlReader branch : branches.Sequence()) {
        note.add_driver_branches(static_cast<uint32_t>(branch.Int(1, 9999)));
      }
    }
    compat.RejectUnknownKeys();
  }
  YamlReader nodes = reader.Optional("missing_nodes");
  if (nodes.present()) {
    for (const std::string& node : nodes.StringSequence()) {
      driver.add_missing_nodes(node);
    }
  }
  reader.RejectUnknownKeys();
}

// CUDA libraries of the host, and the stems of which these are all.
void ReadLoader(YamlReader reader, v1::HostFacts& facts) {
  if (!reader.present()) return;
  for (YamlReader row : reader.Required("libraries").Sequence()) {
    const std::string path = row.String();
    v1::Library& library = *facts.add_libraries();
    library.set_path(path);
    library.set_soname(std::string(BaseName(path)));
    library.set_place(v1::LIBRARY_PLACE_CACHE);
  }
  for (const std::string& stem :
       reader.Required("complete_for").StringSequence()) {
    facts.mutable_loader()->add_complete_for(stem);
  }
  reader.RejectUnknownKeys();
}

// What programs inherit: "NAME=value" in /etc/environment.
void ReadEnvironment(YamlReader reader, v1::HostFacts& facts) {
  if (!reader.present()) return;
  uint32_t line = 0;
  for (YamlReader row : reader.Sequence()) {
    const std::string text = row.String();
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      row.Error(absl::StrCat("expected NAME=value, got \"", text, "\""));
      continue;
    }
    v1::EnvironmentLeak& leak = *facts.add_leaks();
    leak.set_variable(text.substr(0, equals));
    leak.set_value(text.substr(equals + 1));
    leak.set_origin("/etc/environment");
    leak.set_line(++line);
  }
}

void ReadGpus(YamlReader reader, absl::string_view profile,
              v1::HostFacts& facts) {
  const std::vector<YamlReader> rows = reader.Sequence();
  for (YamlReader row : rows) {
    v1::Gpu gpu;
    gpu.set_name(row.Required("name").String());
    *gpu.mutable_compute_capability() = ReadVersion(row.Required("capability"));
    gpu.mutable_capability_probe()->set_state(v1::PROBE_STATE_OK);
    YamlReader memory = row.Optional("memory");
    if (memory.present()) gpu.set_memory_bytes(memory.Bytes());
    YamlReader integrated = row.Optional("integrated");
    if (integrated.present()) gpu.set_integrated(integrated.Bool());
    const std::string mig =
        row.Required("mig").Choice({"unsupported", "disabled", "enabled"});
    gpu.set_mig_mode(mig == "unsupported" ? v1::MIG_MODE_UNSUPPORTED
                     : mig == "disabled"  ? v1::MIG_MODE_DISABLED
                                          : v1::MIG_MODE_ENABLED);
    // MIG instances, by their profile.
    std::vector<std::string> instances;
    YamlReader instance_reader = row.Optional("instances");
    if (instance_reader.present()) {
      instances = instance_reader.StringSequence();
      if (mig != "enabled") instance_reader.Error("MIG is not enabled");
    }
    YamlReader count_reader = row.Optional("count");
    const int64_t count =
        count_reader.present() ? count_reader.Int(1, kMaxGpusOfARow) : 1;
    row.RejectUnknownKeys();
    for (int64_t i = 0; i < count; ++i) {
      v1::Gpu& added = *facts.add_gpus();
      added = gpu;
      const int index = facts.gpus_size() - 1;
      added.set_uuid(MadeUuid(
          "GPU-", absl::StrCat("twinpath profile ", profile, " gpu ", index)));
      added.set_pci_address(absl::StrFormat("00000000:%02X:00.0", index + 1));
      const v1::Gpu parent = added;
      for (const std::string& instance : instances) {
        v1::Gpu& slice = *facts.add_gpus();
        slice = parent;
        slice.set_name(absl::StrCat(parent.name(), " MIG ", instance));
        slice.set_parent_uuid(parent.uuid());
        slice.clear_memory_bytes();
        slice.set_uuid(
            MadeUuid("MIG-", absl::StrCat("twinpath profile ", profile, " gpu ",
                                          facts.gpus_size() - 1)));
      }
    }
  }
  if (reader.present() && rows.empty()) reader.Error("at least one GPU");
  facts.mutable_gpu_probe()->set_state(v1::PROBE_STATE_OK);
}

void ReadToolkits(YamlReader reader, v1::HostFacts& facts) {
  for (YamlReader row : reader.Sequence()) {
    v1::Toolkit& toolkit = *facts.add_toolkits();
    toolkit.set_path(row.Required("path").String());
    toolkit.set_nvcc_version(row.Required("nvcc").String());
    YamlReader targets = row.Required("targets");
    for (const std::string& word : targets.StringSequence()) {
      absl::StatusOr<v1::Target> target = ParseTarget(word);
      if (target.ok()) {
        *toolkit.add_targets() = *std::move(target);
      } else {
        targets.Error(std::string(target.status().message()));
      }
    }
    toolkit.mutable_probe()->set_state(v1::PROBE_STATE_OK);
    row.RejectUnknownKeys();
  }
}

absl::StatusOr<v1::HostFacts> LoadFile(const std::string& path) {
  TWINPATH_ASSIGN_OR_RETURN_CTX(YamlDocument document, YamlDocument::Load(path),
                                "host profile");
  YamlReader root = document.root();
  v1::HostFacts facts;
  const std::string name = root.Required("profile").String();
  root.Required("summary").String();
  root.Required("source").StringSequence();
  ReadHost(root.Required("host"), facts);
  ReadDriver(root.Required("driver"), *facts.mutable_driver());
  ReadGpus(root.Required("gpus"), name, facts);
  ReadToolkits(root.Optional("toolkits"), facts);
  ReadLoader(root.Optional("loader"), facts);
  ReadEnvironment(root.Optional("environment"), facts);
  root.RejectUnknownKeys();
  TWINPATH_RETURN_IF_ERROR(document.status());
  facts.set_host_name(name);
  facts.set_machine_id(
      Sha256Of(absl::StrCat("twinpath profile ", name, " machine")).Hex());
  facts.set_boot_id(
      MadeUuid("", absl::StrCat("twinpath profile ", name, " boot")));
  facts.set_agent_version(TWINPATH_VERSION);
  facts.set_simulated(true);
  facts.set_profile(name);
  return facts;
}

}  // namespace

absl::StatusOr<v1::HostFacts> LoadProfile(absl::string_view name_or_path) {
  if (name_or_path.find('/') != absl::string_view::npos ||
      absl::EndsWith(name_or_path, kSuffix)) {
    return LoadFile(std::string(name_or_path));
  }
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            ListProfiles());
  for (const std::string& name : names) {
    if (name != name_or_path) continue;
    TWINPATH_ASSIGN_OR_RETURN(const std::string dir,
                              FindData("compat/profiles"));
    return LoadFile(JoinPath(dir, absl::StrCat(name, kSuffix)));
  }
  const std::string nearest = NearestWord(name_or_path, names);
  return absl::NotFoundError(absl::StrCat(
      "no profile named \"", Printable(name_or_path), "\"",
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"),
      "; profiles: ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<std::vector<std::string>> ListProfiles() {
  TWINPATH_ASSIGN_OR_RETURN(const std::string dir, FindData("compat/profiles"));
  TWINPATH_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                            ListDirectory(dir));
  std::vector<std::string> names;
  for (absl::string_view file : files) {
    if (absl::ConsumeSuffix(&file, kSuffix)) names.emplace_back(file);
  }
  return names;
}

}  // namespace twinpath::compat
