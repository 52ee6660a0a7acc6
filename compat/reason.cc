#include "compat/reason.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/reason.h"
#include "base/text.h"

namespace twinpath::compat {

v1::Reason MakeReason(absl::string_view code, absl::string_view detail,
                      absl::string_view fix, uint32_t cuda_error) {
  const ReasonInfo* info = FindReason(code);
  if (info == nullptr) {
    std::fprintf(stderr, "unknown reason code %s\n", std::string(code).c_str());
    std::abort();
  }
  v1::Reason reason;
  reason.set_code(std::string(info->code));
  reason.set_detail(std::string(detail));
  reason.set_fix(std::string(fix));
  reason.set_cuda_error(cuda_error);
  return reason;
}

v1::Severity SeverityOf(const v1::Reason& reason) {
  const ReasonInfo* info = FindReason(reason.code());
  if (info == nullptr) return v1::SEVERITY_ERROR;
  switch (info->severity) {
    case ReasonSeverity::kNote:
      return v1::SEVERITY_NOTE;
    case ReasonSeverity::kWarning:
      return v1::SEVERITY_WARNING;
    case ReasonSeverity::kError:
      return v1::SEVERITY_ERROR;
  }
  return v1::SEVERITY_ERROR;
}

std::string DescribeReason(const v1::Reason& reason) {
  const ReasonInfo* info = FindReason(reason.code());
  std::string text = Printable(reason.code());
  if (info != nullptr) absl::StrAppend(&text, " ", info->name);
  const std::string detail = Printable(reason.detail());
  if (!detail.empty()) {
    absl::StrAppend(&text, ": ", detail);
  } else if (info != nullptr) {
    absl::StrAppend(&text, ": ", info->text);
  }
  return text;
}

std::string FixOf(const v1::Reason& reason) {
  if (!reason.fix().empty()) return Printable(reason.fix());
  const ReasonInfo* info = FindReason(reason.code());
  return info == nullptr ? "" : std::string(info->remedy);
}

}  // namespace twinpath::compat
