#include "tests/differential/cuobjdump.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace twinpath::differential {
namespace {

constexpr uint64_t kMostOutput = uint64_t{1} << 30;

absl::StatusOr<ProcessResult> Run(const std::string& option,
                                  const std::string& file, bool all) {
  const absl::StatusOr<std::string> program = FindCuobjdump();
  if (!program.ok()) return program.status();
  ProcessOptions options;
  options.argv = {*program, option, file};
  if (all) options.argv.insert(options.argv.begin() + 2, "-all");
  options.environment = MinimalEnvironment();
  options.head_bytes = kMostOutput;
  options.timeout = absl::Minutes(4);
  absl::StatusOr<ProcessResult> result = RunProcess(options);
  if (!result.ok()) return result.status();
  if (result->ending != ProcessResult::Ending::kExited) {
    return absl::InternalError(absl::StrCat("cuobjdump ", option, " ", file,
                                            ": ", result->Describe()));
  }
  if (!result->out.complete()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cuobjdump ", option, " ", file, ": prints ",
                     result->out.total_bytes, " bytes"));
  }
  return result;
}

bool NoDeviceCode(const ProcessResult& result) {
  return absl::StrContains(result.err.head, "does not contain device code") ||
         absl::StrContains(result.out.head, "does not contain device code");
}

bool IsNameByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '$' || c == '%';
}

}  // namespace

absl::StatusOr<std::string> FindCuobjdump() {
  const char* folder = std::getenv("TWINPATH_ORACLE");
  if (folder == nullptr || *folder == '\0') {
    return absl::FailedPreconditionError(
        "TWINPATH_ORACLE is not set; tools/oracle installs cuobjdump");
  }
  const std::string path = JoinPath(folder, "cuobjdump");
  if (!OpenForRead(path).ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is missing; tools/oracle installs it"));
  }
  return path;
}

OracleListing ParseSymbols(absl::string_view text) {
  OracleListing listing;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "Fatbin ") && absl::EndsWith(line, " code:")) {
      absl::ConsumePrefix(&line, "Fatbin ");
      absl::ConsumeSuffix(&line, " code:");
      listing.images.emplace_back().kind = std::string(line);
      continue;
    }
    if (listing.images.empty()) continue;
    OracleImage& image = listing.images.back();
    if (absl::ConsumePrefix(&line, "arch = ")) {
      image.target = std::string(line);
    } else if (line == "compressed") {
      image.compressed = true;
    } else if (absl::StartsWith(line, "FUNC ")) {
      // FUNC GLOBAL DEFAULT ENTRY name
      const std::vector<absl::string_view> words =
          absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (words.size() == 5 && words[3] == "ENTRY") {
        image.kernels.emplace_back(words[4]);
      }
    }
  }
  for (OracleImage& image : listing.images) {
    std::sort(image.kernels.begin(), image.kernels.end());
  }
  return listing;
}

absl::StatusOr<OracleListing> ListImages(const std::string& file, bool all) {
  const absl::StatusOr<ProcessResult> result = Run("-symbols", file, all);
  if (!result.ok()) return result.status();
  if (NoDeviceCode(*result)) return OracleListing();
  OracleListing listing = ParseSymbols(result->out.head);
  if (result->exit_code != 0) {
    listing.gave_up = std::string(absl::StripAsciiWhitespace(result->err.head));
    if (listing.gave_up.empty()) listing.gave_up = result->Describe();
  }
  return listing;
}

std::vector<std::vector<std::string>> ParsePtxKernels(absl::string_view text) {
  std::vector<std::vector<std::string>> images;
  constexpr absl::string_view kImage = "Fatbin ptx code:";
  constexpr absl::string_view kEntry = ".entry";
  size_t at = text.find(kImage);
  while (at != absl::string_view::npos) {
    const size_t end = text.find(kImage, at + 1);
    const absl::string_view image =
        text.substr(at, end == absl::string_view::npos ? end : end - at);
    std::vector<std::string>& names = images.emplace_back();
    for (size_t i = image.find(kEntry); i != absl::string_view::npos;
         i = image.find(kEntry, i + 1)) {
      // A directive begins its line but for linkage; comments are gone.
      size_t line = image.rfind('\n', i);
      line = line == absl::string_view::npos ? 0 : line + 1;
      const absl::string_view before =
          absl::StripAsciiWhitespace(image.substr(line, i - line));
      if (!before.empty() && before[0] != '.') continue;
      size_t name = i + kEntry.size();
      if (name >= image.size() ||
          !absl::ascii_isspace(static_cast<unsigned char>(image[name]))) {
        continue;
      }
      while (name < image.size() && !IsNameByte(image[name])) ++name;
      size_t name_end = name;
      while (name_end < image.size() && IsNameByte(image[name_end])) ++name_end;
      // A prototype ends in ';' where a definition has its body.
      const size_t stop = image.find_first_of("{;", name_end);
      if (stop == absl::string_view::npos || image[stop] == ';') continue;
      names.emplace_back(image.substr(name, name_end - name));
    }
    std::sort(names.begin(), names.end());
    at = end;
  }
  return images;
}

absl::StatusOr<std::vector<std::vector<std::string>>> ListPtxKernels(
    const std::string& file) {
  const absl::StatusOr<ProcessResult> result = Run("-ptx", file, true);
  if (!result.ok()) return result.status();
  if (NoDeviceCode(*result)) return std::vector<std::vector<std::string>>();
  return ParsePtxKernels(result->out.head);
}

}  // namespace twinpath::differential
