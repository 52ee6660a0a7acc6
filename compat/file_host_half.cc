#include "compat/file_host_half.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/text.h"
#include "base/unread.h"
#include "compat/reason.h"
#include "compat/target.h"

namespace twinpath::compat::internal {
namespace {

// A name as one word of a shell command that a person may paste: as it is where
// no character means anything to a shell, else in single quotes.
std::string ShellWord(absl::string_view name) {
  std::string text = Printable(name);
  const bool plain =
      !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
               absl::StrContains("_./+:,@%-", c);
      });
  // A dash in front would be an option.
  if (!text.empty() && text.front() == '-') text.insert(0, "./");
  if (plain) return text;
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

class HostHalf {
 public:
  HostHalf(const FileView& file, const HostView& host, const Tables& tables,
           v1::FilePrediction& prediction)
      : file_(file), host_(host), tables_(tables), prediction_(prediction) {}

  bool Run() {
    const v1::FileReport& report = *file_.report;
    const bool has_code = !file_.fatbins.empty();
    if (report.has_elf() && CpuMismatch(report.elf())) return true;
    if (report.kind() == v1::FILE_KIND_PACKED) {
      SetAll(v1::OUTCOME_UNKNOWN, MakeReason("TP215", "packed executable"),
             RunIt(file_, host_));
      return true;
    }
    if (report.kind() == v1::FILE_KIND_DAMAGED_ELF) {
      SetAll(v1::OUTCOME_UNKNOWN,
             MakeReason("TP233", ProblemText(file_, "the ELF file is damaged")),
             RunIt(file_, host_));
      return true;
    }
    const uint32_t runtime = report.has_elf() ? RuntimeMajor(report) : 0;
    const bool cuda_host =
        report.has_elf() && (runtime > 0 || report.elf().static_cudart());
    if ((has_code || cuda_host) && host_.blocker) {
      SetAll(host_.blocker->outcome, host_.blocker->reason,
             host_.blocker->settled_by);
      return true;
    }
    if (RuntimeTooNew(report.elf(), runtime)) return true;
    if (has_code && host_.cpu == v1::CPU_ARCHITECTURE_UNSPECIFIED &&
        report.has_elf()) {
      SetAll(v1::OUTCOME_UNKNOWN,
             MakeReason("TP119", "the facts hold no CPU architecture"),
             "uname -m");
      return true;
    }
    if (file_.dangling != nullptr &&
        report.kind() != v1::FILE_KIND_ELF_OBJECT) {
      SetAll(v1::OUTCOME_FAILS,
             MakeReason(
                 "TP230",
                 absl::StrCat("the wrapper at offset ",
                              file_.dangling->offset(), " points at no fatbin"),
                 "", 200));
      return true;
    }
    return !has_code && WithoutCode();
  }

 private:
  void SetAll(v1::Outcome outcome, const v1::Reason& reason,
              absl::string_view settled_by = "") {
    for (v1::PathPrediction& path : *prediction_.mutable_paths()) {
      path.set_outcome(outcome);
      *path.add_reasons() = reason;
      path.set_settled_by(std::string(settled_by));
    }
  }

  bool CpuMismatch(const v1::ElfFacts& elf) {
    if (host_.cpu == v1::CPU_ARCHITECTURE_UNSPECIFIED ||
        elf.cpu_architecture() == v1::CPU_ARCHITECTURE_UNSPECIFIED ||
        elf.cpu_architecture() == host_.cpu) {
      return false;
    }
    SetAll(v1::OUTCOME_FAILS,
           MakeReason(
               "TP208",
               absl::StrCat("the file is for ", CpuName(elf.cpu_architecture()),
                            ", the host is ", CpuName(host_.cpu)),
               absl::StrCat("build the file for ", CpuName(host_.cpu))));
    return true;
  }

  // CUDA major of the runtime the file brings or needs; 0: none or not known.
  // Where images hold no tool note (PTX alone), the toolkit of a runtime that
  // is linked in statically shows in the newest PTX ISA beside it.
  uint32_t RuntimeMajor(const v1::FileReport& report) const {
    const v1::ElfFacts& elf = report.elf();
    if (elf.cudart().major() > 0 || !elf.static_cudart()) {
      return elf.cudart().major();
    }
    TwoPart newest;
    for (const v1::Fatbin& fatbin : report.fatbins()) {
      for (const v1::Image& image : fatbin.images()) {
        newest = std::max(newest, TwoPart::From(image.ptx_isa()));
      }
    }
    const DriverRow* row =
        newest == TwoPart() ? nullptr : tables_.FirstDriverForPtx(newest);
    return row == nullptr ? 0 : row->cuda.major;
  }

  bool RuntimeTooNew(const v1::ElfFacts& elf, uint32_t runtime) {
    if (!host_.cuda || runtime <= host_.cuda->major) return false;
    const std::string driver = tables_.MinimumDriver(runtime);
    std::string fix =
        absl::StrCat("build with CUDA ", host_.cuda->major, " or older");
    const GpuRow* gpu = tables_.FindGpu(host_.device);
    const auto parsed = DriverVersion::Parse(driver);
    if (parsed && (gpu == nullptr || !gpu->driver_last ||
                   parsed->branch() <= *gpu->driver_last)) {
      fix = absl::StrCat("driver ", driver, " or later; or ", fix);
    }
    SetAll(v1::OUTCOME_FAILS,
           MakeReason(
               "TP207",
               absl::StrCat("CUDA runtime ", runtime,
                            elf.static_cudart() ? " (linked statically)" : "",
                            ", driver CUDA ", host_.cuda->ToString()),
               fix, 35));
    return true;
  }

  // A file without device code that counts.
  bool WithoutCode() {
    const v1::FileReport& report = *file_.report;
    // What lies in a carrier has reports of its own.
    if (report.kind() == v1::FILE_KIND_ARCHIVE && !report.has_carrier()) {
      SetAll(v1::OUTCOME_UNKNOWN,
             MakeReason("TP232", "an archive this version does not open"),
             absl::StrCat("unpack ", ShellWord(file_.name()),
                          " and inspect what it holds"));
      return true;
    }
    if (report.runtime_compilers_size() > 0 && !IsCompilerItself()) {
      SetAll(v1::OUTCOME_UNKNOWN, MakeReason("TP214", CompilerText(file_)),
             RunIt(file_, host_));
      return true;
    }
    if (FirstUnread(report.problems()) != nullptr) {
      SetAll(v1::OUTCOME_UNKNOWN,
             MakeReason("TP232",
                        ProblemText(file_, "the file was not read whole")),
             RunIt(file_, host_));
      return true;
    }
    std::string detail = "no device code";
    if (file_.left_over > 0) {
      detail = absl::StrCat("only ", file_.left_over,
                            " left-over relocatable fatbins");
    } else if (file_.kernel_less > 0) {
      detail = "device code without kernels";
    }
    SetAll(v1::OUTCOME_NO_DEVICE_CODE, MakeReason("TP223", detail));
    return true;
  }

  // libnvrtc.so names itself as the evidence: what it compiles belongs to its
  // users, which are judged by themselves.
  bool IsCompilerItself() const {
    for (const v1::RuntimeCompiler& compiler :
         file_.report->runtime_compilers()) {
      const absl::string_view name = file_.name();
      if (!compiler.evidence().empty() &&
          name.find(compiler.evidence()) != absl::string_view::npos) {
        return true;
      }
    }
    return false;
  }

  const FileView& file_;
  const HostView& host_;
  const Tables& tables_;
  v1::FilePrediction& prediction_;
};

}  // namespace

bool JudgeHostHalf(const FileView& file, const HostView& host,
                   const Tables& tables, v1::FilePrediction& prediction) {
  return HostHalf(file, host, tables, prediction).Run();
}

std::string DeviceName(const HostView& host) {
  return absl::StrCat(host.gpu_name.empty() ? "this GPU" : host.gpu_name, " (",
                      CapabilityName(host.device), ")");
}

std::string RunIt(const FileView& file, const HostView& host) {
  return absl::StrCat("twinpath check ", ShellWord(file.name()),
                      " on a host with ", DeviceName(host));
}

std::string CompilerText(const FileView& file) {
  std::vector<std::string> names;
  for (const v1::RuntimeCompiler& compiler : file.report->runtime_compilers()) {
    names.push_back(
        absl::StrCat(compiler.name(), " (", compiler.evidence(), ")"));
  }
  return absl::StrCat("uses ", absl::StrJoin(names, ", "));
}

std::string ProblemText(const FileView& file, absl::string_view fallback) {
  const v1::Reason* const problem = FirstUnread(file.report->problems());
  if (problem == nullptr) return std::string(fallback);
  const std::string& detail = problem->detail();
  return detail.empty() ? std::string(fallback) : detail;
}

}  // namespace twinpath::compat::internal
