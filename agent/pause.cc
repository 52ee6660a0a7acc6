#include "agent/pause.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/text.h"

namespace twinpath::agent {
namespace {

constexpr uint64_t kMaxBytes = 4 << 10;

}  // namespace

std::string Describe(const Pause& pause) {
  return absl::StrCat(
      "paused on its host",
      pause.until
          ? absl::StrCat(" until ",
                         absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", *pause.until,
                                          absl::UTCTimeZone()))
          : "",
      pause.reason.empty() ? "" : ": ", pause.reason);
}

absl::Status WritePause(const std::string& path, const Pause& pause) {
  if (access(DirName(path).c_str(), F_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat("no agent's state folder at ", DirName(path),
                     ": give the --state or --config the agent is started "
                     "with"));
  }
  std::string text = "twinpath pause 1\n";
  if (pause.until) {
    absl::StrAppend(&text, "until ", absl::ToUnixSeconds(*pause.until), "\n");
  }
  if (pause.now) absl::StrAppend(&text, "now\n");
  if (!pause.reason.empty()) {
    absl::StrAppend(
        &text, "reason ",
        Printable(absl::string_view(pause.reason).substr(0, kMaxPauseReason)),
        "\n");
  }
  // Readable to the agent although root may have written it; the folder keeps
  // others out.
  return WriteFileAtomic(path, text, 0644);
}

absl::Status RemovePause(const std::string& path) { return RemoveTree(path); }

std::optional<Pause> ReadPause(const std::string& path, absl::Time now) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return std::nullopt;
  Pause pause;
  const absl::StatusOr<std::string> text =
      S_ISREG(info.st_mode) ? ReadFile(path, kMaxBytes)
                            : absl::InvalidArgumentError("no file");
  if (!text.ok()) return pause;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (absl::ConsumePrefix(&line, "until ")) {
      int64_t seconds = 0;
      if (absl::SimpleAtoi(line, &seconds) && seconds > 0) {
        pause.until = absl::FromUnixSeconds(seconds);
      }
    } else if (line == "now") {
      pause.now = true;
    } else if (absl::ConsumePrefix(&line, "reason ")) {
      pause.reason = Printable(line.substr(0, kMaxPauseReason));
    }
  }
  if (pause.until && *pause.until <= now) return std::nullopt;
  return pause;
}

}  // namespace twinpath::agent
