#include "cli/reference.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/json.h"
#include "trust/entry_rules.h"
#include "verdict/output.h"
#include "verdict/path_status.h"
#include "verdict/run_compare.h"

namespace twinpath::cli {
namespace {

// A reference travels in its entry, which takes at most 1 MiB beside expected
// texts; as JSON bytes are a third longer.
constexpr size_t kMaxKeptBytes = 512u << 10;
constexpr uint64_t kMaxReferenceBytes = 2u << 20;

// In this order a reference is taken of a cell.
constexpr std::array<v1::Path, 3> kPreferred = {v1::PATH_NATIVE, v1::PATH_PLAIN,
                                                v1::PATH_PTX_JIT};

struct Candidate {
  const v1::Cell* cell;
  const v1::Observation* run;
};

// Whether everything of the run was delivered.
bool IsWhole(const v1::Entry& entry, const v1::Observation& run) {
  if (!run.stdout().has_digest()) return false;
  for (const v1::ExpectedFile& expected : entry.expected_files()) {
    const v1::OutputFile* file = verdict::FindFile(run, expected.name());
    if (file == nullptr || !file->problem().empty() ||
        !file->content().has_digest()) {
      return false;
    }
  }
  return true;
}

// The run of the cell a reference can be made of; nullptr if there is none.
const v1::Observation* GoodRun(const v1::Entry& entry, const v1::Cell& cell,
                               v1::Path wanted) {
  if (cell.simulated() || cell.result().simulated()) return nullptr;
  for (const v1::Path path : kPreferred) {
    if (wanted != v1::PATH_UNSPECIFIED && wanted != path) continue;
    const verdict::PathEvaluation evaluation =
        verdict::EvaluatePath(entry, path, cell.result(),
                              verdict::PredictionFor(cell.predictions(), path));
    if (evaluation.status != verdict::PathStatus::kProven) continue;
    for (const v1::Observation& run : cell.result().observations()) {
      if (run.path() == path && !run.jit_proof() && !run.traced() &&
          run.ending() == v1::ENDING_EXITED && IsWhole(entry, run)) {
        return &run;
      }
    }
  }
  return nullptr;
}

absl::StatusOr<const v1::Entry*> ChooseEntry(const v1::Sweep& sweep,
                                             const std::string& wanted) {
  std::vector<std::string> names;
  for (const v1::Entry& entry : sweep.spec().release().entries()) {
    if (entry.name() == wanted) return &entry;
    names.push_back(entry.name());
  }
  if (!wanted.empty()) {
    const std::string nearest = NearestWord(wanted, names);
    return absl::NotFoundError(absl::StrCat(
        "no entry is named \"", Printable(wanted), "\"",
        nearest.empty() ? ""
                        : absl::StrCat("; did you mean \"", nearest, "\"?")));
  }
  if (names.size() == 1) return &sweep.spec().release().entries(0);
  return absl::FailedPreconditionError(
      absl::StrCat("the sweep has ", names.size(),
                   " entries; name one: ", absl::StrJoin(names, ", ")));
}

// Bytes of `output` if all are there and `room` takes them, which they use.
bool TakeWhole(const v1::CapturedOutput& output, size_t& room,
               std::string& bytes) {
  if (verdict::IsCut(output) || output.total_bytes() > room) return false;
  bytes = absl::StrCat(output.head(), output.tail());
  room -= bytes.size();
  return true;
}

std::string Kept(bool kept) {
  return kept ? "with its bytes"
              : "digest only, so its numbers cannot be compared";
}

}  // namespace

absl::StatusOr<v1::Reference> LoadReference(const std::string& path) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string text,
                            ReadFile(path, kMaxReferenceBytes));
  v1::Reference reference;
  TWINPATH_RETURN_IF_ERROR(FromJson(text, path, &reference));
  TWINPATH_RETURN_IF_ERROR_CTX(trust::CheckReference(reference), path);
  return reference;
}

absl::Status WriteReference(const std::string& path,
                            const v1::Reference& reference) {
  TWINPATH_RETURN_IF_ERROR(trust::CheckReference(reference));
  TWINPATH_ASSIGN_OR_RETURN(const std::string json, ToJson(reference));
  return WriteFileAtomic(path, json, 0644);
}

absl::StatusOr<v1::Reference> MakeReference(const v1::Sweep& sweep,
                                            const ReferenceChoice& choice) {
  TWINPATH_ASSIGN_OR_RETURN(const v1::Entry* entry,
                            ChooseEntry(sweep, choice.entry));
  std::vector<Candidate> candidates;
  bool host_known = choice.host.empty();
  for (const v1::Cell& cell : sweep.cells()) {
    const bool is_host = choice.host.empty() ||
                         cell.host_name() == choice.host ||
                         cell.host_id() == choice.host;
    host_known |= is_host;
    if (!is_host || cell.entry() != entry->name()) continue;
    if (const v1::Observation* run = GoodRun(*entry, cell, choice.path)) {
      candidates.push_back({&cell, run});
    }
  }
  if (!host_known) {
    return absl::NotFoundError(
        absl::StrCat("the sweep has no cell on host ", Printable(choice.host)));
  }
  if (candidates.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("entry ", entry->name(),
                     ": no run of a real GPU is proven and left all the files "
                     "that the entry "
                     "names; a reference is made of nothing less"));
  }
  const Candidate& first = candidates[0];
  for (const Candidate& other : candidates) {
    if (!verdict::CompareRuns(*entry, *first.run, *other.run).empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("entry ", entry->name(), ": the results of ",
                       Printable(first.cell->host_name()), " (",
                       Printable(first.cell->gpu_name()), ") and ",
                       Printable(other.cell->host_name()), " (",
                       Printable(other.cell->gpu_name()),
                       ") differ; say which is right with --host"));
    }
  }
  v1::Reference reference;
  size_t room = kMaxKeptBytes;
  std::string bytes;
  *reference.mutable_stdout_digest() = first.run->stdout().digest();
  if (TakeWhole(first.run->stdout(), room, bytes)) reference.set_stdout(bytes);
  for (const v1::ExpectedFile& expected : entry->expected_files()) {
    const v1::OutputFile& file =
        *verdict::FindFile(*first.run, expected.name());
    v1::ReferenceFile& out = *reference.add_files();
    out.set_name(file.name());
    *out.mutable_digest() = file.content().digest();
    if (TakeWhole(file.content(), room, bytes)) out.set_content(bytes);
  }
  reference.set_origin(absl::StrCat(
      "entry ", entry->name(), ", ", verdict::PathName(first.run->path()),
      " on ", first.cell->host_name(), ", ", first.cell->gpu_name(),
      ", driver ", first.cell->driver()));
  *reference.mutable_record_time() = first.run->start_time();
  TWINPATH_RETURN_IF_ERROR_CTX(trust::CheckReference(reference),
                               "what the host delivered contradicts itself");
  return reference;
}

std::string RenderReference(const v1::Reference& reference) {
  std::string out;
  if (!reference.origin().empty()) {
    absl::StrAppend(&out, "recorded from ", Printable(reference.origin()));
    if (reference.has_record_time()) {
      absl::StrAppend(&out, " at ",
                      absl::FormatTime("%Y-%m-%d %H:%M:%SZ",
                                       absl::FromUnixSeconds(
                                           reference.record_time().seconds()),
                                       absl::UTCTimeZone()));
    }
    absl::StrAppend(&out, "\n");
  }
  const auto add = [&out](absl::string_view name, const v1::Digest& digest,
                          bool kept) {
    const absl::StatusOr<Sha256> sha256 = Sha256::FromRaw(digest.sha256());
    absl::StrAppend(&out, "  ", sha256.ok() ? sha256->Hex() : "?", "  ", name,
                    "  (", Kept(kept), ")\n");
  };
  add("standard output", reference.stdout_digest(), reference.has_stdout());
  for (const v1::ReferenceFile& file : reference.files()) {
    add(Printable(file.name()), file.digest(), file.has_content());
  }
  return out;
}

}  // namespace twinpath::cli
