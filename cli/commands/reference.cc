// twinpath reference: results of a run kept, for later ones to be compared
// with.

#include "cli/reference.h"

#include <unistd.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/client_hint.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "twinpath/v1/sweep.pb.h"

namespace twinpath::cli {
namespace {

v1::Path PathOf(const std::string& word) {
  if (word == "native") return v1::PATH_NATIVE;
  if (word == "ptx-jit") return v1::PATH_PTX_JIT;
  if (word == "plain") return v1::PATH_PLAIN;
  return v1::PATH_UNSPECIFIED;
}

}  // namespace

int RunReferenceRecord(const ReferenceRecordOptions& options,
                       Console& console) {
  v1::Sweep sweep;
  // What lies here under that name is a file; sweep ids are no paths.
  if (access(options.from.c_str(), F_OK) == 0) {
    if (const absl::Status status = LoadJson(options.from, &sweep);
        !status.ok()) {
      return console.Fail(status,
                          "twinpath check --format json FILE > result.json");
    }
  } else {
    const auto client = Client::Make(CoordinatorAddress(options.coordinator));
    if (!client.ok()) return console.Fail(client.status());
    absl::StatusOr<v1::Sweep> found = (*client)->GetSweep(options.from);
    if (!found.ok()) {
      return console.Fail(
          WithContext(found.status(),
                      absl::StrCat(Printable(options.from),
                                   " is no file here, and as a sweep")),
          absl::IsNotFound(found.status()) ? "twinpath sweep list"
                                           : HintFor(found.status()));
    }
    sweep = *std::move(found);
  }
  ReferenceChoice choice;
  choice.entry = options.entry;
  choice.host = options.host;
  choice.path = PathOf(options.path);
  const absl::StatusOr<v1::Reference> reference = MakeReference(sweep, choice);
  if (!reference.ok()) return console.Fail(reference.status());
  if (const absl::Status status = WriteReference(options.out, *reference);
      !status.ok()) {
    return console.Fail(status);
  }
  console.Say(absl::StripTrailingAsciiWhitespace(RenderReference(*reference)));
  console.Print(absl::StrCat(options.out, "\n"));
  return kExitPass;
}

int RunReferenceShow(const std::string& file, Console& console) {
  const absl::StatusOr<v1::Reference> reference = LoadReference(file);
  if (!reference.ok()) return console.Fail(reference.status());
  if (console.json()) {
    console.PrintJson(*reference);
  } else {
    console.Print(RenderReference(*reference));
  }
  return kExitPass;
}

}  // namespace twinpath::cli
