#include "cli/progress.h"

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/console.h"

namespace twinpath::cli {
namespace {

constexpr absl::Duration kQuiet = absl::Seconds(1);
constexpr absl::Duration kInterval = absl::Milliseconds(100);

}  // namespace

Progress::Progress(Console& console)
    : console_(console), start_(absl::Now()), shown_(absl::InfinitePast()) {}

Progress::~Progress() { console_.Transient(""); }

void Progress::Show(absl::string_view text) {
  if (console_.quiet()) return;
  const absl::Time now = absl::Now();
  if (now - start_ < kQuiet) return;
  if (console_.err_is_terminal()) {
    if (now - shown_ < kInterval) return;
    shown_ = now;
    console_.Transient(text);
    return;
  }
  const std::string phase(text.substr(0, text.find(' ')));
  if (phase == phase_) return;
  phase_ = phase;
  console_.Say(text);
}

}  // namespace twinpath::cli
