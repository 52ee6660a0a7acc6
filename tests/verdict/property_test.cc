// No false green: over generated cells, a verdict is PASS exactly where every
// required path has complete evidence, and never where a piece is missing,
// skipped, unknown, simulated or unspecified.

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/verdict/results.h"
#include "verdict/judge.h"
#include "verdict/path_status.h"

namespace twinpath::verdict {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

struct Change {
  const char* name;
  bool proves;
  std::function<void(v1::CellResult&, v1::Path)> apply;
};

std::vector<Change> Changes() {
  const auto run = [](v1::CellResult& result,
                      v1::Path path) -> v1::Observation& {
    return RunOf(result, path);
  };
  return {
      {"complete", true, [](v1::CellResult&, v1::Path) {}},
      {"absent", false,
       [](v1::CellResult& r, v1::Path p) { RemoveRun(r, p, false); }},
      {"skipped", false,
       [run](v1::CellResult& r, v1::Path p) {
         run(r, p).set_ending(v1::ENDING_SKIPPED);
       }},
      {"interrupted", false,
       [run](v1::CellResult& r, v1::Path p) {
         run(r, p).set_ending(v1::ENDING_INTERRUPTED);
       }},
      {"not started", false,
       [run](v1::CellResult& r, v1::Path p) {
         run(r, p).set_ending(v1::ENDING_NOT_STARTED);
       }},
      {"timed out", false,
       [run](v1::CellResult& r, v1::Path p) {
         run(r, p).set_ending(v1::ENDING_TIMED_OUT);
       }},
      {"unspecified ending", false,
       [run](v1::CellResult& r, v1::Path p) { run(r, p).clear_ending(); }},
      {"ending of a later version", false,
       [run](v1::CellResult& r, v1::Path p) {
         run(r, p).set_ending(static_cast<v1::Ending>(99));
       }},
      {"failed", false,
       [run](v1::CellResult& r, v1::Path p) { run(r, p).set_exit_code(1); }},
      {"no conditions", false,
       [run](v1::CellResult& r, v1::Path p) {
         run(r, p).clear_conditions_before();
       }},
      {"no environment", false,
       [run](v1::CellResult& r, v1::Path p) { run(r, p).clear_environment(); }},
  };
}

// PASS is right exactly where the oracle, which knows only which change was
// made, says so.
TEST(NoFalseGreen, EveryCombinationOfPathStatesAndRules) {
  const std::vector<Change> changes = Changes();
  // UNSPECIFIED counts as REQUIRED (see JudgeCell's tests).
  const std::vector<v1::PathRule> rules = {
      v1::PATH_RULE_UNSPECIFIED, v1::PATH_RULE_OPTIONAL, v1::PATH_RULE_SKIPPED};
  const v1::Entry entry = GoodEntry();
  int passes = 0;
  for (const Change& native : changes) {
    for (const Change& forced : changes) {
      for (const Change& plain : changes) {
        v1::Cell cell = GoodCell();
        native.apply(*cell.mutable_result(), v1::PATH_NATIVE);
        forced.apply(*cell.mutable_result(), v1::PATH_PTX_JIT);
        plain.apply(*cell.mutable_result(), v1::PATH_PLAIN);
        const bool proven[3] = {native.proves, forced.proves, plain.proves};
        for (size_t i = 0; i < 27; ++i) {
          const v1::PathRule rule[3] = {rules[i % 3], rules[i / 3 % 3],
                                        rules[i / 9]};
          v1::Policy policy;
          policy.set_native(rule[0]);
          policy.set_ptx_jit(rule[1]);
          policy.set_plain(rule[2]);
          bool all_required = true;
          bool any_required = false;
          bool any_optional_proven = false;
          for (size_t p = 0; p < 3; ++p) {
            if (rule[p] == v1::PATH_RULE_SKIPPED) continue;
            if (rule[p] == v1::PATH_RULE_OPTIONAL) {
              any_optional_proven |= proven[p];
            } else {
              any_required = true;
              all_required &= proven[p];
            }
          }
          const bool may_pass =
              any_required ? all_required : any_optional_proven;
          const v1::Verdict verdict = JudgeCell(cell, entry, policy);
          ASSERT_EQ(verdict.kind() == v1::VERDICT_KIND_PASS, may_pass)
              << native.name << ", " << forced.name << ", " << plain.name
              << "\n"
              << policy.ShortDebugString() << "\n"
              << verdict.ShortDebugString();
          ASSERT_NE(verdict.kind(), v1::VERDICT_KIND_UNSPECIFIED);
          ASSERT_GT(verdict.reasons_size(), 0);
          passes += may_pass ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(passes, 0);
}

// Clears every field that is set anywhere below `message`, one at a time, and
// calls `check` with the field's path.
void ForEachCleared(Message& root, Message& message, const std::string& prefix,
                    const std::function<void(const std::string&)>& check) {
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = prefix.empty()
                                 ? field->name()
                                 : absl::StrCat(prefix, ".", field->name());
    std::unique_ptr<Message> saved(message.New());
    saved->CopyFrom(message);
    reflection->ClearField(&message, field);
    check(path);
    message.CopyFrom(*saved);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (field->is_repeated()) {
      for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
        ForEachCleared(root,
                       *reflection->MutableRepeatedMessage(&message, field, i),
                       path, check);
      }
    } else {
      ForEachCleared(root, *reflection->MutableMessage(&message, field), path,
                     check);
    }
  }
}

// Fields of a result that a verdict may do without: names, times, text for
// people, digests beside the bytes they are of. Everything else that evidence
// holds is needed: without it there is no pass.
TEST(NoFalseGreen, EveryPieceOfAResultIsNeeded) {
  const std::set<std::string> may_lack = {
      "result_id",
      "cell_id",
      "conditions_digest",
      "conditions_digest.sha256",
      "observations.attempt_id",
      "observations.conditions_before.lines",
      "observations.conditions_after.lines",
      "observations.stdout.total_bytes",
      "observations.stdout.digest",
      "observations.stdout.digest.sha256",
  };
  v1::Sweep sweep = GoodSweep();
  v1::CellResult& result = *sweep.mutable_cells(0)->mutable_result();
  std::set<std::string> lacked;
  ForEachCleared(result, result, "", [&](const std::string& path) {
    v1::Sweep judged = sweep;
    JudgeSweep(judged, {});
    if (judged.verdict().kind() == v1::VERDICT_KIND_PASS) lacked.insert(path);
  });
  for (const std::string& path : lacked) {
    EXPECT_TRUE(may_lack.contains(path)) << "passes without " << path;
  }
  v1::Sweep whole = sweep;
  JudgeSweep(whole, {});
  EXPECT_EQ(whole.verdict().kind(), v1::VERDICT_KIND_PASS);
}

// The same for the cell, the spec and the sweep around the result.
TEST(NoFalseGreen, EveryPieceOfASweepIsNeeded) {
  const std::set<std::string> may_lack = {
      "id",
      "start_time",
      "start_time.seconds",
      "end_time",
      "end_time.seconds",
      "cells.id",
      "cells.host_id",
      "cells.host_name",
      "cells.gpu_name",
      "cells.compute_capability",
      "cells.compute_capability.major",
      "cells.compute_capability.minor",
      "cells.conditions_digest",
      "cells.conditions_digest.sha256",
      "cells.class_digest",
      "cells.class_digest.sha256",
      "cells.cpu_architecture",
      "cells.driver",
      "spec.release.artifact.name",
      "spec.release.entries.command",
      // Only a symbolic link needs no digest, whatever else it is called.
      "spec.release.artifact.files.type",
      // Fewer demands, fewer answers: what is not asked is not judged.
      "spec.release.entries.expected_output",
  };
  v1::Sweep sweep = GoodSweep();
  ForEachCleared(sweep, sweep, "", [&](const std::string& path) {
    if (path.rfind("cells.result", 0) == 0) return;
    v1::Sweep judged = sweep;
    JudgeSweep(judged, {});
    if (judged.verdict().kind() == v1::VERDICT_KIND_PASS) {
      EXPECT_TRUE(may_lack.contains(path)) << "passes without " << path;
    }
  });
}

TEST(NoFalseGreen, SimulatedAnywhereNeverPasses) {
  const std::vector<std::function<void(v1::Sweep&)>> marks = {
      [](v1::Sweep& s) { s.mutable_cells(0)->set_simulated(true); },
      [](v1::Sweep& s) {
        s.mutable_cells(0)->mutable_result()->set_simulated(true);
      },
      [](v1::Sweep& s) {
        RunOf(*s.mutable_cells(0)->mutable_result(), v1::PATH_NATIVE)
            .set_simulated(true);
      },
      [](v1::Sweep& s) {
        RunOf(*s.mutable_cells(0)->mutable_result(), v1::PATH_PTX_JIT, true)
            .set_simulated(true);
      },
  };
  const std::vector<v1::Outcome> outcomes = {
      v1::OUTCOME_UNSPECIFIED, v1::OUTCOME_NATIVE,  v1::OUTCOME_JIT,
      v1::OUTCOME_FAILS,       v1::OUTCOME_UNKNOWN, v1::OUTCOME_NO_DEVICE_CODE};
  for (const auto& mark : marks) {
    for (const v1::Outcome outcome : outcomes) {
      for (int hosts = 1; hosts <= 2; ++hosts) {
        v1::Sweep sweep = GoodSweep(hosts);
        for (const v1::Path path :
             {v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN}) {
          Predict(*sweep.mutable_cells(0), path, outcome, 209, "TP201");
        }
        mark(sweep);
        JudgeSweep(sweep, {});
        EXPECT_NE(sweep.verdict().kind(), v1::VERDICT_KIND_PASS);
        EXPECT_NE(sweep.hosts(0).verdict().kind(), v1::VERDICT_KIND_PASS);
        EXPECT_NE(sweep.cells(0).verdict().kind(), v1::VERDICT_KIND_PASS);
        EXPECT_EQ(sweep.cells(0).verdict().kind() == v1::VERDICT_KIND_FAIL,
                  outcome == v1::OUTCOME_FAILS);
      }
    }
  }
}

TEST(NoFalseGreen, ACellThatIsNoPassIsNoneForItsHost) {
  // A result whose only reasons are notes, beside one that passes.
  v1::Sweep sweep = GoodSweep();
  v1::Entry& second = *sweep.mutable_spec()->mutable_release()->add_entries();
  second = GoodEntry();
  second.set_name("second");
  second.clear_expected_output();
  v1::Cell cell = sweep.cells(0);
  cell.set_id("second");
  cell.set_entry("second");
  Predict(cell, v1::PATH_NATIVE, v1::OUTCOME_NO_DEVICE_CODE, 0, "TP223");
  *sweep.add_cells() = cell;
  JudgeSweep(sweep, {});
  EXPECT_EQ(sweep.cells(0).verdict().kind(), v1::VERDICT_KIND_PASS);
  EXPECT_EQ(sweep.cells(1).verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(sweep.hosts(0).verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
  EXPECT_EQ(sweep.verdict().kind(), v1::VERDICT_KIND_INCONCLUSIVE);
}

TEST(NoFalseGreen, OnlyADoneCellOfAnEndedSweepPasses) {
  for (int cell_state = 0; cell_state <= 5; ++cell_state) {
    for (int sweep_state = 0; sweep_state <= 5; ++sweep_state) {
      for (const bool complete : {false, true}) {
        v1::Sweep sweep = GoodSweep();
        sweep.set_state(static_cast<v1::SweepState>(sweep_state));
        sweep.mutable_cells(0)->set_state(
            static_cast<v1::CellState>(cell_state));
        sweep.mutable_cells(0)->mutable_result()->set_complete(complete);
        JudgeSweep(sweep, {});
        const bool may_pass = complete && cell_state == v1::CELL_STATE_DONE &&
                              (sweep_state == v1::SWEEP_STATE_DONE ||
                               sweep_state == v1::SWEEP_STATE_DEADLINE);
        EXPECT_EQ(sweep.verdict().kind() == v1::VERDICT_KIND_PASS, may_pass)
            << cell_state << " " << sweep_state << " " << complete;
      }
    }
  }
}

}  // namespace
}  // namespace twinpath::verdict
