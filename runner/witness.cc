#include "runner/witness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "runner/toolkit.h"
#include "runner/witness_rules.h"

namespace twinpath::runner {
namespace {

// A listing has about 60 bytes an image; libraries have thousands.
constexpr uint32_t kListBytes = 4 << 20;
constexpr uint64_t kCopyPiece = 1 << 20;

bool IsProgram(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

// Files cuobjdump reads as they are.
bool IsForCuobjdump(const v1::FileReport& report) {
  switch (report.kind()) {
    case v1::FILE_KIND_ELF_EXECUTABLE:
    case v1::FILE_KIND_ELF_SHARED:
    case v1::FILE_KIND_ELF_OBJECT:
    case v1::FILE_KIND_FATBIN:
    case v1::FILE_KIND_CUBIN:
      return true;
    case v1::FILE_KIND_ARCHIVE:
      return report.carrier().format() == "ar";
    default:
      return false;
  }
}

absl::Status CopyFile(const std::string& from, const std::string& to) {
  TWINPATH_ASSIGN_OR_RETURN(const UniqueFd in, OpenRegularFile(from));
  const UniqueFd out(
      open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out.valid()) return ErrnoStatus(errno, to);
  for (uint64_t at = 0;;) {
    TWINPATH_ASSIGN_OR_RETURN(const std::string piece,
                              PreadUpTo(in.get(), at, kCopyPiece));
    if (piece.empty()) return absl::OkStatus();
    TWINPATH_RETURN_IF_ERROR(WriteAll(out.get(), piece));
    at += piece.size();
  }
}

bool SaysNoCode(const v1::Observation& run) {
  return absl::StrContains(run.stdout().head(),
                           "does not contain device code") ||
         absl::StrContains(run.stderr().head(), "does not contain device code");
}

// One question to cuobjdump.
class Question {
 public:
  Question(const WitnessOptions& options, std::string files, std::string work)
      : options_(options), files_(std::move(files)), work_(std::move(work)) {}

  v1::Observation Ask(const std::vector<std::string>& arguments) const {
    std::vector<std::string> argv = {options_.program};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    v1::RunRequest request =
        ToolRequest("cuobjdump", argv, files_, work_, options_.timeout);
    request.set_output_limit_bytes(kListBytes);
    v1::Observation run = options_.run(request);
    if (options_.after) options_.after(argv, run);
    return run;
  }

 private:
  const WitnessOptions& options_;
  const std::string files_;
  const std::string work_;
};

// What it said last, for people.
std::string LastWords(const v1::Observation& run) {
  for (const v1::CapturedOutput* output : {&run.stderr(), &run.stdout()}) {
    std::string words;
    for (const absl::string_view line :
         absl::StrSplit(output->head(), '\n', absl::SkipEmpty())) {
      words = std::string(line.substr(0, 300));
    }
    if (!words.empty()) return absl::StrCat(": ", Printable(words));
  }
  return "";
}

}  // namespace

absl::StatusOr<std::string> FindCuobjdump(
    const std::vector<std::string>& toolkits,
    const std::vector<std::string>& environment) {
  std::string search;
  for (const std::string& variable : environment) {
    absl::string_view text = variable;
    if (absl::ConsumePrefix(&text, "TWINPATH_CUOBJDUMP=") && !text.empty()) {
      const std::string named(text);
      if (!absl::StartsWith(named, "/") || !IsProgram(named)) {
        return absl::NotFoundError(
            absl::StrCat("TWINPATH_CUOBJDUMP names no program by an absolute "
                         "path: ",
                         Printable(named)));
      }
      return named;
    }
    if (absl::ConsumePrefix(&text, "PATH=")) search = std::string(text);
  }
  for (const std::string& toolkit : toolkits) {
    const std::string program = JoinPath(toolkit, "bin/cuobjdump");
    if (IsProgram(program)) return program;
  }
  for (const absl::string_view folder :
       absl::StrSplit(search, ':', absl::SkipEmpty())) {
    const std::string program = JoinPath(folder, "cuobjdump");
    if (absl::StartsWith(program, "/") && IsProgram(program)) return program;
  }
  return absl::NotFoundError(
      "no cuobjdump on this host; it is in the toolkit's package "
      "cuda-cuobjdump, and TWINPATH_CUOBJDUMP may name it");
}

v1::Witness AskWitness(const std::string& path, const v1::FileReport& report,
                       const std::vector<const v1::FileReport*>& members,
                       const WitnessOptions& options) {
  v1::Witness witness;
  witness.set_path(options.program);
  const auto fail = [&](absl::string_view why) {
    witness.clear_counts();
    witness.set_problem(std::string(why));
    return witness;
  };
  if (!IsForCuobjdump(report)) {
    return fail("cuobjdump does not read a file of this kind");
  }
  if (const absl::StatusOr<Sha256> digest = Sha256OfFile(options.program);
      digest.ok()) {
    witness.mutable_digest()->set_sha256(digest->Raw());
  } else {
    return fail(MessageOf(digest.status()));
  }
  const absl::StatusOr<TempDirectory> folder =
      TempDirectory::Make(options.work_parent);
  if (!folder.ok()) return fail(MessageOf(folder.status()));
  const std::string files = JoinPath(folder->path(), "file");
  const std::string work = JoinPath(folder->path(), "work");
  for (const std::string& made : {files, work}) {
    if (const absl::Status status = MakeDirectories(made); !status.ok()) {
      return fail(MessageOf(status));
    }
  }
  // By its own path, so that hundreds of megabytes are not copied, unless the
  // sandbox has another folder there or the path would read as an option.
  char resolved[PATH_MAX];
  std::string shown =
      realpath(path.c_str(), resolved) == nullptr ? path : resolved;
  if (!absl::StartsWith(shown, "/") || !HiddenBySandbox(shown).empty()) {
    const std::string copy = JoinPath(files, "file");
    if (const absl::Status status = CopyFile(path, copy); !status.ok()) {
      return fail(MessageOf(status));
    }
    shown = copy;
  }

  const Question question(options, files, work);
  const v1::Observation version = question.Ask({"--version"});
  if (version.ending() != v1::ENDING_EXITED || version.exit_code() != 0) {
    const absl::string_view hidden = HiddenBySandbox(options.program);
    return fail(absl::StrCat(
        "cuobjdump --version: ", EndingOf(version), LastWords(version),
        version.ending() == v1::ENDING_NOT_STARTED && !hidden.empty()
            ? absl::StrCat("; the sandbox has a ", hidden,
                           " of its own: move it out of ", hidden)
            : ""));
  }
  witness.set_version(NvccVersionOf(version.stdout().head()));
  bool cut[2] = {};
  for (const bool ptx : {false, true}) {
    const char* option = ptx ? "-lptx" : "-lelf";
    const v1::Observation run = question.Ask({option, "-all", shown});
    const std::string what = absl::StrCat("cuobjdump ", option, ": ");
    if (run.ending() != v1::ENDING_EXITED) {
      return fail(absl::StrCat(what, EndingOf(run), LastWords(run)));
    }
    if (!IsWhole(run.stdout())) {
      return fail(absl::StrCat(what, "prints ",
                               HumanBytes(run.stdout().total_bytes()),
                               ", more than is read"));
    }
    if (SaysNoCode(run)) continue;
    uint64_t unread = 0;
    const std::vector<v1::WitnessCount> counts = ParseImageList(
        absl::StrCat(run.stdout().head(), run.stdout().tail()), ptx, &unread);
    if (unread > 0) {
      return fail(absl::StrCat(what, unread,
                               " lines name an image in a way that is not "
                               "understood"));
    }
    cut[ptx ? 1 : 0] = run.exit_code() != 0;
    if (run.exit_code() != 0 && counts.empty()) {
      return fail(absl::StrCat(what, EndingOf(run), LastWords(run)));
    }
    for (const v1::WitnessCount& count : counts) *witness.add_counts() = count;
  }
  CompareWithReport(report, members, cut[0], cut[1], witness);
  return witness;
}

}  // namespace twinpath::runner
