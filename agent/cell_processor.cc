#include "agent/cell_processor.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "agent/time_proto.h"
#include "base/digest.h"

namespace twinpath::agent {

v1::Reason MakeAgentReason(absl::string_view code, absl::string_view detail) {
  v1::Reason reason;
  reason.set_code(std::string(code));
  reason.set_detail(std::string(detail));
  return reason;
}

v1::CellResult NewResult(const ClaimedLease& claimed, const Clock& clock) {
  v1::CellResult result;
  result.set_result_id(RandomHex(16));
  result.set_cell_id(claimed.lease.cell_id());
  result.set_lease_id(claimed.lease.id());
  result.set_complete(true);
  *result.mutable_finish_time() = ToProto(clock.Now());
  return result;
}

void AddNotStarted(const ClaimedLease& claimed, v1::Path path,
                   absl::string_view code, absl::string_view why,
                   const Clock& clock, v1::CellResult* result) {
  v1::Observation& observation = *result->add_observations();
  observation.set_attempt_id(RandomHex(16));
  observation.set_path(path);
  observation.set_ending(v1::ENDING_NOT_STARTED);
  observation.set_problem(absl::StrCat(code, " ", why));
  observation.set_gpu_uuid(absl::StrJoin(claimed.gpu_uuids, ","));
  *observation.mutable_start_time() = ToProto(clock.Now());
}

}  // namespace twinpath::agent
