// Times and memory of inspect beside those of NVIDIA's cuobjdump, in one run,
// by turns: see bench/README.md.
//
//   inspect_bench [--runs N] [FILE...]
//   inspect_bench --ask list|names|full FILE     one question, no output

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "inspect/child.h"

namespace twinpath {
namespace {

struct Question {
  const char* name;
  // Option of cuobjdump that answers it.
  const char* option;
  // Largest share of cuobjdump's time that is wanted.
  double goal;
};
constexpr Question kQuestions[] = {
    {"list", "-lelf", 1.0 / 30},
    {"names", "-ltext", 1.0 / 8},
    {"full", "-ltext", 1.0 / 4},
};
constexpr uint64_t kMostMemory = uint64_t{512} << 20;

// What a daemon does: the report of a file, made by twinpath-inspect.
int Ask(const std::string& question, const std::string& file) {
  inspect::InspectOptions options;
  options.digest = false;
  options.kernels = question != "list";
  options.details = question == "full";
  const absl::StatusOr<v1::FileReport> report =
      inspect::InspectInChild(file, file, options);
  if (!report.ok()) {
    std::fprintf(stderr, "inspect_bench: %s\n",
                 report.status().ToString().c_str());
    return 1;
  }
  for (const v1::Reason& problem : report->problems()) {
    std::fprintf(stderr, "inspect_bench: %s %s\n", problem.code().c_str(),
                 problem.detail().c_str());
  }
  return report->problems().empty() ? 0 : 1;
}

struct Times {
  std::vector<double> seconds;
  uint64_t memory = 0;
  double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  double least() const {
    return *std::min_element(seconds.begin(), seconds.end());
  }
};

bool RunOnce(const std::vector<std::string>& argv, Times& times) {
  ProcessOptions options;
  options.argv = argv;
  options.environment = MinimalEnvironment();
  for (const char* name : {"TWINPATH_LIBEXEC", "TWINPATH_BIN_DIR"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) {
      options.environment.push_back(absl::StrCat(name, "=", value));
    }
  }
  options.head_bytes = 4096;
  options.timeout = absl::Minutes(5);
  const absl::StatusOr<ProcessResult> result = RunProcess(options);
  if (!result.ok() || !result->succeeded()) {
    std::fprintf(stderr, "inspect_bench: %s: %s %s\n", argv[0].c_str(),
                 result.ok() ? result->Describe().c_str()
                             : result.status().ToString().c_str(),
                 result.ok() ? result->err.head.c_str() : "");
    return false;
  }
  times.seconds.push_back(absl::ToDoubleSeconds(result->duration));
  times.memory = std::max(times.memory, result->max_rss_bytes);
  return true;
}

std::string FirstLine(const char* path, const char* start) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(start, 0) == 0) return line;
  }
  return "";
}

// Leaves `file` in the page cache as a system has it that read it from its
// disk: in the large pieces that reading ahead makes. A file that was just
// written lies there in single pages, from which reading costs twice as much.
void ReadOnceFromDisk(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)::fsync(fd);
  (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  std::vector<char> buffer(1 << 20);
  while (::read(fd, buffer.data(), buffer.size()) > 0) {
  }
  ::close(fd);
}

int Bench(int runs, const std::vector<std::string>& files) {
  const char* oracle = std::getenv("TWINPATH_ORACLE");
  const std::string cuobjdump =
      JoinPath(oracle != nullptr ? oracle : "build/oracle", "cuobjdump");
  const bool with_oracle = ::access(cuobjdump.c_str(), X_OK) == 0;
  if (!with_oracle) {
    std::printf("%s is missing (tools/oracle): our times only\n",
                cuobjdump.c_str());
  }
  const std::string self = "/proc/self/exe";
  char own_path[4096] = {};
  if (::readlink(self.c_str(), own_path, sizeof(own_path) - 1) < 0) return 1;
  std::printf("%s\n%ld CPUs, load %s, " TWINPATH_BENCH_BUILD
              " build, files read once from disk before (page cache)\n\n",
              FirstLine("/proc/cpuinfo", "model name").c_str(),
              ::sysconf(_SC_NPROCESSORS_ONLN),
              FirstLine("/proc/loadavg", "").c_str());
  std::printf(
      "| file | MB | question | ours s (least) | ours MiB | cuobjdump | "
      "theirs s (least) | theirs MiB | ours / theirs | wanted |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n");
  int rc = 0;
  for (const std::string& file : files) {
    struct stat status;
    if (::stat(file.c_str(), &status) != 0) {
      std::printf("| %s | not there | | | | | | | | |\n", file.c_str());
      continue;
    }
    ReadOnceFromDisk(file);
    for (const Question& question : kQuestions) {
      Times ours;
      Times theirs;
      bool good = true;
      for (int run = 0; run < runs && good; ++run) {
        good = RunOnce({own_path, "--ask", question.name, file}, ours) &&
               (!with_oracle ||
                RunOnce({cuobjdump, question.option, file}, theirs));
      }
      if (!good) {
        rc = 1;
        continue;
      }
      std::printf("| %s | %.0f | %s | %.3f (%.3f) | %.0f |",
                  std::string(BaseName(file)).c_str(),
                  static_cast<double>(status.st_size) / 1e6, question.name,
                  ours.median(), ours.least(),
                  static_cast<double>(ours.memory) / (1 << 20));
      if (with_oracle) {
        const double ratio = ours.median() / theirs.median();
        std::printf(" %s | %.3f (%.3f) | %.0f | 1/%.1f | 1/%.0f%s%s |\n",
                    question.option, theirs.median(), theirs.least(),
                    static_cast<double>(theirs.memory) / (1 << 20), 1 / ratio,
                    1 / question.goal,
                    ratio <= question.goal ? "" : ", not reached",
                    ours.memory <= kMostMemory ? "" : ", memory above 512 MiB");
      } else {
        std::printf(" | | | | |\n");
      }
      std::fflush(stdout);
    }
  }
  return rc;
}

}  // namespace
}  // namespace twinpath

int main(int argc, char** argv) {
  std::vector<std::string> files;
  int runs = 5;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--ask" && i + 2 < argc) {
      return twinpath::Ask(argv[i + 1], argv[i + 2]);
    }
    if (argument == "--runs" && i + 1 < argc &&
        absl::SimpleAtoi(argv[i + 1], &runs) && runs > 0) {
      ++i;
    } else if (argument.rfind("--", 0) == 0) {
      std::fprintf(stderr, "usage: inspect_bench [--runs N] [FILE...]\n");
      return 2;
    } else {
      files.push_back(argument);
    }
  }
  if (files.empty()) {
    const char* home = std::getenv("CUDA_HOME");
    const std::string folder =
        std::string(home != nullptr ? home : "/usr/local/cuda") + "/lib64/";
    files = {folder + "libcublasLt.so.13",
             folder + "libcudnn_engines_precompiled.so.9"};
  }
  return twinpath::Bench(runs, files);
}
