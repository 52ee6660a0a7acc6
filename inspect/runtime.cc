#include "inspect/runtime.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace twinpath::inspect {
namespace {

// What the file needs, and what it is itself.
std::vector<std::string> LibraryNames(const DynamicTable& dynamic) {
  std::vector<std::string> names = dynamic.needed;
  names.push_back(dynamic.soname);
  return names;
}

}  // namespace

void AddRuntimeCompilers(const DynamicTable& dynamic, v1::FileReport& report) {
  struct Row {
    absl::string_view prefix;
    absl::string_view name;
  };
  static constexpr Row kRows[] = {{"libnvrtc.so", "nvrtc"},
                                  {"libnvJitLink.so", "nvjitlink"},
                                  {"libnvvm.so", "nvvm"},
                                  {"libtriton.so", "triton"}};
  for (const std::string& name : LibraryNames(dynamic)) {
    for (const Row& row : kRows) {
      if (!absl::StartsWith(name, row.prefix)) continue;
      v1::RuntimeCompiler& compiler = *report.add_runtime_compilers();
      compiler.set_name(std::string(row.name));
      compiler.set_evidence(name);
    }
  }
}

void SetCudart(const DynamicTable& dynamic, v1::FileReport& report) {
  v1::ElfFacts& facts = *report.mutable_elf();
  for (const std::string& name : LibraryNames(dynamic)) {
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, "libcudart.so.")) continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(rest, absl::MaxSplits('.', 1));
    uint32_t major = 0;
    if (!absl::SimpleAtoi(parts.first, &major)) continue;
    facts.mutable_cudart()->set_major(major);
    return;
  }
  if (!facts.static_cudart()) return;
  std::pair<uint32_t, uint32_t> newest = {0, 0};
  for (const v1::Fatbin& fatbin : report.fatbins()) {
    for (const v1::Image& image : fatbin.images()) {
      const v1::Version& toolkit = image.producer().toolkit();
      newest = std::max(newest, {toolkit.major(), toolkit.minor()});
    }
  }
  if (newest.first == 0) return;
  facts.mutable_cudart()->set_major(newest.first);
  facts.mutable_cudart()->set_minor(newest.second);
}

}  // namespace twinpath::inspect
