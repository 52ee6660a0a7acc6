#include "compat/assume.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/text.h"
#include "compat/target.h"

namespace twinpath::compat {
namespace {

void SetVersion(TwoPart value, v1::Version* version) {
  version->set_major(value.major);
  version->set_minor(value.minor);
}

std::string KnownBranches(const Tables& tables) {
  std::vector<std::string> names;
  for (const DriverRow& row : tables.drivers()) {
    names.push_back(absl::StrCat("R", row.branch));
  }
  return absl::StrJoin(names, ", ");
}

// "R595", "595" or "595.45.04"; the dotted version goes to `version`.
absl::StatusOr<const DriverRow*> ParseDriver(absl::string_view key,
                                             absl::string_view value,
                                             const Tables& tables,
                                             std::string* version) {
  absl::string_view rest = value;
  absl::ConsumePrefix(&rest, "R") || absl::ConsumePrefix(&rest, "r");
  const auto dotted = DriverVersion::Parse(rest);
  uint32_t branch = 0;
  if (dotted) {
    branch = dotted->branch();
    if (dotted->parts.size() > 1) *version = std::string(rest);
  } else if (!absl::SimpleAtoi(rest, &branch)) {
    return absl::InvalidArgumentError(absl::StrCat(
        key, "=", Printable(value), " is no driver; expected one such as ", key,
        "=R595 or ", key, "=595.45.04"));
  }
  const DriverRow* row = tables.FindDriver(branch);
  if (row == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        key, "=", Printable(value), ": the tables do not know driver branch R",
        branch, "; they know ", KnownBranches(tables)));
  }
  return row;
}

std::vector<std::string> WordsOf(absl::string_view name) {
  return absl::StrSplit(absl::AsciiStrToLower(name), absl::ByAnyChar(" /,()"),
                        absl::SkipEmpty());
}

// Splits "a4500" into "a" and "4500"; nullopt where the rest is no number.
std::optional<std::pair<absl::string_view, uint32_t>> Model(
    absl::string_view word) {
  size_t digits = 0;
  while (digits < word.size() &&
         absl::ascii_isalpha(static_cast<unsigned char>(word[digits]))) {
    ++digits;
  }
  uint32_t number = 0;
  if (word.size() - digits > 5 ||
      !absl::SimpleAtoi(word.substr(digits), &number)) {
    return std::nullopt;
  }
  return std::make_pair(word.substr(0, digits), number);
}

// Whether a word of a product of the tables stands for a word of a name:
// itself, "40xx" for 4090, "5050..5090" for 5070, "a2000..a6000" for a4500.
bool StandsFor(absl::string_view product, absl::string_view word) {
  if (product == word) return true;
  const auto model = Model(word);
  if (!model) return false;
  absl::string_view head = product;
  if (absl::ConsumeSuffix(&head, "xx")) {
    return !head.empty() && word.size() == product.size() &&
           absl::StartsWith(word, head);
  }
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(product, absl::MaxSplits("..", 1));
  const auto low = Model(ends.first);
  const auto high = Model(ends.second);
  if (!low || !high || low->first != model->first) return false;
  // Models of 2000..6000 go by hundreds, of 5050..5090 by tens.
  const uint32_t step =
      low->second % 100 == 0 && high->second % 100 == 0 ? 100 : 10;
  return model->second >= low->second && model->second <= high->second &&
         model->second % step == 0;
}

// Whether the words of a name stand in a product's in their order; `exact`: the
// product has no others.
bool IsProduct(const std::vector<std::string>& product,
               const std::vector<std::string>& name, bool* exact) {
  size_t next = 0;
  for (const std::string& word : product) {
    if (next < name.size() && StandsFor(word, name[next])) ++next;
  }
  *exact = product.size() == name.size();
  return next == name.size();
}

absl::StatusOr<const GpuRow*> ParseGpu(absl::string_view value,
                                       const Tables& tables) {
  // What was renamed is known by its present number.
  const auto present = [&tables](const GpuRow* row) {
    const GpuRow* renamed =
        row->renamed_to == 0 ? nullptr : tables.FindGpu(row->renamed_to);
    return renamed == nullptr ? row : renamed;
  };
  if (const auto target = ParseTarget(value); target.ok()) {
    const GpuRow* row = tables.FindGpu(target->number());
    if (row != nullptr) return present(row);
  }
  std::vector<std::string> wanted = WordsOf(value);
  if (!wanted.empty() && wanted.front() == "nvidia") {
    wanted.erase(wanted.begin());
  }
  std::vector<std::string> known;
  std::map<uint32_t, std::pair<const GpuRow*, std::string>> exact;
  std::map<uint32_t, std::pair<const GpuRow*, std::string>> found;
  for (const GpuRow& row : tables.gpus()) {
    if (row.products.empty() || wanted.empty()) continue;
    known.push_back(CapabilityName(row.number));
    for (const std::string& product : row.products) {
      bool is_exact = false;
      if (!IsProduct(WordsOf(product), wanted, &is_exact)) continue;
      const GpuRow* now = present(&row);
      found.try_emplace(now->number, now, product);
      if (is_exact) exact.try_emplace(now->number, now, product);
    }
  }
  if (exact.size() == 1) found = exact;
  if (found.size() == 1) return found.begin()->second.first;
  if (found.size() > 1) {
    std::vector<std::string> texts;
    for (const auto& [number, hit] : found) {
      texts.push_back(
          absl::StrCat(CapabilityName(number), " (", hit.second, ")"));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "gpu=", Printable(value), " may be ", absl::StrJoin(texts, ", "),
        "; state the compute capability, such as gpu=",
        CapabilityName(found.rbegin()->first)));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "gpu=", Printable(value), ": the tables do not know this GPU; they know ",
      absl::StrJoin(known, ", ")));
}

void SetDriver(const DriverRow& row, absl::string_view version,
               v1::Driver* driver) {
  if (driver->probe().state() != v1::PROBE_STATE_OK) {
    // A driver where there was none brings its compiler along.
    driver->mutable_jit_library()->set_state(v1::PROBE_STATE_OK);
    driver->mutable_jit_library()->clear_error();
  }
  driver->mutable_probe()->Clear();
  driver->mutable_probe()->set_state(v1::PROBE_STATE_OK);
  driver->set_libcuda_is_stub(false);
  driver->set_kernel_module_version(std::string(version));
  driver->set_libcuda_version(std::string(version));
  driver->set_branch(absl::StrCat("R", row.branch));
  SetVersion(row.cuda, driver->mutable_cuda_version());
  // Measured with the driver there was.
  driver->clear_ptx_isa_ceiling();
  driver->clear_ptx_isa_probe();
  driver->clear_libcuda_digest();
  driver->clear_forward_compat();
}

void SetGpu(const GpuRow& row, v1::HostFacts* facts) {
  facts->mutable_gpu_probe()->Clear();
  facts->mutable_gpu_probe()->set_state(v1::PROBE_STATE_OK);
  if (facts->gpus().empty()) facts->add_gpus();
  google::protobuf::RepeatedPtrField<v1::Gpu> gpus;
  for (const v1::Gpu& old : facts->gpus()) {
    if (!old.parent_uuid().empty()) continue;
    v1::Gpu& gpu = *gpus.Add();
    gpu.set_uuid(old.uuid());
    gpu.set_pci_address(old.pci_address());
    gpu.set_name(row.products.empty() ? CapabilityName(row.number)
                                      : row.products.front());
    gpu.mutable_capability_probe()->set_state(v1::PROBE_STATE_OK);
    gpu.mutable_compute_capability()->set_major(row.number / 10);
    gpu.mutable_compute_capability()->set_minor(row.number % 10);
    gpu.set_mig_mode(v1::MIG_MODE_DISABLED);
  }
  facts->mutable_gpus()->Swap(&gpus);
}

// Jetsons are hosts of their own kind, with an Arm CPU and a driver that has a
// CUDA version and no branch.
void SetPlatform(const GpuRow& row, v1::HostFacts* facts) {
  const bool was_tegra = facts->platform() == v1::PLATFORM_TEGRA;
  if (row.tegra() == was_tegra) return;
  facts->set_platform(row.tegra() ? v1::PLATFORM_TEGRA : v1::PLATFORM_STANDARD);
  if (!row.tegra()) return;
  facts->set_cpu_architecture(v1::CPU_ARCHITECTURE_AARCH64);
  v1::Driver& driver = *facts->mutable_driver();
  driver.clear_kernel_module_version();
  driver.clear_libcuda_version();
  driver.clear_branch();
  driver.clear_ptx_isa_ceiling();
  driver.clear_ptx_isa_probe();
}

v1::HostFacts Bare(v1::CpuArchitecture cpu, v1::Platform platform) {
  v1::HostFacts facts;
  facts.set_cpu_architecture(cpu);
  facts.set_platform(platform);
  facts.set_simulated(true);
  facts.mutable_driver()->mutable_jit_library()->set_state(v1::PROBE_STATE_OK);
  facts.mutable_driver()->mutable_probe()->set_state(v1::PROBE_STATE_OK);
  return facts;
}

}  // namespace

absl::StatusOr<Assumption> ParseAssumption(
    const std::vector<std::string>& words, const Tables& tables) {
  Assumption out;
  for (const std::string& word : words) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(word, absl::MaxSplits('=', 1));
    const auto& [key, value] = parts;
    if (key == "driver") {
      TWINPATH_ASSIGN_OR_RETURN(
          out.driver, ParseDriver(key, value, tables, &out.driver_version));
    } else if (key == "libcuda") {
      TWINPATH_ASSIGN_OR_RETURN(
          out.libcuda, ParseDriver(key, value, tables, &out.libcuda_version));
    } else if (key == "cuda") {
      out.cuda = TwoPart::Parse(value);
      if (!out.cuda || tables.FindDriverByCuda(*out.cuda) == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(
            "cuda=", Printable(value),
            ": the tables know no driver with this CUDA version; expected one "
            "such as cuda=",
            tables.drivers().back().cuda.ToString()));
      }
    } else if (key == "gpu") {
      TWINPATH_ASSIGN_OR_RETURN(out.gpu, ParseGpu(value, tables));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", Printable(word),
                       "\" is no assumption; expected driver=R595, cuda=13.2, "
                       "libcuda=R595 or gpu=12.1"));
    }
  }
  if (out.driver != nullptr && out.cuda) {
    return absl::InvalidArgumentError(
        "driver= and cuda= both name a driver; state one of them");
  }
  if (out.gpu != nullptr && out.gpu->tegra() &&
      (out.driver != nullptr || out.libcuda != nullptr)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gpu=", CapabilityName(out.gpu->number),
        " is a Jetson's, whose driver comes with JetPack: state cuda= in place "
        "of ",
        out.driver != nullptr ? "driver=" : "libcuda="));
  }
  if (out.cuda) out.driver = tables.FindDriverByCuda(*out.cuda);
  return out;
}

bool Applies(const v1::HostFacts& facts, const Assumption& assumption) {
  if (assumption.gpu != nullptr || assumption.cuda) return true;
  return facts.platform() != v1::PLATFORM_TEGRA &&
         (assumption.driver != nullptr || assumption.libcuda != nullptr);
}

v1::HostFacts Assume(v1::HostFacts facts, const Assumption& assumption) {
  if (assumption.gpu != nullptr) {
    SetPlatform(*assumption.gpu, &facts);
    SetGpu(*assumption.gpu, &facts);
  }
  const bool tegra = facts.platform() == v1::PLATFORM_TEGRA;
  v1::Driver& driver = *facts.mutable_driver();
  if (tegra && assumption.cuda) {
    driver.mutable_probe()->Clear();
    driver.mutable_probe()->set_state(v1::PROBE_STATE_OK);
    SetVersion(*assumption.cuda, driver.mutable_cuda_version());
    driver.clear_kernel_module_version();
    driver.clear_libcuda_version();
    driver.clear_branch();
    driver.clear_ptx_isa_ceiling();
    driver.clear_ptx_isa_probe();
  } else if (!tegra && assumption.driver != nullptr) {
    SetDriver(*assumption.driver, assumption.driver_version, &driver);
  }
  if (!tegra && assumption.libcuda != nullptr) {
    const DriverRow& row = *assumption.libcuda;
    driver.set_libcuda_version(assumption.libcuda_version.empty()
                                   ? absl::StrCat(row.branch)
                                   : assumption.libcuda_version);
    driver.clear_libcuda_path();
    // A package of that branch in front of the module there is; which drivers
    // its note would list is not known. The model decides whether it works, so
    // what was measured with another libcuda goes.
    driver.mutable_forward_compat()->Clear();
    SetVersion(row.cuda,
               driver.mutable_forward_compat()->mutable_cuda_version());
    driver.clear_cuda_version();
    facts.set_simulated(true);
    driver.clear_ptx_isa_ceiling();
    driver.clear_ptx_isa_probe();
    driver.clear_libcuda_digest();
  }
  return facts;
}

bool Drives(const DriverRow& driver, const GpuRow& gpu) {
  if (gpu.toolkit_first && driver.cuda < *gpu.toolkit_first) return false;
  // JetPack ties the driver to the toolkit, so the last toolkit that knows the
  // part is the last on it.
  if (gpu.tegra()) return !gpu.toolkit_last || driver.cuda <= *gpu.toolkit_last;
  return !gpu.driver_last || driver.branch <= *gpu.driver_last;
}

v1::HostFacts HostWith(const GpuRow& gpu, const DriverRow& driver,
                       v1::CpuArchitecture cpu) {
  v1::HostFacts facts =
      Bare(cpu, gpu.tegra() ? v1::PLATFORM_TEGRA : v1::PLATFORM_STANDARD);
  SetGpu(gpu, &facts);
  facts.mutable_gpus(0)->set_uuid("GPU-assumed");
  SetVersion(driver.cuda, facts.mutable_driver()->mutable_cuda_version());
  if (!gpu.tegra()) {
    facts.mutable_driver()->set_branch(absl::StrCat("R", driver.branch));
  }
  return facts;
}

v1::HostFacts HostOfNextMajor(const Tables& tables, v1::CpuArchitecture cpu) {
  uint32_t newest = 0;
  for (const GpuRow& row : tables.gpus()) newest = std::max(newest, row.number);
  GpuRow next;
  next.number = (newest / 10 + 1) * 10;
  next.products = {"a GPU of the next major"};
  return HostWith(next, tables.drivers().back(), cpu);
}

}  // namespace twinpath::compat
