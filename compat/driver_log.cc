#include "compat/driver_log.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "base/text.h"
#include "compat/cuda_error.h"
#include "re2/re2.h"

namespace twinpath::compat {
namespace {

constexpr size_t kMaxErrors = 1000;
constexpr size_t kMaxKernel = 4096;

// The next error that is not harmless; false: there is none.
bool NextError(re2::StringPiece& rest, std::string& kernel,
               CudaErrorSeen& seen) {
  static const auto& record =
      *new RE2(R"(Kernel \(([^)\s]+)\) cannot be found|)"
               R"(Returning (\d{1,4}) \(([A-Za-z0-9_]+)\) from (\w+))");
  std::string name;
  std::string code;
  while (RE2::FindAndConsume(&rest, record, &name, &code, &seen.name,
                             &seen.call)) {
    if (code.empty()) {
      kernel = Printable(absl::string_view(name).substr(0, kMaxKernel));
      continue;
    }
    if (!absl::SimpleAtoi(code, &seen.code) ||
        IsHarmlessLine(seen.code, seen.call)) {
      continue;
    }
    seen.kernel = std::exchange(kernel, "");
    return true;
  }
  return false;
}

}  // namespace

std::vector<CudaErrorSeen> DriverLogReader::Read(absl::string_view piece,
                                                 size_t most) {
  std::vector<CudaErrorSeen> errors;
  re2::StringPiece rest(piece.data(), piece.size());
  CudaErrorSeen seen;
  while (errors.size() < most && NextError(rest, kernel_, seen)) {
    errors.push_back(seen);
  }
  return errors;
}

std::vector<CudaErrorSeen> ErrorsInDriverLog(absl::string_view log) {
  std::vector<CudaErrorSeen> errors;
  re2::StringPiece rest(log.data(), log.size());
  std::string kernel;
  CudaErrorSeen seen;
  while (NextError(rest, kernel, seen)) {
    errors.push_back(seen);
    // The last ones count.
    if (errors.size() > kMaxErrors) errors.erase(errors.begin());
  }
  return errors;
}

const CudaErrorSeen* DecisiveError(const std::vector<CudaErrorSeen>& errors) {
  for (auto it = errors.rbegin(); it != errors.rend(); ++it) {
    if (IsDecisiveError(it->code)) return &*it;
  }
  // After a kernel has died every call returns the same.
  for (const CudaErrorSeen& seen : errors) {
    if (KindOfError(seen.code) == ErrorKind::kExecution) return &seen;
  }
  return errors.empty() ? nullptr : &errors.back();
}

}  // namespace twinpath::compat
