// Record: runs a build command and keeps what was run, where, with which tools,
// and what came out of it, as a v1::BuildRecord.

#ifndef TWINPATH_CLI_RECORD_H_
#define TWINPATH_CLI_RECORD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "twinpath/v1/artifact.pb.h"

namespace twinpath::cli {

struct RecordOptions {
  // The command; not empty.
  std::vector<std::string> argv;
  // Output files given by hand. Empty: taken from -o in argv and from the files
  // that are new or changed below the working folder.
  std::vector<std::string> outputs;
};

// Output files named by -o FILE, -oFILE, --output-file FILE, --output FILE and
// the forms with '=' in a compiler's command.
std::vector<std::string> OutputsInArguments(
    const std::vector<std::string>& argv);

// Host compiler named by -ccbin or --compiler-bindir in argv, "" if none.
std::string HostCompilerInArguments(const std::vector<std::string>& argv);

// Files below `directory` whose content changed at or after `since`, relative,
// sorted. Hidden folders are left out; at most `limit`.
absl::StatusOr<std::vector<std::string>> ChangedFiles(
    const std::string& directory, absl::Time since, size_t limit);

// Runs the command with this process's standard streams and returns the record.
// The command's exit code is in it. An error means that it was not run, or that
// a named output does not exist although it succeeded.
absl::StatusOr<v1::BuildRecord> RecordBuild(const RecordOptions& options);

// Reads a record that `twinpath record` wrote. INVALID_ARGUMENT for one of a
// failed build or without outputs.
absl::StatusOr<v1::BuildRecord> LoadBuildRecord(const std::string& path);

// OK if at least one file of the artifact is an output of the build.
// FAILED_PRECONDITION else: the record says nothing about these files.
absl::Status CheckRecordCovers(const v1::BuildRecord& record,
                               const v1::Artifact& artifact);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_RECORD_H_
