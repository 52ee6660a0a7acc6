#include "cli/prepared_sweep.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/record.h"
#include "cli/sweep_file.h"
#include "trust/dsse.h"
#include "trust/release.h"

namespace twinpath::cli {
namespace {

constexpr size_t kMaxEnvelopeBytes = 64 << 20;

}  // namespace

absl::StatusOr<PreparedSweep> PrepareSweep(const std::string& path) {
  TWINPATH_ASSIGN_OR_RETURN(SweepFile file, LoadSweepFile(path));
  PreparedSweep out;
  out.spec = std::move(file.spec);
  TWINPATH_ASSIGN_OR_RETURN_CTX(
      out.artifact,
      ScanLocal(out.spec.release().artifact().name(), file.sources, file.root),
      Printable(path));
  *out.spec.mutable_release()->mutable_artifact() = out.artifact.artifact;
  if (!file.record_path.empty()) {
    TWINPATH_ASSIGN_OR_RETURN(v1::BuildRecord record,
                              LoadBuildRecord(file.record_path));
    TWINPATH_RETURN_IF_ERROR_CTX(
        CheckRecordCovers(record, out.artifact.artifact), file.record_path);
    if (out.spec.release().source_revision().empty()) {
      out.spec.mutable_release()->set_source_revision(record.revision());
    }
    *out.spec.mutable_release()->mutable_build() = std::move(record);
  }
  return out;
}

absl::Status AddSignature(const std::string& path, PreparedSweep& sweep) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string json,
                            ReadFile(path, kMaxEnvelopeBytes));
  TWINPATH_ASSIGN_OR_RETURN_CTX(v1::Envelope envelope,
                                trust::EnvelopeFromJson(json), Printable(path));
  TWINPATH_ASSIGN_OR_RETURN(const std::string text,
                            trust::ReleaseText(sweep.spec.release()));
  if (envelope.payload() != text) {
    return absl::FailedPreconditionError(absl::StrCat(
        Printable(path),
        " is the signature of another release: the sweep file, or a file it "
        "names, has changed since it was signed"));
  }
  *sweep.spec.mutable_envelope() = std::move(envelope);
  return absl::OkStatus();
}

}  // namespace twinpath::cli
