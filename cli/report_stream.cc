#include "cli/report_stream.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "cli/json.h"

namespace twinpath::cli {

absl::Status ReportStream::Add(const v1::FileReport& report) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string json, ToJson(report));
  std::string text = any_ ? ",\n" : "{\n \"files\": [\n";
  any_ = true;
  // Strings in JSON hold no line feeds, so each line can be moved in.
  bool first = true;
  for (const absl::string_view line :
       absl::StrSplit(absl::StripSuffix(json, "\n"), '\n')) {
    absl::StrAppend(&text, first ? "  " : "\n  ", line);
    first = false;
  }
  console_.Print(text);
  return absl::OkStatus();
}

absl::Status ReportStream::Finish(const v1::ArtifactReport& rest) {
  return End(rest);
}

absl::Status ReportStream::Finish(const v1::InspectOutput& rest) {
  return End(rest);
}

absl::Status ReportStream::End(const google::protobuf::Message& rest) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string json, ToJson(rest));
  if (!any_) {
    console_.Print(json);
    return absl::OkStatus();
  }
  // All that follows the list of files, which is empty here.
  const size_t list = json.find("\"files\": []");
  if (list == std::string::npos) {
    return absl::InternalError("the report as JSON has no list of files");
  }
  console_.Print(absl::StrCat("\n ]", json.substr(list + 11)));
  return absl::OkStatus();
}

}  // namespace twinpath::cli
