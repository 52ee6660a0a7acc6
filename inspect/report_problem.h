// Problems of a report.

#ifndef TWINPATH_INSPECT_REPORT_PROBLEM_H_
#define TWINPATH_INSPECT_REPORT_PROBLEM_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Further ones of a file are left out.
inline constexpr int kMaxProblems = 200;

inline void AddProblem(absl::string_view code, absl::string_view detail,
                       v1::FileReport& report) {
  if (report.problems_size() >= kMaxProblems) return;
  v1::Reason& reason = *report.add_problems();
  reason.set_code(std::string(code));
  reason.set_detail(std::string(detail));
}

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_REPORT_PROBLEM_H_
