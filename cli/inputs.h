// The files that FILE arguments of `inspect` and `predict` stand for: a file is
// itself, a folder is all regular files below it.

#ifndef TWINPATH_CLI_INPUTS_H_
#define TWINPATH_CLI_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "inspect/child.h"
#include "twinpath/v1/common.pb.h"

namespace twinpath::cli {

// One argument and its files, targets[first, first + count).
struct InputGroup {
  std::string path;
  bool folder = false;
  size_t first = 0;
  size_t count = 0;
  // Why it stands for nothing.
  absl::Status status;
  // Folders: what could not be listed.
  std::vector<v1::Reason> problems;
};

struct Inputs {
  std::vector<inspect::InspectTarget> targets;
  std::vector<InputGroup> groups;
};

// Walks folders. Reports get the path as their name. An argument that cannot be
// used has an error in its group; the others are still there.
Inputs ExpandInputs(const std::vector<std::string>& paths);

// `name` as seen from the group: without the folder in front, or without the
// carrier in front of a member.
std::string NameInGroup(absl::string_view name, const InputGroup& group);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_INPUTS_H_
