// An ArtifactReport, or an InspectOutput, as JSON, written report by report:
// the same text as printing the whole message, in the memory of one report.

#ifndef TWINPATH_CLI_REPORT_STREAM_H_
#define TWINPATH_CLI_REPORT_STREAM_H_

#include "absl/status/status.h"
#include "cli/console.h"
#include "twinpath/v1/cli.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::cli {

class ReportStream {
 public:
  // Writes to the console's standard output; `console` must outlive this.
  explicit ReportStream(Console& console) : console_(console) {}

  absl::Status Add(const v1::FileReport& report);
  // To be called once, at the end; `rest` is the message without its files.
  absl::Status Finish(const v1::ArtifactReport& rest);
  absl::Status Finish(const v1::InspectOutput& rest);

 private:
  absl::Status End(const google::protobuf::Message& rest);

  Console& console_;
  bool any_ = false;
};

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_REPORT_STREAM_H_
