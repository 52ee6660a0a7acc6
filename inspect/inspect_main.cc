// twinpath-inspect: reads files for another program. The opened files are
// descriptors 3, 4, ..., and behind them, where the request says so, an empty
// file for scratch space. An InspectRequest comes on standard input; a stream
// of InspectResults goes to standard output, each behind its length: how this
// process is confined, then reports, those of a carrier's members before its
// own. Exit 0 when all were written, 2 for a request that cannot be read, with
// one line on standard error.
//
// The process confines itself before it looks at a file; see confine.h.

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/archive.h"
#include "inspect/byte_source.h"
#include "inspect/carrier.h"
#include "inspect/confine.h"
#include "inspect/file_kind.h"
#include "inspect/inspect.h"
#include "inspect/progress_source.h"
#include "inspect/scratch.h"
#include "twinpath/v1/report.pb.h"
#include "twinpath/v1/runner.pb.h"

namespace twinpath::inspect {
namespace {

constexpr int kFirstFile = 3;

int Complain(absl::string_view what) {
  std::fprintf(stderr, "twinpath-inspect: %s\n", Printable(what).c_str());
  return kExitUsage;
}

// Standard output. Thread-safe.
class Results {
 public:
  absl::Status Send(const v1::InspectResult& result) {
    std::string bytes;
    {
      google::protobuf::io::StringOutputStream stream(&bytes);
      if (!google::protobuf::util::SerializeDelimitedToZeroCopyStream(
              result, &stream)) {
        return absl::InternalError("a report cannot be written");
      }
    }
    MutexLock lock(mutex_);
    if (status_.ok()) status_ = WriteAll(STDOUT_FILENO, bytes);
    return status_;
  }

 private:
  Mutex mutex_;
  // A part of a message may have been written: nothing can follow it.
  absl::Status status_;
};

v1::InspectResult ConfinementResult(const Confinement& confinement) {
  v1::InspectResult result;
  v1::Confinement& told = *result.mutable_confinement();
  told.set_limits(true);
  told.set_landlock_abi(static_cast<uint32_t>(confinement.landlock_abi));
  told.set_system_call_filter(confinement.filter);
  for (const std::string& layer : confinement.missing) told.add_missing(layer);
  return result;
}

// Answers one request.
class Inspector {
 public:
  // `files`: one for each of the request's names.
  Inspector(const v1::InspectRequest& request,
            const std::vector<absl::StatusOr<FileSource>>& files,
            Results& results)
      : request_(request),
        files_(files),
        results_(results),
        options_{.kernels = request.kernels(),
                 .digest = request.digest(),
                 .image_digests = request.image_digests(),
                 .max_image_bytes = request.max_image_bytes(),
                 .details = request.details(),
                 .demangle = request.demangle(),
                 .members = request.members()},
        scratch_(request.scratch() ? kFirstFile + request.names_size() : -1,
                 kScratchFileBytes) {}

  absl::Status Run() {
    if (request_.oci_survey()) return Survey();
    if (request_.oci_layout()) return Layout();
    for (int i = 0; i < request_.names_size(); ++i) {
      TWINPATH_RETURN_IF_ERROR(File(i));
    }
    return absl::OkStatus();
  }

 private:
  // Sends the reports that `inspect` makes of file number `index`. An error is
  // one of sending; a file that cannot be read is a report.
  absl::Status Answer(
      uint32_t index, const std::string& name,
      const std::function<absl::Status(const OnReport&)>& inspect) {
    v1::InspectResult result;
    result.set_file(index);
    absl::Status sent;
    const OnReport on_report = [&](v1::FileReport report) {
      *result.mutable_report() = std::move(report);
      sent = results_.Send(result);
      return sent;
    };
    const absl::Status inspected = inspect(on_report);
    if (inspected.ok() || !sent.ok()) return sent;
    v1::FileReport unread;
    unread.set_name(name);
    v1::Reason& reason = *unread.add_problems();
    reason.set_code("TP232");
    reason.set_detail(
        absl::StrCat("it cannot be read: ", MessageOf(inspected)));
    return on_report(std::move(unread));
  }

  // Tells that `read` bytes of a file of `size` bytes were read. Most files are
  // gone through once to find code, partly once more to decode it, and once for
  // the digest; a packed carrier's members are not read from it again.
  void Tell(uint32_t index, uint64_t read, uint64_t size, bool packed) {
    const uint64_t passes =
        uint64_t{1} + (options_.kernels && !packed) + uint64_t{options_.digest};
    v1::InspectResult result;
    result.set_file(index);
    v1::InspectProgress& progress = *result.mutable_progress();
    progress.set_total_bytes(passes * size);
    progress.set_bytes_done(std::min(read, passes * size));
    // The report that follows meets the same end.
    (void)results_.Send(result);
  }

  absl::Status File(int index) {
    const std::string& name = request_.names(index);
    const auto number = static_cast<uint32_t>(index);
    return Answer(number, name, [&](const OnReport& on_report) -> absl::Status {
      const absl::StatusOr<FileSource>& opened =
          files_[static_cast<size_t>(index)];
      TWINPATH_RETURN_IF_ERROR(opened.status());
      const FileSource& file = *opened;
      if (!request_.progress()) {
        return InspectFile(file, name, options_, scratch_, on_report);
      }
      TWINPATH_ASSIGN_OR_RETURN(const std::string head,
                                ReadUpTo(file, 0, kHeadBytes));
      const ContentKind kind = KindOfContent(head);
      const bool packed = options_.members && !kind.plain_members &&
                          kind.reader == CarrierReader::kArchive;
      const ProgressSource source(file, [&](uint64_t read) {
        Tell(number, read, file.size(), packed);
      });
      return InspectFile(source, name, options_, scratch_, on_report);
    });
  }

  // The files of an image layout.
  absl::StatusOr<OciFiles> LayoutFiles() const {
    OciFiles files;
    for (int i = 0; i < request_.names_size(); ++i) {
      const absl::StatusOr<FileSource>& opened = files_[static_cast<size_t>(i)];
      TWINPATH_RETURN_IF_ERROR(opened.status());
      files[request_.names(i)] = &*opened;
    }
    return files;
  }
  OciUnopened Unopened() const {
    OciUnopened unopened;
    for (const v1::UnopenedFile& file : request_.unopened()) {
      unopened[file.path()] = file.why();
    }
    return unopened;
  }

  // All files are one image layout.
  absl::Status Layout() {
    return Answer(
        0, request_.name(), [&](const OnReport& on_report) -> absl::Status {
          TWINPATH_ASSIGN_OR_RETURN(const OciFiles files, LayoutFiles());
          return InspectOciLayout(files, Unopened(), request_.name(), options_,
                                  scratch_, on_report);
        });
  }

  // Says what an image layout needs.
  absl::Status Survey() {
    TWINPATH_ASSIGN_OR_RETURN(const OciFiles files, LayoutFiles());
    TWINPATH_ASSIGN_OR_RETURN(const OciNeeds needs,
                              SurveyOci(files, Unopened()));
    v1::InspectResult result;
    v1::OciSurvey& survey = *result.mutable_survey();
    for (const std::string& path : needs.documents) survey.add_documents(path);
    for (const std::string& path : needs.layers) survey.add_layers(path);
    return results_.Send(result);
  }

  const v1::InspectRequest& request_;
  const std::vector<absl::StatusOr<FileSource>>& files_;
  Results& results_;
  const InspectOptions options_;
  Scratch scratch_;
};

int Main() {
  v1::InspectRequest request;
  if (!request.ParseFromFileDescriptor(STDIN_FILENO)) {
    return Complain("no InspectRequest on standard input");
  }
  if (request.names_size() == 0 && !request.oci_layout()) {
    request.add_names(request.name());
  }
  // Their sizes: what asks for them is not allowed any more behind that.
  std::vector<absl::StatusOr<FileSource>> files;
  for (int i = 0; i < request.names_size(); ++i) {
    files.push_back(FileSource::Open(kFirstFile + i));
  }
  PrepareArchives();
  const absl::StatusOr<Confinement> confined =
      ConfineSelf({.file_bytes = request.scratch() ? kScratchFileBytes : 0});
  if (!confined.ok()) return Complain(confined.status().message());
  Results results;
  absl::Status sent = results.Send(ConfinementResult(*confined));
  if (sent.ok()) sent = Inspector(request, files, results).Run();
  return sent.ok() ? kExitPass : Complain(sent.message());
}

}  // namespace
}  // namespace twinpath::inspect

int main() { return twinpath::inspect::Main(); }
