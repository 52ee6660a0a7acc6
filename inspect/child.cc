#include "inspect/child.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "base/version.h"
#include "inspect/folder.h"
#include "inspect/scratch.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::inspect {
namespace {

constexpr char kProgram[] = "twinpath-inspect";
constexpr int kFirstFileInChild = 3;
constexpr size_t kMaxSaidBytes = 400;

// What a report says when the child gave none.
v1::FileReport Incomplete(absl::string_view name, const std::string& why) {
  v1::FileReport report;
  report.set_name(std::string(name));
  v1::Reason& reason = *report.add_problems();
  reason.set_code("TP232");
  reason.set_detail(why);
  return report;
}

// Puts each carrier before its members; they come from the child the other way
// round, since a carrier's counts are known in the end.
class CarriersFirst {
 public:
  void Add(v1::FileReport report) {
    Group group;
    size_t from = groups_.size();
    if (report.member_of().empty()) {
      from = 0;
    } else if (report.has_carrier()) {
      while (from > 0 &&
             groups_[from - 1].front().member_of() == report.name()) {
        --from;
      }
    }
    group.push_back(std::move(report));
    for (size_t i = from; i < groups_.size(); ++i) {
      std::move(groups_[i].begin(), groups_[i].end(),
                std::back_inserter(group));
    }
    groups_.resize(from);
    groups_.push_back(std::move(group));
  }
  std::vector<v1::FileReport> Take() {
    std::vector<v1::FileReport> all;
    for (Group& group : groups_) {
      std::move(group.begin(), group.end(), std::back_inserter(all));
    }
    groups_.clear();
    return all;
  }

 private:
  using Group = std::vector<v1::FileReport>;
  std::vector<Group> groups_;
};

void NameLeftOut(uint64_t left_out, v1::FileReport& report) {
  if (left_out == 0) return;
  v1::Reason& reason = *report.add_problems();
  reason.set_code("TP232");
  reason.set_detail(absl::StrCat(
      left_out,
      " files of the image layout could not be opened, or are more "
      "than are opened at once"));
}

// What a child gets of a target.
struct OpenFile {
  size_t target = 0;
  // One; those of an image layout in a folder are several.
  std::vector<UniqueFd> fds;
  // Of a layout: the paths of the files in it, and how many are left out.
  std::vector<std::string> paths;
  uint64_t left_out = 0;
};

// Most files of an image layout that are opened at once. Systems allow 1024
// descriptors where nobody asked for more.
constexpr size_t kMaxLayoutFiles = 512;

absl::StatusOr<OpenFile> OpenTarget(const InspectTarget& target) {
  OpenFile file;
  if (!target.oci_layout) {
    TWINPATH_ASSIGN_OR_RETURN(UniqueFd fd, OpenRegularFile(target.path));
    file.fds.push_back(std::move(fd));
    return file;
  }
  TWINPATH_ASSIGN_OR_RETURN(
      const std::vector<std::string> paths,
      ListOciLayout(target.path, kMaxLayoutFiles, file.left_out));
  for (const std::string& path : paths) {
    absl::StatusOr<UniqueFd> fd = OpenRegularFile(JoinPath(target.path, path));
    if (!fd.ok()) {
      ++file.left_out;
      continue;
    }
    file.fds.push_back(*std::move(fd));
    file.paths.push_back(path);
  }
  return file;
}

uint64_t SizeOf(const OpenFile& file) {
  uint64_t size = 0;
  for (const UniqueFd& fd : file.fds) {
    struct stat status = {};
    size += ::fstat(fd.get(), &status) == 0
                ? static_cast<uint64_t>(status.st_size)
                : kMaxBatchBytes;
  }
  return size;
}

// What a child said about its batch.
struct Answer {
  // The reports of the first files, as many as were finished.
  std::vector<std::vector<v1::FileReport>> finished;
  // Why the next file was not. Empty: all were.
  std::string why;
};

// Reads the child's stream.
Answer ReadAnswer(absl::string_view bytes, absl::Span<const OpenFile> batch,
                  absl::Span<const InspectTarget> targets) {
  Answer answer;
  google::protobuf::io::ArrayInputStream stream(bytes.data(),
                                                static_cast<int>(bytes.size()));
  CarriersFirst reports;
  while (answer.finished.size() < batch.size()) {
    v1::InspectResult result;
    bool at_end = false;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(
            &result, &stream, &at_end)) {
      answer.why = at_end ? "the inspector's report is missing"
                          : "the inspector's report cannot be read";
      return answer;
    }
    const size_t file = answer.finished.size();
    if (result.file() != file) {
      answer.why =
          "the inspector's report cannot be read: it is of another "
          "file";
      return answer;
    }
    const bool last = result.report().member_of().empty();
    if (last && result.report().name() != targets[batch[file].target].name) {
      answer.why = "the inspector's report cannot be read: it has another name";
      return answer;
    }
    reports.Add(std::move(*result.mutable_report()));
    if (last) answer.finished.push_back(reports.Take());
  }
  return answer;
}

absl::StatusOr<Answer> RunChild(absl::Span<const OpenFile> batch,
                                absl::Span<const InspectTarget> targets,
                                const InspectOptions& options,
                                const UniqueFd& scratch) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string program, FindCompanion(kProgram));
  v1::InspectRequest request;
  request.set_kernels(options.kernels);
  request.set_digest(options.digest);
  request.set_image_digests(options.image_digests);
  request.set_max_image_bytes(options.max_image_bytes);
  request.set_details(options.details);
  request.set_demangle(options.demangle);
  request.set_members(options.members);
  request.set_scratch(scratch.valid());

  ProcessOptions process;
  process.argv = {program};
  process.environment = MinimalEnvironment();
  process.directory = "/";
  int in_child = kFirstFileInChild;
  for (const OpenFile& file : batch) {
    const InspectTarget& target = targets[file.target];
    if (target.oci_layout) {
      request.set_oci_layout(true);
      request.set_name(target.name);
      for (const std::string& path : file.paths) request.add_names(path);
    } else {
      request.add_names(target.name);
    }
    for (const UniqueFd& fd : file.fds) {
      process.descriptors.push_back({fd.get(), in_child++});
    }
  }
  if (scratch.valid()) process.descriptors.push_back({scratch.get(), in_child});
  process.input = request.SerializeAsString();
  process.head_bytes = kMaxChildOutputBytes;
  process.timeout = kChildTimeout;
  TWINPATH_ASSIGN_OR_RETURN_CTX(
      const ProcessResult result, RunProcess(process),
      absl::StrCat("inspecting ", targets[batch.front().target].path));
  Answer answer = ReadAnswer(result.out.head, batch, targets);
  if (answer.why.empty()) return answer;
  if (!result.succeeded()) {
    answer.why = absl::StrCat("the inspector ended with ", result.Describe());
    const std::string said =
        Printable(absl::string_view(result.err.head).substr(0, kMaxSaidBytes));
    if (!said.empty()) absl::StrAppend(&answer.why, ": ", said);
  } else if (!result.out.complete()) {
    answer.why = absl::StrCat(
        "the inspector's report of ", HumanBytes(result.out.total_bytes),
        " is above the cap of ", HumanBytes(kMaxChildOutputBytes));
  }
  return answer;
}

class Batches {
 public:
  Batches(absl::Span<const InspectTarget> targets,
          const InspectOptions& options, const OnFile& on_file)
      : targets_(targets), options_(options), on_file_(on_file) {
    if (!options.members) return;
    // Without it large members of carriers cannot be looked at, and the report
    // says so.
    absl::StatusOr<UniqueFd> scratch = OpenScratchFile();
    if (scratch.ok()) scratch_ = *std::move(scratch);
  }

  absl::Status Run() {
    for (size_t i = 0; i < targets_.size(); ++i) {
      absl::StatusOr<OpenFile> file = OpenTarget(targets_[i]);
      if (!file.ok()) {
        TWINPATH_RETURN_IF_ERROR(Flush());
        TWINPATH_RETURN_IF_ERROR(on_file_(file.status(), i, {}));
        continue;
      }
      file->target = i;
      const uint64_t size = SizeOf(*file);
      if (!batch_.empty() &&
          (targets_[i].oci_layout || batch_.size() == kMaxBatchFiles ||
           bytes_ + size > kMaxBatchBytes)) {
        TWINPATH_RETURN_IF_ERROR(Flush());
      }
      bytes_ += size;
      batch_.push_back(*std::move(file));
      // A layout has a child of its own.
      if (targets_[i].oci_layout) TWINPATH_RETURN_IF_ERROR(Flush());
    }
    return Flush();
  }

 private:
  // Inspects the batch. A file at which a child ends is tried once more alone.
  absl::Status Flush() {
    absl::Span<const OpenFile> left = batch_;
    bool alone = false;
    while (!left.empty()) {
      const absl::Span<const OpenFile> now = alone ? left.subspan(0, 1) : left;
      // Another child may have left something in it.
      if (scratch_.valid() && ::ftruncate(scratch_.get(), 0) != 0) {
        scratch_.Close();
      }
      TWINPATH_ASSIGN_OR_RETURN(Answer answer,
                                RunChild(now, targets_, options_, scratch_));
      size_t done = 0;
      for (std::vector<v1::FileReport>& reports : answer.finished) {
        NameLeftOut(now[done].left_out, reports.front());
        TWINPATH_RETURN_IF_ERROR(
            on_file_(absl::OkStatus(), now[done++].target, std::move(reports)));
      }
      if (now.size() == 1 && done == 0) {
        const size_t target = now.front().target;
        TWINPATH_RETURN_IF_ERROR(
            on_file_(absl::OkStatus(), target,
                     {Incomplete(targets_[target].name, answer.why)}));
        done = 1;
      }
      alone = done < now.size();
      left.remove_prefix(done);
    }
    batch_.clear();
    bytes_ = 0;
    return absl::OkStatus();
  }

  absl::Span<const InspectTarget> targets_;
  const InspectOptions& options_;
  const OnFile& on_file_;
  UniqueFd scratch_;
  std::vector<OpenFile> batch_;
  uint64_t bytes_ = 0;
};

}  // namespace

absl::Status InspectFiles(absl::Span<const InspectTarget> targets,
                          const InspectOptions& options,
                          const OnFile& on_file) {
  return Batches(targets, options, on_file).Run();
}

absl::StatusOr<std::vector<v1::FileReport>> InspectAllInChild(
    const std::string& path, absl::string_view name,
    const InspectOptions& options) {
  std::vector<v1::FileReport> all;
  TWINPATH_RETURN_IF_ERROR(
      InspectFiles({{.path = path, .name = std::string(name)}}, options,
                   [&](const absl::Status& opened, size_t,
                       std::vector<v1::FileReport> reports) {
                     all = std::move(reports);
                     return opened;
                   }));
  return all;
}

absl::StatusOr<v1::FileReport> InspectInChild(const std::string& path,
                                              absl::string_view name,
                                              const InspectOptions& options) {
  InspectOptions own = options;
  own.members = false;
  TWINPATH_ASSIGN_OR_RETURN(std::vector<v1::FileReport> all,
                            InspectAllInChild(path, name, own));
  return std::move(all.front());
}

absl::StatusOr<v1::ArtifactReport> InspectArtifact(
    const v1::Artifact& artifact, const PathOfFile& path_of,
    const InspectOptions& options) {
  v1::ArtifactReport report;
  report.set_inspector_version(TWINPATH_VERSION);
  if (artifact.has_digest()) {
    *report.mutable_artifact_digest() = artifact.digest();
  }
  std::vector<InspectTarget> targets;
  for (const v1::ArtifactFile& file : artifact.files()) {
    if (file.type() != v1::FILE_TYPE_REGULAR) continue;
    TWINPATH_ASSIGN_OR_RETURN_CTX(std::string path, path_of(file),
                                  Printable(file.name()));
    targets.push_back({.path = std::move(path), .name = file.name()});
  }
  TWINPATH_RETURN_IF_ERROR(InspectFiles(
      targets, options,
      [&](const absl::Status& opened, size_t target,
          std::vector<v1::FileReport> reports) {
        TWINPATH_RETURN_IF_ERROR_CTX(opened, Printable(targets[target].name));
        for (v1::FileReport& file : reports) {
          *report.add_files() = std::move(file);
        }
        return absl::OkStatus();
      }));
  return report;
}

}  // namespace twinpath::inspect
