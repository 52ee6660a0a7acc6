#include "runner/load_answer.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace twinpath::runner {
namespace {

constexpr size_t kMostNameBytes = 64 << 10;
// Words of an answer before its kernels, three a kernel.
constexpr size_t kWords = 10;

// Any bytes as one word.
std::string Word(absl::string_view bytes) {
  return bytes.empty() ? "-" : absl::WebSafeBase64Escape(bytes);
}

bool Unword(absl::string_view word, size_t most, std::string& bytes) {
  bytes.clear();
  if (word == "-") return true;
  return word.size() <= most * 2 && absl::WebSafeBase64Unescape(word, &bytes) &&
         bytes.size() <= most;
}

absl::Status NoLine(absl::string_view line) {
  return absl::InvalidArgumentError(absl::StrCat(
      "no line of the image loader: ", absl::CHexEscape(line.substr(0, 100))));
}

std::vector<absl::string_view> Words(absl::string_view line) {
  // One too many is enough to refuse the line, however long it is.
  return absl::StrSplit(
      absl::StripSuffix(line, "\n"),
      absl::MaxSplits(' ', static_cast<int>(kWords + 3 * kMostKernelsListed)));
}

}  // namespace

std::string LoadAnswer::Line() const {
  std::string line =
      absl::StrCat("image ", id, " ", static_cast<int>(state), " ", cuda_error,
                   " ", linked ? 1 : 0, " ", functions, " ", kernels, " ",
                   absl::ToInt64Microseconds(duration), " ", device_bytes, " ",
                   Word(absl::string_view(log).substr(0, kMostLogBytes)));
  for (size_t i = 0; i < odd.size() && i < kMostKernelsListed; ++i) {
    absl::StrAppend(&line, " ", odd[i].ptx_version, " ", odd[i].binary_version,
                    " ", Word(odd[i].name.substr(0, kMostNameBytes)));
  }
  return line + "\n";
}

absl::StatusOr<LoadAnswer> LoadAnswer::Parse(absl::string_view line) {
  const std::vector<absl::string_view> words = Words(line);
  LoadAnswer answer;
  int state = 0;
  int linked = 0;
  int64_t micros = 0;
  if (words.size() < kWords || (words.size() - kWords) % 3 != 0 ||
      words.size() > kWords + 3 * kMostKernelsListed || words[0] != "image" ||
      !absl::SimpleAtoi(words[1], &answer.id) ||
      !absl::SimpleAtoi(words[2], &state) || state < 1 ||
      state > static_cast<int>(State::kTooLarge) ||
      !absl::SimpleAtoi(words[3], &answer.cuda_error) ||
      !absl::SimpleAtoi(words[4], &linked) || linked < 0 || linked > 1 ||
      !absl::SimpleAtoi(words[5], &answer.functions) ||
      !absl::SimpleAtoi(words[6], &answer.kernels) ||
      !absl::SimpleAtoi(words[7], &micros) || micros < 0 ||
      !absl::SimpleAtoi(words[8], &answer.device_bytes) ||
      !Unword(words[9], kMostLogBytes, answer.log)) {
    return NoLine(line);
  }
  answer.state = static_cast<State>(state);
  // A number that only a refusal has.
  if ((answer.state == State::kRefused) != (answer.cuda_error != 0)) {
    return NoLine(line);
  }
  answer.linked = linked == 1;
  answer.duration = absl::Microseconds(micros);
  for (size_t i = kWords; i < words.size(); i += 3) {
    Kernel& kernel = answer.odd.emplace_back();
    if (!absl::SimpleAtoi(words[i], &kernel.ptx_version) ||
        !absl::SimpleAtoi(words[i + 1], &kernel.binary_version) ||
        !Unword(words[i + 2], kMostNameBytes, kernel.name)) {
      return NoLine(line);
    }
  }
  return answer;
}

std::string LoadHello::Line() const {
  return up ? absl::StrCat("up ", device, " ", device_bytes, "\n")
            : absl::StrCat(
                  "down ", code, " ", cuda_error, " ",
                  Word(absl::string_view(text).substr(0, kMostLogBytes)), "\n");
}

absl::StatusOr<LoadHello> LoadHello::Parse(absl::string_view line) {
  const std::vector<absl::string_view> words = Words(line);
  LoadHello hello;
  if (words.size() == 3 && words[0] == "up" &&
      absl::SimpleAtoi(words[1], &hello.device) &&
      absl::SimpleAtoi(words[2], &hello.device_bytes)) {
    hello.up = true;
    return hello;
  }
  if (words.size() == 4 && words[0] == "down" && words[1].size() == 5 &&
      absl::SimpleAtoi(words[2], &hello.cuda_error) &&
      Unword(words[3], kMostLogBytes, hello.text)) {
    hello.code = std::string(words[1]);
    return hello;
  }
  return NoLine(line);
}

std::string LoadEnd::Line() const {
  return absl::StrCat("end ", deaths, " ", peak_device_bytes, "\n");
}

absl::StatusOr<LoadEnd> LoadEnd::Parse(absl::string_view line) {
  const std::vector<absl::string_view> words = Words(line);
  LoadEnd end;
  if (words.size() != 3 || words[0] != "end" ||
      !absl::SimpleAtoi(words[1], &end.deaths) ||
      !absl::SimpleAtoi(words[2], &end.peak_device_bytes)) {
    return NoLine(line);
  }
  return end;
}

}  // namespace twinpath::runner
