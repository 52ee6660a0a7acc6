// Traced runs, in the sandbox, with a driver and a CUPTI that are none
// (helpers/fake_trace_driver.c).

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/subprocess.h"
#include "runner/paths.h"
#include "runner/sequence.h"
#include "runner/trace/record.h"
#include "runner/trace_result.h"
#include "tests/runner/run_fixture.h"

namespace twinpath::runner {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// The kernel of samples/libcheck.so and of samples/check.sm_90.cubin, which is
// embedded there byte for byte (tests/data/samples/commands).
constexpr char kKernel[] = "_Z10WriteValuePii";

class TraceTest : public RunFixture {
 protected:
  void SetUp() override {
    RunFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const std::string bin = std::getenv("TWINPATH_BIN_DIR");
    const std::string samples =
        JoinPath(std::getenv("TWINPATH_SOURCE_DIR"), "tests/data/samples");
    Copy(JoinPath(bin, "runner_trace_program"), "program");
    Copy(JoinPath(bin, "runner_test_trace/libcuda.so.1"), "libcuda.so.1");
    Copy(JoinPath(bin, "runner_test_trace/libcupti.so.13"), "libcupti.so.13");
    Copy(JoinPath(samples, "libcheck.so"), "libcheck.so");
    Copy(JoinPath(samples, "check.sm_90.cubin"), "check.sm_90.cubin");
    setenv("TWINPATH_CUPTI",
           JoinPath(artifact_->path(), "libcupti.so.13").c_str(), 1);
  }
  void TearDown() override { unsetenv("TWINPATH_CUPTI"); }

  void Copy(const std::string& from, const std::string& name) const {
    const auto bytes = ReadFile(from, 64 << 20);
    ASSERT_THAT(bytes, IsOk());
    ASSERT_THAT(
        WriteFileAtomic(JoinPath(artifact_->path(), name), *bytes, 0755),
        IsOk());
  }

  v1::RunRequest TraceRequest(const std::vector<std::string>& words) const {
    v1::RunRequest request = Request(words);
    request.mutable_entry()->set_command(0, "program");
    request.set_traced(true);
    return request;
  }
  v1::Observation Trace(const std::vector<std::string>& words) const {
    return Run(TraceRequest(words));
  }

  static std::map<std::string, v1::TracedKernel> Kernels(
      const v1::Trace& trace) {
    std::map<std::string, v1::TracedKernel> result;
    for (const v1::TracedKernel& kernel : trace.kernels()) {
      result[kernel.name()] = kernel;
    }
    return result;
  }
  static const v1::TracedObject* Object(const v1::Trace& trace,
                                        const std::string& artifact_name) {
    for (const v1::TracedObject& object : trace.objects()) {
      if (object.artifact_name() == artifact_name) return &object;
    }
    return nullptr;
  }
};

TEST_F(TraceTest, ListsWhatWasOpenedWithDigestAndImages) {
  const v1::Observation run = Trace({"open", "./libcheck.so"});
  ASSERT_EQ(run.ending(), v1::ENDING_EXITED) << run.problem();
  EXPECT_TRUE(run.traced());
  const v1::Trace& trace = run.trace();
  EXPECT_TRUE(trace.objects_tracer().started()) << run.stderr().head();
  EXPECT_EQ(trace.objects_tracer().processes(), 1u);
  EXPECT_EQ(trace.objects_tracer().problem(), "");
  EXPECT_EQ(trace.objects_tracer().dropped(), 0u);
  ASSERT_NE(Object(trace, "program"), nullptr);
  const v1::TracedObject* library = Object(trace, "libcheck.so");
  ASSERT_NE(library, nullptr);
  EXPECT_EQ(library->images(), 3u);
  const auto bytes =
      ReadFile(JoinPath(artifact_->path(), "libcheck.so"), 1 << 20);
  ASSERT_THAT(bytes, IsOk());
  EXPECT_EQ(library->digest().sha256(), Sha256Of(*bytes).Raw());
  EXPECT_EQ(library->size_bytes(), bytes->size());
  // The C library is one of the host.
  bool libc = false;
  for (const v1::TracedObject& object : trace.objects()) {
    libc |= object.path().find("/libc.so.6") != std::string::npos &&
            object.artifact_name().empty() && object.has_digest();
  }
  EXPECT_TRUE(libc);
  // It never came to the driver.
  EXPECT_FALSE(trace.device_tracer().started());
  EXPECT_EQ(trace.device_tracer().problem(),
            "no process opened the driver's library");
}

TEST_F(TraceTest, TellsEmbeddedFromCompiledModules) {
  const v1::Observation run =
      Trace({"open", "./libcheck.so", "init", "module", "check.sm_90.cubin",
             "module", "check.sm_90.cubin", "x", "launch", kKernel, "3"});
  ASSERT_EQ(run.exit_code(), 0) << run.stderr().head();
  const v1::Trace& trace = run.trace();
  ASSERT_TRUE(trace.device_tracer().started())
      << trace.device_tracer().problem();
  EXPECT_EQ(trace.device_tracer().version(), "CUPTI 26");
  EXPECT_EQ(trace.device_tracer().problem(), "");
  ASSERT_EQ(trace.modules_size(), 2);
  const v1::TracedModule& embedded = trace.modules(0);
  EXPECT_EQ(embedded.origin(), v1::MODULE_ORIGIN_EMBEDDED);
  EXPECT_EQ(embedded.file(), "libcheck.so");
  EXPECT_EQ(embedded.target().number(), 90u);
  EXPECT_EQ(embedded.size_bytes(), 3832u);
  EXPECT_GT(embedded.offset(), 0u);
  const v1::TracedModule& compiled = trace.modules(1);
  EXPECT_EQ(compiled.origin(), v1::MODULE_ORIGIN_COMPILED);
  // Its kernel is one of that file.
  EXPECT_EQ(compiled.file(), "libcheck.so");
  ASSERT_EQ(trace.kernels_size(), 1);
  EXPECT_EQ(trace.kernels(0).launches(), 3u);
  EXPECT_EQ(trace.kernels(0).file(), "libcheck.so");
  // Both modules have it.
  EXPECT_FALSE(trace.kernels(0).has_module());
  EXPECT_EQ(trace.launches(), 3u);
  ASSERT_EQ(trace.coverage_size(), 1);
  EXPECT_EQ(trace.coverage(0).file(), "libcheck.so");
  EXPECT_TRUE(trace.coverage(0).artifact_file());
  EXPECT_EQ(trace.coverage(0).kernels(), 1u);
  EXPECT_EQ(trace.coverage(0).launched(), 1u);
}

TEST_F(TraceTest, NamesTheKernelsThatWereNotLaunched) {
  const v1::Observation run =
      Trace({"open", "./libcheck.so", "init", "module", "check.sm_90.cubin",
             "launch", "_Z1kv", "2"});
  const v1::Trace& trace = run.trace();
  ASSERT_EQ(trace.coverage_size(), 1);
  EXPECT_EQ(trace.coverage(0).launched(), 0u);
  EXPECT_THAT(trace.coverage(0).not_launched(), testing::ElementsAre(kKernel));
  ASSERT_EQ(trace.kernels_size(), 1);
  EXPECT_EQ(trace.kernels(0).file(), "");
}

TEST_F(TraceTest, KeepsRefusedLaunchesWithTheirErrors) {
  const v1::Observation run =
      Trace({"open", "./libcheck.so", "init", "refuse", kKernel, "209", "lost",
             "_Z4lostv", "222", "lost", "_Z4finev", "0"});
  const auto kernels = Kernels(run.trace());
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(kernels.at(kKernel).refused(), 1u);
  EXPECT_EQ(kernels.at(kKernel).cuda_error(), 209u);
  EXPECT_EQ(kernels.at(kKernel).file(), "libcheck.so");
  EXPECT_EQ(kernels.at("_Z4lostv").refused(), 1u);
  EXPECT_EQ(kernels.at("_Z4lostv").cuda_error(), 222u);
  EXPECT_EQ(kernels.at("_Z4finev").launches(), 1u);
  EXPECT_EQ(kernels.at("_Z4finev").refused(), 0u);
  EXPECT_EQ(run.trace().launches(), 1u);
  EXPECT_EQ(run.trace().refused_launches(), 2u);
  // It was asked for, and did not run.
  ASSERT_EQ(run.trace().coverage_size(), 1);
  EXPECT_EQ(run.trace().coverage(0).launched(), 0u);
  EXPECT_THAT(run.trace().coverage(0).not_launched(),
              testing::ElementsAre(kKernel));
}

TEST_F(TraceTest, CountsKernelsOfGraphsWhenTheGraphIsLaunched) {
  const v1::Observation run =
      Trace({"init", "launch", "_Z5plainv", "1", "graph", "_Z2inv", "5"});
  const auto kernels = Kernels(run.trace());
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels.at("_Z5plainv").launches(), 1u);
  // Captured once, which is no launch, then launched five times.
  EXPECT_EQ(kernels.at("_Z2inv").launches(), 5u);
}

TEST_F(TraceTest, SurvivesACrashInTheMiddleOfALaunch) {
  const v1::Observation run =
      Trace({"init", "launch", "_Z5firstv", "1000", "crash", "_Z5fatalv"});
  EXPECT_EQ(run.ending(), v1::ENDING_SIGNALED);
  EXPECT_EQ(run.signal(), 6);
  const auto kernels = Kernels(run.trace());
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels.at("_Z5firstv").launches(), 1000u);
  EXPECT_EQ(kernels.at("_Z5fatalv").launches(), 0u);
  EXPECT_NE(Object(run.trace(), "libcuda.so.1"), nullptr);
}

TEST_F(TraceTest, FollowsForksAndNewPrograms) {
  const v1::Observation forked =
      Trace({"fork", "open", "./libcheck.so", "init", "launch", "_Z1kv", "2"});
  EXPECT_EQ(forked.exit_code(), 0);
  EXPECT_NE(Object(forked.trace(), "libcheck.so"), nullptr);
  EXPECT_EQ(Kernels(forked.trace()).at("_Z1kv").launches(), 2u);

  auto work = TempDirectory::Make();
  ASSERT_THAT(work, IsOk());
  v1::RunRequest request =
      TraceRequest({"init", "launch", "_Z1kv", "1", "exec", "init", "launch",
                    "_Z1kv", "2", "launch", "_Z1av", "1"});
  request.set_work_directory(work->path());
  const v1::Observation replaced = Run(request);
  EXPECT_EQ(replaced.exit_code(), 0);
  // One process number, two starts: both counted.
  EXPECT_EQ(Kernels(replaced.trace()).at("_Z1kv").launches(), 3u);
  EXPECT_EQ(Kernels(replaced.trace()).at("_Z1av").launches(), 1u);
}

TEST_F(TraceTest, AnObjectThatWentWithTheRunIsNamed) {
  const v1::Observation run =
      Trace({"write", "/tmp/gone.so", "text", "open", "/tmp/gone.so"});
  // It is none, so the loader never lists it; a copy of a real one is.
  EXPECT_EQ(run.exit_code(), 0);
  for (const v1::TracedObject& object : run.trace().objects()) {
    EXPECT_THAT(object.path(), Not(HasSubstr("gone.so")));
  }
}

TEST_F(TraceTest, ForeignRecordsAreBoundedAndTheRestIsRead) {
  // The program knows the folder and writes what it likes.
  const std::string records = JoinPath(work_->path(), "trace");
  const v1::Observation run = Trace(
      {"write", JoinPath(records, "objects"), "TPR1 and then nothing at all",
       "write", JoinPath(records, "device"), std::string(5000, 'x'), "open",
       "./libcheck.so"});
  EXPECT_EQ(run.exit_code(), 0) << run.stderr().head();
  EXPECT_THAT(run.trace().objects_tracer().problem(),
              HasSubstr("parts of its record are none"));
  EXPECT_NE(Object(run.trace(), "libcheck.so"), nullptr);
  EXPECT_EQ(run.trace().kernels_size(), 0);
}

TEST_F(TraceTest, CuptiThatRefusesIsSaidAndTheProgramGoesOn) {
  v1::RunRequest request = TraceRequest({"init", "launch", "_Z1kv", "1"});
  v1::EnvironmentVariable& variable =
      *request.mutable_entry()->add_environment();
  variable.set_name("FAKE_CUPTI_ERROR");
  variable.set_value("39");
  const v1::Observation run = Run(request);
  EXPECT_EQ(run.exit_code(), 0);
  EXPECT_FALSE(run.trace().device_tracer().started());
  EXPECT_THAT(run.trace().device_tracer().problem(),
              AllOf(HasSubstr("cuptiSubscribe: error 39"),
                    HasSubstr("CUPTI_ERROR_OF_THE_TEST")));
}

TEST_F(TraceTest, CuptiThatDoesNotLoadIsSaidAndTheProgramGoesOn) {
  setenv("TWINPATH_CUPTI", "/etc/hostname", 1);
  const v1::Observation run = Trace({"init", "launch", "_Z1kv", "1"});
  EXPECT_EQ(run.exit_code(), 0);
  EXPECT_FALSE(run.trace().device_tracer().started());
  EXPECT_THAT(run.trace().device_tracer().problem(),
              HasSubstr("CUPTI does not load"));
}

TEST_F(TraceTest, ProgramsFindNoTraceOfItWithoutTracing) {
  v1::RunRequest request = TraceRequest({"init"});
  request.set_traced(false);
  const v1::Observation run = Run(request);
  EXPECT_FALSE(run.has_trace());
  for (const v1::EnvironmentVariable& variable : run.environment()) {
    EXPECT_FALSE(IsTraceVariable(variable.name())) << variable.name();
  }
}

TEST_F(TraceTest, SequenceRepeatsPlainAndTracesTheProof) {
  v1::Entry entry = TraceRequest({"init", "launch", "_Z1kv", "1"}).entry();
  entry.set_trace(v1::TRACE_RULE_REQUIRED);
  const v1::CellResult result =
      RunEntry(entry, {v1::PATH_NATIVE, v1::PATH_PTX_JIT, v1::PATH_PLAIN}, {},
               artifact_->path(), {});
  std::vector<std::string> runs;
  for (const v1::Observation& run : result.observations()) {
    runs.push_back(std::string(PathName(run.path())) +
                   (run.jit_proof() ? " proof" : "") +
                   (run.traced() ? " traced" : ""));
    EXPECT_EQ(run.traced(), run.has_trace());
  }
  EXPECT_TRUE(result.complete());
  EXPECT_THAT(runs,
              testing::ElementsAre("native", "ptx-jit", "ptx-jit proof traced",
                                   "plain", "plain traced"));
}

TEST_F(TraceTest, SequenceTracesWhatFailed) {
  v1::Entry entry =
      TraceRequest({"init", "refuse", "_Z1kv", "209", "exit", "1"}).entry();
  AttemptHooks hooks;
  hooks.can_trace = [] { return true; };
  const v1::CellResult result =
      RunEntry(entry, {v1::PATH_PTX_JIT}, {}, artifact_->path(), hooks);
  ASSERT_EQ(result.observations_size(), 2);
  EXPECT_TRUE(result.observations(1).traced());
  EXPECT_FALSE(result.observations(1).jit_proof());
  EXPECT_EQ(result.observations(1).trace().refused_launches(), 1u);
  EXPECT_TRUE(result.observations(1).cache().observed());
}

// Whatever stands in the folder, reading ends and stays within its bounds.
class TraceRecordsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = TempDirectory::Make();
    ASSERT_THAT(made, IsOk());
    folder_.emplace(*std::move(made));
    fd_ = UniqueFd(open(folder_->path().c_str(), O_RDONLY | O_DIRECTORY));
    ASSERT_TRUE(fd_.valid());
  }
  std::string Path(const std::string& name) const {
    return JoinPath(folder_->path(), name);
  }
  static std::string Record(uint16_t type, uint64_t a, uint64_t b,
                            const std::string& payload) {
    TraceRecord record = {};
    record.magic = TP_TRACE_MAGIC;
    record.type = type;
    record.payload = static_cast<uint16_t>(payload.size());
    record.pid = 7;
    record.instance = 1;
    record.a = a;
    record.b = b;
    return std::string(reinterpret_cast<const char*>(&record), sizeof(record)) +
           payload;
  }

  std::optional<TempDirectory> folder_;
  UniqueFd fd_;
};

TEST_F(TraceRecordsTest, LinksPipesAndFoldersAreNotRead) {
  ASSERT_THAT(
      WriteFileAtomic(Path("other"), Record(TP_RECORD_OBJECT, 0, 0, "/bin/sh")),
      IsOk());
  ASSERT_EQ(symlink(Path("other").c_str(), Path("objects").c_str()), 0);
  ASSERT_EQ(mkfifo(Path("device").c_str(), 0600), 0);
  const TraceRecords records = ReadTraceRecords(fd_.get());
  EXPECT_TRUE(records.objects.empty());
  EXPECT_FALSE(records.device_tracer.started());
}

TEST_F(TraceRecordsTest, NumbersThatAreNoneAreBounded) {
  const uint64_t huge = ~uint64_t{0};
  TraceCount count = {huge, huge, huge};
  ASSERT_THAT(
      WriteFileAtomic(Path("counts-7-1"),
                      absl::string_view(reinterpret_cast<const char*>(&count),
                                        sizeof(count))),
      IsOk());
  std::string device = Record(TP_RECORD_STARTED, huge, 0, "cupti") +
                       Record(TP_RECORD_DEVICE, huge, huge, "") +
                       Record(TP_RECORD_MODULE, huge, huge, "too short") +
                       Record(TP_RECORD_DROPPED, huge, 0, "") +
                       Record(TP_RECORD_KERNEL, huge, 0, "far") +
                       Record(TP_RECORD_KERNEL, 0, 0, "k") +
                       Record(TP_RECORD_KERNEL, 0, 0, "k");
  // More names than are kept.
  for (int i = 1; i < 5000; ++i) {
    device += Record(TP_RECORD_KERNEL, 1, 0, "k" + std::to_string(i));
  }
  ASSERT_THAT(WriteFileAtomic(Path("device"), device), IsOk());
  const TraceRecords records = ReadTraceRecords(fd_.get());
  EXPECT_FALSE(records.gpu.has_value());
  EXPECT_TRUE(records.modules.empty());
  ASSERT_EQ(records.kernels.size(), kMaxTracedKernels);
  EXPECT_EQ(records.kernels[0].name, "k");
  EXPECT_EQ(records.kernels[0].launches, uint64_t{1} << 53);
  EXPECT_EQ(records.kernels[0].cuda_error, 0u);
  EXPECT_GT(records.device_tracer.dropped(), 0u);
}

TEST_F(TraceRecordsTest, AnyBytesAreRead) {
  std::mt19937 random(20240612);
  const std::string good = Record(TP_RECORD_STARTED, 2, 0, "/bin/x") +
                           Record(TP_RECORD_OBJECT, 0, 0, "/lib/a.so") +
                           Record(TP_RECORD_KERNEL, 3, 0, "kernel") +
                           Record(TP_RECORD_PROBLEM, 0, 0, "a problem");
  for (int round = 0; round < 300; ++round) {
    std::string bytes = good + good;
    for (int i = 0; i < 12; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    bytes.resize(random() % (bytes.size() + 1));
    for (const char* name : {"objects", "device", "counts-7-1"}) {
      std::ofstream(Path(name), std::ios::binary) << bytes;
    }
    const TraceRecords records = ReadTraceRecords(fd_.get());
    EXPECT_LE(records.objects.size(), 2u);
    EXPECT_LE(records.kernels.size(), 2u);
  }
}

// As driver 580.159.04 wrote it (shortened): cuBLAS asks for a kernel under
// forced JIT, and no launch is ever seen. The second record lost its line feed.
TEST(TraceNotFound, KernelsOfTheDriverLogAreAddedWithTheirErrors) {
  const std::string log =
      "[13:57:01.234][1][CUDA][E] Kernel (_ZN6cublas3nopEv) cannot be found in "
      "library due to compilation error[13:57:01.235][1][CUDA][E] Returning "
      "209 "
      "(CUDA_ERROR_NO_BINARY_FOR_GPU) from cuLibraryGetKernel\n"
      "[13:57:01.236][1][CUDA][E] Kernel (_Z5otherv) cannot be found\n";
  TraceRecords records;
  records.kernels.push_back({.name = "_Z3ownv", .launches = 1});
  AddNotFound(log, records);
  ASSERT_EQ(records.kernels.size(), 2u);
  EXPECT_EQ(records.kernels[0].name, "_Z3ownv");
  EXPECT_EQ(records.kernels[1].name, "_ZN6cublas3nopEv");
  EXPECT_EQ(records.kernels[1].cuda_error, 209u);
  EXPECT_EQ(records.kernels[1].launches, 0u);
  EXPECT_EQ(records.kernels[1].refused, 0u);
  AddNotFound(log, records);
  EXPECT_EQ(records.kernels.size(), 2u);
}

TEST(TraceNotFound, ARefusedLaunchGetsTheNameTheLogHas) {
  TraceRecords records;
  records.kernels.push_back(
      {.name = "(no name)", .refused = 1, .cuda_error = 209});
  AddNotFound(
      "Kernel (_Z13WriteSilentlyPi) cannot be found in library\n"
      "Returning 209 (CUDA_ERROR_NO_BINARY_FOR_GPU) from cuLibraryGetKernel\n",
      records);
  ASSERT_EQ(records.kernels.size(), 1u);
  EXPECT_EQ(records.kernels[0].name, "_Z13WriteSilentlyPi");
  EXPECT_EQ(records.kernels[0].refused, 1u);
}

TEST(TraceNotFound, AnyBytesAreRead) {
  for (const std::string& log :
       {std::string(), std::string("Kernel ("), std::string("Kernel ()"),
        "Kernel (" + std::string(100'000, 'x') + ") cannot be found",
        std::string("Kernel (x) cannot be foundReturning "),
        std::string("Kernel (x) cannot be found Returning 99999999999 ("),
        std::string("Kernel (x\0y) cannot be found Returning 1", 37)}) {
    TraceRecords records;
    AddNotFound(log, records);
    EXPECT_LE(records.kernels.size(), 1u);
  }
  std::string many;
  for (int i = 0; i < 5000; ++i) {
    absl::StrAppend(&many, "Kernel (k", i, ") cannot be found Returning 209 (");
  }
  TraceRecords records;
  AddNotFound(many, records);
  EXPECT_EQ(records.kernels.size(), 1000u);
}

TEST(TraceRules, WhichEntriesAreTraced) {
  v1::Entry entry;
  EXPECT_TRUE(IsTraced(entry, true));
  EXPECT_FALSE(IsTraced(entry, false));
  entry.set_trace(v1::TRACE_RULE_OFF);
  EXPECT_FALSE(IsTraced(entry, true));
  entry.add_must_launch("k");
  EXPECT_TRUE(IsTraced(entry, false));
  entry.set_kind(v1::ENTRY_KIND_OCI);
  EXPECT_FALSE(IsTraced(entry, true));
}

// CUDA C++ Programming Guide, application compatibility.
TEST(TraceRules, WhichImagesServeAGpu) {
  v1::Version h200;
  h200.set_major(9);
  v1::Version spark;
  spark.set_major(12);
  spark.set_minor(1);
  const auto image = [](v1::ImageKind kind, uint32_t target,
                        v1::TargetSuffix suffix) {
    v1::Image result;
    result.set_kind(kind);
    result.mutable_target()->set_number(target);
    result.mutable_target()->set_suffix(suffix);
    return result;
  };
  constexpr auto kSass = v1::IMAGE_KIND_SASS;
  constexpr auto kPtx = v1::IMAGE_KIND_PTX;
  constexpr auto kNone = v1::TARGET_SUFFIX_NONE;
  constexpr auto kArch = v1::TARGET_SUFFIX_ARCH;
  constexpr auto kFamily = v1::TARGET_SUFFIX_FAMILY;
  EXPECT_TRUE(FitsGpu(image(kSass, 90, kNone), h200, v1::PATH_PLAIN));
  EXPECT_FALSE(FitsGpu(image(kSass, 90, kNone), h200, v1::PATH_PTX_JIT));
  EXPECT_FALSE(FitsGpu(image(kSass, 80, kNone), h200, v1::PATH_PLAIN));
  EXPECT_TRUE(FitsGpu(image(kSass, 120, kNone), spark, v1::PATH_NATIVE));
  EXPECT_FALSE(FitsGpu(image(kSass, 120, kArch), spark, v1::PATH_NATIVE));
  EXPECT_TRUE(FitsGpu(image(kSass, 120, kFamily), spark, v1::PATH_NATIVE));
  EXPECT_TRUE(FitsGpu(image(kPtx, 75, kNone), h200, v1::PATH_PTX_JIT));
  EXPECT_FALSE(FitsGpu(image(kPtx, 75, kNone), h200, v1::PATH_NATIVE));
  EXPECT_FALSE(FitsGpu(image(kPtx, 100, kNone), h200, v1::PATH_PLAIN));
  EXPECT_FALSE(
      FitsGpu(image(v1::IMAGE_KIND_LTO_IR, 90, kNone), h200, v1::PATH_PLAIN));
}

TEST(TraceSetupTest, FindsCuptiOfTheNewestMajorFirst) {
  auto root = TempDirectory::Make();
  ASSERT_THAT(root, IsOk());
  for (const char* path :
       {"/usr/local/lib/python3.12/dist-packages/nvidia/cuda_cupti/lib/"
        "libcupti.so.12",
        "/usr/local/lib/python3.12/dist-packages/nvidia/cu13/lib/"
        "libcupti.so.13",
        "/usr/local/lib/python3.12/dist-packages/nvidia/cu13/lib/"
        "libcupti.so.2025.3.1"}) {
    ASSERT_THAT(MakeDirectories(DirName(root->path() + path)), IsOk());
    ASSERT_THAT(WriteFileAtomic(root->path() + path, path), IsOk());
  }
  const std::vector<std::string> found = FindCupti(root->path(), {});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0], EndsWith("libcupti.so.13"));
  EXPECT_THAT(found[1], EndsWith("libcupti.so.12"));
}

// Libraries in foreign processes: nothing a host may not have.
TEST(TraceLibraries, NeedNoNewSymbolAndNoCppRuntime) {
  for (const char* name : {"twinpath-audit.so", "twinpath-trace.so"}) {
    ProcessOptions options;
    options.argv = {"readelf", "-dVW",
                    JoinPath(std::getenv("TWINPATH_BIN_DIR"), name)};
    options.environment = MinimalEnvironment();
    const auto result = RunProcess(options);
    if (!result.ok()) GTEST_SKIP() << "no readelf: " << result.status();
    ASSERT_TRUE(result->succeeded()) << result->err.head;
    const std::string& text = result->out.head;
    EXPECT_THAT(text, Not(HasSubstr("libstdc++")));
    EXPECT_THAT(text, Not(HasSubstr("libgcc_s")));
    for (size_t at = text.find("GLIBC_2."); at != std::string::npos;
         at = text.find("GLIBC_2.", at + 1)) {
      EXPECT_LE(std::atoi(text.c_str() + at + 8), 17)
          << name << ": " << text.substr(at, 12);
    }
  }
}

// A loader that cannot load the auditor says so and starts the program.
TEST_F(TraceTest, AnAuditorThatCannotLoadLeavesTheProgramAlone) {
  v1::RunRequest request = TraceRequest({"exit", "3"});
  v1::EnvironmentVariable& variable = *request.add_experiment_environment();
  variable.set_name("LD_AUDIT");
  variable.set_value("/etc/hostname");
  request.set_traced(false);
  const v1::Observation run = Run(request);
  EXPECT_EQ(run.exit_code(), 3);
  auto folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const auto setup = TraceSetup::Make(folder->path());
  ASSERT_THAT(setup, IsOk());
  const TraceRecords records = ReadTraceRecords(setup->folder());
  EXPECT_FALSE(records.objects_tracer.started());
  EXPECT_THAT(records.objects_tracer.problem(),
              HasSubstr("no process loaded it"));
}

}  // namespace
}  // namespace twinpath::runner
