#include "cli/group_view.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "cli/table.h"

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

v1::HostGroup Spark() {
  return Parse<v1::HostGroup>(R"pb(
    hosts: 1
    gpus: 1
    host_names: "spark"
    gpu_uuids: "GPU-1"
    gpu_name: "NVIDIA GB10"
    compute_capability { major: 12 minor: 1 }
    cpu_architecture: CPU_ARCHITECTURE_AARCH64
    driver_version: "580.95.05"
    cuda_version { major: 13 }
    paths {
      path: PATH_NATIVE
      outcome: OUTCOME_FAILS
      reasons {
        code: "TP205"
        detail: "only compute_90 fits"
        fix: "add -gencode arch=compute_121,code=sm_121 (nvcc 12.9 or later)"
        cuda_error: 223
      }
    }
    paths { path: PATH_PTX_JIT outcome: OUTCOME_JIT }
    paths {
      path: PATH_PLAIN
      outcome: OUTCOME_JIT
      reasons { code: "TP206" detail: "compiled at every start" }
      reasons { code: "TP109" detail: "CUDA_FORCE_PTX_JIT=1" }
    }
  )pb");
}

v1::HostGroup Many() {
  v1::HostGroup group = Spark();
  group.set_hosts(500);
  group.set_gpus(4000);
  group.clear_host_names();
  for (int i = 0; i < 100; ++i) {
    group.add_host_names("n" + std::to_string(100 + i));
  }
  return group;
}

size_t WidestLine(const std::string& text) {
  size_t widest = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    widest = std::max(widest, DisplayWidth(line));
  }
  return widest;
}

TEST(RenderGroups, OneGroupIsALineAPath) {
  const std::string text = RenderGroups({Spark()}, {});
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("spark: NVIDIA GB10 12.1, aarch64, driver 580.95.05 "
                      "(CUDA 13.0)\n"),
            HasSubstr("  native   fails 223 TP205 jit-disabled: only "
                      "compute_90 fits"),
            HasSubstr("  ptx-jit  jit\n"),
            HasSubstr("  plain    jit TP206 jit-only: compiled at every"),
            HasSubstr("fix: add -gencode arch=compute_121,code=sm_121"),
            HasSubstr("and 1 more: --details")));
}

TEST(RenderGroups, DetailsShowEveryReason) {
  GroupViewOptions options;
  options.details = true;
  EXPECT_THAT(RenderGroups({Spark()}, options),
              AllOf(HasSubstr("TP109"), Not(HasSubstr("--details"))));
}

// What decides stays whole however narrow: word, code, flag.
TEST(RenderGroups, WhatAGreenAnswerRestsOnIsSaid) {
  v1::HostGroup group = Spark();
  v1::PathPrediction& native = *group.mutable_paths(0);
  native.set_outcome(v1::OUTCOME_NATIVE);
  native.clear_reasons();
  native.add_reasons()->set_code("TP200");
  native.add_reasons()->set_code("TP217");
  group.mutable_paths(2)->add_reasons()->set_code("TP216");
  const std::string text = RenderGroups({group}, {});
  EXPECT_THAT(text,
              AllOf(HasSubstr("native TP217 relocatable-sass"),
                    HasSubstr("jit TP206"), HasSubstr("TP216 relocatable-ptx"),
                    HasSubstr("and 1 more"), Not(HasSubstr("TP200"))));
}

TEST(RenderGroups, SixtyColumnsCutNoWordThatDecides) {
  GroupViewOptions options;
  options.width = 60;
  for (const std::vector<v1::HostGroup>& groups :
       {std::vector<v1::HostGroup>{Spark()},
        std::vector<v1::HostGroup>{Many(), Spark()}}) {
    const std::string text = RenderGroups(groups, options);
    EXPECT_LE(WidestLine(text), 60u) << text;
    EXPECT_THAT(text, Not(HasSubstr("…")));
    EXPECT_THAT(text, AllOf(HasSubstr("fails 223"), HasSubstr("TP205"),
                            HasSubstr("arch=compute_121,code=sm_121")));
  }
}

TEST(RenderGroups, EqualHostsAreOneRowWithACount) {
  EXPECT_THAT(RenderGroups({Many()}, {}),
              HasSubstr("500 hosts, 4000 GPUs: n[100-199] and 400 more"));
}

TEST(RenderGroups, AMixedHostNamesItsGpusByUuid) {
  v1::HostGroup group = Spark();
  group.set_mixed(true);
  EXPECT_THAT(RenderGroups({group}, {}), HasSubstr("GPU-1"));
}

TEST(RenderGroups, AHostWithoutGpuIsUnknown) {
  const v1::HostGroup group = Parse<v1::HostGroup>(R"pb(
    hosts: 1
    host_names: "vm"
    problems { code: "TP101" detail: "no libcuda" }
  )pb");
  EXPECT_THAT(RenderGroups({group}, {}),
              AllOf(HasSubstr("vm"), HasSubstr("unknown"),
                    HasSubstr("TP101 driver-missing: no libcuda")));
}

TEST(RenderChanges, BeforeAndAfterAndHowMany) {
  v1::AssumedChange change;
  *change.mutable_before() = Many();
  for (const v1::Path path :
       {v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN}) {
    v1::PathPrediction& after = *change.add_after();
    after.set_path(path);
    after.set_outcome(path == v1::PATH_NATIVE ? v1::OUTCOME_NATIVE
                                              : v1::OUTCOME_JIT);
  }
  const std::string text = RenderChanges({change}, 500, 620, {});
  EXPECT_THAT(text, AllOf(HasSubstr("native   fails 223 -> native"),
                          HasSubstr("changes on 500 hosts of 620"),
                          Not(HasSubstr("plain"))));
  EXPECT_EQ(RenderChanges({}, 0, 3, {}), "nothing changes of 3\n");
}

TEST(RenderAdvice, TheTradeOffThenWhatGainsMost) {
  const v1::Advice advice = Parse<v1::Advice>(R"pb(
    hosts: 12
    hosts_served: 9
    hosts_native: 9
    hosts_jit: 6
    hosts_lost_by_jit: 3
    fixes {
      kind: FIX_KIND_TARGET
      text: "add -gencode arch=compute_121,code=sm_121"
      hosts_gained: 2
      host_names: "spark-1"
      host_names: "spark-2"
      in_smallest_set: true
      build: 1
    }
    fixes {
      kind: FIX_KIND_TARGET
      text: "add -gencode arch=compute_70,code=sm_70"
      hosts_gained: 1
      build: 2
    }
    beyond_help: "k80"
  )pb");
  const v1::Floor floor = Parse<v1::Floor>(R"pb(
    paths {
      path: PATH_NATIVE
      oldest {
        branch: 525
        cuda_version { major: 12 }
      }
    }
    paths {
      path: PATH_PTX_JIT
      oldest {
        branch: 570
        cuda_version { major: 12 minor: 8 }
      }
    }
  )pb");
  EXPECT_THAT(
      RenderAdvice(advice, floor, {}),
      AllOf(HasSubstr("native set: driver R525 (CUDA 12.0) or later; by PTX: "
                      "driver R570 (CUDA 12.8) or later; hosts lost by PTX "
                      "alone: 3"),
            HasSubstr("hosts: 12; served 9, native 9, by PTX 6"),
            HasSubstr("* +2 hosts: add -gencode arch=compute_121,code=sm_121 "
                      "(spark-[1-2])"),
            HasSubstr("- +1 host: add -gencode arch=compute_70,code=sm_70, as "
                      "a build of its own"),
            HasSubstr("no known change serves k80")));
}

}  // namespace
}  // namespace twinpath::cli
