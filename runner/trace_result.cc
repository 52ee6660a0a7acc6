#include "runner/trace_result.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/clock.h"

namespace twinpath::runner {
namespace {

// Most bytes of names of kernels that were not launched, of all files.
constexpr size_t kMaxMissingBytes = size_t{128} << 10;

// How a file is called in a trace: by its name in the artifact, else its path.
const std::string& NameOf(const TracedFile& file) {
  return file.object.artifact_name().empty() ? file.object.path()
                                             : file.object.artifact_name();
}

// The file that has the most of a module's kernels; -1: none has any.
int OwnerOfModule(const ReadModule& module, const FilesAnswer& files) {
  std::map<size_t, size_t> held;
  for (const std::string& kernel : module.kernels) {
    const auto found = files.owners.find(kernel);
    if (found == files.owners.end()) continue;
    for (const size_t file : found->second) ++held[file];
  }
  int best = -1;
  size_t most = 0;
  for (const auto& [file, count] : held) {
    if (count > most) {
      most = count;
      best = static_cast<int>(file);
    }
  }
  return best;
}

void AddModules(const TraceRecords& records, const FilesAnswer& files,
                v1::Trace& trace) {
  for (const ModuleRecord& record : records.modules) {
    v1::TracedModule& module = *trace.add_modules();
    module.mutable_digest()->set_sha256(record.digest.Raw());
    module.set_size_bytes(record.size_bytes);
    module.set_loads(record.loads);
    const auto read = files.read.find(record.digest);
    if (read != files.read.end() && read->second.target.number() != 0) {
      *module.mutable_target() = read->second.target;
    }
    const auto equal = files.equal.find(record.digest);
    if (equal != files.equal.end()) {
      module.set_origin(v1::MODULE_ORIGIN_EMBEDDED);
      module.set_file(NameOf(files.files[equal->second.file]));
      module.set_offset(equal->second.offset);
      *module.mutable_target() = equal->second.target;
      continue;
    }
    const int owner =
        read == files.read.end() ? -1 : OwnerOfModule(read->second, files);
    if (owner < 0) continue;
    module.set_file(NameOf(files.files[static_cast<size_t>(owner)]));
    // Where something was not read, the equal image may lie there; and one
    // whose kernels no opened file holds may have been a cubin read from
    // another file.
    if (files.complete && records.objects_tracer.started() &&
        records.objects_tracer.dropped() == 0) {
      module.set_origin(v1::MODULE_ORIGIN_COMPILED);
    }
  }
}

void AddKernels(const TraceRecords& records, const FilesAnswer& files,
                v1::Trace& trace) {
  absl::flat_hash_map<std::string, std::vector<uint32_t>> holders;
  for (size_t i = 0; i < records.modules.size(); ++i) {
    const auto read = files.read.find(records.modules[i].digest);
    if (read == files.read.end()) continue;
    for (const std::string& kernel : read->second.kernels) {
      std::vector<uint32_t>& list = holders[kernel];
      const auto index = static_cast<uint32_t>(i);
      if (list.empty() || list.back() != index) list.push_back(index);
    }
  }
  for (const KernelRecord& record : records.kernels) {
    v1::TracedKernel& kernel = *trace.add_kernels();
    kernel.set_name(record.name);
    kernel.set_launches(record.launches);
    kernel.set_refused(record.refused);
    kernel.set_cuda_error(record.cuda_error);
    trace.set_launches(trace.launches() + record.launches);
    trace.set_refused_launches(trace.refused_launches() + record.refused);
    const auto held = holders.find(record.name);
    if (held != holders.end()) {
      // Several modules may have a kernel of one name; then only what they
      // agree on is known.
      const std::vector<uint32_t>& list = held->second;
      if (list.size() == 1) kernel.set_module(list[0]);
      const std::string& file = trace.modules(static_cast<int>(list[0])).file();
      if (std::all_of(list.begin(), list.end(), [&](uint32_t index) {
            return trace.modules(static_cast<int>(index)).file() == file;
          })) {
        kernel.set_file(file);
      }
    }
    if (kernel.file().empty()) {
      const auto owner = files.owners.find(record.name);
      if (owner != files.owners.end() && owner->second.size() == 1) {
        kernel.set_file(NameOf(files.files[owner->second[0]]));
      }
    }
  }
}

void AddCoverage(const FilesAnswer& files, v1::Trace& trace) {
  absl::flat_hash_map<std::string, const v1::TracedKernel*> launched;
  for (const v1::TracedKernel& kernel : trace.kernels()) {
    if (kernel.launches() > 0) launched.emplace(kernel.name(), &kernel);
  }
  size_t missing_bytes = 0;
  for (const bool artifact : {true, false}) {
    for (const TracedFile& file : files.files) {
      if (file.object.artifact_name().empty() == artifact ||
          file.kernels == 0) {
        continue;
      }
      v1::KernelCoverage& coverage = *trace.add_coverage();
      coverage.set_file(NameOf(file));
      coverage.set_artifact_file(artifact);
      coverage.set_kernels(file.kernels);
      // Asked for and refused, or launched from another file of that kernel.
      std::vector<std::string> missing = file.not_asked;
      uint64_t count = 0;
      for (const std::string& name : file.asked) {
        const auto found = launched.find(name);
        const std::string* owner =
            found == launched.end() ? nullptr : &found->second->file();
        if (owner != nullptr && (owner->empty() || *owner == NameOf(file))) {
          ++count;
        } else {
          missing.push_back(name);
        }
      }
      coverage.set_launched(count);
      // Nobody expects an entry to launch all of a library of the host.
      if (!artifact) continue;
      std::sort(missing.begin(), missing.end());
      missing.resize(std::min(missing.size(), kMaxNotLaunched));
      for (const std::string& name : missing) {
        missing_bytes += name.size();
        if (missing_bytes > kMaxMissingBytes) break;
        coverage.add_not_launched(name);
      }
    }
  }
}

}  // namespace

v1::Trace MakeTrace(const TraceRecords& records, const FilesAnswer& files) {
  v1::Trace trace;
  *trace.mutable_objects_tracer() = records.objects_tracer;
  *trace.mutable_device_tracer() = records.device_tracer;
  for (const TracedFile& file : files.files) {
    *trace.add_objects() = file.object;
  }
  AddModules(records, files, trace);
  AddKernels(records, files, trace);
  AddCoverage(files, trace);
  return trace;
}

v1::Trace CollectTrace(const TraceSetup& setup, const v1::RunRequest& request,
                       absl::string_view driver_log, bool unit) {
  TraceRecords records = ReadTraceRecords(setup.folder());
  AddNotFound(driver_log, records);
  FilesQuestion question;
  question.paths = records.objects;
  question.artifact_directory = request.artifact_directory();
  question.work_directory = request.work_directory();
  question.shown = setup.Shown();
  question.same_folders = unit;
  for (const KernelRecord& kernel : records.kernels) {
    question.kernels.push_back(kernel.name);
  }
  question.modules = records.modules;
  question.module_directory = setup.folder_path();
  question.gpu = records.gpu;
  question.path = request.path();
  question.deadline = absl::Now() + kTraceTime;
  return MakeTrace(records, AskFiles(question));
}

}  // namespace twinpath::runner
