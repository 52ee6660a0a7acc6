#include "cli/console.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/json.h"

namespace twinpath::cli {
namespace {

bool NotEmpty(const char* value) { return value != nullptr && *value != '\0'; }

bool IsTerminal(FILE* stream) {
  const int fd = fileno(stream);
  return fd >= 0 && isatty(fd) == 1;
}

int TerminalWidth(FILE* out) {
  winsize size{};
  const int fd = fileno(out);
  if (fd >= 0 && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  int columns = 0;
  const char* text = getenv("COLUMNS");
  if (NotEmpty(text) && absl::SimpleAtoi(text, &columns) && columns >= 40 &&
      columns <= 10000) {
    return columns;
  }
  return 120;
}

// Bytes kept before they are written; a pipe takes 64 KiB.
constexpr size_t kKept = 16 << 10;

// Writes all of `text` to the stream's descriptor, behind what the stream holds
// itself. A descriptor that is non-blocking, as some programs leave a shared
// pipe, is waited for: stdio would lose what it has not taken. False: errno
// says why.
bool WriteAll(FILE* stream, absl::string_view text) {
  const int fd = fileno(stream);
  if (fd < 0) {
    return fwrite(text.data(), 1, text.size(), stream) == text.size() &&
           fflush(stream) == 0;
  }
  if (fflush(stream) != 0) return false;
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd wait{fd, POLLOUT, 0};
      if (poll(&wait, 1, -1) < 0 && errno != EINTR) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool WantsColor(Color color, bool is_terminal, const char* no_color,
                const char* force_color, const char* term) {
  if (color == Color::kAlways) return true;
  if (color == Color::kNever || NotEmpty(no_color)) return false;
  if (NotEmpty(force_color) && strcmp(force_color, "0") != 0) return true;
  if (term != nullptr && strcmp(term, "dumb") == 0) return false;
  return is_terminal;
}

std::string Paint(absl::string_view text, Style style, bool color) {
  if (!color || style == Style::kPlain || text.empty()) {
    return std::string(text);
  }
  const char* code = "";
  switch (style) {
    case Style::kPlain:
      break;
    case Style::kBold:
      code = "1";
      break;
    case Style::kDim:
      code = "2";
      break;
    case Style::kGood:
      code = "32";
      break;
    case Style::kWarn:
      code = "33";
      break;
    case Style::kBad:
      code = "31";
      break;
  }
  return absl::StrCat("\x1b[", code, "m", text, "\x1b[0m");
}

Console::Console(FILE* out, FILE* err, const ConsoleOptions& options)
    : out_(out), err_(err), options_(options) {
  err_is_terminal_ = IsTerminal(err);
  out_is_terminal_ = IsTerminal(out);
  const char* no_color = getenv("NO_COLOR");
  const char* force_color = getenv("FORCE_COLOR");
  const char* term = getenv("TERM");
  out_color_ = WantsColor(options.color, out_is_terminal_, no_color,
                          force_color, term) &&
               options.format == Format::kTable;
  err_color_ =
      WantsColor(options.color, err_is_terminal_, no_color, force_color, term);
  width_ = options.width > 0 ? options.width : TerminalWidth(out);
}

void Console::Print(absl::string_view text) {
  if (text.empty()) return;
  Transient("");
  if (closed_) return;
  absl::StrAppend(&kept_, text);
  if (out_is_terminal_ || kept_.size() >= kKept) Drain();
}

void Console::Drain() {
  if (!closed_ && !WriteAll(out_, kept_)) Fault();
  kept_.clear();
}

Console::~Console() { Drain(); }

void Console::Fault() {
  failed_ = true;
  closed_ |= errno == EPIPE;
}

void Console::PrintJson(const google::protobuf::Message& message) {
  const absl::StatusOr<std::string> json = ToJson(message);
  if (!json.ok()) {
    Error(MessageOf(json.status()));
    failed_ = true;
    return;
  }
  Print(*json);
}

void Console::WriteErr(absl::string_view prefix, Style style,
                       absl::string_view text) {
  Transient("");
  Drain();
  std::string whole;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::StrAppend(&whole, Paint(prefix, style, err_color_), Printable(line),
                    "\n");
  }
  WriteAll(err_, whole);
}

void Console::Say(absl::string_view text) {
  if (!options_.quiet) WriteErr("", Style::kPlain, text);
}

void Console::Warn(absl::string_view text) {
  WriteErr("warning: ", Style::kWarn, text);
}

void Console::Error(absl::string_view text) {
  WriteErr("error: ", Style::kBad, text);
}

void Console::Hint(absl::string_view text) {
  if (!text.empty()) WriteErr("hint: ", Style::kDim, text);
}

ExitCode Console::Fail(const absl::Status& status, absl::string_view hint) {
  Error(MessageOf(status));
  Hint(hint);
  return ExitCodeOf(status);
}

void Console::Transient(absl::string_view text) {
  if (!err_is_terminal_ || (text.empty() && !transient_shown_)) return;
  WriteAll(err_, absl::StrCat("\r\x1b[K", Printable(text)));
  transient_shown_ = !text.empty();
}

absl::Status Console::Flush() {
  Transient("");
  Drain();
  failed_ |= ferror(out_) != 0;
  if (closed_) {
    return absl::CancelledError("standard output: its reader has closed it");
  }
  if (failed_) {
    return absl::ResourceExhaustedError(
        "standard output: the result could not be written whole");
  }
  return absl::OkStatus();
}

}  // namespace twinpath::cli
