// twinpath-inspect: reads files for another program. The opened files are
// descriptors 3, 4, ..., and behind them, where the request says so, an empty
// file for scratch space. An InspectRequest comes on standard input; a stream
// of InspectResults goes to standard output, each behind its length: how this
// process is confined, then reports, those of a carrier's members before its
// own. Exit 0 when all were written, 2 for a request that cannot be read, with
// one line on standard error.
//
// The process confines itself before it looks at a file; see confine.h.

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/repeated_ptr_field.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
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
// What the system lets everybody ask for.
constexpr int kPipeBytes = 1 << 20;

int Complain(absl::string_view what) {
  std::fprintf(stderr, "twinpath-inspect: %s\n", Printable(what).c_str());
  return kExitUsage;
}

// Standard output. Thread-safe.
class Results {
 public:
  absl::Status Send(const v1::InspectResult& result) {
    using google::protobuf::io::CodedOutputStream;
    MutexLock lock(mutex_);
    if (!status_.ok()) return status_;
    const size_t size = result.ByteSizeLong();
    if (size > kMaxMessageBytes) {
      return absl::InternalError("a report cannot be written");
    }
    const auto length = static_cast<uint32_t>(size);
    bytes_.resize(CodedOutputStream::VarintSize32(length) + size);
    auto* to = reinterpret_cast<uint8_t*>(bytes_.data());
    to = CodedOutputStream::WriteVarint32ToArray(length, to);
    result.SerializeWithCachedSizesToArray(to);
    status_ = WriteAll(STDOUT_FILENO, bytes_);
    return status_;
  }

 private:
  // What protobuf writes at most.
  static constexpr size_t kMaxMessageBytes = std::numeric_limits<int>::max();

  Mutex mutex_;
  // The message that is being written.
  std::string bytes_;
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
        last_(request.oci_layout()
                  ? 0
                  : static_cast<uint32_t>(request.names_size() - 1)),
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
  // What was sent of a file.
  struct Sent {
    v1::InspectResult result;
    google::protobuf::RepeatedPtrField<v1::Fatbin> fatbins;
  };

  // Sends fatbins ahead of their report.
  absl::Status SendFatbins(uint32_t index,
                           absl::Span<v1::Fatbin* const> fatbins) {
    v1::InspectResult result;
    result.set_file(index);
    // Lent, not copied.
    for (v1::Fatbin* const fatbin : fatbins) {
      result.mutable_fatbins()->UnsafeArenaAddAllocated(fatbin);
    }
    const absl::Status sent = results_.Send(result);
    while (!result.fatbins().empty()) {
      (void)result.mutable_fatbins()->UnsafeArenaReleaseLast();
    }
    return sent;
  }

  // Sends the reports that `inspect` makes of file number `index`. An error is
  // one of sending; a file that cannot be read is a report.
  absl::Status Answer(
      uint32_t index, const std::string& name,
      const std::function<absl::Status(const OnReport&, const FatbinSink&)>&
          inspect) {
    auto answer = std::make_unique<Sent>();
    v1::InspectResult& result = answer->result;
    result.set_file(index);
    absl::Status sent;
    bool early = false;
    const FatbinSink on_fatbins = [&](absl::Span<v1::Fatbin* const> fatbins) {
      early = true;
      // An error is met again with the report.
      (void)SendFatbins(index, fatbins);
    };
    const OnReport on_report = [&](v1::FileReport report) {
      *result.mutable_report() = std::move(report);
      if (early)
        answer->fatbins.Swap(result.mutable_report()->mutable_fatbins());
      sent = results_.Send(result);
      return sent;
    };
    const absl::Status inspected = inspect(on_report, on_fatbins);
    if (inspected.ok() && last_ == index) {
      // The process ends, and what it holds with it: that is quicker than to
      // give it back piece by piece.
      static std::vector<std::unique_ptr<Sent>>& kept =
          *new std::vector<std::unique_ptr<Sent>>;
      kept.push_back(std::move(answer));
      return sent;
    }
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
    return Answer(number, name,
                  [&](const OnReport& on_report,
                      const FatbinSink& early) -> absl::Status {
                    const absl::StatusOr<FileSource>& opened =
                        files_[static_cast<size_t>(index)];
                    TWINPATH_RETURN_IF_ERROR(opened.status());
                    const FileSource& file = *opened;
                    if (!request_.progress()) {
                      return InspectFile(file, name, options_, scratch_,
                                         on_report, {}, early);
                    }
                    TWINPATH_ASSIGN_OR_RETURN(const std::string head,
                                              ReadUpTo(file, 0, kHeadBytes));
                    const ContentKind kind = KindOfContent(head);
                    const bool packed = options_.members &&
                                        !kind.plain_members &&
                                        kind.reader == CarrierReader::kArchive;
                    const ProgressSource source(file, [&](uint64_t read) {
                      Tell(number, read, file.size(), packed);
                    });
                    return InspectFile(source, name, options_, scratch_,
                                       on_report, {}, early);
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
        0, request_.name(),
        [&](const OnReport& on_report, const FatbinSink&) -> absl::Status {
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
  // The last file that is answered for.
  const uint32_t last_;
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
  if (request.members() || request.oci_layout() || request.oci_survey()) {
    PrepareArchives();
  }
  // Reports are long; what it is refused goes more slowly.
  (void)::fcntl(STDOUT_FILENO, F_SETPIPE_SZ, kPipeBytes);
  const absl::StatusOr<Confinement> confined =
      ConfineSelf({.file_bytes = request.scratch() ? kScratchFileBytes : 0,
                   .digests = request.digest() || request.image_digests() ||
                              request.members()});
  if (!confined.ok()) return Complain(confined.status().message());
  Results results;
  absl::Status sent = results.Send(ConfinementResult(*confined));
  if (sent.ok()) sent = Inspector(request, files, results).Run();
  return sent.ok() ? kExitPass : Complain(sent.message());
}

}  // namespace
}  // namespace twinpath::inspect

int main() { return twinpath::inspect::Main(); }
