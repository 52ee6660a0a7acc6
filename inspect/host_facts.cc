#include "inspect/host_facts.h"

#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "inspect/driver_note.h"
#include "inspect/report_problem.h"
#include "inspect/runtime.h"

namespace twinpath::inspect {

absl::Status AddHostFacts(const ByteSource& source, const ElfView& elf,
                          const DynamicTable& dynamic, v1::FileReport& report) {
  v1::ElfFacts& facts = *report.mutable_elf();
  facts.set_machine(elf.machine());
  facts.set_cpu_architecture(
      elf.machine() == kElfMachineX86_64    ? v1::CPU_ARCHITECTURE_X86_64
      : elf.machine() == kElfMachineAarch64 ? v1::CPU_ARCHITECTURE_AARCH64
                                            : v1::CPU_ARCHITECTURE_OTHER);
  TWINPATH_ASSIGN_OR_RETURN(const std::string interpreter,
                            ReadInterpreter(source, elf));
  if (!interpreter.empty()) facts.set_interpreter(interpreter);
  if (!dynamic.soname.empty()) facts.set_soname(dynamic.soname);
  for (const std::string& needed : dynamic.needed) facts.add_needed(needed);
  for (absl::string_view part :
       absl::StrSplit(dynamic.rpath, ':', absl::SkipEmpty())) {
    facts.add_rpath(std::string(part));
  }
  for (absl::string_view part :
       absl::StrSplit(dynamic.runpath, ':', absl::SkipEmpty())) {
    facts.add_runpath(std::string(part));
  }
  if (dynamic.soname == "libcuda.so.1") {
    TWINPATH_ASSIGN_OR_RETURN(auto note, ReadForwardCompat(source, elf));
    if (note) *facts.mutable_forward_compat() = *std::move(note);
  }
  AddRuntimeCompilers(dynamic, report);

  switch (elf.type()) {
    case kElfTypeRel:
      report.set_kind(v1::FILE_KIND_ELF_OBJECT);
      break;
    case kElfTypeExec:
      report.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
      break;
    case kElfTypeDyn:
      report.set_kind(dynamic.pie ||
                              (!interpreter.empty() && dynamic.soname.empty())
                          ? v1::FILE_KIND_ELF_EXECUTABLE
                          : v1::FILE_KIND_ELF_SHARED);
      break;
    default:
      report.set_kind(v1::FILE_KIND_OTHER);
      break;
  }
  if (std::string damage = elf.Damage(source.size()); !damage.empty()) {
    report.set_kind(v1::FILE_KIND_DAMAGED_ELF);
    AddProblem("TP233", damage, report);
  } else if (!dynamic.problem.empty()) {
    AddProblem("TP232", dynamic.problem, report);
  }
  return absl::OkStatus();
}

}  // namespace twinpath::inspect
