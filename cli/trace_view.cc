#include "cli/trace_view.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "cli/table.h"
#include "verdict/path_status.h"
#include "verdict/trace.h"

namespace twinpath::cli {
namespace {

constexpr size_t kShownNames = 5;
constexpr int kShownFiles = 12;
constexpr size_t kNameWidth = 60;

std::string Count(uint64_t number, absl::string_view one,
                  absl::string_view many) {
  return absl::StrCat(number, " ", number == 1 ? one : many);
}

// The first names, and how many more there are.
std::string Names(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kShownNames); ++i) {
    shown.push_back(Truncate(Printable(names[i]), kNameWidth));
  }
  std::string out = absl::StrJoin(shown, ", ");
  if (names.size() > shown.size()) {
    absl::StrAppend(&out, " and ", names.size() - shown.size(), " more");
  }
  return out;
}

std::string TracerText(const v1::Tracer& tracer, absl::string_view what) {
  if (!tracer.started()) {
    return absl::StrCat(what, ": not traced: ", Printable(tracer.problem()));
  }
  std::string out;
  if (tracer.dropped() > 0) {
    absl::StrAppend(&out, what, ": ", tracer.dropped(), " were left out");
  }
  if (!tracer.problem().empty()) {
    absl::StrAppend(&out, out.empty() ? "" : "; ", what, ": ",
                    Printable(tracer.problem()));
  }
  return out;
}

std::string Objects(const v1::Trace& trace, const verdict::TracedNames& names) {
  std::vector<std::string> coded;
  uint64_t unread = 0;
  for (const v1::TracedObject& object : trace.objects()) {
    if (object.images() > 0) {
      coded.push_back(names.Of(object.artifact_name().empty()
                                   ? object.path()
                                   : object.artifact_name()));
    }
    unread += object.problem().empty() ? 0 : 1;
  }
  std::string out =
      absl::StrCat(Count(static_cast<uint64_t>(trace.objects_size()),
                         "shared object", "shared objects"),
                   " opened, ", coded.size(), " with device code");
  if (!coded.empty()) absl::StrAppend(&out, ": ", Names(coded));
  if (unread > 0) absl::StrAppend(&out, "; ", unread, " not looked at");
  return out;
}

std::string Modules(const v1::Trace& trace) {
  uint64_t embedded = 0;
  uint64_t compiled = 0;
  for (const v1::TracedModule& module : trace.modules()) {
    embedded += module.origin() == v1::MODULE_ORIGIN_EMBEDDED ? 1 : 0;
    compiled += module.origin() == v1::MODULE_ORIGIN_COMPILED ? 1 : 0;
  }
  const uint64_t all = static_cast<uint64_t>(trace.modules_size());
  std::string out = absl::StrCat(Count(all, "module", "modules"),
                                 " loaded: ", embedded, " embedded, ", compiled,
                                 " compiled or linked in the process");
  if (embedded + compiled < all) {
    absl::StrAppend(&out, ", ", all - embedded - compiled,
                    " of unknown origin");
  }
  return out;
}

std::string Kernels(const v1::Trace& trace, const verdict::TracedNames& names) {
  uint64_t launched = 0;
  std::vector<std::string> refused;
  std::vector<std::string> missing;
  for (const v1::TracedKernel& kernel : trace.kernels()) {
    launched += kernel.launches() > 0 ? 1 : 0;
    const bool not_found = kernel.launches() == 0 && kernel.refused() == 0 &&
                           kernel.cuda_error() != 0;
    if (kernel.refused() == 0 && !not_found) continue;
    std::string text =
        absl::StrCat(kernel.name(), " (CUDA error ", kernel.cuda_error(), ")");
    if (!kernel.file().empty()) {
      absl::StrAppend(&text, " of ", names.Of(kernel.file()));
    }
    (not_found ? missing : refused).push_back(text);
  }
  std::string out =
      absl::StrCat(Count(launched, "kernel", "kernels"), " launched, ",
                   Count(trace.launches(), "launch", "launches"));
  if (!refused.empty()) {
    absl::StrAppend(&out, "; ", trace.refused_launches(),
                    " refused: ", Names(refused));
  }
  if (!missing.empty()) absl::StrAppend(&out, "; not found: ", Names(missing));
  return out;
}

// Modules by file: what each file's code ran from.
std::string Coverage(const v1::Trace& trace, const verdict::TracedNames& names,
                     const ViewOptions& options) {
  if (trace.coverage().empty()) return "";
  Table table({"      FILE", "KERNELS", "LAUNCHED", "NOT LAUNCHED"});
  int shown = 0;
  int left_out = 0;
  for (const v1::KernelCoverage& file : trace.coverage()) {
    // Of vendor libraries those that did something.
    if (!file.artifact_file() && file.launched() == 0) continue;
    if (shown == kShownFiles) {
      ++left_out;
      continue;
    }
    ++shown;
    std::vector<std::string> missing;
    if (file.artifact_file()) {
      missing.assign(file.not_launched().begin(), file.not_launched().end());
    }
    table.AddRow({absl::StrCat("      ", names.Of(file.file()),
                               file.artifact_file() ? "" : " (host)"),
                  absl::StrCat(file.kernels()), absl::StrCat(file.launched()),
                  Names(missing)});
  }
  if (shown == 0) return "";
  std::string out = table.Render(options.width, options.color);
  if (left_out > 0) {
    absl::StrAppend(&out, "      and ", left_out,
                    " more files; --format json has all\n");
  }
  return out;
}

}  // namespace

std::string RenderTrace(const v1::Observation& run,
                        const ViewOptions& options) {
  if (!run.has_trace()) return "";
  const v1::Trace& trace = run.trace();
  const verdict::TracedNames names(trace);
  std::vector<std::string> versions;
  for (const v1::Tracer* tracer :
       {&trace.objects_tracer(), &trace.device_tracer()}) {
    if (tracer->started()) versions.push_back(Printable(tracer->version()));
  }
  std::string out =
      absl::StrCat("    ",
                   Paint(absl::StrCat(verdict::PathName(run.path()),
                                      run.jit_proof() ? " (proof)" : "",
                                      ", traced; as the process reports it",
                                      versions.empty() ? "" : ", by ",
                                      absl::StrJoin(versions, " and "), ":"),
                         Style::kDim, options.color),
                   "\n");
  const auto line = [&](const std::string& text) {
    if (text.empty()) return;
    absl::StrAppend(&out, "      ",
                    Wrap(text, options.width > 20 ? options.width - 6 : 74, 8),
                    "\n");
  };
  if (trace.objects_tracer().started()) line(Objects(trace, names));
  if (trace.device_tracer().started()) {
    line(Modules(trace));
    line(Kernels(trace, names));
  }
  line(TracerText(trace.objects_tracer(), "shared objects"));
  line(TracerText(trace.device_tracer(), "modules and launches"));
  absl::StrAppend(&out, Coverage(trace, names, options));
  return out;
}

}  // namespace twinpath::cli
