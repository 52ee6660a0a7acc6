// How long predictions for a fleet take: one artifact of one large library on
// 1,000 hosts, after its inspection.
//
//   compat_bench [FILE]        default: the toolkit's libcublasLt.so.13
//
// "alike": hosts of four GPU models and two drivers that differ in names, UUIDs
// and leaks alone, as a fleet is. "distinct": every host another GPU, driver or
// measured PTX ceiling, so that nothing asked before helps. One thread. Memory
// is the process's resident set.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "compat/predict.h"
#include "compat/tables.h"
#include "inspect/inspect.h"

namespace twinpath::compat {
namespace {

constexpr size_t kHosts = 1000;
constexpr int kRuns = 5;

double ResidentMiB() {
  std::ifstream in("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  in >> total >> resident;
  return static_cast<double>(resident) *
         static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

v1::HostFacts Host(size_t number, uint32_t gpu, const DriverRow& driver,
                   TwoPart ceiling) {
  v1::HostFacts facts;
  facts.set_host_name(absl::StrCat("host-", number));
  facts.set_cpu_architecture(v1::CPU_ARCHITECTURE_X86_64);
  facts.set_platform(v1::PLATFORM_STANDARD);
  v1::Driver& of = *facts.mutable_driver();
  of.mutable_probe()->set_state(v1::PROBE_STATE_OK);
  of.mutable_jit_library()->set_state(v1::PROBE_STATE_OK);
  of.set_kernel_module_version(absl::StrCat(driver.branch, ".200.01"));
  of.mutable_cuda_version()->set_major(driver.cuda.major);
  of.mutable_cuda_version()->set_minor(driver.cuda.minor);
  of.mutable_ptx_isa_probe()->set_state(v1::PROBE_STATE_OK);
  of.mutable_ptx_isa_ceiling()->set_major(ceiling.major);
  of.mutable_ptx_isa_ceiling()->set_minor(ceiling.minor);
  facts.mutable_gpu_probe()->set_state(v1::PROBE_STATE_OK);
  v1::Gpu& added = *facts.add_gpus();
  added.set_uuid(absl::StrCat("GPU-", number));
  added.set_name(absl::StrCat("GPU ", gpu));
  added.mutable_capability_probe()->set_state(v1::PROBE_STATE_OK);
  added.mutable_compute_capability()->set_major(gpu / 10);
  added.mutable_compute_capability()->set_minor(gpu % 10);
  return facts;
}

std::vector<v1::HostFacts> Alike(const Tables& tables) {
  std::vector<v1::HostFacts> hosts;
  for (size_t i = 0; i < kHosts; ++i) {
    const uint32_t gpu = std::vector<uint32_t>{80, 90, 100, 121}[i % 4];
    const DriverRow& driver = *tables.FindDriver(i % 3 == 0 ? 595 : 580);
    hosts.push_back(Host(i, gpu, driver, driver.ptx_isa));
  }
  return hosts;
}

std::vector<v1::HostFacts> Distinct(const Tables& tables) {
  std::vector<v1::HostFacts> hosts;
  for (uint32_t minor = 0; hosts.size() < kHosts; ++minor) {
    for (const GpuRow& gpu : tables.gpus()) {
      for (const DriverRow& driver : tables.drivers()) {
        // Older ones have no libcublasLt of this kind to judge.
        if (driver.cuda.major < 12 || hosts.size() == kHosts) continue;
        if (gpu.driver_last && *gpu.driver_last < driver.branch) continue;
        hosts.push_back(Host(hosts.size(), gpu.number, driver, {8, minor}));
      }
    }
  }
  return hosts;
}

struct Asked {
  double median_s = 0;
  double least_s = 0;
  uint64_t answer_bytes = 0;
};

// `ask` gives the bytes of its answer. Each run has a new Predictor.
Asked Measure(const v1::ArtifactReport& report,
              const std::vector<v1::HostFacts>& hosts,
              const std::function<uint64_t(const Predictor&,
                                           const v1::HostFacts&)>& ask) {
  std::vector<double> seconds;
  Asked asked;
  for (int run = 0; run < kRuns; ++run) {
    const Predictor predictor(report);
    const absl::Time start = absl::Now();
    asked.answer_bytes = 0;
    for (const v1::HostFacts& host : hosts) {
      asked.answer_bytes += ask(predictor, host);
    }
    seconds.push_back(absl::ToDoubleSeconds(absl::Now() - start));
  }
  std::sort(seconds.begin(), seconds.end());
  asked.median_s = seconds[kRuns / 2];
  asked.least_s = seconds[0];
  return asked;
}

int Main(int argc, char** argv) {
  const std::string path =
      argc > 1 ? argv[1] : "/usr/local/cuda/lib64/libcublasLt.so.13";
  const auto tables = Tables::Default();
  auto fd = OpenRegularFile(path);
  if (!tables.ok() || !fd.ok()) {
    std::fprintf(
        stderr, "compat_bench: error: %s\n",
        std::string((!tables.ok() ? tables.status() : fd.status()).message())
            .c_str());
    return 2;
  }
  double loads[1] = {0};
  if (getloadavg(loads, 1) != 1) loads[0] = -1;
  std::printf("build %s, load %.1f\n", TWINPATH_BENCH_BUILD, loads[0]);
  inspect::InspectOptions options;
  options.digest = false;
  const absl::Time start = absl::Now();
  auto file = inspect::InspectDescriptor(fd->get(), BaseName(path), options);
  if (!file.ok()) {
    std::fprintf(stderr, "compat_bench: error: %s\n",
                 std::string(file.status().message()).c_str());
    return 2;
  }
  std::printf("inspected in %.2f s: %d fatbins\n",
              absl::ToDoubleSeconds(absl::Now() - start), file->fatbins_size());
  v1::ArtifactReport report;
  *report.add_files() = *std::move(file);
  const double before = ResidentMiB();
  const absl::Time prepare = absl::Now();
  const Predictor predictor(report);
  std::printf("prepared in %.3f s, %.1f MiB beside a report of %.1f MiB\n\n",
              absl::ToDoubleSeconds(absl::Now() - prepare),
              ResidentMiB() - before,
              static_cast<double>(report.SpaceUsedLong()) / (1 << 20));

  v1::Entry entry;
  entry.add_command(report.files(0).name());
  PredictOptions summary;
  summary.max_kernels = 0;
  std::printf(
      "| 1,000 hosts | answer | s (least) | a host | MiB of answers |\n");
  std::printf("|---|---|---|---|---|\n");
  for (const bool distinct : {false, true}) {
    const std::vector<v1::HostFacts> hosts =
        distinct ? Distinct(**tables) : Alike(**tables);
    const auto row = [&](const char* what, const Asked& asked) {
      std::printf("| %s | %s | %.3f (%.3f) | %.0f us | %.1f |\n",
                  distinct ? "distinct" : "alike", what, asked.median_s,
                  asked.least_s, asked.median_s / kHosts * 1e6,
                  static_cast<double>(asked.answer_bytes) / (1 << 20));
      std::fflush(stdout);
    };
    row("paths of an entry",
        Measure(report, hosts,
                [&](const Predictor& of, const v1::HostFacts& host) {
                  uint64_t bytes = 0;
                  for (const auto& answer :
                       of.PredictEntry(entry, host, host.gpus(0), **tables)) {
                    bytes += answer.SpaceUsedLong();
                  }
                  return bytes;
                }));
    row("files and gaps",
        Measure(report, hosts,
                [&](const Predictor& of, const v1::HostFacts& host) {
                  return of.Predict(host, host.gpus(0), **tables, summary)
                      .SpaceUsedLong();
                }));
    row("and 1,000 kernels",
        Measure(
            report, hosts, [&](const Predictor& of, const v1::HostFacts& host) {
              return of.Predict(host, host.gpus(0), **tables).SpaceUsedLong();
            }));
  }
  std::printf("\nresident at the end: %.1f MiB\n", ResidentMiB());
  return 0;
}

}  // namespace
}  // namespace twinpath::compat

int main(int argc, char** argv) { return twinpath::compat::Main(argc, argv); }
