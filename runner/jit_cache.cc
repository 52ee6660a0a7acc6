#include "runner/jit_cache.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace twinpath::runner {
namespace {

// Of the compiler's __DATE__ and __TIME__, 'd' a digit, 's' a digit or a space.
constexpr absl::string_view kDate = "sd dddd";
constexpr absl::string_view kTime = "dd:dd:dd";
constexpr size_t kMonthBytes = 4;

constexpr const char* kMonths[] = {"Jan ", "Feb ", "Mar ", "Apr ",
                                   "May ", "Jun ", "Jul ", "Aug ",
                                   "Sep ", "Oct ", "Nov ", "Dec "};

bool Fits(absl::string_view text, absl::string_view shape) {
  if (text.size() < shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool digit = absl::ascii_isdigit(static_cast<unsigned char>(text[i]));
    if (shape[i] == 'd'   ? !digit
        : shape[i] == 's' ? !digit && text[i] != ' '
                          : text[i] != shape[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string CacheWriterOf(absl::string_view head) {
  head = head.substr(0, kCacheHeadBytes);
  for (size_t at = 0; at + kMonthBytes < head.size(); ++at) {
    const absl::string_view month = head.substr(at, kMonthBytes);
    if (std::find(std::begin(kMonths), std::end(kMonths), month) ==
        std::end(kMonths)) {
      continue;
    }
    const absl::string_view date = head.substr(at + kMonthBytes);
    if (!Fits(date, kDate)) continue;
    absl::string_view time = date.substr(kDate.size());
    // The strings may each have their zero byte.
    while (!time.empty() && time[0] == '\0') time.remove_prefix(1);
    if (!Fits(time, kTime)) continue;
    return absl::StrCat(month, date.substr(0, kDate.size()), " ",
                        time.substr(0, kTime.size()));
  }
  return "";
}

void CountCacheEntry(absl::string_view writer, v1::CacheEvidence& evidence) {
  for (v1::CacheWriter& known : *evidence.mutable_writers()) {
    if (known.built() == writer) {
      known.set_entries(known.entries() + 1);
      return;
    }
  }
  if (evidence.writers_size() >= kMaxCacheWriters) {
    // Who fills the folder must not hide the driver: beyond the cap nothing is
    // known of any writer, and every file counts.
    evidence.set_writers_left_out(true);
    return;
  }
  v1::CacheWriter& added = *evidence.add_writers();
  added.set_built(std::string(writer));
  added.set_entries(1);
}

}  // namespace twinpath::runner
