#include "inspect/demangle.h"

#include <csetjmp>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"

#ifdef TWINPATH_DEMANGLE_CALLBACK
// libstdc++'s demangler with its output in pieces and without heap; the static
// library has it. abi::__cxa_demangle is the same code, and cannot be stopped.
extern "C" int __gcclibcxx_demangle_callback(
    const char* mangled, void (*on_piece)(const char*, std::size_t, void*),
    void* opaque);
#endif

namespace twinpath::inspect {
namespace {

#ifdef TWINPATH_DEMANGLE_CALLBACK

struct Output {
  char bytes[kMaxDemangledBytes];
  size_t size = 0;
  std::jmp_buf full;
};

void OnPiece(const char* piece, size_t size, void* opaque) {
  Output& output = *static_cast<Output*>(opaque);
  if (size > sizeof(output.bytes) - output.size) {
    // Leaves the demangler, whose frames hold nothing that has to be released.
    std::longjmp(output.full, 1);
  }
  std::memcpy(output.bytes + output.size, piece, size);
  output.size += size;
}

// Neither this frame nor those left by longjmp have objects with destructors.
bool Print(const char* mangled, Output& output) {
  if (setjmp(output.full) != 0) return false;
  return __gcclibcxx_demangle_callback(mangled, OnPiece, &output) == 0;
}

#endif

}  // namespace

#ifdef TWINPATH_DEMANGLE_CALLBACK

bool CanDemangle() { return true; }

std::string Demangle(absl::string_view mangled) {
  if (!absl::StartsWith(mangled, "_Z") || mangled.size() > kMaxMangledBytes) {
    return "";
  }
  char input[kMaxMangledBytes + 1];
  std::memcpy(input, mangled.data(), mangled.size());
  input[mangled.size()] = 0;
  Output output;
  if (!Print(input, output)) return "";
  return std::string(output.bytes, output.size);
}

#else

bool CanDemangle() { return false; }
std::string Demangle(absl::string_view) { return ""; }

#endif

void DemangleKernels(ReportBudget& budget, v1::FileReport& report) {
  if (!CanDemangle()) return;
  // A kernel stands in one image a target.
  absl::flat_hash_map<absl::string_view, std::string> known;
  for (v1::Fatbin& fatbin : *report.mutable_fatbins()) {
    for (v1::Image& image : *fatbin.mutable_images()) {
      for (v1::Kernel& kernel : *image.mutable_kernels()) {
        const auto [entry, is_new] = known.try_emplace(kernel.name());
        if (is_new) entry->second = Demangle(kernel.name());
        if (entry->second.empty()) continue;
        if (!budget.Take(entry->second.size())) return;
        kernel.set_demangled(entry->second);
      }
    }
  }
}

}  // namespace twinpath::inspect
