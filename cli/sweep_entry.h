// The entries of a sweep file, and the values other parts of it are written
// with. Internal to the reading of sweep files.

#ifndef TWINPATH_CLI_SWEEP_ENTRY_H_
#define TWINPATH_CLI_SWEEP_ENTRY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "base/yaml_document.h"
#include "twinpath/v1/release.pb.h"

namespace twinpath::cli {

// Reads `entries` into `release`. Files they name (expected texts, references)
// are read, relative ones from `directory`. Mistakes are added to the document.
void ReadEntries(YamlReader entries, absl::string_view directory,
                 v1::Release& release);

// 1 to 128 letters, digits, '.', '_', '-'.
bool IsSweepName(absl::string_view text);
inline constexpr absl::string_view kSweepNameRule =
    "expected 1 to 128 letters, digits, '.', '_', '-'";

// `path`, below `directory` if it is relative.
std::string AbsolutePath(absl::string_view directory, absl::string_view path);

// A positive duration of at most 720h.
void ReadSweepDuration(YamlReader reader, google::protobuf::Duration* to);

// Adds an error if `pattern` is no RE2 expression.
void CheckPattern(YamlReader& reader, const std::string& pattern);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_SWEEP_ENTRY_H_
