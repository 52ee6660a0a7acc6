#include "inspect/packed.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "base/status.h"
#include "inspect/file_kind.h"
#include "inspect/report_problem.h"

namespace twinpath::inspect {
namespace {

constexpr char kUpxMark[] = "UPX!";
constexpr size_t kUpxHeadBytes = 4096;
constexpr uint64_t kTailBytes = 4096;

}  // namespace

absl::Status LookForPacker(const ByteSource& source, const ElfView& elf,
                           absl::string_view head, v1::FileReport& report) {
  if (!elf.sections().empty() || report.fatbins_size() > 0) {
    return absl::OkStatus();
  }
  const uint64_t tail_at = source.size() - std::min(source.size(), kTailBytes);
  TWINPATH_ASSIGN_OR_RETURN(const std::string tail,
                            ReadUpTo(source, tail_at, kTailBytes));
  if (absl::StrContains(head.substr(0, kUpxHeadBytes), kUpxMark) ||
      absl::StrContains(tail, kUpxMark)) {
    report.set_kind(v1::FILE_KIND_PACKED);
    AddProblem("TP215", "packed by UPX: unpack it, or run it, to judge it",
               report);
  }
  return absl::OkStatus();
}

absl::Status LookForPayload(const ByteSource& source, absl::string_view head,
                            v1::FileReport& report) {
  if (!absl::StartsWith(head, "#!")) return absl::OkStatus();
  const uint64_t tail_at = source.size() - std::min(source.size(), kTailBytes);
  TWINPATH_ASSIGN_OR_RETURN(const std::string tail,
                            ReadUpTo(source, tail_at, kTailBytes));
  if (LooksLikeText(head) && LooksLikeText(tail)) return absl::OkStatus();
  report.set_kind(v1::FILE_KIND_PACKED);
  AddProblem("TP215",
             "a script with binary data behind it: unpack it, or run it, to "
             "judge it",
             report);
  return absl::OkStatus();
}

}  // namespace twinpath::inspect
