// Where needed libraries are found. The order is that of ld.so(8) and glibc's
// elf/dl-load.c; that DT_RPATH counts only beside no DT_RUNPATH, and that the
// latter serves the object alone, is what the threads cited stumbled over.

#include "compat/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "compat/reason.h"
#include "tests/compat/fake_host.h"

namespace twinpath::compat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Elf {
  std::string name;
  std::vector<std::string> needed = {};
  std::string rpath = {};
  std::string runpath = {};
  std::string soname = {};
  bool program = false;
  v1::CpuArchitecture cpu = v1::CPU_ARCHITECTURE_X86_64;
  bool static_cudart = false;
  uint64_t bytes = 20 << 20;
};

// A whole artifact: nothing lies beside these files.
v1::ArtifactReport Artifact(const std::vector<Elf>& files) {
  v1::ArtifactReport report;
  report.mutable_artifact_digest()->set_sha256(std::string(32, 'a'));
  for (const Elf& elf : files) {
    v1::FileReport& file = *report.add_files();
    file.set_name(elf.name);
    file.set_size_bytes(elf.bytes);
    file.set_kind(elf.program ? v1::FILE_KIND_ELF_EXECUTABLE
                              : v1::FILE_KIND_ELF_SHARED);
    v1::ElfFacts& facts = *file.mutable_elf();
    facts.set_cpu_architecture(elf.cpu);
    facts.set_soname(elf.soname);
    facts.set_static_cudart(elf.static_cudart);
    for (const std::string& name : elf.needed) facts.add_needed(name);
    for (const auto part : absl::StrSplit(elf.rpath, ':', absl::SkipEmpty())) {
      facts.add_rpath(std::string(part));
    }
    for (const auto part :
         absl::StrSplit(elf.runpath, ':', absl::SkipEmpty())) {
      facts.add_runpath(std::string(part));
    }
  }
  return report;
}

// A host of which all CUDA libraries are known.
v1::HostFacts Host(const std::vector<std::string>& cache,
                   const std::string& words = "12.1 R580") {
  v1::HostFacts facts = FakeHost(words);
  for (const std::string& path : cache) {
    v1::Library& library = *facts.add_libraries();
    library.set_path(path);
    library.set_soname(path.substr(path.rfind('/') + 1));
    library.set_place(v1::LIBRARY_PLACE_CACHE);
  }
  for (const char* stem : {"libcudart", "libcublas", "libcufft"}) {
    facts.mutable_loader()->add_complete_for(stem);
  }
  return facts;
}

void AddLibraryPath(v1::HostFacts& facts, const std::string& path) {
  const size_t slash = path.rfind('/');
  facts.mutable_loader()->add_library_path()->set_path(path.substr(0, slash));
  v1::Library& library = *facts.add_libraries();
  library.set_path(path);
  library.set_soname(path.substr(slash + 1));
  library.set_place(v1::LIBRARY_PLACE_LIBRARY_PATH);
}

LoaderAnswer Ask(const v1::ArtifactReport& report, const v1::HostFacts& facts,
                 std::optional<size_t> started = std::nullopt,
                 bool inherits = true) {
  return LoaderModel(report).Resolve(facts, facts.gpus(0), TestTables(),
                                     started, inherits);
}

// "libcudart.so.13 < app: RPATH lib/libcudart.so.13".
std::vector<std::string> Libraries(const LoaderAnswer& answer) {
  std::vector<std::string> lines;
  for (const v1::ResolvedLibrary& library : answer.libraries) {
    const std::string how =
        library.source() == v1::LIBRARY_SOURCE_NONE      ? "nowhere"
        : library.source() == v1::LIBRARY_SOURCE_UNKNOWN ? "unknown"
        : library.source() == v1::LIBRARY_SOURCE_ARTIFACT ||
                library.source() == v1::LIBRARY_SOURCE_HOST
            ? absl::StrCat(library.found_by(), " ", library.path())
            : absl::StrCat("unlisted ", library.path());
    lines.push_back(
        absl::StrCat(library.soname(), " < ", library.needed_by(), ": ", how));
  }
  return lines;
}

// "app fails TP231 libcudart.so.12 ...", "lib/a.so TP246 ...".
std::vector<std::string> Findings(const v1::ArtifactReport& report,
                                  const LoaderAnswer& answer) {
  std::vector<std::string> lines;
  for (const LoaderFinding& finding : answer.findings) {
    const std::string& name =
        report.files(static_cast<int>(finding.file)).name();
    if (finding.blocker) {
      const v1::Reason& reason = finding.blocker->reason;
      lines.push_back(absl::StrCat(
          name,
          finding.blocker->outcome == v1::OUTCOME_FAILS ? " fails "
                                                        : " unknown ",
          reason.cuda_error(), " ", reason.code(), " ", reason.detail()));
    }
    for (const v1::Reason& remark : finding.remarks) {
      lines.push_back(
          absl::StrCat(name, " ", remark.code(), " ", remark.detail()));
    }
  }
  return lines;
}

TEST(Loader, NamesOfLibraries) {
  EXPECT_EQ(ParseLibraryName("libcudart.so.13").stem, "libcudart");
  EXPECT_EQ(ParseLibraryName("libcudart.so.13.0.96").major, 13u);
  EXPECT_EQ(ParseLibraryName("libcudart.so").major, 0u);
  EXPECT_EQ(ParseLibraryName("libcudart.so.").major, 0u);
  EXPECT_EQ(ParseLibraryName("").stem, "");
  EXPECT_TRUE(IsCudaLibrary("libnvrtc.so.12"));
  EXPECT_TRUE(IsCudaLibrary("libcudnn_ops.so.9"));
  EXPECT_TRUE(IsCudaLibrary("libnppc.so.13"));
  EXPECT_FALSE(IsCudaLibrary("libcudart_static.so.1"));
  EXPECT_FALSE(IsCudaLibrary("libtorch_cuda.so"));
  EXPECT_FALSE(IsCudaLibrary("libc.so.6"));
  EXPECT_TRUE(IsDriverLibrary("libcuda.so.1"));
  EXPECT_TRUE(IsDriverLibrary("libcuda-9cd02a88.so.1"));
  EXPECT_FALSE(IsDriverLibrary("libcuda-utils.so.1"));
  EXPECT_FALSE(IsDriverLibrary("libcudart.so.1"));
}

// sgl-project/sglang-omni#620: a CUDA 12 build on a DGX Spark, which has the
// libraries of CUDA 13 alone.
TEST(Loader, ProgramForCuda12OnAHostWithCuda13Alone) {
  const auto report = Artifact({{.name = "app",
                                 .needed = {"libc.so.6", "libcudart.so.12"},
                                 .program = true}});
  const auto answer =
      Ask(report, Host({"/usr/local/cuda/lib64/libcudart.so.13"}));
  EXPECT_THAT(Libraries(answer), ElementsAre("libcudart.so.12 < app: nowhere"));
  EXPECT_THAT(Findings(report, answer),
              ElementsAre("app fails 0 TP231 libcudart.so.12 (the host has "
                          "libcudart.so.13): the loader stops with exit code "
                          "127"));
}

// A Python extension finds what the interpreter has loaded before it.
TEST(Loader, ALibraryIsNotCalledFailing) {
  const auto report =
      Artifact({{.name = "ext.so", .needed = {"libcudart.so.12"}}});
  EXPECT_THAT(Findings(report, Ask(report, Host({}))),
              ElementsAre("ext.so TP246 libcudart.so.12"));
}

TEST(Loader, UnknownHostsStaySilent) {
  const auto report =
      Artifact({{.name = "app", .needed = {"libcudart.so.12"}, .program = true},
                {.name = "b", .needed = {"libnccl.so.2"}, .program = true},
                {.name = "c",
                 .needed = {"libcudart.so.11"},
                 .runpath = "/opt/mine/lib",
                 .program = true},
                {.name = "d",
                 .needed = {"libcudart.so.10"},
                 .runpath = "../lib",
                 .program = true},
                {.name = "e", .needed = {"libmine.so.1"}, .program = true}});
  v1::HostFacts facts = FakeHost("9.0 R580");
  EXPECT_THAT(Findings(report, Ask(report, facts)), IsEmpty());
  // Known for cudart: what is searched beyond the host's own folders is not.
  EXPECT_THAT(Findings(report, Ask(report, Host({}))),
              ElementsAre(HasSubstr("app fails 0 TP231 libcudart.so.12")));
}

TEST(Loader, FoundInTheCache) {
  const auto report = Artifact(
      {{.name = "app", .needed = {"libcudart.so.13"}, .program = true}});
  const auto answer = Ask(report, Host({"/usr/lib/libcudart.so.13"}));
  EXPECT_THAT(
      Libraries(answer),
      ElementsAre("libcudart.so.13 < app: cache /usr/lib/libcudart.so.13"));
  EXPECT_THAT(Findings(report, answer), IsEmpty());
}

// jax-ml/jax#17497, pytorch/pytorch#80637: RUNPATH ranks below
// LD_LIBRARY_PATH, RPATH above it.
TEST(Loader, LibraryPathComesBetweenRpathAndRunpath) {
  v1::HostFacts facts = Host({"/usr/lib/libcudart.so.13"});
  AddLibraryPath(facts, "/opt/cuda/lib64/libcudart.so.13");
  const auto build = [](bool runpath) {
    return Artifact(
        {{.name = "bin/app",
          .needed = {"libcudart.so.13"},
          .rpath = runpath ? "" : "$ORIGIN/../lib",
          .runpath = runpath ? "${ORIGIN}/../lib" : "",
          .program = true},
         {.name = "lib/libcudart.so.13", .soname = "libcudart.so.13"}});
  };
  const auto old_tags = build(false);
  EXPECT_THAT(
      Libraries(Ask(old_tags, facts)),
      ElementsAre("libcudart.so.13 < bin/app: RPATH lib/libcudart.so.13"));
  EXPECT_THAT(Findings(old_tags, Ask(old_tags, facts)), IsEmpty());
  const auto new_tags = build(true);
  EXPECT_THAT(Libraries(Ask(new_tags, facts)),
              ElementsAre("libcudart.so.13 < bin/app: LD_LIBRARY_PATH "
                          "/opt/cuda/lib64/libcudart.so.13"));
  EXPECT_THAT(Findings(new_tags, Ask(new_tags, facts)),
              ElementsAre("bin/app TP127 libcudart.so.13 is taken from "
                          "/opt/cuda/lib64/libcudart.so.13, not from "
                          "lib/libcudart.so.13"));
  // Before the cache, RUNPATH wins.
  EXPECT_THAT(
      Libraries(Ask(new_tags, Host({"/usr/lib/libcudart.so.13"}))),
      ElementsAre("libcudart.so.13 < bin/app: RUNPATH lib/libcudart.so.13"));
}

// Runs start without LD_LIBRARY_PATH: what only it leads to is missing then,
// and what RUNPATH leads to is taken.
TEST(Loader, RunsHaveNoLibraryPath) {
  v1::HostFacts facts = Host({});
  AddLibraryPath(facts, "/opt/cuda/lib64/libcudart.so.13");
  const auto app = Artifact(
      {{.name = "app", .needed = {"libcudart.so.13"}, .program = true}});
  EXPECT_THAT(Findings(app, Ask(app, facts)), IsEmpty());
  const auto run = Ask(app, facts, std::nullopt, /*inherits=*/false);
  EXPECT_THAT(Libraries(run), ElementsAre("libcudart.so.13 < app: nowhere"));
  EXPECT_THAT(Findings(app, run),
              ElementsAre("app fails 0 TP231 libcudart.so.13 (only "
                          "LD_LIBRARY_PATH, which runs start without, leads to "
                          "/opt/cuda/lib64/libcudart.so.13): the loader stops "
                          "with exit code 127"));
  const auto bundled =
      Artifact({{.name = "bin/app",
                 .needed = {"libcudart.so.13"},
                 .runpath = "$ORIGIN/../lib",
                 .program = true},
                {.name = "lib/libcudart.so.13", .soname = "libcudart.so.13"}});
  const auto own = Ask(bundled, facts, std::nullopt, /*inherits=*/false);
  EXPECT_THAT(
      Libraries(own),
      ElementsAre("libcudart.so.13 < bin/app: RUNPATH lib/libcudart.so.13"));
  EXPECT_THAT(Findings(bundled, own), IsEmpty());
  // A folder that is searched anyway stays one.
  v1::HostFacts usual = Host({});
  AddLibraryPath(usual, "/usr/lib/x86_64-linux-gnu/libcudart.so.13");
  EXPECT_THAT(Findings(app, Ask(app, usual, std::nullopt, false)), IsEmpty());
}

TEST(Loader, RpathIsInheritedAndRunpathIsNot) {
  const auto build = [](bool runpath) {
    return Artifact(
        {{.name = "bin/app",
          .needed = {"libmine.so"},
          .rpath = runpath ? "" : "$ORIGIN/../lib:$ORIGIN/../cuda",
          .runpath = runpath ? "$ORIGIN/../lib:$ORIGIN/../cuda" : "",
          .program = true},
         {.name = "lib/libmine.so", .needed = {"libcudart.so.13"}},
         {.name = "cuda/libcudart.so.13", .soname = "libcudart.so.13"}});
  };
  EXPECT_THAT(Libraries(Ask(build(false), Host({}))),
              ElementsAre("libcudart.so.13 < lib/libmine.so: RPATH "
                          "cuda/libcudart.so.13"));
  const auto report = build(true);
  const auto answer = Ask(report, Host({}));
  EXPECT_THAT(Libraries(answer),
              ElementsAre("libcudart.so.13 < lib/libmine.so: unlisted "
                          "cuda/libcudart.so.13"));
  EXPECT_THAT(Findings(report, answer),
              ElementsAre("bin/app TP248 libcudart.so.13 at "
                          "cuda/libcudart.so.13"));
  // Started by itself with a clean environment there is no way left.
  EXPECT_THAT(Findings(report, Ask(report, Host({}), 0)),
              ElementsAre(HasSubstr("bin/app fails 0 TP231 libcudart.so.13 at "
                                    "cuda/libcudart.so.13, where no search "
                                    "path leads")));
}

// An object with RUNPATH searches no RPATH, neither its own nor inherited.
TEST(Loader, RunpathSwitchesRpathOff) {
  const auto report =
      Artifact({{.name = "app",
                 .needed = {"libmine.so"},
                 .rpath = "$ORIGIN:$ORIGIN/cuda",
                 .program = true},
                {.name = "libmine.so",
                 .needed = {"libcudart.so.13"},
                 .rpath = "$ORIGIN/cuda",
                 .runpath = "$ORIGIN"},
                {.name = "cuda/libcudart.so.13", .soname = "libcudart.so.13"}});
  EXPECT_THAT(Libraries(Ask(report, Host({"/usr/lib/libcudart.so.13"}))),
              ElementsAre("libcudart.so.13 < libmine.so: cache "
                          "/usr/lib/libcudart.so.13"));
}

// The first copy loaded serves everybody who asks for that name.
TEST(Loader, OneCopyOfANameAProcess) {
  const auto report =
      Artifact({{.name = "app",
                 .needed = {"libcudart.so.13", "libmine.so"},
                 .rpath = "$ORIGIN/a:$ORIGIN",
                 .program = true},
                {.name = "libmine.so",
                 .needed = {"libcudart.so.13"},
                 .rpath = "$ORIGIN/b"},
                {.name = "a/libcudart.so.13", .soname = "libcudart.so.13"},
                {.name = "b/libcudart.so.13", .soname = "libcudart.so.13"}});
  EXPECT_THAT(Libraries(Ask(report, Host({}))),
              ElementsAre("libcudart.so.13 < app: RPATH a/libcudart.so.13"));
  const LoaderModel model(report);
  EXPECT_THAT(model.Closure(0), ElementsAre(0, 2, 1));
}

TEST(Loader, LibrariesForAnotherCpuArePassedOver) {
  const auto report =
      Artifact({{.name = "app",
                 .needed = {"libcudart.so.13"},
                 .rpath = "$ORIGIN/arm:$ORIGIN/x64",
                 .program = true},
                {.name = "arm/libcudart.so.13",
                 .soname = "libcudart.so.13",
                 .cpu = v1::CPU_ARCHITECTURE_AARCH64},
                {.name = "x64/libcudart.so.13", .soname = "libcudart.so.13"}});
  EXPECT_THAT(Libraries(Ask(report, Host({}))),
              ElementsAre("libcudart.so.13 < app: RPATH x64/libcudart.so.13"));
  const auto only_arm = Artifact({{.name = "app",
                                   .needed = {"libcudart.so.13"},
                                   .rpath = "$ORIGIN/arm",
                                   .program = true},
                                  {.name = "arm/libcudart.so.13",
                                   .soname = "libcudart.so.13",
                                   .cpu = v1::CPU_ARCHITECTURE_AARCH64}});
  EXPECT_THAT(Findings(only_arm, Ask(only_arm, Host({}))),
              ElementsAre("app fails 0 TP231 libcudart.so.13 "
                          "(arm/libcudart.so.13 is for AArch64): the loader "
                          "stops with exit code 127"));
}

// pytorch/pytorch#147001.
TEST(Loader, TwoMajorsInOneProcess) {
  const auto report = Artifact(
      {{.name = "app",
        .needed = {"libmine.so", "libcudart.so.13"},
        .rpath = "$ORIGIN",
        .program = true},
       {.name = "libmine.so", .needed = {"libcudart.so.12"}},
       {.name = "other", .needed = {"libcudart.so.12"}, .program = true}});
  const auto answer = Ask(
      report, Host({"/usr/lib/libcudart.so.12", "/usr/lib/libcudart.so.13"}));
  EXPECT_THAT(Findings(report, answer),
              ElementsAre("app TP247 libcudart.so.12 (needed by libmine.so) "
                          "and libcudart.so.13 (needed by app)"));
}

// pytorch/tensorpipe#294, EricLBuehler/mistral.rs#2411.
TEST(Loader, BundledDriverThatIsFoundFirst) {
  const auto with = [](const std::string& path, uint64_t bytes) {
    return Artifact({{.name = "app",
                      .rpath = absl::StrCat("$ORIGIN/", DirName(path)),
                      .program = true,
                      .static_cudart = true},
                     {.name = path, .soname = "libcuda.so.1", .bytes = bytes}});
  };
  const auto finding = [](const v1::ArtifactReport& report) {
    return absl::StrJoin(Findings(report, Ask(report, Host({}))), "\n");
  };
  EXPECT_EQ(finding(with("stubs/libcuda.so.1", 60000)),
            "app fails 34 TP242 stubs/libcuda.so.1 is a link stub and is found "
            "before the host's driver");
  EXPECT_EQ(finding(with("lib/libcuda.so.550.54.14", 28 << 20)),
            "app fails 803 TP242 lib/libcuda.so.550.54.14 is found before the "
            "host's driver, which is 580.200.01");
  EXPECT_THAT(
      finding(with("lib/libcuda.so.580.200.01", 28 << 20)),
      HasSubstr("app TP242 lib/libcuda.so.580.200.01 is of this host's"));
  EXPECT_THAT(finding(with("lib/libcuda.so.1", 28 << 20)),
              HasSubstr("app unknown 0 TP242 lib/libcuda.so.1"));
  // One that nothing leads to does no harm.
  const auto apart =
      Artifact({{.name = "app", .program = true, .static_cudart = true},
                {.name = "lib/libcuda.so.1", .soname = "libcuda.so.1"}});
  EXPECT_THAT(Findings(apart, Ask(apart, Host({}))), IsEmpty());
}

TEST(Loader, BundledForwardCompatDriverIsDecidedByItsNote) {
  auto report = Artifact(
      {{.name = "app",
        .rpath = "$ORIGIN/compat",
        .program = true,
        .static_cudart = true},
       {.name = "compat/libcuda.so.590.44.01", .soname = "libcuda.so.1"}});
  v1::ForwardCompatNote& note =
      *report.mutable_files(1)->mutable_elf()->mutable_forward_compat();
  note.mutable_cuda_version()->set_major(13);
  note.mutable_cuda_version()->set_minor(1);
  note.add_driver_branches(535);
  note.add_driver_branches(580);
  const auto on = [&report](const std::string& words, const std::string& gpu) {
    v1::HostFacts facts = Host({}, words);
    facts.mutable_gpus(0)->set_name(gpu);
    return absl::StrJoin(Findings(report, Ask(report, facts)), "\n");
  };
  EXPECT_THAT(on("9.0 R535", "NVIDIA H100 80GB HBM3"), HasSubstr("app TP120"));
  EXPECT_THAT(on("9.0 R595", "NVIDIA H100 80GB HBM3"),
              HasSubstr("app fails 803 TP121"));
  EXPECT_THAT(on("8.6 R535", "NVIDIA GeForce RTX 3060"),
              HasSubstr("app fails 804 TP121"));
  // Whether it works decides everything, so the whole is unknown.
  EXPECT_THAT(on("12.1 R580", "NVIDIA GB10"), HasSubstr("app unknown 0 TP124"));
  v1::HostFacts facts = Host({}, "12.1 R580");
  facts.mutable_gpus(0)->set_name("NVIDIA GB10");
  const LoaderAnswer undecided = Ask(report, facts);
  ASSERT_THAT(undecided.findings, SizeIs(1));
  EXPECT_EQ(undecided.findings[0].blocker->settled_by, "twinpath check app");
  EXPECT_FALSE(undecided.findings[0].driver.has_value());
  // One that works sets the CUDA version of the process.
  facts = Host({}, "9.0 R535");
  facts.mutable_gpus(0)->set_name("NVIDIA H100 80GB HBM3");
  const LoaderAnswer works = Ask(report, facts);
  ASSERT_THAT(works.findings, SizeIs(1));
  ASSERT_TRUE(works.findings[0].driver.has_value());
  EXPECT_EQ(works.findings[0].driver->path(), "compat/libcuda.so.590.44.01");
  EXPECT_EQ(works.findings[0].driver->libcuda_version(), "590.44.01");
  EXPECT_EQ(works.findings[0].driver->note().cuda_version().minor(), 1u);
}

// Wheels are unpacked into one folder, each with paths of its own.
TEST(Loader, WheelsShareAFolder) {
  v1::ArtifactReport report;
  for (const char* wheel : {"torch.whl", "cudart.whl"}) {
    v1::FileReport& carrier = *report.add_files();
    carrier.set_name(wheel);
    carrier.mutable_carrier()->set_format("wheel");
  }
  const auto members =
      Artifact({{.name = "torch.whl!/torch/lib/libtorch_cuda.so",
                 .needed = {"libcudart.so.13", "libcufft.so.12"},
                 .runpath = "$ORIGIN/../../nvidia/cu13/lib:$ORIGIN"},
                {.name = "cudart.whl!/nvidia/cu13/lib/libcudart.so.13",
                 .soname = "libcudart.so.13"}});
  for (const v1::FileReport& member : members.files()) {
    v1::FileReport& added = *report.add_files();
    added = member;
    added.set_member_of(member.name().substr(0, member.name().find('!')));
  }
  EXPECT_THAT(
      Libraries(Ask(report, Host({}))),
      ElementsAre("libcudart.so.13 < torch.whl!/torch/lib/libtorch_cuda.so: "
                  "RUNPATH cudart.whl!/nvidia/cu13/lib/libcudart.so.13",
                  "libcufft.so.12 < torch.whl!/torch/lib/libtorch_cuda.so: "
                  "nowhere"));
}

// An image has a root of its own: the host's libraries are not in it.
TEST(Loader, ImagesDoNotSeeTheHostsLibraries) {
  v1::ArtifactReport report = Artifact(
      {{.name = "i.tar!/usr/bin/app",
        .needed = {"libcudart.so.12", "libcufft.so.11"},
        .program = true},
       {.name = "i.tar!/usr/local/cuda-12.8/lib64/libcudart.so.12.8.90",
        .soname = "libcudart.so.12"}});
  for (v1::FileReport& file : *report.mutable_files()) {
    file.set_member_of("i.tar");
  }
  v1::FileReport& image = *report.add_files();
  image.set_name("i.tar");
  image.mutable_carrier()->set_format("oci_image");
  const auto answer = Ask(report, Host({"/usr/lib/libcufft.so.11"}));
  EXPECT_THAT(
      Libraries(answer),
      ElementsAre("libcudart.so.12 < i.tar!/usr/bin/app: cache "
                  "i.tar!/usr/local/cuda-12.8/lib64/libcudart.so.12.8.90",
                  "libcufft.so.11 < i.tar!/usr/bin/app: unknown"));
  EXPECT_THAT(Findings(report, answer), IsEmpty());
}

// A file by itself: nobody said what lies beside it.
TEST(Loader, LooseFilesSayNothingOfTheirNeighbours) {
  v1::ArtifactReport report = Artifact({{.name = "build/app",
                                         .needed = {"libcudart.so.12"},
                                         .runpath = "$ORIGIN",
                                         .program = true}});
  report.clear_artifact_digest();
  EXPECT_THAT(Findings(report, Ask(report, Host({}))), IsEmpty());
}

TEST(Loader, CyclesAndHostileNamesEnd) {
  std::vector<Elf> files = {
      {.name = "a.so", .needed = {"b.so", "a.so"}, .rpath = "$ORIGIN"},
      {.name = "b.so",
       .needed = {"a.so", std::string(5000, '/'), "", "../../../../x.so"},
       .rpath = "$ORIGIN/../../../../..:/../..:$ORIGIN$ORIGIN:$LIB:${LIB}/$LIB",
       .soname = std::string("\xff\0x", 3)}};
  const auto report = Artifact(files);
  const LoaderModel model(report);
  EXPECT_THAT(model.Closure(0), ElementsAre(0, 1));
  EXPECT_THAT(Findings(report, Ask(report, Host({}))), IsEmpty());
}

// A file that needs thousands of libraries, each searched in thousands of
// folders, must not hold up the process that judges it: the walk ends, and what
// it did not see is nobody's fault.
TEST(Loader, HostileSearchPathsAreCutShort) {
  std::vector<Elf> files;
  std::string rpath;
  for (int i = 0; i < 1300; ++i) absl::StrAppend(&rpath, "/$LIB/", i, ":");
  std::vector<std::string> needed;
  for (int i = 1; i <= 4000; ++i) {
    needed.push_back(absl::StrCat("libcudart.so.", i));
  }
  for (int i = 0; i < 40; ++i) {
    std::vector<std::string> own = needed;
    own.insert(own.begin(), absl::StrCat("x", i + 1, ".so"));
    files.push_back({.name = absl::StrCat("x", i, ".so"),
                     .needed = std::move(own),
                     .rpath = rpath,
                     .program = i % 2 == 0});
  }
  const auto report = Artifact(files);
  const LoaderModel model(report);
  v1::HostFacts facts = Host({});
  const LoaderAnswer answer = model.Resolve(facts, facts.gpus(0), TestTables());
  for (const LoaderFinding& finding : answer.findings) {
    EXPECT_FALSE(finding.blocker.has_value());
    for (const v1::Reason& remark : finding.remarks) {
      EXPECT_EQ(remark.code(), "TP247");
      EXPECT_LT(remark.detail().size(), 4096u);
    }
  }
}

// The same folder by many names is looked into once, however often it is said.
TEST(Loader, AFolderSaidOftenIsSearchedOnce) {
  std::string rpath = "$ORIGIN/cuda";
  for (int i = 0; i < 2000; ++i) absl::StrAppend(&rpath, ":$ORIGIN/./cuda/");
  const auto report =
      Artifact({{.name = "app",
                 .needed = {"libcudart.so.12", "libcudart.so.13"},
                 .rpath = rpath,
                 .program = true},
                {.name = "cuda/libcudart.so.13", .soname = "libcudart.so.13"}});
  const auto answer = Ask(report, Host({}));
  EXPECT_THAT(Libraries(answer),
              ElementsAre("libcudart.so.12 < app: nowhere",
                          "libcudart.so.13 < app: RPATH cuda/libcudart.so.13"));
}

}  // namespace
}  // namespace twinpath::compat
