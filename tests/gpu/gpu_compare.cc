// Prediction beside observation, cell by cell: reads sweeps as `twinpath check`
// and `twinpath sweep` print them with --format json.
//
//   gpu_compare [--json FILE] SWEEP.json...
//
// Exit 0: prediction and observation agree in every cell and path; 1: they
// differ somewhere, or there is nothing to compare; 2: a file cannot be read.

#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "runner/paths.h"
#include "tests/gpu/row_outcome.h"
#include "twinpath/v1/sweep.pb.h"
#include "verdict/compiled.h"

namespace twinpath::gpu {
namespace {

struct Row {
  std::string gpu;
  std::string entry;
  std::string path;
  std::string predicted;
  std::string observed;
  std::string verdict;
  bool equal = false;
};

std::string Predicted(const v1::PathPrediction& prediction) {
  switch (prediction.outcome()) {
    case v1::OUTCOME_NATIVE:
      return "native";
    case v1::OUTCOME_JIT:
      return "jit";
    case v1::OUTCOME_FAILS:
      for (const v1::Reason& reason : prediction.reasons()) {
        if (reason.cuda_error() != 0) return absl::StrCat(reason.cuda_error());
      }
      return "fails";
    case v1::OUTCOME_NO_DEVICE_CODE:
      return "no device code";
    default:
      return "unknown";
  }
}

// What was seen, in the words of a prediction. `proof` is the repeat of a
// forced JIT run, if there is one.
std::string Observed(const v1::Observation& run, const v1::Observation* proof) {
  if (run.ending() != v1::ENDING_EXITED) return Outcome(run);
  if (const uint32_t error = CudaErrorOf(run); error != 0) {
    return absl::StrCat(error);
  }
  // What the agent found; a simulated run has nothing else.
  for (const v1::Reason& reason : run.errors()) {
    if (reason.cuda_error() != 0) return absl::StrCat(reason.cuda_error());
  }
  if (run.exit_code() != 0) return absl::StrCat("exit ", run.exit_code());
  if (run.path() == v1::PATH_PLAIN) {
    return verdict::DriverCompiled(run.cache()) ? "jit" : "native";
  }
  if (run.path() == v1::PATH_PTX_JIT) {
    return proof != nullptr && verdict::DriverCompiled(proof->cache())
               ? "jit"
               : "not compiled";
  }
  return "native";
}

// A program without device code runs everywhere, whatever the path.
bool Equal(const std::string& predicted, const std::string& observed) {
  if (predicted == "no device code") {
    return observed == "native" || observed == "not compiled";
  }
  return predicted == observed;
}

void CompareCell(const v1::Cell& cell, const std::string& name,
                 std::vector<Row>& rows) {
  const v1::Observation* proof = nullptr;
  for (const v1::Observation& run : cell.result().observations()) {
    if (run.jit_proof()) proof = &run;
  }
  for (const v1::PathPrediction& prediction : cell.predictions()) {
    Row row;
    row.gpu =
        absl::StrCat(cell.gpu_name(), " ", cell.compute_capability().major(),
                     ".", cell.compute_capability().minor());
    row.entry = name;
    row.path = std::string(runner::PathName(prediction.path()));
    row.predicted = Predicted(prediction);
    row.observed = "not run";
    row.verdict = v1::VerdictKind_Name(cell.verdict().kind()).substr(13);
    for (const v1::Observation& run : cell.result().observations()) {
      if (run.path() != prediction.path() || run.jit_proof() || run.traced()) {
        continue;
      }
      row.observed = Observed(run, proof);
    }
    row.equal = Equal(row.predicted, row.observed);
    rows.push_back(row);
  }
}

int Main(int argc, char** argv) {
  std::string json_file;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json" && i + 1 < argc) {
      json_file = argv[++i];
    } else {
      files.push_back(word);
    }
  }
  std::vector<Row> rows;
  for (const std::string& file : files) {
    const auto text = ReadFile(file, uint64_t{256} << 20);
    if (!text.ok()) {
      std::fprintf(stderr, "gpu_compare: error: %s\n",
                   std::string(MessageOf(text.status())).c_str());
      return 2;
    }
    v1::Sweep sweep;
    google::protobuf::util::JsonParseOptions options;
    options.ignore_unknown_fields = true;
    const auto parsed =
        google::protobuf::util::JsonStringToMessage(*text, &sweep, options);
    if (!parsed.ok()) {
      std::fprintf(stderr, "gpu_compare: error: %s: %s\n", file.c_str(),
                   parsed.ToString().c_str());
      return 2;
    }
    for (const v1::Cell& cell : sweep.cells()) {
      // `check` calls its only entry "check"; the file is named by variant.
      std::string name = cell.entry();
      if (name == "check") {
        name = std::string(BaseName(file));
        name = name.substr(0, name.rfind(".json"));
      }
      CompareCell(cell, name, rows);
    }
  }
  std::printf(
      "| gpu | variant | path | predicted | observed | equal | cell |\n"
      "|---|---|---|---|---|---|---|\n");
  size_t equal = 0;
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    equal += row.equal ? 1 : 0;
    std::printf("| %s | %s | %s | %s | %s | %s | %s |\n", row.gpu.c_str(),
                row.entry.c_str(), row.path.c_str(), row.predicted.c_str(),
                row.observed.c_str(), row.equal ? "yes" : "NO",
                row.verdict.c_str());
    lines.push_back(absl::StrCat("  {\"gpu\": ", JsonQuoted(row.gpu),
                                 ", \"variant\": ", JsonQuoted(row.entry),
                                 ", \"path\": ", JsonQuoted(row.path),
                                 ", \"predicted\": ", JsonQuoted(row.predicted),
                                 ", \"observed\": ", JsonQuoted(row.observed),
                                 ", \"equal\": ", row.equal ? "true" : "false",
                                 ", \"cell\": ", JsonQuoted(row.verdict), "}"));
  }
  std::printf("\ncells and paths %zu, equal %zu, different %zu\n", rows.size(),
              equal, rows.size() - equal);
  if (!json_file.empty()) {
    const absl::Status status = WriteFileAtomic(
        json_file, absl::StrCat("[\n", absl::StrJoin(lines, ",\n"), "\n]\n"),
        0644);
    if (!status.ok()) {
      std::fprintf(stderr, "gpu_compare: error: %s\n",
                   std::string(MessageOf(status)).c_str());
      return 2;
    }
  }
  return rows.empty() || equal != rows.size() ? 1 : 0;
}

}  // namespace
}  // namespace twinpath::gpu

int main(int argc, char** argv) { return twinpath::gpu::Main(argc, argv); }
