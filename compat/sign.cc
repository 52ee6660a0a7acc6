#include "compat/sign.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/mutex.h"
#include "base/text.h"
#include "compat/cuda_error.h"
#include "compat/target.h"
#include "re2/re2.h"
#include "re2/set.h"

namespace twinpath::compat {
namespace {

// Longest part of a line that is looked at, and that is kept.
constexpr size_t kMaxLine = 64 << 10;
constexpr size_t kMaxKept = 4 << 10;
// Signs of one line: a line with thousands of errors is one of a listing.
constexpr size_t kMaxSignsALine = 64;
// Lines behind a message in which its numbers are looked for.
constexpr int kMaxOpenLines = 3;

re2::StringPiece Piece(absl::string_view text) {
  return re2::StringPiece(text.data(), text.size());
}

std::string Lower(absl::string_view text) {
  return absl::AsciiStrToLower(text);
}

absl::string_view LongestPart(absl::string_view text) {
  absl::string_view longest;
  for (const absl::string_view part : absl::StrSplit(text, '*')) {
    if (part.size() > longest.size()) longest = part;
  }
  return longest;
}

// Whether the small-letter line holds the parts of a text in order.
bool HoldsParts(absl::string_view line, absl::string_view text) {
  size_t from = 0;
  for (const absl::string_view part :
       absl::StrSplit(text, '*', absl::SkipEmpty())) {
    const size_t at = line.find(Lower(part), from);
    if (at == absl::string_view::npos) return false;
    from = at + part.size();
  }
  return true;
}

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

// Whether `word` stands in the line with no word character beside it.
bool HoldsWord(absl::string_view line, absl::string_view word) {
  for (size_t at = line.find(word); at != absl::string_view::npos;
       at = line.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !IsWordCharacter(line[at - 1])) &&
        (end == line.size() || !IsWordCharacter(line[end]))) {
      return true;
    }
  }
  return false;
}

// Whether a line is about CUDA, so that "invalid argument" may be an error of
// it.
bool SpeaksOfCuda(absl::string_view line) {
  static const auto& pattern =
      *new RE2(R"((?i)cuda|\bgpus?\b|nccl|cublas|cudnn|cufft|cusparse|nvrtc|)"
               R"(nvjitlink|\bcu[A-Z][a-z]+[A-Z]\w*|\.cuh?\b|\bkernel launch)");
  return RE2::PartialMatch(Piece(line), pattern);
}

}  // namespace

// The fixed texts of the tables in one automaton: tells which can be in a line.
// Numbers are places in tables of equal content.
class SignIndex {
 public:
  enum Kind { kErrorText, kStatusName, kMessageText, kSpecial };
  // Texts that regular expressions look at more closely.
  enum Special {
    kDriverReturning,
    kDriverKernel,
    kErrorName,
    kNumbered,
    kXidText,
    kReasonCode,
  };
  struct Entry {
    Kind kind;
    size_t place;
  };

  explicit SignIndex(const Tables& tables) : set_(Options(), RE2::UNANCHORED) {
    for (size_t i = 0; i < tables.errors().size(); ++i) {
      if (!tables.errors()[i].text.empty()) {
        Add(tables.errors()[i].text, kErrorText, i);
      }
    }
    for (size_t i = 0; i < tables.statuses().size(); ++i) {
      Add(tables.statuses()[i].name, kStatusName, i);
    }
    for (size_t i = 0; i < tables.messages().size(); ++i) {
      Add(LongestPart(tables.messages()[i].text), kMessageText, i);
    }
    Add("Returning ", kSpecial, kDriverReturning);
    Add("Kernel (", kSpecial, kDriverKernel);
    Add("cudaError", kSpecial, kErrorName);
    Add("CUDA_ERROR_", kSpecial, kErrorName);
    // Where numbers of errors stand: "error 209", "code=209", "[222] Call",
    // "returned 100", "status 14", "failure 209".
    for (const char* word : {"error", "code", "] call to cu", "returned",
                             "status", "failure", "failed", "result"}) {
      Add(word, kSpecial, kNumbered);
    }
    Add("NVRM: Xid", kSpecial, kXidText);
    AddPattern(R"(\btp[1-5]\d\d\b)", kSpecial, kReasonCode);
    compiled_ = set_.Compile();
  }

  // Places of entries that can be in the line, ascending.
  void Find(absl::string_view line, std::vector<int>* found) const {
    found->clear();
    RE2::Set::ErrorInfo error;
    if (compiled_ && set_.Match(Piece(line), found, &error)) {
      std::sort(found->begin(), found->end());
      return;
    }
    // Nothing matched, or the automaton ran out of memory: then everything is
    // looked at.
    if (compiled_ && error.kind == RE2::Set::kNoError) return;
    for (size_t i = 0; i < entries_.size(); ++i) {
      found->push_back(static_cast<int>(i));
    }
  }

  const Entry& at(int place) const {
    return entries_[static_cast<size_t>(place)];
  }

 private:
  static RE2::Options Options() {
    RE2::Options options;
    options.set_case_sensitive(false);
    options.set_encoding(RE2::Options::EncodingLatin1);
    options.set_max_mem(64 << 20);
    options.set_log_errors(false);
    return options;
  }
  void Add(absl::string_view text, Kind kind, size_t place) {
    AddPattern(RE2::QuoteMeta(Piece(text)), kind, place);
  }
  void AddPattern(const std::string& pattern, Kind kind, size_t place) {
    if (set_.Add(pattern, nullptr) < 0) return;
    entries_.push_back({kind, place});
  }

  RE2::Set set_;
  std::vector<Entry> entries_;
  bool compiled_ = false;
};

namespace {

// One index for each content of the tables; a process has one or two.
std::shared_ptr<const SignIndex> IndexOf(const Tables& tables) {
  static Mutex& mutex = *new Mutex;
  static auto& known =
      *new std::map<std::string, std::shared_ptr<const SignIndex>>;
  constexpr size_t kMaxKnown = 8;
  MutexLock lock(mutex);
  auto it = known.find(tables.version());
  if (it == known.end()) {
    if (known.size() >= kMaxKnown) known.clear();
    it = known
             .emplace(tables.version(),
                      std::make_shared<const SignIndex>(tables))
             .first;
  }
  return it->second;
}

// What a list is worth that has these targets, by the rules that predictions
// follow.
MessageEffect EffectOfList(const std::vector<v1::Target>& targets,
                           uint32_t device, MessageEffect otherwise,
                           const Tables& tables) {
  MessageEffect effect = otherwise;
  for (const v1::Target& target : targets) {
    const Fit fit = SassFits(target, device, tables);
    if (fit == Fit::kYes) return MessageEffect::kHarmless;
    // NVIDIA promises nothing across that border, and it was seen to work.
    if (fit == Fit::kTegraUnpromised) effect = MessageEffect::kHint;
  }
  return effect;
}

}  // namespace

MessageEffect JudgeCapabilities(MessageJudge judge, absl::string_view text,
                                MessageEffect otherwise, const Tables& tables) {
  if (judge == MessageJudge::kRange) {
    static const auto& capability = *new RE2(R"(capability (\d{1,3})\.(\d))");
    static const auto& range =
        *new RE2(R"(\((\d{1,3})\.(\d)\)\s*-\s*\((\d{1,3})\.(\d)\))");
    uint32_t gpu[2] = {};
    uint32_t low[2] = {};
    uint32_t high[2] = {};
    if (!RE2::PartialMatch(Piece(text), capability, &gpu[0], &gpu[1]) ||
        !RE2::PartialMatch(Piece(text), range, &low[0], &low[1], &high[0],
                           &high[1])) {
      return otherwise;
    }
    // What lies between the ends is not said.
    return EffectOfList({MakeTarget(high[0] * 10 + high[1])},
                        gpu[0] * 10 + gpu[1], otherwise, tables);
  }
  if (judge == MessageJudge::kList) {
    static const auto& own = *new RE2(R"(capability sm_(\d{2,3}))");
    static const auto& listed = *new RE2(R"(\b(sm_\d{2,3}[af]?)\b)");
    uint32_t number = 0;
    re2::StringPiece rest = Piece(text);
    if (!RE2::FindAndConsume(&rest, own, &number)) return otherwise;
    std::vector<v1::Target> targets;
    std::string name;
    while (RE2::FindAndConsume(&rest, listed, &name)) {
      if (const auto target = ParseTarget(name); target.ok()) {
        targets.push_back(*target);
      }
    }
    return EffectOfList(targets, number, otherwise, tables);
  }
  return otherwise;
}

SignReader::SignReader(const Tables& tables)
    : tables_(tables), index_(IndexOf(tables)) {}

SignReader::~SignReader() = default;

Sign SignReader::Make(Sign::Kind kind, absl::string_view line) const {
  Sign sign;
  sign.kind = kind;
  sign.line_number = line_number_;
  sign.line = std::string(line.substr(0, kMaxKept));
  return sign;
}

void SignReader::ReadDriverLog(absl::string_view line,
                               std::vector<Sign>* signs) {
  for (CudaErrorSeen& seen : driver_log_.Read(line, kMaxSignsALine)) {
    Sign sign = Make(Sign::Kind::kError, line);
    sign.code = seen.code;
    sign.error = tables_.FindError(sign.code);
    sign.call = std::move(seen.call);
    sign.kernel = std::move(seen.kernel);
    signs->push_back(std::move(sign));
  }
}

bool SignReader::ReadStatusNumber(absl::string_view line,
                                  std::vector<Sign>* signs) {
  static const auto& pattern = *new RE2(
      R"((?i)\b(cublas|cufft|cusparse|cusolver|cudnn|nccl|nvrtc|nvjitlink|)"
      R"(nvml)(?:lt)?\w*(?:\([^)]*\))?[\s:]{1,2}(?:error|status|returned|)"
      R"(failed with|failed:?|failure|result)(?:\s+(?:code|status|error))?)"
      R"([\s:=(#]{1,3}(\d{1,4})\b)");
  std::string library;
  uint32_t number = 0;
  if (!RE2::PartialMatch(Piece(line), pattern, &library, &number)) return false;
  const StatusRow* row = tables_.FindStatus(Lower(library), number);
  if (row == nullptr || row->kind == "pending") return false;
  Sign sign = Make(Sign::Kind::kStatus, line);
  sign.code = number;
  sign.status = row;
  signs->push_back(std::move(sign));
  return true;
}

void SignReader::ReadErrorText(absl::string_view line,
                               const std::vector<int>& found,
                               std::vector<Sign>* signs) {
  static const auto& named =
      *new RE2(R"(\b(cudaError[A-Z]\w+|CUDA_ERROR_[A-Z0-9_]+)\b)");
  const ErrorRow* row = nullptr;
  bool special_name = false;
  bool special_number = false;
  for (const int place : found) {
    const SignIndex::Entry& entry = index_->at(place);
    if (entry.kind != SignIndex::kSpecial) continue;
    special_name |= entry.place == SignIndex::kErrorName;
    special_number |= entry.place == SignIndex::kNumbered;
  }
  std::string matched;
  if (special_name && RE2::PartialMatch(Piece(line), named, &matched)) {
    row = tables_.FindErrorByName(matched);
  }
  // TensorFlow's words for a number that its own table lacks.
  static const auto& unknown = *new RE2(R"(UNKNOWN ERROR \((\d{1,3})\))");
  uint32_t unknown_number = 0;
  if (row == nullptr && special_number &&
      RE2::PartialMatch(Piece(line), unknown, &unknown_number)) {
    row = tables_.FindError(unknown_number);
  }
  int speaks = -1;
  const auto speaks_of_cuda = [&] {
    if (speaks < 0) speaks = SpeaksOfCuda(line) ? 1 : 0;
    return speaks == 1;
  };
  if (row == nullptr) {
    // Longest text first: "file not found" must not hide a longer one.
    const std::string lower = Lower(line);
    for (const int place : found) {
      const SignIndex::Entry& entry = index_->at(place);
      if (entry.kind != SignIndex::kErrorText) continue;
      const ErrorRow& candidate = tables_.errors()[entry.place];
      if (row != nullptr && row->text.size() >= candidate.text.size()) continue;
      if (!absl::StrContains(lower, Lower(candidate.text))) continue;
      if (candidate.generic && !speaks_of_cuda()) continue;
      row = &candidate;
    }
  }
  if (row == nullptr && special_number && ReadStatusNumber(line, signs)) return;
  if (row == nullptr && special_number) {
    static const auto& numbers = *new RE2(
        R"((?i)(?:\b(?:error|err|code|cuda(?:\s+runtime|\s+driver)?\s+error|)"
        R"(cuda_?error|curesult|cudaerror_t)(?:\s+(?:code|number|no\.?))?)"
        R"([\s:=(#]{1,3}(\d{1,3})\b)|\[(\d{1,3})\] Call to cu|)"
        R"(\bcu(?:da)?[A-Z]\w*(?:\([^)]*\))?\s+(?:returned|failed with|)"
        R"(failed:?|->|=)\s*\(?(?:error\s*)?(\d{1,3})\b|)"
        R"(CUDA failure (\d{1,3})\b)");
    std::string group[4];
    if (RE2::PartialMatch(Piece(line), numbers, &group[0], &group[1], &group[2],
                          &group[3]) &&
        speaks_of_cuda()) {
      uint32_t number = 0;
      for (const std::string& text : group) {
        if (absl::SimpleAtoi(text, &number)) break;
      }
      row = number == 0 ? nullptr : tables_.FindError(number);
    }
  }
  if (row == nullptr || IsHarmlessLine(row->code, "")) return;
  Sign sign = Make(Sign::Kind::kError, line);
  sign.code = row->code;
  sign.error = row;
  signs->push_back(std::move(sign));
}

void SignReader::ReadMessages(absl::string_view line,
                              const std::vector<int>& found,
                              std::vector<Sign>* signs) {
  std::string lower;
  // A text that is part of a longer one that matched as well says nothing new.
  std::vector<const MessageRow*> matched;
  for (const int place : found) {
    const SignIndex::Entry& entry = index_->at(place);
    if (entry.kind != SignIndex::kMessageText) continue;
    if (lower.empty()) lower = Lower(line);
    const MessageRow& row = tables_.messages()[entry.place];
    if (HoldsParts(lower, row.text)) matched.push_back(&row);
  }
  const MessageRow* loader = nullptr;
  for (const MessageRow* row : matched) {
    if (row->effect != MessageEffect::kLoader) continue;
    // The first in the table is the most particular one.
    if (loader == nullptr) loader = row;
  }
  for (const MessageRow* row : matched) {
    if (row->effect == MessageEffect::kLoader && row != loader) continue;
    Sign sign = Make(Sign::Kind::kMessage, line);
    sign.message = row;
    sign.effect = row->effect;
    if (row->judge != MessageJudge::kNone) {
      Decide(signs);
      open_ = std::make_unique<Sign>(std::move(sign));
      open_text_ = std::string(line.substr(0, kMaxKept));
      open_lines_ = 0;
      continue;
    }
    signs->push_back(std::move(sign));
  }
}

void SignReader::Decide(std::vector<Sign>* signs) {
  if (open_ == nullptr) return;
  open_->effect = JudgeCapabilities(open_->message->judge, open_text_,
                                    open_->message->effect, tables_);
  signs->push_back(*std::move(open_));
  open_.reset();
}

void SignReader::ReadLine(absl::string_view line, std::vector<Sign>* signs) {
  ++line_number_;
  line = line.substr(0, kMaxLine);
  if (open_ != nullptr) {
    absl::StrAppend(&open_text_, "\n", line.substr(0, kMaxKept));
    if (++open_lines_ >= kMaxOpenLines) Decide(signs);
  }
  thread_local std::vector<int> found;
  index_->Find(line, &found);
  if (found.empty()) return;

  bool driver_log = false;
  bool has_xid = false;
  bool has_reason = false;
  for (const int place : found) {
    const SignIndex::Entry& entry = index_->at(place);
    if (entry.kind != SignIndex::kSpecial) continue;
    driver_log |= entry.place == SignIndex::kDriverReturning ||
                  entry.place == SignIndex::kDriverKernel;
    has_xid |= entry.place == SignIndex::kXidText;
    has_reason |= entry.place == SignIndex::kReasonCode;
  }
  static const auto& returning =
      *new RE2(R"(Returning \d{1,4} \(\w+\) from \w|Kernel \(\S+\) cannot)");
  if (driver_log && RE2::PartialMatch(Piece(line), returning)) {
    ReadDriverLog(line, signs);
    return;
  }
  if (has_xid) {
    static const auto& pattern =
        *new RE2(R"(NVRM: Xid \([^)]{1,64}\): (\d{1,4}))");
    uint32_t number = 0;
    if (RE2::PartialMatch(Piece(line), pattern, &number)) {
      const XidRow* row = tables_.FindXid(number);
      Sign sign = Make(
          row == nullptr ? Sign::Kind::kUnknownXid : Sign::Kind::kXid, line);
      sign.code = number;
      sign.xid = row;
      signs->push_back(std::move(sign));
      return;
    }
  }
  if (has_reason) {
    static const auto& pattern = *new RE2(R"(\b(TP[1-5]\d\d)\b)");
    std::string code;
    if (RE2::PartialMatch(Piece(line), pattern, &code)) {
      if (const ReasonInfo* reason = FindReason(code)) {
        Sign sign = Make(Sign::Kind::kReason, line);
        sign.reason = reason;
        signs->push_back(std::move(sign));
      }
    }
  }
  ReadErrorText(line, found, signs);
  for (const int place : found) {
    const SignIndex::Entry& entry = index_->at(place);
    if (entry.kind != SignIndex::kStatusName) continue;
    const StatusRow& row = tables_.statuses()[entry.place];
    if (row.kind == "pending" || !HoldsWord(line, row.name)) continue;
    Sign sign = Make(Sign::Kind::kStatus, line);
    sign.code = row.code;
    sign.status = &row;
    signs->push_back(std::move(sign));
  }
  ReadMessages(line, found, signs);
}

void SignReader::Finish(std::vector<Sign>* signs) { Decide(signs); }

std::vector<Sign> SignsOf(absl::string_view text, const Tables& tables) {
  std::vector<Sign> signs;
  SignReader reader(tables);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    reader.ReadLine(line, &signs);
    // The last ones count.
    constexpr size_t kMaxSigns = 2000;
    if (signs.size() > kMaxSigns) {
      signs.erase(signs.begin(), signs.begin() + kMaxSigns / 2);
    }
  }
  reader.Finish(&signs);
  return signs;
}

}  // namespace twinpath::compat
