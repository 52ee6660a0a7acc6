#include "cli/reach_view.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/table.h"
#include "compat/predict.h"
#include "compat/reach.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const compat::Tables& SourceTables() {
  static const compat::Tables& tables = *[] {
    const char* source = std::getenv("TWINPATH_SOURCE_DIR");
    auto loaded = compat::Tables::Load(
        absl::StrCat(source == nullptr ? "." : source, "/compat/tables"));
    if (!loaded.ok()) std::abort();
    return new compat::Tables(*std::move(loaded));
  }();
  return tables;
}

// sm_80 and PTX 8.7 for it, with the static runtime of CUDA 12.8.
v1::Reach SomeReach() {
  v1::ArtifactReport report;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        files {
          name: "app"
          kind: FILE_KIND_ELF_EXECUTABLE
          kernels_read: true
          elf {
            cpu_architecture: CPU_ARCHITECTURE_X86_64
            static_cudart: true
            cudart { major: 12 minor: 8 }
          }
          fatbins {
            registration: REGISTRATION_REGISTERED
            images {
              kind: IMAGE_KIND_SASS
              kind_number: 2
              target { number: 80 suffix: TARGET_SUFFIX_NONE }
              kernels_read: true
              kernels { name: "k" }
            }
            images {
              kind: IMAGE_KIND_PTX
              kind_number: 1
              target { number: 80 suffix: TARGET_SUFFIX_NONE }
              ptx_isa { major: 8 minor: 7 }
              kernels_read: true
              kernels { name: "k" }
            }
          }
        })pb",
      &report));
  return compat::ReachOf(report, compat::Predictor(report), SourceTables());
}

TEST(RenderReach, RunsOfBranchesAreColumns) {
  const std::string text = RenderReach(SomeReach(), SourceTables(), {});
  EXPECT_THAT(text, AllOf(HasSubstr("R525-R565"), HasSubstr("R570-R620"),
                          HasSubstr("12.0-12.7"), HasSubstr("8.0 A100"),
                          HasSubstr("native+jit"), HasSubstr("not served: ")));
}

TEST(RenderReach, FloorsAndTradeOffStandBelow) {
  EXPECT_THAT(
      RenderReach(SomeReach(), SourceTables(), {}),
      AllOf(HasSubstr("native: driver R525 (CUDA 12.0) or later"),
            HasSubstr("ptx-jit: driver R570 (CUDA 12.8) or later"),
            HasSubstr("runtime of CUDA 12 R525 (CUDA 12.0)"),
            HasSubstr("PTX 8.7 R570 (CUDA 12.8)"),
            HasSubstr("trade-off: the native set needs driver R525, the PTX "
                      "R570 or later")));
}

TEST(RenderReach, SixtyColumnsCutNoAnswer) {
  ViewOptions options;
  options.width = 60;
  const std::string text = RenderReach(SomeReach(), SourceTables(), options);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    EXPECT_LE(DisplayWidth(line), 60u) << line;
  }
  EXPECT_THAT(text, AllOf(HasSubstr("native+jit"), HasSubstr("fails 222"),
                          Not(HasSubstr("native+…"))));
}

}  // namespace
}  // namespace twinpath::cli
