#include "tests/gpu/row_outcome.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "verdict/compiled.h"

namespace twinpath::gpu {
namespace {

// The digits behind `mark`; "" if there are none.
std::string NumberBehind(absl::string_view text, absl::string_view mark) {
  const size_t at = text.find(mark);
  if (at == absl::string_view::npos) return "";
  const absl::string_view rest = text.substr(at + mark.size());
  size_t end = 0;
  while (end < rest.size() &&
         absl::ascii_isdigit(static_cast<unsigned char>(rest[end]))) {
    ++end;
  }
  return std::string(rest.substr(0, end));
}

}  // namespace

uint32_t CudaErrorOf(const v1::Observation& run) {
  uint32_t number = 0;
  if (absl::SimpleAtoi(NumberBehind(run.stderr().head(), "CUDA error "),
                       &number)) {
    return number;
  }
  // A program that checks every call and reports success had none, whatever the
  // log holds: drivers log harmless failures of their own start.
  if (run.ending() == v1::ENDING_EXITED && run.exit_code() == 0 &&
      !absl::StrContains(run.stdout().head(), "no error")) {
    return 0;
  }
  // "Returning 209 (CUDA_ERROR_NO_BINARY_FOR_GPU) from cuLibraryGetKernel"
  if (absl::SimpleAtoi(NumberBehind(run.driver_log().head(), "Returning "),
                       &number)) {
    return number;
  }
  return 0;
}

std::string Outcome(const v1::Observation& run) {
  if (run.ending() != v1::ENDING_EXITED) {
    return absl::AsciiStrToLower(v1::Ending_Name(run.ending()).substr(7));
  }
  const std::string& out = run.stdout().head();
  const uint32_t error = CudaErrorOf(run);
  if (run.exit_code() != 0) {
    return error != 0 ? absl::StrCat(error)
                      : absl::StrCat("exit ", run.exit_code());
  }
  if (absl::StrContains(out, "no error")) {
    return absl::StrCat("silent ",
                        error == 0 ? "success" : absl::StrCat(error));
  }
  std::string word =
      absl::StrContains(out, "PASS") ? "PASS" : "no success line";
  if (absl::StrContains(out, "compute_capability ")) word = "answered";
  if (const std::string value = NumberBehind(out, "value "); !value.empty()) {
    word = absl::StrCat("value ", value);
  }
  if (run.path() == v1::PATH_PLAIN && verdict::DriverCompiled(run.cache())) {
    absl::StrAppend(&word, " jit");
  }
  return word;
}

std::string JsonQuoted(absl::string_view text) {
  std::string result = "\"";
  for (const char c : Printable(text)) {
    if (c == '"' || c == '\\') result.push_back('\\');
    result.push_back(c);
  }
  return result + "\"";
}

}  // namespace twinpath::gpu
