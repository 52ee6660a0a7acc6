#include "cli/reference.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "cli/json.h"
#include "trust/entry_rules.h"

namespace twinpath::cli {
namespace {

// A reference travels in its entry, which takes at most 1 MiB; as JSON bytes
// are a third longer.
constexpr uint64_t kMaxReferenceBytes = 2u << 20;

}  // namespace

absl::StatusOr<v1::Reference> LoadReference(const std::string& path) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string text,
                            ReadFile(path, kMaxReferenceBytes));
  v1::Reference reference;
  TWINPATH_RETURN_IF_ERROR(FromJson(text, path, &reference));
  TWINPATH_RETURN_IF_ERROR_CTX(trust::CheckReference(reference), path);
  return reference;
}

}  // namespace twinpath::cli
