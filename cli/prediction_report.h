// Predictions for CI: JUnit XML and Markdown. Pure functions; thread-safe.

#ifndef TWINPATH_CLI_PREDICTION_REPORT_H_
#define TWINPATH_CLI_PREDICTION_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "twinpath/v1/cli.pb.h"
#include "twinpath/v1/reach.pb.h"

namespace twinpath::cli {

struct ReportInput {
  // What was predicted, for people: "build/app".
  std::string subject;
  std::vector<v1::HostGroup> groups;
  std::vector<v1::Advice> advice;
  std::vector<v1::AssumedChange> changes;
  // Hosts on which something changes.
  uint32_t changed_hosts = 0;
  // Absent where it was not asked for.
  const v1::Reach* reach = nullptr;
  // Paths that decide.
  std::vector<std::string> require;
};

// One <testsuite> a group of hosts, one <testcase> a path. A required path that
// fails is a <failure>, one that is not known an <error>; a path that is not
// required and fails is <skipped>.
std::string RenderJunit(const ReportInput& input);

// For a step summary: verdict first, headings from ###, long parts folded, and
// less than the MiB above which a summary is dropped whole.
std::string RenderMarkdown(const ReportInput& input);

// Text as XML content or attribute; control characters XML 1.0 has no place for
// become '?'.
std::string XmlText(absl::string_view text);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_PREDICTION_REPORT_H_
