// From the records of a traced run and the files it opened to a v1::Trace.

#ifndef TWINPATH_RUNNER_TRACE_RESULT_H_
#define TWINPATH_RUNNER_TRACE_RESULT_H_

#include <string>

#include "absl/time/time.h"
#include "runner/trace_files.h"
#include "runner/trace_records.h"
#include "runner/trace_setup.h"
#include "twinpath/v1/runner.pb.h"
#include "twinpath/v1/trace.pb.h"

namespace twinpath::runner {

// Longest that looking at the files of a traced run may take.
inline constexpr absl::Duration kTraceTime = absl::Minutes(10);

// Puts the two together. Pure.
v1::Trace MakeTrace(const TraceRecords& records, const FilesAnswer& files);

// After the run: reads its records and the files it opened. `unit`: see
// FilesQuestion.same_folders.
// `driver_log`: what the driver wrote in the run.
v1::Trace CollectTrace(const TraceSetup& setup, const v1::RunRequest& request,
                       absl::string_view driver_log, bool unit);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_TRACE_RESULT_H_
