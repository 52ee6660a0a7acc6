#include "base/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/text.h"

namespace twinpath {
namespace {

// A value longer than this is cut; a log line is no place for a file.
constexpr size_t kLongestValue = 8192;

std::atomic<LogLevel> lowest_level{LogLevel::kInfo};

Mutex& WriteMutex() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

struct JournalStream {
  bool set = false;
  uint64_t device = 0;
  uint64_t inode = 0;
};

// systemd.exec(5): $JOURNAL_STREAM is "device:inode" of the journal's stream; a
// program compares it with its standard error, which may have been redirected.
const JournalStream& JournalFromEnvironment() {
  static const JournalStream* const stream = [] {
    auto* result = new JournalStream;
    const char* text = std::getenv("JOURNAL_STREAM");
    if (text == nullptr) return result;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(absl::string_view(text), absl::MaxSplits(':', 1));
    result->set = absl::SimpleAtoi(parts.first, &result->device) &&
                  absl::SimpleAtoi(parts.second, &result->inode);
    return result;
  }();
  return *stream;
}

bool StandardErrorIsJournal() {
  const JournalStream& journal = JournalFromEnvironment();
  struct stat info {};
  return journal.set && fstat(STDERR_FILENO, &info) == 0 &&
         info.st_dev == journal.device && info.st_ino == journal.inode;
}

absl::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

// sd-daemon(3): the syslog priority in angle brackets.
absl::string_view JournalPrefix(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "<7>";
    case LogLevel::kInfo:
      return "<6>";
    case LogLevel::kWarning:
      return "<4>";
    case LogLevel::kError:
      return "<3>";
  }
  return "<3>";
}

std::string Shortened(absl::string_view text) {
  if (text.size() <= kLongestValue) return Printable(text);
  return absl::StrCat(Printable(text.substr(0, kLongestValue)), "...");
}

void AppendValue(absl::string_view value, std::string& line) {
  const std::string text = Shortened(value);
  if (!text.empty() && text.find_first_of(" =\"") == std::string::npos) {
    line += text;
    return;
  }
  line += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') line += '\\';
    line += c;
  }
  line += '"';
}

}  // namespace

void SetLogLevel(LogLevel level) { lowest_level.store(level); }

void Log(
    LogLevel level, absl::string_view message,
    std::initializer_list<std::pair<absl::string_view, std::string>> fields) {
  if (level < lowest_level.load()) return;
  std::string line;
  if (StandardErrorIsJournal()) {
    line = std::string(JournalPrefix(level));
  } else {
    line = absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                         absl::UTCTimeZone()),
                        " ", LevelName(level), " ");
  }
  line += Shortened(message);
  for (const auto& [key, value] : fields) {
    absl::StrAppend(&line, " ", Printable(key), "=");
    AppendValue(value, line);
  }
  line += '\n';

  MutexLock lock(WriteMutex());
  absl::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t wrote = write(STDERR_FILENO, rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    // There is nowhere to report that the log cannot be written.
    if (wrote <= 0) return;
    rest.remove_prefix(static_cast<size_t>(wrote));
  }
}

}  // namespace twinpath
