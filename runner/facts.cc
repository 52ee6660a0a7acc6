#include "runner/facts.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "runner/inventory.h"
#include "runner/leaks.h"
#include "runner/loader.h"
#include "runner/toolkit.h"

extern char** environ;

namespace twinpath::runner {
namespace {

constexpr uint64_t kSmallFile = 64 << 10;
constexpr const char* kUsualPrograms =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

std::string SmallFile(const std::string& path) {
  const auto text = ReadFile(path, kSmallFile);
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

// Value of KEY=value in os-release, quotes removed.
std::string OsReleaseValue(absl::string_view text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, key) || !absl::ConsumePrefix(&line, "=")) {
      continue;
    }
    line = absl::StripAsciiWhitespace(line);
    if (line.size() >= 2 && (line.front() == '"' || line.front() == '\'') &&
        line.back() == line.front()) {
      line = line.substr(1, line.size() - 2);
    }
    return std::string(line);
  }
  return "";
}

// CUDA libraries where the loader looks, and what it can be told from them.
void AddLibraries(const FactsOptions& options,
                  const std::vector<std::string>& environment,
                  v1::HostFacts& facts) {
  std::vector<CachedLibrary> cache;
  // The cache is this host's, whatever root is asked about.
  if (options.root.empty()) cache = LoaderCache();
  std::vector<v1::Library> libraries =
      CudaLibraries(cache, options.library_digests);
  const auto add = [&](const std::vector<std::string>& folders,
                       v1::LibraryPlace place) {
    for (v1::Library& library :
         CudaLibrariesIn(folders, place, libraries, options.root)) {
      if (options.library_digests) {
        if (const auto digest = Sha256OfFile(options.root + library.path());
            digest.ok()) {
          library.mutable_digest()->set_sha256(digest->Raw());
        }
      }
      libraries.push_back(std::move(library));
    }
  };
  std::vector<std::string> path;
  for (v1::LoaderFolder& folder : LibraryPath(options.root, environment)) {
    path.push_back(folder.path());
    *facts.mutable_loader()->add_library_path() = std::move(folder);
  }
  add(path, v1::LIBRARY_PLACE_LIBRARY_PATH);
  // Behind the cache: what ldconfig was not run for. The folders are links to
  // each other on many systems, so a name counts once.
  std::set<std::string> cached;
  for (const v1::Library& library : libraries) {
    if (library.place() == v1::LIBRARY_PLACE_CACHE) {
      cached.insert(library.soname());
    }
  }
  for (v1::Library& library :
       CudaLibrariesIn(DefaultLibraryFolders(), v1::LIBRARY_PLACE_CACHE,
                       libraries, options.root)) {
    if (cached.insert(library.soname()).second) {
      libraries.push_back(std::move(library));
    }
  }
  std::vector<std::string> toolkits;
  for (const v1::Toolkit& toolkit : facts.toolkits()) {
    for (const char* folder :
         {"/lib64", "/lib", "/targets/x86_64-linux/lib",
          "/targets/sbsa-linux/lib", "/targets/aarch64-linux/lib"}) {
      toolkits.push_back(absl::StrCat(toolkit.path(), folder));
    }
  }
  add(toolkits, v1::LIBRARY_PLACE_TOOLKIT);
  for (v1::Library& library : libraries) {
    *facts.add_libraries() = std::move(library);
  }
  // Without a cache there may be folders nobody knows of.
  if (cache.empty()) return;
  for (std::string& stem : CudaLibraryStems()) {
    facts.mutable_loader()->add_complete_for(std::move(stem));
  }
}

// Containers and tracing. Behind toolkits and libraries.
void AddInventory(const FactsOptions& options,
                  const std::vector<std::string>& environment,
                  v1::HostFacts& facts) {
  std::string path;
  for (const std::string& variable : environment) {
    if (absl::StartsWith(variable, "PATH=")) path = variable.substr(5);
  }
  // What is installed for everybody, whatever this process inherited.
  absl::StrAppend(&path, path.empty() ? "" : ":", kUsualPrograms);
  if (options.root.empty()) {
    for (v1::OciRuntime& runtime :
         FindOciRuntimes(path, options.toolkit_deadline)) {
      *facts.add_oci_runtimes() = std::move(runtime);
    }
  }
  for (std::string& device : CdiDevices(options.root)) {
    facts.add_cdi_devices(std::move(device));
  }
  std::vector<std::string> found;
  for (const v1::Library& library : facts.libraries()) {
    if (library.place() != v1::LIBRARY_PLACE_TOOLKIT) {
      found.push_back(library.path());
    }
  }
  facts.set_cupti_path(FindCupti(options.root, facts, found));
}

}  // namespace

v1::OperatingSystem ReadOperatingSystem(const std::string& root) {
  v1::OperatingSystem os;
  std::string text = SmallFile(root + "/etc/os-release");
  if (text.empty()) text = SmallFile(root + "/usr/lib/os-release");
  os.set_id(OsReleaseValue(text, "ID"));
  os.set_version_id(OsReleaseValue(text, "VERSION_ID"));
  os.set_pretty_name(OsReleaseValue(text, "PRETTY_NAME"));
  if (root.empty()) {
    struct utsname names;
    if (uname(&names) == 0) os.set_kernel_release(names.release);
  } else {
    os.set_kernel_release(SmallFile(root + "/proc/sys/kernel/osrelease"));
  }
  return os;
}

v1::Platform DetectPlatform(const std::string& root,
                            const v1::ProbeResponse& probe) {
  // The order of NVIDIA's container toolkit: WSL by its library, then Tegra by
  // its files or the names of its GPUs, else a normal driver.
  if (access((root + "/usr/lib/wsl/lib/libdxcore.so").c_str(), F_OK) == 0) {
    return v1::PLATFORM_WSL;
  }
  for (const v1::Gpu& gpu : probe.gpus()) {
    if (absl::StrContains(gpu.name(), "(nvgpu)") ||
        gpu.name() == "NVIDIA Thor") {
      return v1::PLATFORM_TEGRA;
    }
  }
  if (access((root + "/etc/nv_tegra_release").c_str(), F_OK) == 0 ||
      absl::StartsWithIgnoreCase(SmallFile(root + "/sys/devices/soc0/family"),
                                 "tegra")) {
    return v1::PLATFORM_TEGRA;
  }
  return v1::PLATFORM_STANDARD;
}

std::string HashedMachineId(const std::string& root) {
  std::string id = SmallFile(root + "/etc/machine-id");
  if (id.empty()) id = SmallFile(root + "/var/lib/dbus/machine-id");
  if (id.empty()) return "";
  return Sha256Of(absl::StrCat("twinpath machine-id\n", id)).Hex();
}

v1::CpuArchitecture HostCpuArchitecture() {
#if defined(__x86_64__)
  return v1::CPU_ARCHITECTURE_X86_64;
#elif defined(__aarch64__)
  return v1::CPU_ARCHITECTURE_AARCH64;
#else
  return v1::CPU_ARCHITECTURE_OTHER;
#endif
}

std::string DriverBranch(const std::string& version) {
  const size_t end = version.find_first_not_of("0123456789");
  const std::string major = version.substr(0, end);
  if (major.empty() || major.size() > 4) return "";
  return absl::StrCat("R", major);
}

v1::HostFacts CollectFacts(const FactsOptions& options) {
  v1::HostFacts facts;
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) == 0) facts.set_host_name(name);
  facts.set_machine_id(HashedMachineId(options.root));
  facts.set_boot_id(
      SmallFile(options.root + "/proc/sys/kernel/random/boot_id"));
  facts.set_cpu_architecture(HostCpuArchitecture());
  *facts.mutable_os() = ReadOperatingSystem(options.root);
  facts.set_agent_version(options.version);

  v1::ProbeResponse probe;
  if (options.driver) {
    v1::ProbeRequest request;
    request.set_driver(true);
    request.set_ptx_isa_ceiling(options.ptx_isa_ceiling);
    absl::StatusOr<v1::ProbeResponse> answer =
        ProbeInChild(request, options.probe_deadline, options.probe);
    if (answer.ok()) {
      probe = *std::move(answer);
    } else {
      for (v1::ProbeResult* result : {probe.mutable_driver()->mutable_probe(),
                                      probe.mutable_gpu_probe()}) {
        result->set_state(v1::PROBE_STATE_FAILED);
        result->set_error(std::string(MessageOf(answer.status())));
      }
    }
    *facts.mutable_driver() = probe.driver();
    *facts.mutable_gpu_probe() = probe.gpu_probe();
    *facts.mutable_gpus() = probe.gpus();
    v1::Driver& driver = *facts.mutable_driver();
    driver.set_branch(DriverBranch(driver.kernel_module_version().empty()
                                       ? driver.libcuda_version()
                                       : driver.kernel_module_version()));
  }
  facts.set_platform(DetectPlatform(options.root, probe));

  std::vector<std::string> environment = options.environment;
  if (options.use_process_environment) {
    for (char** variable = environ; *variable != nullptr; ++variable) {
      environment.emplace_back(*variable);
    }
  }
  if (options.toolkits) {
    for (const std::string& folder : FindToolkits(options.root, environment)) {
      *facts.add_toolkits() = AskToolkit(folder, options.toolkit_deadline);
    }
  }
  if (options.libraries) AddLibraries(options, environment, facts);
  if (options.inventory) AddInventory(options, environment, facts);
  for (v1::EnvironmentLeak& leak : LeaksOfEnvironment(environment)) {
    *facts.add_leaks() = std::move(leak);
  }
  for (v1::EnvironmentLeak& leak : LeaksOfFiles(options.root)) {
    *facts.add_leaks() = std::move(leak);
  }
  const absl::Time now = absl::Now();
  facts.mutable_collected_time()->set_seconds(absl::ToUnixSeconds(now));
  facts.mutable_collected_time()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(
          now - absl::FromUnixSeconds(absl::ToUnixSeconds(now)))));
  return facts;
}

}  // namespace twinpath::runner
