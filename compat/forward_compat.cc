#include "compat/forward_compat.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "compat/reason.h"
#include "compat/target.h"

namespace twinpath::compat {
namespace {

constexpr char kAskHost[] = "twinpath doctor";

enum class Board { kDataCentre, kGeForce, kOther };

// Forward compatibility is for data-centre boards ("Tesla" once, a letter and a
// number today); GeForce boards get 804; of workstation boards only some are
// served, by a list without a mark in the name (CUDA Compatibility guide).
Board BoardOf(absl::string_view name) {
  for (const absl::string_view consumer : {"GeForce", "TITAN", "Titan"}) {
    if (absl::StrContains(name, consumer)) return Board::kGeForce;
  }
  if (absl::StrContains(name, "RTX") || absl::StrContains(name, "Quadro")) {
    return Board::kOther;
  }
  if (absl::StrContains(name, "Tesla")) return Board::kDataCentre;
  static constexpr std::array<absl::string_view, 24> kModels = {
      "H100", "H200", "H800", "H20",   "GH200", "A100",  "A800", "A30",
      "A40",  "A16",  "A10",  "A10G",  "A2",    "L40",   "L40S", "L4",
      "L20",  "B100", "B200", "GB200", "B300",  "GB300", "T4",   "V100"};
  for (const absl::string_view word :
       absl::StrSplit(name, absl::ByAnyChar(" -"))) {
    if (std::find(kModels.begin(), kModels.end(), word) != kModels.end()) {
      return Board::kDataCentre;
    }
  }
  return Board::kOther;
}

CompatDecision Refused(uint32_t error, absl::string_view why) {
  CompatDecision decision;
  decision.answer = CompatAnswer::kRefused;
  decision.reason = MakeReason("TP121", why, "", error);
  return decision;
}

CompatDecision Undecided(absl::string_view why) {
  CompatDecision decision;
  decision.reason = MakeReason("TP124", why);
  decision.settled_by = kAskHost;
  return decision;
}

}  // namespace

std::optional<uint32_t> DriverBranchOf(const v1::Driver& driver) {
  if (const auto version =
          DriverVersion::Parse(driver.kernel_module_version())) {
    return version->branch();
  }
  absl::string_view name = driver.branch();
  uint32_t number = 0;
  if (absl::ConsumePrefix(&name, "R") && absl::SimpleAtoi(name, &number)) {
    return number;
  }
  return std::nullopt;
}

std::optional<TwoPart> OwnCudaVersion(const v1::Driver& driver,
                                      const Tables& tables) {
  if (!driver.has_forward_compat() && driver.cuda_version().major() > 0) {
    return TwoPart::From(driver.cuda_version());
  }
  if (const auto branch = DriverBranchOf(driver)) {
    if (const DriverRow* row = tables.FindDriver(*branch)) return row->cuda;
  }
  return std::nullopt;
}

CompatDecision DecideForwardCompat(const v1::ForwardCompatNote& note,
                                   absl::string_view version,
                                   const v1::HostFacts& facts,
                                   const v1::Gpu& gpu, const Tables& tables) {
  const std::string what = absl::StrCat(
      "forward-compatibility libcuda",
      version.empty() ? "" : absl::StrCat(" ", Printable(version)),
      note.cuda_version().major() == 0
          ? ""
          : absl::StrCat(" of CUDA ",
                         TwoPart::From(note.cuda_version()).ToString()));
  if (!note.problem().empty()) {
    return Undecided(absl::StrCat(what, ": ", Printable(note.problem())));
  }
  const v1::Driver& driver = facts.driver();
  const std::optional<uint32_t> branch = DriverBranchOf(driver);
  if (!branch) {
    return Undecided(
        absl::StrCat(what, ", and the facts hold no kernel module version"));
  }
  // A package that is older than the driver is refused: seen with 580 on a 595
  // host (NVIDIA-NeMo/labs-molt#44).
  const auto parsed = DriverVersion::Parse(version);
  if (parsed && parsed->branch() < *branch) {
    return Refused(803,
                   absl::StrCat(what, " is older than the driver R", *branch));
  }
  if (note.driver_branches_size() > 0) {
    const bool listed =
        std::find(note.driver_branches().begin(), note.driver_branches().end(),
                  *branch) != note.driver_branches().end();
    if (!listed) {
      return Refused(803,
                     absl::StrCat(what, " works with R",
                                  absl::StrJoin(note.driver_branches(), ", R"),
                                  "; the host has R", *branch));
    }
  } else {
    const std::optional<TwoPart> own = OwnCudaVersion(driver, tables);
    if (!own && driver.has_forward_compat()) {
      return Undecided(absl::StrCat(
          what,
          " lists no driver, and the driver's own CUDA version is not "
          "known"));
    }
    if (own && TwoPart::From(note.cuda_version()) <= *own) {
      return Refused(803, absl::StrCat(what, " is not newer than the driver's ",
                                       own->ToString()));
    }
  }
  const bool tegra = facts.platform() == v1::PLATFORM_TEGRA;
  const Board board = BoardOf(gpu.name());
  if (!tegra && board == Board::kGeForce) {
    return Refused(804, absl::StrCat(what,
                                     " does not work with GeForce boards "
                                     "such as ",
                                     Printable(gpu.name())));
  }
  if (!tegra && board == Board::kOther) {
    return Undecided(
        absl::StrCat(what, ": NVIDIA does not say whether it works with ",
                     gpu.name().empty() ? "this GPU" : Printable(gpu.name())));
  }
  CompatDecision decision;
  decision.answer = CompatAnswer::kWorks;
  decision.cuda = TwoPart::From(note.cuda_version());
  decision.reason =
      MakeReason("TP120", absl::StrCat(what, " in front of driver R", *branch));
  return decision;
}

}  // namespace twinpath::compat
