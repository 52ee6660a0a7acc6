#include "inspect/child.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/repeated_ptr_field.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "base/version.h"
#include "inspect/layout_files.h"
#include "inspect/oci.h"
#include "inspect/scratch.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::inspect {
namespace {

constexpr char kProgram[] = "twinpath-inspect";
constexpr int kFirstFileInChild = 3;
constexpr size_t kMaxSaidBytes = 400;
// Of what a layout needs. 64 images of 1,024 layers take a third of it.
constexpr uint64_t kMaxSurveyBytes = uint64_t{16} << 20;

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

// What a child gets of a target.
struct OpenFile {
  size_t target = 0;
  // One; those of an image layout in a folder are several.
  std::vector<UniqueFd> fds;
  // Of a layout: the paths of the files in it, and those that are not there.
  std::vector<std::string> paths;
  OciUnopened unopened;
};

// Adds the files of a layout to what a child gets.
void AddLayout(const std::vector<std::string>& paths,
               const OciUnopened& unopened, v1::InspectRequest& request) {
  request.set_oci_layout(true);
  for (const std::string& path : paths) request.add_names(path);
  for (const auto& [path, why] : unopened) {
    v1::UnopenedFile& file = *request.add_unopened();
    file.set_path(path);
    file.set_why(why);
  }
}

absl::StatusOr<ProcessOptions> Inspector() {
  ProcessOptions process;
  TWINPATH_ASSIGN_OR_RETURN(std::string program, FindCompanion(kProgram));
  process.argv = {std::move(program)};
  process.environment = MinimalEnvironment();
  process.directory = "/";
  process.timeout = kChildTimeout;
  process.head_bytes = kMaxSaidBytes;
  process.digests = false;
  return process;
}

// Asks a child what the images of a layout need.
absl::StatusOr<OciNeeds> SurveyInChild(const LayoutFiles& files) {
  TWINPATH_ASSIGN_OR_RETURN(ProcessOptions process, Inspector());
  v1::InspectRequest request;
  request.set_oci_survey(true);
  AddLayout(files.paths, files.unopened, request);
  int in_child = kFirstFileInChild;
  for (const UniqueFd& fd : files.fds) {
    process.descriptors.push_back({fd.get(), in_child++});
  }
  process.input = request.SerializeAsString();
  process.head_bytes = kMaxSurveyBytes;
  TWINPATH_ASSIGN_OR_RETURN(const ProcessResult result, RunProcess(process));
  if (!result.succeeded() || !result.out.complete()) {
    return absl::DataLossError(
        absl::StrCat("the survey of a layout: ", result.Describe()));
  }
  google::protobuf::io::ArrayInputStream stream(
      result.out.head.data(), static_cast<int>(result.out.head.size()));
  OciNeeds needs;
  bool answered = false;
  while (!answered) {
    v1::InspectResult message;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(
            &message, &stream, nullptr)) {
      return absl::DataLossError("the survey of a layout cannot be read");
    }
    answered = message.has_survey();
    for (std::string& path : *message.mutable_survey()->mutable_documents()) {
      needs.documents.push_back(std::move(path));
    }
    for (std::string& path : *message.mutable_survey()->mutable_layers()) {
      needs.layers.push_back(std::move(path));
    }
  }
  return needs;
}

// Opens the files of a layout that lie in no folder together.
absl::StatusOr<OpenFile> OpenLayoutFiles(const InspectTarget& target) {
  OpenFile file;
  for (const auto& [in_layout, path] : target.layout_files) {
    absl::StatusOr<UniqueFd> fd =
        file.fds.size() < kMaxBatchFiles
            ? OpenRegularFile(path)
            : absl::ResourceExhaustedError("more files than are opened");
    if (fd.ok()) {
      file.fds.push_back(*std::move(fd));
      file.paths.push_back(in_layout);
    } else {
      file.unopened[in_layout] = std::string(MessageOf(fd.status()));
    }
  }
  return file;
}

absl::StatusOr<OpenFile> OpenTarget(const InspectTarget& target) {
  OpenFile file;
  if (!target.oci_layout) {
    TWINPATH_ASSIGN_OR_RETURN(UniqueFd fd, OpenRegularFile(target.path));
    file.fds.push_back(std::move(fd));
    return file;
  }
  if (!target.layout_files.empty()) return OpenLayoutFiles(target);
  TWINPATH_ASSIGN_OR_RETURN(LayoutFiles files,
                            OpenLayout(target.path, SurveyInChild));
  file.fds = std::move(files.fds);
  file.paths = std::move(files.paths);
  file.unopened = std::move(files.unopened);
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

// Reads what a child writes while it writes it, and hands over each file whose
// reports are complete.
class AnswerReader {
 public:
  AnswerReader(absl::Span<const OpenFile> batch,
               absl::Span<const InspectTarget> targets, const OnFile& on_file,
               const ChildEvents& events)
      : batch_(batch), targets_(targets), on_file_(on_file), events_(events) {}

  void Feed(absl::string_view piece) {
    if (stopped()) return;
    file_bytes_ += piece.size();
    if (file_bytes_ > kMaxChildOutputBytes) {
      broken_ = absl::StrCat("the inspector's report is above the cap of ",
                             HumanBytes(kMaxChildOutputBytes));
      return;
    }
    pending_.append(piece.data(), piece.size());
    size_t at = 0;
    while (!stopped() && Message(at)) {
    }
    pending_.erase(0, at);
  }

  // Files that were handed over; the first ones of the batch.
  size_t finished() const { return finished_; }
  // Nothing more is taken from the child.
  bool stopped() const { return !broken_.empty() || !receiver_.ok(); }
  // Why the next file has no report.
  std::string Why() const {
    if (!broken_.empty()) return broken_;
    return pending_.empty() ? "the inspector's report is missing"
                            : "the inspector's report cannot be read";
  }
  bool broken() const { return !broken_.empty(); }
  // What the receiver of the reports said last.
  const absl::Status& receiver() const { return receiver_; }

 private:
  // Takes the message at `at` in pending_, if all of it is there.
  bool Message(size_t& at) {
    google::protobuf::io::CodedInputStream stream(
        reinterpret_cast<const uint8_t*>(pending_.data()) + at,
        static_cast<int>(pending_.size() - at));
    uint32_t size = 0;
    if (!stream.ReadVarint32(&size)) {
      // A length takes five bytes at most.
      constexpr size_t kMaxLengthBytes = 5;
      if (pending_.size() - at >= kMaxLengthBytes) Unreadable("");
      return false;
    }
    if (size > kMaxChildOutputBytes) {
      Unreadable("");
      return false;
    }
    const size_t from = at + static_cast<size_t>(stream.CurrentPosition());
    if (pending_.size() - from < size) return false;
    v1::InspectResult result;
    if (!result.ParseFromArray(pending_.data() + from,
                               static_cast<int>(size))) {
      Unreadable("");
      return false;
    }
    at = from + size;
    Take(result);
    return true;
  }

  void Take(v1::InspectResult& result) {
    if (result.has_confinement() && events_.confined) {
      events_.confined(result.confinement());
    }
    if (!result.has_report() && !result.has_progress() &&
        result.fatbins().empty()) {
      return;
    }
    if (finished_ == batch_.size() || result.file() != finished_) {
      return Unreadable(": it is of another file");
    }
    const size_t target = batch_[finished_].target;
    Append(*result.mutable_fatbins(), fatbins_);
    if (!result.has_report()) {
      if (result.has_progress() && events_.progress) {
        events_.progress(target, result.progress().bytes_done(),
                         result.progress().total_bytes());
      }
      return;
    }
    const bool last = result.report().member_of().empty();
    if (last && result.report().name() != targets_[target].name) {
      return Unreadable(": it has another name");
    }
    if (last && !fatbins_.empty()) {
      Append(*result.mutable_report()->mutable_fatbins(), fatbins_);
      result.mutable_report()->mutable_fatbins()->Swap(&fatbins_);
      fatbins_.Clear();
    }
    reports_.Add(std::move(*result.mutable_report()));
    if (!last) return;
    std::vector<v1::FileReport> reports = reports_.Take();
    ++finished_;
    file_bytes_ = 0;
    receiver_ = on_file_(absl::OkStatus(), target, std::move(reports));
  }

  void Unreadable(absl::string_view why) {
    broken_ = absl::StrCat("the inspector's report cannot be read", why);
  }

  const absl::Span<const OpenFile> batch_;
  const absl::Span<const InspectTarget> targets_;
  const OnFile& on_file_;
  const ChildEvents& events_;
  // Moves all of `from` to the end of `to`.
  using Fatbins = google::protobuf::RepeatedPtrField<v1::Fatbin>;
  static void Append(Fatbins& from, Fatbins& to) {
    if (from.empty()) return;
    if (to.empty()) return to.Swap(&from);
    std::vector<v1::Fatbin*> moved(static_cast<size_t>(from.size()));
    from.ExtractSubrange(0, from.size(), moved.data());
    for (v1::Fatbin* const fatbin : moved) to.AddAllocated(fatbin);
  }

  // Bytes that are no whole message yet.
  std::string pending_;
  // Of the file that is being reported: bytes, and fatbins ahead of its report.
  uint64_t file_bytes_ = 0;
  Fatbins fatbins_;
  CarriersFirst reports_;
  size_t finished_ = 0;
  std::string broken_;
  absl::Status receiver_;
};

// What became of a batch.
struct Answer {
  // The first files, as many as were handed over.
  size_t finished = 0;
  // Why the next file was not.
  std::string why;
};

class Batches {
 public:
  Batches(absl::Span<const InspectTarget> targets,
          const InspectOptions& options, const OnFile& on_file,
          const ChildEvents& events)
      : targets_(targets),
        options_(options),
        on_file_(on_file),
        events_(events) {
    if (!options.members) return;
    // Without it large members of carriers cannot be looked at, and the report
    // says so.
    absl::StatusOr<UniqueFd> scratch = OpenScratchFile();
    if (scratch.ok()) scratch_ = *std::move(scratch);
  }

  absl::Status Run() {
    for (size_t i = 0; i < targets_.size(); ++i) {
      // A layout has a child of its own, and may need all descriptors.
      if (targets_[i].oci_layout) TWINPATH_RETURN_IF_ERROR(Flush());
      absl::StatusOr<OpenFile> file = OpenTarget(targets_[i]);
      if (absl::IsResourceExhausted(file.status()) && !batch_.empty()) {
        // No descriptor is left; this batch has them.
        TWINPATH_RETURN_IF_ERROR(Flush());
        file = OpenTarget(targets_[i]);
      }
      if (!file.ok()) {
        TWINPATH_RETURN_IF_ERROR(Flush());
        TWINPATH_RETURN_IF_ERROR(
            absl::IsDataLoss(file.status())
                ? on_file_(absl::OkStatus(), i,
                           {Incomplete(targets_[i].name,
                                       std::string(MessageOf(file.status())))})
                : on_file_(file.status(), i, {}));
        continue;
      }
      file->target = i;
      const uint64_t size = SizeOf(*file);
      if (!batch_.empty() &&
          (batch_.size() == kMaxBatchFiles || bytes_ + size > kMaxBatchBytes)) {
        TWINPATH_RETURN_IF_ERROR(Flush());
      }
      bytes_ += size;
      batch_.push_back(*std::move(file));
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
      TWINPATH_ASSIGN_OR_RETURN(const Answer answer, RunChild(now));
      size_t done = answer.finished;
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

  v1::InspectRequest RequestFor(absl::Span<const OpenFile> batch,
                                ProcessOptions& process) const {
    v1::InspectRequest request;
    request.set_kernels(options_.kernels);
    request.set_digest(options_.digest);
    request.set_image_digests(options_.image_digests);
    request.set_max_image_bytes(options_.max_image_bytes);
    request.set_details(options_.details);
    request.set_demangle(options_.demangle);
    request.set_members(options_.members);
    request.set_scratch(scratch_.valid());
    request.set_progress(events_.progress != nullptr);
    int in_child = kFirstFileInChild;
    for (const OpenFile& file : batch) {
      const InspectTarget& target = targets_[file.target];
      if (target.oci_layout) {
        request.set_name(target.name);
        AddLayout(file.paths, file.unopened, request);
      } else {
        request.add_names(target.name);
      }
      for (const UniqueFd& fd : file.fds) {
        process.descriptors.push_back({fd.get(), in_child++});
      }
    }
    if (scratch_.valid()) {
      process.descriptors.push_back({scratch_.get(), in_child});
    }
    return request;
  }

  // Errors are of starting the child, and those of on_file_.
  absl::StatusOr<Answer> RunChild(absl::Span<const OpenFile> batch) {
    TWINPATH_ASSIGN_OR_RETURN(ProcessOptions process, Inspector());
    process.input = RequestFor(batch, process).SerializeAsString();
    AnswerReader reader(batch, targets_, on_file_, events_);
    process.on_output = [&reader](absl::string_view piece) {
      reader.Feed(piece);
    };
    process.cancelled = [&reader] { return reader.stopped(); };
    TWINPATH_ASSIGN_OR_RETURN_CTX(
        const ProcessResult result, RunProcess(process),
        absl::StrCat("inspecting ", targets_[batch.front().target].path));
    TWINPATH_RETURN_IF_ERROR(reader.receiver());
    Answer answer;
    answer.finished = reader.finished();
    if (answer.finished == batch.size()) return answer;
    answer.why = reader.Why();
    if (!reader.broken() && !result.succeeded()) {
      answer.why = absl::StrCat("the inspector ended with ", result.Describe());
      const std::string said = Printable(result.err.head);
      if (!said.empty()) absl::StrAppend(&answer.why, ": ", said);
    }
    return answer;
  }

  absl::Span<const InspectTarget> targets_;
  const InspectOptions& options_;
  const OnFile& on_file_;
  const ChildEvents& events_;
  UniqueFd scratch_;
  std::vector<OpenFile> batch_;
  uint64_t bytes_ = 0;
};

}  // namespace

std::string DescribeConfinement(const v1::Confinement& confinement) {
  std::vector<std::string> parts;
  if (confinement.limits()) parts.push_back("limits");
  if (confinement.landlock_abi() > 0) {
    parts.push_back(absl::StrCat("Landlock ABI ", confinement.landlock_abi()));
  }
  if (confinement.system_call_filter()) {
    parts.push_back("system call filter");
  }
  std::string out = absl::StrJoin(parts, ", ");
  if (!confinement.missing().empty()) {
    absl::StrAppend(&out, "; missing: ",
                    Printable(absl::StrJoin(confinement.missing(), "; ")));
  }
  return out;
}

absl::Status InspectFiles(absl::Span<const InspectTarget> targets,
                          const InspectOptions& options, const OnFile& on_file,
                          const ChildEvents& events) {
  return Batches(targets, options, on_file, events).Run();
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

namespace {

// Folders of an artifact that are OCI image layouts: they hold an oci-layout
// and an index.json. "" is the artifact's own.
std::vector<std::string> LayoutFoldersOf(const v1::Artifact& artifact) {
  std::set<absl::string_view> names;
  for (const v1::ArtifactFile& file : artifact.files()) {
    if (file.type() == v1::FILE_TYPE_REGULAR) names.insert(file.name());
  }
  std::vector<std::string> folders;
  for (absl::string_view name : names) {
    if (!absl::ConsumeSuffix(&name, "oci-layout") ||
        (!name.empty() && !absl::ConsumeSuffix(&name, "/"))) {
      continue;
    }
    if (names.contains(
            absl::StrCat(name, name.empty() ? "" : "/", "index.json"))) {
      folders.emplace_back(name);
    }
  }
  return folders;
}

// Whether a file of the artifact is one that the layout in `folder` may have.
bool IsInLayout(absl::string_view name, absl::string_view folder) {
  if (!folder.empty() && (!absl::ConsumePrefix(&name, folder) ||
                          !absl::ConsumePrefix(&name, "/"))) {
    return false;
  }
  return MayBeOciPath(name);
}

}  // namespace

absl::StatusOr<v1::ArtifactReport> InspectArtifact(
    const v1::Artifact& artifact, const PathOfFile& path_of,
    const InspectOptions& options) {
  v1::ArtifactReport report;
  report.set_inspector_version(TWINPATH_VERSION);
  if (artifact.has_digest()) {
    *report.mutable_artifact_digest() = artifact.digest();
  }
  ChildEvents events;
  events.confined = [&report](const v1::Confinement& confinement) {
    if (!report.has_confinement() ||
        report.confinement().missing_size() < confinement.missing_size()) {
      *report.mutable_confinement() = confinement;
    }
  };
  std::vector<InspectTarget> targets;
  // Image layouts by their folders, each one target.
  std::map<std::string, size_t> layouts;
  for (const std::string& folder : LayoutFoldersOf(artifact)) {
    layouts[folder] = targets.size();
    targets.push_back({.path = "",
                       .name = !folder.empty()           ? folder
                               : artifact.name().empty() ? "oci_image"
                                                         : artifact.name(),
                       .oci_layout = true});
  }
  for (const v1::ArtifactFile& file : artifact.files()) {
    if (file.type() != v1::FILE_TYPE_REGULAR) continue;
    TWINPATH_ASSIGN_OR_RETURN_CTX(std::string path, path_of(file),
                                  Printable(file.name()));
    const auto layout = std::find_if(
        layouts.begin(), layouts.end(), [&file](const auto& entry) {
          return IsInLayout(file.name(), entry.first);
        });
    if (layout != layouts.end()) {
      const std::string& folder = layout->first;
      targets[layout->second].layout_files.emplace_back(
          file.name().substr(folder.empty() ? 0 : folder.size() + 1),
          std::move(path));
      continue;
    }
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
      },
      events));
  return report;
}

}  // namespace twinpath::inspect
