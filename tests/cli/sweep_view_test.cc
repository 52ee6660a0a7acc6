#include "cli/sweep_view.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/cell_view.h"
#include "cli/matrix.h"
#include "cli/table.h"
#include "verdict/judge.h"

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Entry Entry() {
  v1::Entry entry;
  entry.set_name("check");
  entry.add_command("check");
  return entry;
}

// A cell of a simulated host whose native path is predicted to fail.
v1::Cell Simulated(const std::string& host, uint32_t native_error) {
  v1::Cell cell;
  cell.set_id(host);
  cell.set_host_name(host);
  cell.set_gpu_uuid(absl::StrCat("GPU-", host));
  cell.set_gpu_name("NVIDIA H200");
  cell.mutable_compute_capability()->set_major(9);
  cell.set_entry("check");
  cell.set_state(v1::CELL_STATE_DONE);
  cell.set_simulated(true);
  cell.mutable_result()->set_complete(true);
  cell.mutable_result()->set_simulated(true);
  v1::PathPrediction& native = *cell.add_predictions();
  native.set_path(v1::PATH_NATIVE);
  native.set_outcome(v1::OUTCOME_NATIVE);
  if (native_error != 0) {
    native.set_outcome(v1::OUTCOME_FAILS);
    v1::Reason& reason = *native.add_reasons();
    reason.set_code("TP205");
    reason.set_detail("only compute_90 fits");
    reason.set_fix("add sm_90");
    reason.set_cuda_error(native_error);
  }
  for (const v1::Path path : {v1::PATH_PTX_JIT, v1::PATH_PLAIN}) {
    v1::PathPrediction& other = *cell.add_predictions();
    other.set_path(path);
    other.set_outcome(v1::OUTCOME_JIT);
  }
  return cell;
}

v1::Sweep SweepOf(const std::vector<v1::Cell>& cells) {
  v1::Sweep sweep;
  sweep.set_id("7f3a");
  sweep.set_state(v1::SWEEP_STATE_DONE);
  sweep.mutable_spec()->set_name("demo");
  *sweep.mutable_spec()->mutable_release()->add_entries() = Entry();
  for (const v1::Cell& cell : cells) *sweep.add_cells() = cell;
  verdict::JudgeSweep(sweep, {});
  return sweep;
}

TEST(ViewCell, BothPathsStandInTheCell) {
  const v1::Sweep sweep = SweepOf({Simulated("h1", 0), Simulated("h2", 223)});
  EXPECT_EQ(ViewCell(sweep.cells(0), Entry(), {}).text, "~ native ok / jit ok");
  const CellView bad = ViewCell(sweep.cells(1), Entry(), {});
  EXPECT_EQ(bad.text, "x native 223 / jit ok");
  EXPECT_EQ(bad.style, Style::kBad);
}

TEST(ViewCell, ACellWithoutResultIsUnknownNotGreen) {
  v1::Cell cell = Simulated("h1", 0);
  cell.set_simulated(false);
  cell.clear_result();
  const v1::Sweep sweep = SweepOf({cell});
  const CellView view = ViewCell(sweep.cells(0), Entry(), {});
  EXPECT_EQ(view.text, "? unknown");
  EXPECT_EQ(view.style, Style::kWarn);
}

TEST(ViewCell, WaitingRunningAndEnded) {
  v1::Cell cell = Simulated("h1", 0);
  cell.set_state(v1::CELL_STATE_WAITING);
  EXPECT_EQ(ViewCell(cell, Entry(), {}).text, "waiting");
  cell.set_state(v1::CELL_STATE_LEASED);
  EXPECT_EQ(ViewCell(cell, Entry(), {}).text, "running");
  cell.set_state(v1::CELL_STATE_ENDED);
  EXPECT_EQ(ViewCell(cell, Entry(), {}).text, "? no answer");
}

TEST(ViewCell, ASkippedPathIsSaid) {
  v1::Policy policy;
  policy.set_ptx_jit(v1::PATH_RULE_SKIPPED);
  EXPECT_EQ(ViewCell(Simulated("h1", 0), Entry(), policy).text,
            "~ native ok / jit skipped");
}

TEST(RenderMatrix, HostsThatShowTheSameAreOneRow) {
  const std::string text =
      RenderMatrix(SweepOf({Simulated("h1", 0), Simulated("h2", 0),
                            Simulated("h3", 0), Simulated("x", 223)}),
                   {});
  EXPECT_THAT(
      text, AllOf(HasSubstr("h[1-3] (simulated)"), HasSubstr("NVIDIA H200 9.0"),
                  HasSubstr("~ simulated, never a pass")));
}

TEST(RenderMatrix, EntriesThatDoNotFitFollowBelow) {
  v1::Sweep sweep;
  for (int i = 0; i < 6; ++i) {
    v1::Entry entry = Entry();
    entry.set_name(absl::StrCat("entry-", i));
    *sweep.mutable_spec()->mutable_release()->add_entries() = entry;
    v1::Cell cell = Simulated("h1", 0);
    cell.set_entry(entry.name());
    *sweep.add_cells() = cell;
  }
  const std::string text = RenderMatrix(sweep, {80, false});
  for (int i = 0; i < 6; ++i) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("entry-", i)));
  }
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    EXPECT_LE(DisplayWidth(line), 80u) << line;
  }
}

TEST(RenderMatrix, NoCellsIsSaid) {
  EXPECT_THAT(RenderMatrix({}, {}), HasSubstr("no host was selected"));
}

TEST(RenderReasons, EqualReasonsAreShownOnceWithTheirHosts) {
  const std::string text =
      RenderReasons(SweepOf({Simulated("h1", 223), Simulated("h2", 223)}), {});
  EXPECT_THAT(text, AllOf(HasSubstr("check on h[1-2] (simulated)"),
                          HasSubstr("223"), HasSubstr("fix: ")));
  const size_t first = text.find("fail: ");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(text.find("fail: ", first + 1), std::string::npos);
}

TEST(RenderFindings, MissingHostsAreNamed) {
  v1::Sweep sweep;
  sweep.add_missing_hosts("spark-07");
  EXPECT_THAT(RenderFindings(sweep, {}), HasSubstr("spark-07"));
}

TEST(RenderSweep, SimulatedHostsNeverShowPass) {
  const std::string text = RenderSweep(SweepOf({Simulated("h1", 0)}), {});
  EXPECT_THAT(text, AllOf(HasSubstr("verdict: inconclusive"),
                          Not(HasSubstr("verdict: pass"))));
}

TEST(RenderSweep, ForeignBytesCannotSteerTheTerminal) {
  v1::Cell cell = Simulated("h1", 223);
  cell.set_gpu_name("\x1b[2J");
  cell.set_driver("\x1b[2J");
  cell.mutable_predictions(0)->mutable_reasons(0)->set_detail("\x1b[2J");
  v1::Sweep sweep = SweepOf({cell});
  sweep.mutable_spec()->set_name("\x1b[2J");
  EXPECT_THAT(RenderSweep(sweep, {}), Not(HasSubstr("\x1b")));
}

TEST(ProgressLine, CountsCells) {
  EXPECT_EQ(ProgressLine(SweepOf({Simulated("h1", 0), Simulated("h2", 223)})),
            "cells 2/2  pass 0  fail 1  other 1");
}

}  // namespace
}  // namespace twinpath::cli
