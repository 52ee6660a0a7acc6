#include "inspect/child.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "base/version.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::inspect {
namespace {

constexpr char kProgram[] = "twinpath-inspect";
constexpr int kFileInChild = 3;

// What a report says when the child gave none.
v1::FileReport Incomplete(absl::string_view name, const std::string& why) {
  v1::FileReport report;
  report.set_name(std::string(name));
  v1::Reason& reason = *report.add_problems();
  reason.set_code("TP232");
  reason.set_detail(why);
  return report;
}

}  // namespace

absl::StatusOr<v1::FileReport> InspectInChild(const std::string& path,
                                              absl::string_view name,
                                              const InspectOptions& options) {
  TWINPATH_ASSIGN_OR_RETURN(const UniqueFd file, OpenRegularFile(path));
  TWINPATH_ASSIGN_OR_RETURN(const std::string program, FindCompanion(kProgram));
  v1::InspectRequest request;
  request.set_name(std::string(name));
  request.set_kernels(options.kernels);
  request.set_digest(options.digest);
  request.set_image_digests(options.image_digests);
  request.set_max_image_bytes(options.max_image_bytes);

  ProcessOptions process;
  process.argv = {program};
  process.environment = MinimalEnvironment();
  process.directory = "/";
  process.input = request.SerializeAsString();
  process.descriptors = {{file.get(), kFileInChild}};
  process.head_bytes = kMaxChildOutputBytes;
  process.timeout = kChildTimeout;
  TWINPATH_ASSIGN_OR_RETURN_CTX(ProcessResult result, RunProcess(process),
                                absl::StrCat("inspecting ", path));
  if (!result.succeeded()) {
    std::string why =
        absl::StrCat("the inspector ended with ", result.Describe());
    const std::string said =
        Printable(absl::string_view(result.err.head).substr(0, 400));
    if (!said.empty()) absl::StrAppend(&why, ": ", said);
    return Incomplete(name, why);
  }
  if (!result.out.complete()) {
    return Incomplete(name, absl::StrCat("the inspector's report of ",
                                         HumanBytes(result.out.total_bytes),
                                         " is above the cap of ",
                                         HumanBytes(kMaxChildOutputBytes)));
  }
  v1::FileReport report;
  if (!report.ParseFromString(result.out.head)) {
    return Incomplete(name, "the inspector's report cannot be read");
  }
  return report;
}

absl::StatusOr<v1::ArtifactReport> InspectArtifact(
    const v1::Artifact& artifact, const PathOfFile& path_of,
    const InspectOptions& options) {
  v1::ArtifactReport report;
  report.set_inspector_version(TWINPATH_VERSION);
  if (artifact.has_digest()) {
    *report.mutable_artifact_digest() = artifact.digest();
  }
  for (const v1::ArtifactFile& file : artifact.files()) {
    if (file.type() != v1::FILE_TYPE_REGULAR) continue;
    TWINPATH_ASSIGN_OR_RETURN_CTX(const std::string path, path_of(file),
                                  Printable(file.name()));
    TWINPATH_ASSIGN_OR_RETURN_CTX(*report.add_files(),
                                  InspectInChild(path, file.name(), options),
                                  Printable(file.name()));
  }
  return report;
}

}  // namespace twinpath::inspect
