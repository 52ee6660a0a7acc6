// twinpath record: runs a build and keeps what it was.

#include "cli/record.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/reason_view.h"
#include "twinpath/v1/artifact.pb.h"

namespace twinpath::cli {

int RunRecord(const RecordOptionsCli& options, Console& console) {
  RecordOptions how;
  how.argv = options.argv;
  how.outputs = options.outputs;
  absl::StatusOr<v1::BuildRecord> record = RecordBuild(how);
  if (!record.ok()) {
    return console.Fail(
        record.status(),
        absl::StartsWith(record.status().message(), "output of the build")
            ? "name the outputs with --output FILE"
            : "");
  }
  if (record->exit_code() != 0) {
    // The record of a failed build would only be taken for a good one.
    console.Error(absl::StrCat(
        "record: the build failed with exit code ", record->exit_code(), "; ",
        Printable(options.record_path), " was not written"));
    return record->exit_code();
  }
  // The record may lie in the folder that was searched for outputs.
  if (record->outputs().empty()) {
    console.Error(
        "record: the build succeeded, but no output file was found; nothing "
        "was written");
    console.Hint("name the outputs with --output FILE");
    return kExitUsage;
  }
  const absl::StatusOr<std::string> json = ToJson(*record);
  if (!json.ok()) return console.Fail(json.status());
  if (const absl::Status written =
          WriteFileAtomic(options.record_path, *json, 0644);
      !written.ok()) {
    return console.Fail(written);
  }
  if (console.json()) {
    console.Print(*json);
    return kExitPass;
  }
  console.Say(absl::StrCat("recorded in ", options.record_path));
  for (const v1::ToolIdentity& tool : record->tools()) {
    console.Say(absl::StrCat("  ", tool.name(), "  ", Printable(tool.version()),
                             "  ", HexPrefix(tool.digest())));
  }
  if (!record->revision().empty()) {
    console.Say(absl::StrCat("  revision  ", record->revision(),
                             record->dirty() ? " (with changes)" : ""));
  }
  for (const v1::BuildOutput& output : record->outputs()) {
    console.Say(absl::StrCat("  output  ", Printable(output.path()), "  ",
                             HexPrefix(output.digest())));
  }
  return kExitPass;
}

}  // namespace twinpath::cli
