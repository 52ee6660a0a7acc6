#include "compat/table_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compat/cuda_error.h"

namespace twinpath::compat {
namespace {

class Check {
 public:
  explicit Check(const Tables& tables) : tables_(tables) {}

  std::vector<TableFinding> Run() {
    Sources();
    Drivers();
    Toolkits();
    Gpus();
    Errors();
    Words();
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const TableFinding& a, const TableFinding& b) {
                       return a.severity > b.severity;
                     });
    return std::move(findings_);
  }

 private:
  void Add(ReasonSeverity severity, std::string place, std::string text) {
    findings_.push_back({severity, std::move(place), std::move(text)});
  }
  void Error(std::string place, std::string text) {
    Add(ReasonSeverity::kError, std::move(place), std::move(text));
  }
  void Warn(std::string place, std::string text) {
    Add(ReasonSeverity::kWarning, std::move(place), std::move(text));
  }
  void Note(std::string place, std::string text) {
    Add(ReasonSeverity::kNote, std::move(place), std::move(text));
  }

  void Sources() {
    for (const std::string& place : tables_.rows_without_address()) {
      Warn(place, "no source of the row has an address to look it up");
    }
    for (const TableSource& source : tables_.sources()) {
      if (source.rows == 0) {
        Note(absl::StrCat(source.file, ": ", source.key),
             "the source is declared and no row cites it");
      }
    }
  }

  // Rising order is checked when they are loaded.
  void Drivers() {
    std::map<std::string, TwoPart> isa_of_cuda;
    for (const ToolkitRow& toolkit : tables_.toolkits()) {
      isa_of_cuda[toolkit.cuda.ToString()] = toolkit.ptx_isa;
    }
    for (const DriverRow& driver : tables_.drivers()) {
      const auto it = isa_of_cuda.find(driver.cuda.ToString());
      if (it == isa_of_cuda.end()) {
        Note(absl::StrCat("drivers.yaml: ", driver.branch),
             absl::StrCat("no toolkit ", driver.cuda.ToString(),
                          " to compare its PTX ISA with"));
      } else if (it->second != driver.ptx_isa) {
        Error(absl::StrCat("drivers.yaml: ", driver.branch),
              absl::StrCat("PTX ISA ", driver.ptx_isa.ToString(),
                           ", but toolkit ", driver.cuda.ToString(),
                           " of toolkits.yaml writes ", it->second.ToString()));
      }
    }
    for (const auto& [major, version] : tables_.minimum_drivers()) {
      const std::optional<DriverVersion> parsed = DriverVersion::Parse(version);
      if (!parsed || tables_.FindDriver(parsed->branch()) == nullptr) {
        Warn(absl::StrCat("drivers.yaml: CUDA ", major),
             absl::StrCat("its lowest driver ", version,
                          " is of a branch that has no row"));
      }
    }
  }

  void Toolkits() {
    const ToolkitRow* last = nullptr;
    for (const ToolkitRow& toolkit : tables_.toolkits()) {
      const std::string place =
          absl::StrCat("toolkits.yaml: ", toolkit.release);
      if (last != nullptr &&
          (toolkit.cuda < last->cuda || toolkit.ptx_isa < last->ptx_isa)) {
        Error(place, absl::StrCat("its CUDA version or PTX ISA is below that "
                                  "of ",
                                  last->release, " before it"));
      }
      last = &toolkit;
      const std::optional<DriverVersion> minimum =
          DriverVersion::Parse(toolkit.minimum_driver);
      const std::optional<DriverVersion> packaged =
          DriverVersion::Parse(toolkit.packaged_driver);
      // Early releases of a major were packaged with drivers below the one that
      // minor-version compatibility asks for now (11.0), of the same branch.
      if (minimum && packaged && packaged->branch() < minimum->branch()) {
        Error(place, "the driver packaged with it is below its own minimum");
      }
      if (toolkit.targets.empty()) {
        Note(place, "its targets are not published yet");
      }
      if (packaged) {
        const DriverRow* driver = tables_.FindDriver(packaged->branch());
        if (driver == nullptr) {
          Note(place, absl::StrCat("its driver's branch ", packaged->branch(),
                                   " has no row in drivers.yaml"));
        } else if (driver->cuda < toolkit.cuda) {
          Error(place,
                absl::StrCat("packaged with driver ", toolkit.packaged_driver,
                             ", whose branch reports CUDA ",
                             driver->cuda.ToString(), " in drivers.yaml"));
        }
      }
      for (const v1::Target& target : toolkit.targets) {
        const GpuRow* gpu = tables_.FindGpu(target.number());
        if (gpu == nullptr) {
          Error(place, absl::StrCat("target ", target.number(),
                                    " has no row in gpus.yaml"));
          continue;
        }
        if (toolkit.ptx_isa < gpu->ptx_isa_min) {
          Error(place,
                absl::StrCat("lists target ", target.number(),
                             " and writes PTX ISA ", toolkit.ptx_isa.ToString(),
                             "; gpus.yaml says that the target needs ",
                             gpu->ptx_isa_min.ToString()));
        }
      }
    }
  }

  static bool Lists(const ToolkitRow& toolkit, uint32_t number) {
    for (const v1::Target& target : toolkit.targets) {
      if (target.number() == number) return true;
    }
    return false;
  }

  void Gpus() {
    for (const GpuRow& gpu : tables_.gpus()) {
      const std::string place =
          absl::StrCat("gpus.yaml: ", gpu.number / 10, ".", gpu.number % 10);
      if (gpu.toolkit_first && gpu.toolkit_last &&
          *gpu.toolkit_last < *gpu.toolkit_first) {
        Error(place, "its last toolkit is before its first");
      }
      if (gpu.ptx_isa_min_arch && *gpu.ptx_isa_min_arch < gpu.ptx_isa_min) {
        Error(place, "suffix a needs an older PTX ISA than the plain target");
      }
      if (gpu.ptx_isa_min_family && *gpu.ptx_isa_min_family < gpu.ptx_isa_min) {
        Error(place, "suffix f needs an older PTX ISA than the plain target");
      }
      if (gpu.has_arch_suffix != gpu.ptx_isa_min_arch.has_value()) {
        Error(place, "suffix a and ptx_isa_min_arch go together");
      }
      if (gpu.has_family_suffix != gpu.ptx_isa_min_family.has_value()) {
        Error(place, "suffix f and ptx_isa_min_family go together");
      }
      if (gpu.driver_last && tables_.FindDriver(*gpu.driver_last) == nullptr) {
        Error(place, absl::StrCat("its last driver branch ", *gpu.driver_last,
                                  " has no row in drivers.yaml"));
      }
      if (gpu.renamed_to != 0 && tables_.FindGpu(gpu.renamed_to) == nullptr) {
        Error(place, absl::StrCat("renamed to ", gpu.renamed_to,
                                  ", which has no row"));
      }
      for (const ToolkitRow& toolkit : tables_.toolkits()) {
        const bool listed = Lists(toolkit, gpu.number);
        const bool before =
            gpu.toolkit_first && toolkit.cuda < *gpu.toolkit_first;
        const bool after = gpu.toolkit_last && toolkit.cuda > *gpu.toolkit_last;
        if (listed && (before || after)) {
          Error(place, absl::StrCat("toolkits.yaml lists it for ",
                                    toolkit.release, ", which is ",
                                    before ? "before its first"
                                           : "after its "
                                             "last",
                                    " toolkit"));
        } else if (!listed && !before && !after && gpu.toolkit_first &&
                   !toolkit.targets.empty()) {
          Error(place, absl::StrCat("toolkits.yaml does not list it for ",
                                    toolkit.release));
        }
      }
    }
  }

  void Errors() {
    std::map<std::string, uint32_t> texts;
    for (const ErrorRow& row : tables_.errors()) {
      const std::string place = absl::StrCat("errors.yaml: ", row.code);
      if (KindOfError(row.code) == ErrorKind::kUnknown) {
        Warn(place,
             "this version does not know what kind of error it is; "
             "diagnosis counts it as one of the program");
      }
      if (row.text.empty()) continue;
      const auto [it, added] = texts.emplace(row.text, row.code);
      if (!added) {
        Note(place, absl::StrCat("has the text of error ", it->second,
                                 ": the text alone does not tell them apart"));
      }
    }
  }

  void Words() {
    std::set<std::string> texts;
    for (const MessageRow& row : tables_.messages()) {
      if (!texts.insert(row.text).second) {
        Error(absl::StrCat("messages.yaml: ", row.tool),
              absl::StrCat("\"", row.text, "\" stands there twice"));
      }
    }
    std::set<std::string> names;
    for (const StatusRow& row : tables_.statuses()) {
      if (!names.insert(row.name).second) {
        Error(absl::StrCat("errors.yaml: ", row.library),
              absl::StrCat(row.name, " stands there twice"));
      }
    }
    std::set<std::string> starts;
    for (const KernelOwnerRow& row : tables_.kernel_owners()) {
      if (!starts.insert(row.starts).second) {
        Error(absl::StrCat("messages.yaml: ", row.owner),
              absl::StrCat(row.starts, " stands there twice"));
      }
    }
  }

  const Tables& tables_;
  std::vector<TableFinding> findings_;
};

}  // namespace

std::vector<TableFinding> CheckTables(const Tables& tables) {
  return Check(tables).Run();
}

std::vector<std::pair<std::string, uint64_t>> CountRows(const Tables& tables) {
  return {{"gpus", tables.gpus().size()},
          {"drivers", tables.drivers().size()},
          {"toolkits", tables.toolkits().size()},
          {"errors", tables.errors().size()},
          {"statuses", tables.statuses().size()},
          {"messages", tables.messages().size()},
          {"xids", tables.xids().size()},
          {"kernels", tables.kernel_owners().size()}};
}

}  // namespace twinpath::compat
