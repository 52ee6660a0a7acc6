#include "cli/trace_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace twinpath::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::Observation Traced() {
  v1::Observation run;
  run.set_path(v1::PATH_PLAIN);
  run.set_traced(true);
  v1::Trace& trace = *run.mutable_trace();
  trace.mutable_objects_tracer()->set_started(true);
  trace.mutable_objects_tracer()->set_version("LD_AUDIT 2");
  trace.mutable_device_tracer()->set_started(true);
  trace.mutable_device_tracer()->set_version("CUPTI 26");
  v1::TracedObject& program = *trace.add_objects();
  program.set_path("/srv/app");
  program.set_artifact_name("bin/app");
  program.set_images(2);
  v1::TracedObject& library = *trace.add_objects();
  library.set_path("/usr/local/cuda/lib64/libcublas.so.13");
  library.set_images(386);
  trace.add_modules()->set_origin(v1::MODULE_ORIGIN_EMBEDDED);
  trace.add_modules()->set_origin(v1::MODULE_ORIGIN_COMPILED);
  v1::TracedKernel& kernel = *trace.add_kernels();
  kernel.set_name("_Z3foov");
  kernel.set_launches(4);
  v1::TracedKernel& refused = *trace.add_kernels();
  refused.set_name("_Z3nopv");
  refused.set_refused(1);
  refused.set_cuda_error(209);
  refused.set_file("/usr/local/cuda/lib64/libcublas.so.13");
  trace.set_launches(4);
  trace.set_refused_launches(1);
  v1::KernelCoverage& own = *trace.add_coverage();
  own.set_file("bin/app");
  own.set_artifact_file(true);
  own.set_kernels(3);
  own.set_launched(1);
  own.add_not_launched("_Z3barv");
  v1::KernelCoverage& vendor = *trace.add_coverage();
  vendor.set_file("/usr/local/cuda/lib64/libcublas.so.13");
  vendor.set_kernels(900);
  return run;
}

TEST(TraceView, SaysWhatTheProcessReported) {
  const std::string text = RenderTrace(Traced(), {});
  EXPECT_THAT(text, HasSubstr("plain, traced; as the process reports it, by "
                              "LD_AUDIT 2 and CUPTI 26:"));
  EXPECT_THAT(text, HasSubstr("2 shared objects opened, 2 with device code: "
                              "bin/app, libcublas.so.13"));
  EXPECT_THAT(text, HasSubstr("2 modules loaded: 1 embedded, 1 compiled"));
  EXPECT_THAT(text, HasSubstr("1 kernel launched, 4 launches; 1 refused: "
                              "_Z3nopv (CUDA error 209) of libcublas.so.13"));
  EXPECT_THAT(text, HasSubstr("bin/app"));
  EXPECT_THAT(text, HasSubstr("_Z3barv"));
  // A library of others of which nothing was launched is no row.
  EXPECT_THAT(text, Not(HasSubstr("900")));
}

// A search of all objects for each of them would take minutes.
TEST(TraceView, VeryManyFilesAreNoTrouble) {
  v1::Observation run = Traced();
  v1::Trace& trace = *run.mutable_trace();
  constexpr int kMany = 200'000;
  for (int i = 0; i < kMany; ++i) {
    v1::TracedObject& object = *trace.add_objects();
    object.set_artifact_name(absl::StrCat("lib/deep/l", i));
    object.set_images(1);
    v1::TracedKernel& kernel = *trace.add_kernels();
    kernel.set_name(absl::StrCat("k", i));
    kernel.set_refused(1);
    kernel.set_cuda_error(209);
    kernel.set_file(absl::StrCat("/host/gone/l", i));
  }
  const std::string text = RenderTrace(run, {});
  EXPECT_THAT(text, HasSubstr("200002 shared objects opened, 200002 with device"
                              " code: bin/app, libcublas.so.13, lib/deep/l0"));
  EXPECT_THAT(text, HasSubstr("of l0, k1 (CUDA error 209)"));
}

TEST(TraceView, SaysWhyThereIsNone) {
  v1::Observation run;
  EXPECT_EQ(RenderTrace(run, {}), "");
  run.mutable_trace()->mutable_device_tracer()->set_problem(
      "no CUPTI library was found on the host\x1b[31m");
  const std::string text = RenderTrace(run, {});
  EXPECT_THAT(text, HasSubstr("modules and launches: not traced: no CUPTI "
                              "library was found on the host"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace twinpath::cli
