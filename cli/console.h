// Console: where a command writes. Results go to standard output, talk
// (progress, warnings, errors) to standard error, so that a pipe gets results
// only. Colour only where a terminal shows it. Not thread-safe.

#ifndef TWINPATH_CLI_CONSOLE_H_
#define TWINPATH_CLI_CONSOLE_H_

#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/exit_code.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace twinpath::cli {

// What a piece of text means; the colour follows from it.
enum class Style { kPlain, kBold, kDim, kGood, kWarn, kBad };

// JUnit and Markdown only where a command says so.
enum class Format { kTable, kJson, kJunit, kMarkdown };
enum class Color { kAuto, kAlways, kNever };

struct ConsoleOptions {
  Format format = Format::kTable;
  Color color = Color::kAuto;
  // Warnings and errors only on standard error.
  bool quiet = false;
  // Columns to fit tables into. 0: the terminal's, else $COLUMNS, else 120.
  int width = 0;
};

// Whether colour is to be used on a stream: `--color` decides, then a non-empty
// NO_COLOR, then FORCE_COLOR, then whether it is a terminal that is not "dumb".
bool WantsColor(Color color, bool is_terminal, const char* no_color,
                const char* force_color, const char* term);

// Wraps `text` in the escape sequence of `style`; plain when `color` is off.
std::string Paint(absl::string_view text, Style style, bool color);

class Console {
 public:
  // Writes to `out` and `err`, which must outlive this. They may be
  // non-blocking: then it waits until they take more.
  Console(FILE* out, FILE* err, const ConsoleOptions& options);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  bool json() const { return options_.format == Format::kJson; }
  Format format() const { return options_.format; }
  bool quiet() const { return options_.quiet; }
  // Standard error is a terminal: progress may redraw one line.
  bool err_is_terminal() const { return err_is_terminal_; }
  bool color() const { return out_color_; }
  int width() const { return width_; }

  // Writes to standard output as it is. The caller has made foreign text
  // printable.
  void Print(absl::string_view text);
  // Writes a message as JSON to standard output: fields without presence are
  // always printed, enums by name, 64-bit numbers as strings, bytes as base64.
  void PrintJson(const google::protobuf::Message& message);

  // One line of talk on standard error; nothing with --quiet.
  void Say(absl::string_view text);
  // "warning: ..."
  void Warn(absl::string_view text);
  // "error: ..."; a text of several lines gives one such line each.
  void Error(absl::string_view text);
  // "hint: ..."
  void Hint(absl::string_view text);
  // Error, hint if there is one, and the exit code for the status.
  ExitCode Fail(const absl::Status& status, absl::string_view hint = "");

  // One line that replaces itself on a terminal. Empty removes it.
  void Transient(absl::string_view text);

  // Whether nobody reads standard output any more: what is still to be written
  // is lost, and whoever closed it (`| head`) wants no more of it.
  bool closed() const { return closed_; }

  // Flushes standard output. Returns CANCELLED where its reader has closed the
  // pipe, which is nothing to complain about, and RESOURCE_EXHAUSTED if
  // anything else kept it from being written whole (disk full).
  absl::Status Flush();

 private:
  // Keeps what went wrong with standard output; errno says why.
  void Fault();
  // Writes what is kept for standard output.
  void Drain();
  void WriteErr(absl::string_view prefix, Style style, absl::string_view text);

  FILE* out_;
  FILE* err_;
  ConsoleOptions options_;
  // For standard output and not written yet.
  std::string kept_;
  bool out_is_terminal_ = false;
  bool err_is_terminal_ = false;
  bool out_color_ = false;
  bool err_color_ = false;
  bool transient_shown_ = false;
  bool failed_ = false;
  bool closed_ = false;
  int width_ = 120;
};

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_CONSOLE_H_
