// Inspection in a child process (twinpath-inspect), for daemons and for the
// command line alike: no artifact is ever parsed in the caller's own process.
// The child gets opened files as descriptors 3, 4, ... and behind them an empty
// file without a name as scratch space, an InspectRequest on standard input,
// and answers with a stream of InspectResults on standard output. Thread-safe.

#ifndef TWINPATH_INSPECT_CHILD_H_
#define TWINPATH_INSPECT_CHILD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "inspect/inspect.h"
#include "twinpath/v1/artifact.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Most bytes of reports that are taken from a child for one file.
inline constexpr uint64_t kMaxChildOutputBytes = uint64_t{256} << 20;
// How long a child may take.
inline constexpr absl::Duration kChildTimeout = absl::Minutes(10);
// Most files, and most bytes of files, that one child gets; a larger file has a
// child of its own. Systems allow 1024 descriptors where nobody asked for more,
// and starting the child takes two a file.
inline constexpr size_t kMaxBatchFiles = 400;
inline constexpr uint64_t kMaxBatchBytes = uint64_t{1} << 30;

struct InspectTarget {
  std::string path;
  // Goes into the report.
  std::string name;
  // `path` is a folder with an OCI image layout (folder.h), to be read as one
  // carrier.
  bool oci_layout = false;
  // With oci_layout: the layout's files, by their paths in it and on disk,
  // where they lie in no folder together; `path` is not used then.
  std::vector<std::pair<std::string, std::string>> layout_files = {};
};

// Gets the outcome of target number `target`. `opened` is OK and `reports` has
// the file's own report, then those of its members, each carrier before its
// members; or `opened` says why the file cannot be opened (NOT_FOUND,
// PERMISSION_DENIED, INVALID_ARGUMENT for a folder or device) and there are no
// reports. An error that it returns ends the whole.
using OnFile =
    std::function<absl::Status(const absl::Status& opened, size_t target,
                               std::vector<v1::FileReport> reports)>;

// What else is told of a run. Each may be null.
struct ChildEvents {
  // How a child is confined, once a child, before its reports.
  std::function<void(const v1::Confinement& confinement)> confined;
  // How far target number `target` is read; see InspectProgress.
  std::function<void(size_t target, uint64_t bytes_done, uint64_t total_bytes)>
      progress;
};

// One line for people: "limits, Landlock ABI 7, system call filter; missing:
// ...". Printable.
std::string DescribeConfinement(const v1::Confinement& confinement);

// Inspects files, many in one child, and calls `on_file` for each in order, as
// soon as it is done. A child that dies, runs out of time or answers nonsense
// costs only the file it was at: that one is tried once more alone, and if it
// fails again its report has kind UNSPECIFIED and problem TP232. Returns
// NOT_FOUND if twinpath-inspect is not installed, and errors of starting it.
absl::Status InspectFiles(absl::Span<const InspectTarget> targets,
                          const InspectOptions& options, const OnFile& on_file,
                          const ChildEvents& events = {});

// Inspects the file at `path`, without its members. Errors as `opened` above.
absl::StatusOr<v1::FileReport> InspectInChild(const std::string& path,
                                              absl::string_view name,
                                              const InspectOptions& options);

// The same with its members: first the file's own report, then theirs.
absl::StatusOr<std::vector<v1::FileReport>> InspectAllInChild(
    const std::string& path, absl::string_view name,
    const InspectOptions& options);

// Returns where the bytes of an artifact's regular file lie on this machine.
using PathOfFile =
    std::function<absl::StatusOr<std::string>(const v1::ArtifactFile&)>;

// Inspects every regular file of `artifact` and their members, in the
// manifest's order. Links are not followed: what they point at is a file of the
// artifact itself. The first error of `path_of` or of opening a file ends it,
// with the file's name as context.
absl::StatusOr<v1::ArtifactReport> InspectArtifact(
    const v1::Artifact& artifact, const PathOfFile& path_of,
    const InspectOptions& options);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_CHILD_H_
