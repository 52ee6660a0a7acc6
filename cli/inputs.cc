#include "cli/inputs.h"

#include <sys/stat.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "compat/reason.h"
#include "inspect/folder.h"

namespace twinpath::cli {
namespace {

bool IsFolder(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

void AddFolder(InputGroup& group,
               std::vector<inspect::InspectTarget>& targets) {
  absl::StatusOr<inspect::FolderListing> listing =
      inspect::ListFolder(group.path, group.path);
  if (!listing.ok()) {
    group.status = listing.status();
    return;
  }
  targets.insert(targets.end(),
                 std::make_move_iterator(listing->targets.begin()),
                 std::make_move_iterator(listing->targets.end()));
  for (const inspect::FolderNote& note : listing->notes) {
    if (!note.incomplete) continue;
    group.problems.push_back(compat::MakeReason(
        "TP232", absl::StrCat(Printable(note.name), " ", note.what),
        absl::StrContains(note.what, "ermission")
            ? "Run it as a user who may read what is named."
            : "Give what is named as a FILE of its own."));
  }
  if (listing->incomplete && group.problems.empty()) {
    group.problems.push_back(compat::MakeReason(
        "TP232", absl::StrCat(Printable(group.path),
                              ": not all of the folder could be listed")));
  }
}

}  // namespace

Inputs ExpandInputs(const std::vector<std::string>& paths) {
  Inputs inputs;
  for (const std::string& path : paths) {
    InputGroup group;
    group.path = path;
    group.first = inputs.targets.size();
    if (!IsFolder(path)) {
      inputs.targets.push_back({path, path});
    } else if (inspect::IsOciLayoutFolder(path)) {
      // One carrier, like the same image as an archive.
      inspect::InspectTarget target{path, path};
      target.oci_layout = true;
      inputs.targets.push_back(std::move(target));
    } else {
      group.folder = true;
      AddFolder(group, inputs.targets);
    }
    group.count = inputs.targets.size() - group.first;
    inputs.groups.push_back(std::move(group));
  }
  return inputs;
}

std::string NameInGroup(absl::string_view name, const InputGroup& group) {
  if (absl::ConsumePrefix(&name, group.path) &&
      !absl::ConsumePrefix(&name, "!/")) {
    while (absl::ConsumePrefix(&name, "/")) {
    }
  }
  return std::string(name);
}

}  // namespace twinpath::cli
