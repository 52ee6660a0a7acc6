// Signs: what single lines of a program's output, a driver log, a kernel log or
// a build log say. Diagnosis and `twinpath explain` both rest on it, so that a
// text means the same to both. Lines are foreign: any bytes, any length.
//
// A SignReader keeps what a line leaves open for the next ones (the kernel that
// a driver log names before the error, the list of targets behind a PyTorch
// warning). One reader a text; not thread-safe. The index it searches with is
// built once per content of the tables and shared.

#ifndef TWINPATH_COMPAT_SIGN_H_
#define TWINPATH_COMPAT_SIGN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/reason.h"
#include "compat/driver_log.h"
#include "compat/tables.h"

namespace twinpath::compat {

class SignIndex;

struct Sign {
  enum class Kind {
    // A CUDA error, by number, name or text; `error` is its row.
    kError,
    // A status of a library; `status`.
    kStatus,
    // A message of a tool; `message`, `effect`.
    kMessage,
    // An Xid line of the kernel; `xid`.
    kXid,
    // An Xid the tables do not know; `code`.
    kUnknownXid,
    // A reason code of ours; `reason`.
    kReason,
  };
  Kind kind = Kind::kError;
  uint32_t code = 0;
  const ErrorRow* error = nullptr;
  const StatusRow* status = nullptr;
  const MessageRow* message = nullptr;
  const XidRow* xid = nullptr;
  const ReasonInfo* reason = nullptr;
  // What the message is worth here, its numbers looked at.
  MessageEffect effect = MessageEffect::kHint;
  // Of an error in a driver log: the call that returned it, and the kernel a
  // line before it names.
  std::string call;
  std::string kernel;
  // Number of the line, from 1, and its first 4 KiB.
  uint64_t line_number = 0;
  std::string line;
};

class SignReader {
 public:
  // `tables` must outlive the reader and its signs.
  explicit SignReader(const Tables& tables);
  ~SignReader();
  SignReader(const SignReader&) = delete;
  SignReader& operator=(const SignReader&) = delete;

  // Reads one line (without its line feed) and appends what it says. Harmless
  // driver log lines (IsHarmlessLine) say nothing.
  void ReadLine(absl::string_view line, std::vector<Sign>* signs);
  // Appends what was still open. Call it once, at the end.
  void Finish(std::vector<Sign>* signs);

 private:
  void ReadDriverLog(absl::string_view line, std::vector<Sign>* signs);
  bool ReadStatusNumber(absl::string_view line, std::vector<Sign>* signs);
  void ReadErrorText(absl::string_view line, const std::vector<int>& found,
                     std::vector<Sign>* signs);
  void ReadMessages(absl::string_view line, const std::vector<int>& found,
                    std::vector<Sign>* signs);
  Sign Make(Sign::Kind kind, absl::string_view line) const;
  void Decide(std::vector<Sign>* signs);

  const Tables& tables_;
  std::shared_ptr<const SignIndex> index_;
  uint64_t line_number_ = 0;
  // Kernel of a driver log's line that waits for its error.
  DriverLogReader driver_log_;
  // A message whose numbers may be in the lines behind it, and these lines.
  std::unique_ptr<Sign> open_;
  std::string open_text_;
  int open_lines_ = 0;
};

// All signs of a text.
std::vector<Sign> SignsOf(absl::string_view text, const Tables& tables);

// What a message is worth whose numbers tell, given the text around it:
// kHarmless where machine code that is listed runs on the GPU (SassFits), kHint
// where it may and NVIDIA promises nothing (Tegra), `otherwise` else.
MessageEffect JudgeCapabilities(MessageJudge judge, absl::string_view text,
                                MessageEffect otherwise, const Tables& tables);

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_SIGN_H_
