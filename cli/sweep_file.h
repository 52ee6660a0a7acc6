// The sweep file: what a person writes to say what is to be run where and what
// must hold (docs/sweep-file.md). Strict: an unknown key, a wrong type or a
// value that cannot be is an error with file, line and column; all mistakes are
// reported at once. Beside the sweep file only expected texts and references
// that it names are read here.

#ifndef TWINPATH_CLI_SWEEP_FILE_H_
#define TWINPATH_CLI_SWEEP_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {

// One line of artifact.files.
struct ArtifactSource {
  // File or folder on this machine, made absolute against the sweep file.
  std::string path;
  // Name in the artifact ("as"); empty: the path's base name, or its name below
  // the root. For a folder: the folder's name in the artifact.
  std::string name;
  // "line:column" for messages.
  std::string place;
};

struct SweepFile {
  // Everything but the artifact's files and the recorded build. The artifact
  // has its name.
  v1::SweepSpec spec;
  std::vector<ArtifactSource> sources;
  // Folder that names are relative to; absolute; empty: none given.
  std::string root;
  // Build record to load; absolute; empty: none or declared.
  std::string record_path;
};

// Parses the text of a sweep file. Relative paths are taken from `directory`.
// `file` is for messages only. INVALID_ARGUMENT with one line a mistake.
absl::StatusOr<SweepFile> ParseSweepFile(absl::string_view text,
                                         absl::string_view file,
                                         absl::string_view directory);

// Reads and parses a sweep file.
absl::StatusOr<SweepFile> LoadSweepFile(const std::string& path);

// Splits a command into words at spaces; '...' and "..." keep spaces, a
// backslash keeps the next character. No shell: INVALID_ARGUMENT for an open
// quote and for unquoted characters that only a shell understands.
absl::StatusOr<std::vector<std::string>> SplitCommand(absl::string_view text);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_SWEEP_FILE_H_
