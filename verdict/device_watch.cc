#include "verdict/device_watch.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compat/reason.h"
#include "compat/tables.h"

namespace twinpath::verdict {
namespace {

using compat::MakeReason;

bool Ran(const v1::Observation& observation) {
  return observation.ending() == v1::ENDING_EXITED ||
         observation.ending() == v1::ENDING_SIGNALED ||
         observation.ending() == v1::ENDING_TIMED_OUT;
}

bool Answers(const v1::DeviceState& state) {
  return state.has_temperature() || state.has_compute_processes() ||
         state.has_uncorrected_errors() || state.has_remapped_rows();
}

const v1::DeviceState* StateAfter(const v1::DeviceWatch& watch,
                                  const std::string& uuid) {
  for (const v1::DeviceState& state : watch.after()) {
    if (state.gpu_uuid() == uuid) return &state;
  }
  return nullptr;
}

// What a GPU's state says that changed for the worse. No UUID: equal causes on
// many hosts are equal text.
std::vector<std::string> Changes(const v1::DeviceWatch& watch) {
  std::vector<std::string> changes;
  // A watch that broke off says why in xid_watch.
  if (watch.after().empty()) return changes;
  for (const v1::DeviceState& before : watch.before()) {
    const v1::DeviceState* after = StateAfter(watch, before.gpu_uuid());
    if (after == nullptr || (Answers(before) && !Answers(*after))) {
      changes.emplace_back("the GPU answers no more");
      continue;
    }
    if (before.has_uncorrected_errors() && after->has_uncorrected_errors() &&
        after->uncorrected_errors() > before.uncorrected_errors()) {
      changes.push_back(absl::StrCat(
          "uncorrected memory errors of the GPU rose by ",
          after->uncorrected_errors() - before.uncorrected_errors()));
    }
    if (after->remapping_failed() && !before.remapping_failed()) {
      changes.emplace_back("a remapping of the GPU's memory failed");
    }
    if (after->remapping_pending() && !before.remapping_pending()) {
      changes.emplace_back("a remapping of the GPU's memory waits for a reset");
    }
  }
  return changes;
}

// Reasons for lowered clocks that are no part of ordinary work.
std::vector<std::string> Slowdowns(const v1::DeviceWatch& watch) {
  std::vector<std::string> slowdowns;
  for (const auto* states : {&watch.before(), &watch.after()}) {
    for (const v1::DeviceState& state : *states) {
      for (const std::string& reason : state.throttle_reasons()) {
        const bool ordinary = reason == "power" || reason == "sync boost";
        if (!ordinary && std::find(slowdowns.begin(), slowdowns.end(),
                                   reason) == slowdowns.end()) {
          slowdowns.push_back(reason);
        }
      }
    }
  }
  return slowdowns;
}

struct Found {
  // Of the device.
  std::vector<v1::Reason> faults;
  // Of the application, as a rule.
  std::vector<std::string> application;
};

Found LookAtXids(const v1::DeviceWatch& watch, absl::string_view label) {
  Found found;
  const absl::StatusOr<const compat::Tables*> tables =
      compat::Tables::Default();
  std::vector<uint32_t> seen;
  for (const v1::XidEvent& event : watch.xids()) {
    if (std::find(seen.begin(), seen.end(), event.xid()) != seen.end()) {
      continue;
    }
    seen.push_back(event.xid());
    const compat::XidRow* row =
        tables.ok() ? (*tables)->FindXid(event.xid()) : nullptr;
    std::string text = absl::StrCat("Xid ", event.xid(), " during the run");
    if (row != nullptr) absl::StrAppend(&text, ": ", row->meaning);
    if (row != nullptr && row->origin == compat::XidOrigin::kInformation) {
      continue;
    }
    if (row != nullptr && row->origin == compat::XidOrigin::kApplication) {
      found.application.push_back(std::move(text));
      continue;
    }
    found.faults.push_back(MakeReason("TP322", absl::StrCat(label, ": ", text),
                                      row == nullptr ? "" : row->action));
  }
  return found;
}

Found Look(const v1::DeviceWatch& watch, absl::string_view label) {
  Found found = LookAtXids(watch, label);
  for (const std::string& change : Changes(watch)) {
    found.faults.push_back(
        MakeReason("TP322", absl::StrCat(label, ": ", change)));
  }
  return found;
}

void Prepend(std::vector<v1::Reason> reasons, PathEvaluation& evaluation) {
  evaluation.reasons.insert(evaluation.reasons.begin(),
                            std::make_move_iterator(reasons.begin()),
                            std::make_move_iterator(reasons.end()));
}

}  // namespace

void ApplyDeviceWatch(const v1::Observation& observation,
                      absl::string_view label, PathEvaluation& evaluation) {
  if (!observation.has_devices() || !Ran(observation)) return;
  const v1::DeviceWatch& watch = observation.devices();
  const bool failed = evaluation.status == PathStatus::kFailed;
  Found found = Look(watch, label);
  if (failed && found.faults.empty() &&
      std::any_of(watch.before().begin(), watch.before().end(),
                  [](const v1::DeviceState& state) {
                    return state.remapping_failed();
                  })) {
    found.faults.push_back(MakeReason(
        "TP322", absl::StrCat(label,
                              ": failed on a GPU a remapping of whose memory "
                              "had failed before")));
  }
  if (!found.faults.empty()) {
    evaluation.status = PathStatus::kInconclusive;
    Prepend(std::move(found.faults), evaluation);
  }
  for (const std::string& text : found.application) {
    if (evaluation.status == PathStatus::kProven) {
      evaluation.status = PathStatus::kInconclusive;
      Prepend(
          {MakeReason("TP308",
                      absl::StrCat(label, ": reports success beside ", text))},
          evaluation);
    } else {
      evaluation.reasons.push_back(
          MakeReason("TP311", absl::StrCat(label, ": ", text)));
    }
  }
  // Notes are for runs that count; what failed has its reasons.
  if (evaluation.status != PathStatus::kProven) return;
  const v1::ProbeState state = watch.xid_watch().state();
  if (state != v1::PROBE_STATE_OK && state != v1::PROBE_STATE_UNSPECIFIED) {
    evaluation.reasons.push_back(MakeReason(
        "TP327", absl::StrCat(label, ": ", watch.xid_watch().error())));
  }
  for (const std::string& slowdown : Slowdowns(watch)) {
    evaluation.reasons.push_back(
        MakeReason("TP328", absl::StrCat(label, ": ", slowdown)));
  }
}

std::vector<v1::Reason> DeviceFaults(const v1::CellResult& result) {
  std::vector<v1::Reason> faults;
  for (const v1::Observation& observation : result.observations()) {
    if (!observation.has_devices() || !Ran(observation)) continue;
    Found found = Look(observation.devices(), "device");
    for (const std::string& text : found.application) {
      found.faults.push_back(
          MakeReason("TP308", absl::StrCat("device: ", text)));
    }
    for (v1::Reason& fault : found.faults) {
      const bool known = std::any_of(faults.begin(), faults.end(),
                                     [&fault](const v1::Reason& other) {
                                       return other.detail() == fault.detail();
                                     });
      if (!known) faults.push_back(std::move(fault));
    }
  }
  return faults;
}

}  // namespace twinpath::verdict
