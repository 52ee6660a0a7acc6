// Cases whose answer lies between things: what a release declares and its files
// hold, what two paths of one host printed, what two equal hosts printed.

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/compat/case_file.h"
#include "tests/verdict/results.h"
#include "verdict/compare.h"
#include "verdict/expect.h"

namespace twinpath::compat {
namespace {

class CaseVerdicts : public ::testing::TestWithParam<std::string> {};

std::string Codes(const std::vector<v1::Finding>& findings) {
  std::set<std::string> codes;
  for (const v1::Finding& finding : findings) {
    codes.insert(finding.reason().code());
  }
  return absl::StrJoin(codes, " ");
}

TEST_P(CaseVerdicts, FindWhatDisagrees) {
  const test::Case the_case = ReadCase(GetParam());
  const v1::ArtifactReport report = StoredReport(the_case);
  for (const test::Declared& declared : the_case.declared()) {
    EXPECT_EQ(Codes(verdict::CheckExpectation(declared.expect(), report)),
              absl::StrJoin(declared.codes(), " "));
  }
  for (const test::Compared& compared : the_case.compared()) {
    v1::Sweep sweep;
    v1::Entry& entry = *sweep.mutable_spec()->mutable_release()->add_entries();
    entry.set_name("entry");
    entry.add_command("app");
    for (const test::HostOutput& host : compared.hosts()) {
      v1::Cell& cell = *sweep.add_cells();
      cell.set_id(absl::StrCat("cell-", sweep.cells_size()));
      cell.set_host_id(absl::StrCat("host-", sweep.cells_size()));
      cell.set_host_name(cell.host_id());
      cell.set_gpu_uuid(verdict::kGpu);
      cell.set_entry(entry.name());
      cell.set_state(v1::CELL_STATE_DONE);
      *cell.mutable_class_digest() = verdict::DigestOf("class");
      v1::CellResult& result = *cell.mutable_result();
      result = verdict::GoodResult();
      result.clear_staged();
      for (v1::Observation& run : *result.mutable_observations()) {
        verdict::SetOutput(run, run.path() == v1::PATH_NATIVE ? host.native()
                                : run.path() == v1::PATH_PLAIN
                                    ? host.plain()
                                    : host.ptx_jit());
      }
    }
    EXPECT_EQ(Codes(verdict::CompareCells(sweep)),
              absl::StrJoin(compared.codes(), " "));
  }
}

std::vector<std::string> VerdictNames() {
  std::vector<std::string> names;
  for (const std::string& name : CaseNames()) {
    const test::Case the_case = ReadCase(name);
    if (the_case.declared_size() + the_case.compared_size() > 0) {
      names.push_back(name);
    }
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Threads, CaseVerdicts,
                         ::testing::ValuesIn(VerdictNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace twinpath::compat
