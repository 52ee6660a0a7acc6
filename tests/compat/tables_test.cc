#include "compat/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/compat/fake_host.h"

namespace twinpath::compat {
namespace {

using ::testing::HasSubstr;

std::string SourceTables() {
  return absl::StrCat(std::getenv("TWINPATH_SOURCE_DIR"), "/compat/tables");
}

// Copies the tables with one text of one file replaced.
absl::StatusOr<Tables> LoadChanged(const std::string& file,
                                   const std::string& from,
                                   const std::string& to) {
  auto dir = TempDirectory::Make();
  EXPECT_TRUE(dir.ok());
  for (const char* name : {"gpus.yaml", "drivers.yaml", "toolkits.yaml",
                           "errors.yaml", "messages.yaml"}) {
    auto text = ReadFile(JoinPath(SourceTables(), name), 1 << 20);
    EXPECT_TRUE(text.ok());
    if (file == name) {
      const std::string changed = absl::StrReplaceAll(*text, {{from, to}});
      EXPECT_NE(changed, *text) << "\"" << from << "\" is not in " << file;
      *text = changed;
    }
    EXPECT_TRUE(WriteFileAtomic(JoinPath(dir->path(), name), *text).ok());
  }
  return Tables::Load(dir->path());
}

TEST(Tables, LoadAndHoldTheKnownRows) {
  const Tables& tables = TestTables();
  EXPECT_GE(tables.gpus().size(), 25u);
  EXPECT_GE(tables.drivers().size(), 25u);
  EXPECT_GE(tables.toolkits().size(), 40u);
  EXPECT_GE(tables.errors().size(), 55u);
  EXPECT_EQ(tables.version().size(), 12u);
  // CUDA release notes: R580 is CUDA 13.0; PTX ISA 9.0 came with it.
  const DriverRow* r580 = tables.FindDriver(580);
  ASSERT_NE(r580, nullptr);
  EXPECT_EQ(r580->cuda.ToString(), "13.0");
  EXPECT_EQ(r580->ptx_isa.ToString(), "9.0");
  // 12.6 kept the ISA of 12.5.
  EXPECT_EQ(tables.FindDriver(560)->ptx_isa.ToString(), "8.5");
  const GpuRow* gb10 = tables.FindGpu(121);
  ASSERT_NE(gb10, nullptr);
  EXPECT_FALSE(gb10->tegra());
  EXPECT_EQ(gb10->family, "12x");
  EXPECT_EQ(*tables.FindGpu(70)->driver_last, 580u);
  EXPECT_EQ(tables.FindError(209)->driver_name, "CUDA_ERROR_NO_BINARY_FOR_GPU");
  EXPECT_EQ(tables.FindErrorByName("cudaErrorUnsupportedPtxVersion")->code,
            222u);
  EXPECT_EQ(tables.zstd_first_driver(), "550.54.14");
  EXPECT_EQ(tables.MinimumDriver(13), "580");
}

TEST(Tables, EveryTargetOfAToolkitIsAKnownGpu) {
  for (const ToolkitRow& toolkit : TestTables().toolkits()) {
    for (const v1::Target& target : toolkit.targets) {
      EXPECT_NE(TestTables().FindGpu(target.number()), nullptr)
          << toolkit.release << " " << target.number();
    }
  }
}

TEST(Tables, UnknownIsNotGuessed) {
  EXPECT_EQ(TestTables().FindDriver(999), nullptr);
  EXPECT_EQ(TestTables().FindGpu(130), nullptr);
  EXPECT_EQ(TestTables().FirstDriverForPtx({99, 0}), nullptr);
  EXPECT_EQ(TestTables().FindErrorByName(""), nullptr);
}

TEST(Tables, DriverVersionsCompareByParts) {
  const auto version = [](const char* text) {
    return DriverVersion::Parse(text).value();
  };
  EXPECT_LT(version("550.40.07"), version("550.54.14"));
  EXPECT_LT(version("580.95.05"), version("590.44.01"));
  EXPECT_EQ(version("580.95.05").branch(), 580u);
  EXPECT_FALSE(DriverVersion::Parse("580.x").has_value());
  EXPECT_FALSE(DriverVersion::Parse("").has_value());
  EXPECT_FALSE(DriverVersion::Parse("R580").has_value());
}

TEST(Tables, MistakesAreNamedWithPlace) {
  EXPECT_THAT(
      LoadChanged("gpus.yaml", "architecture: Hopper", "architekture: Hopper"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gpus.yaml:")));
  EXPECT_THAT(LoadChanged("gpus.yaml", "platform: tegra", "platform: jetson"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tegra")));
  EXPECT_THAT(
      LoadChanged("drivers.yaml", "ptx_isa: \"9.0\"", "ptx_isa: newest"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("expected a version")));
  EXPECT_THAT(
      LoadChanged("drivers.yaml", "branch: 580", "branch: 500"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must rise")));
}

TEST(Tables, ARowNeedsADeclaredSource) {
  EXPECT_THAT(
      LoadChanged("errors.yaml", "source: [NVERROR_H]", "source: [HEARSAY]"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("HEARSAY")));
  EXPECT_THAT(
      LoadChanged("errors.yaml", "  source: [NVERROR_H]\n", ""),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("source")));
}

TEST(Tables, AMissingFolderIsNamed) {
  EXPECT_THAT(Tables::Load("/nonexistent/tables"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nonexistent/tables/gpus.yaml")));
}

}  // namespace
}  // namespace twinpath::compat
