// twinpath-inspect: reads files for another program. The opened files are
// descriptors 3, 4, ..., and behind them, where the request says so, an empty
// file for scratch space. An InspectRequest comes on standard input; a stream
// of InspectResults goes to standard output, each behind its length, those of a
// carrier's members before its own. Exit 0 when all were written, 2 for a
// request that cannot be read, with one line on standard error.
//
// The process confines itself before it looks at a file; see confine.h.

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/archive.h"
#include "inspect/byte_source.h"
#include "inspect/carrier.h"
#include "inspect/confine.h"
#include "inspect/inspect.h"
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

absl::Status Send(const v1::InspectResult& result) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    if (!google::protobuf::util::SerializeDelimitedToZeroCopyStream(result,
                                                                    &stream)) {
      return absl::InternalError("a report cannot be written");
    }
  }
  return WriteAll(STDOUT_FILENO, bytes);
}

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
    sent = Send(result);
    return sent;
  };
  const absl::Status inspected = inspect(on_report);
  if (inspected.ok() || !sent.ok()) return sent;
  v1::FileReport unread;
  unread.set_name(name);
  v1::Reason& reason = *unread.add_problems();
  reason.set_code("TP232");
  reason.set_detail(absl::StrCat("it cannot be read: ", MessageOf(inspected)));
  return on_report(std::move(unread));
}

absl::Status InspectOne(const v1::InspectRequest& request, int index,
                        const InspectOptions& options, Scratch& scratch) {
  const std::string& name = request.names(index);
  return Answer(static_cast<uint32_t>(index), name,
                [&](const OnReport& on_report) -> absl::Status {
                  TWINPATH_ASSIGN_OR_RETURN(
                      const FileSource source,
                      FileSource::Open(kFirstFile + index));
                  return InspectFile(source, name, options, scratch, on_report);
                });
}

// All files are one image layout.
absl::Status InspectLayout(const v1::InspectRequest& request,
                           const InspectOptions& options, Scratch& scratch) {
  return Answer(
      0, request.name(), [&](const OnReport& on_report) -> absl::Status {
        std::vector<std::unique_ptr<FileSource>> sources;
        OciFiles files;
        for (int i = 0; i < request.names_size(); ++i) {
          TWINPATH_ASSIGN_OR_RETURN(FileSource source,
                                    FileSource::Open(kFirstFile + i));
          sources.push_back(std::make_unique<FileSource>(std::move(source)));
          files[request.names(i)] = sources.back().get();
        }
        return InspectOciLayout(files, 0, request.name(), options, scratch,
                                on_report);
      });
}

int Main() {
  v1::InspectRequest request;
  if (!request.ParseFromFileDescriptor(STDIN_FILENO)) {
    return Complain("no InspectRequest on standard input");
  }
  PrepareArchives();
  if (const absl::StatusOr<Confinement> confined = ConfineSelf(
          {.file_bytes = request.scratch() ? kScratchFileBytes : 0});
      !confined.ok()) {
    return Complain(confined.status().message());
  }
  if (request.names_size() == 0 && !request.oci_layout()) {
    request.add_names(request.name());
  }
  const InspectOptions options = {.kernels = request.kernels(),
                                  .digest = request.digest(),
                                  .image_digests = request.image_digests(),
                                  .max_image_bytes = request.max_image_bytes(),
                                  .details = request.details(),
                                  .demangle = request.demangle(),
                                  .members = request.members()};
  Scratch scratch(request.scratch() ? kFirstFile + request.names_size() : -1,
                  kScratchFileBytes);
  if (request.oci_layout()) {
    const absl::Status sent = InspectLayout(request, options, scratch);
    return sent.ok() ? kExitPass : Complain(sent.message());
  }
  for (int i = 0; i < request.names_size(); ++i) {
    const absl::Status sent = InspectOne(request, i, options, scratch);
    if (!sent.ok()) return Complain(sent.message());
  }
  return kExitPass;
}

}  // namespace
}  // namespace twinpath::inspect

int main() { return twinpath::inspect::Main(); }
