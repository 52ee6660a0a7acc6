#include "tests/compat/case_file.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "compat/host_answer.h"
#include "compat/loader.h"
#include "compat/reason.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

std::string CasesDir() { return SourcePath("tests/compat/cases"); }

std::vector<std::string> Words(absl::string_view text) {
  return absl::StrSplit(text, ' ', absl::SkipEmpty());
}

// Kind and host half of a stored file.
void SetWord(absl::string_view word, v1::FileReport& file) {
  const auto loose = [&file](v1::FileKind kind) {
    file.set_kind(kind);
    file.clear_elf();
    for (v1::Fatbin& fatbin : *file.mutable_fatbins()) {
      fatbin.set_registration(v1::REGISTRATION_NOT_APPLICABLE);
      fatbin.set_bare(kind != v1::FILE_KIND_FATBIN);
    }
  };
  uint32_t major = 0;
  if (word == "shared") {
    file.set_kind(v1::FILE_KIND_ELF_SHARED);
  } else if (word == "program") {
    file.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
  } else if (word == "object") {
    file.set_kind(v1::FILE_KIND_ELF_OBJECT);
  } else if (word == "packed") {
    file.set_kind(v1::FILE_KIND_PACKED);
  } else if (word == "cubin") {
    loose(v1::FILE_KIND_CUBIN);
  } else if (word == "ptx") {
    loose(v1::FILE_KIND_PTX);
  } else if (word == "fatbin") {
    loose(v1::FILE_KIND_FATBIN);
  } else if (word == "text") {
    loose(v1::FILE_KIND_TEXT);
  } else if (word == "aarch64") {
    file.mutable_elf()->set_cpu_architecture(v1::CPU_ARCHITECTURE_AARCH64);
  } else if (word == "static-cudart") {
    file.mutable_elf()->set_static_cudart(true);
  } else if (absl::ConsumePrefix(&word, "cudart") &&
             absl::SimpleAtoi(word, &major)) {
    file.mutable_elf()->mutable_cudart()->set_major(major);
  } else {
    ADD_FAILURE() << "a word of a stored file that is not known: " << word;
  }
}

// "fails 209 TP201 !TP221 gaps=1" against one path.
void CheckPath(const v1::PathPrediction& path, const std::string& expected,
               const std::string& where) {
  std::string reasons;
  for (const v1::Reason& reason : path.reasons()) {
    absl::StrAppend(&reasons, "\n    ", DescribeReason(reason),
                    reason.fix().empty() ? "" : " FIX: ", reason.fix());
  }
  if (!path.settled_by().empty()) {
    absl::StrAppend(&reasons, "\n    settled by: ", path.settled_by());
  }
  std::string outcome;
  for (absl::string_view word : Words(expected)) {
    uint32_t gaps = 0;
    if (absl::StartsWith(word, "TP")) {
      EXPECT_TRUE(HasReason(path, std::string(word)))
          << where << ": no " << word << reasons;
    } else if (absl::ConsumePrefix(&word, "!")) {
      EXPECT_FALSE(HasReason(path, std::string(word)))
          << where << ": " << word << " is a false alarm" << reasons;
    } else if (absl::ConsumePrefix(&word, "gaps=") &&
               absl::SimpleAtoi(word, &gaps)) {
      EXPECT_EQ(path.gaps(), gaps) << where << reasons;
    } else {
      absl::StrAppend(&outcome, outcome.empty() ? "" : " ", word);
    }
  }
  EXPECT_EQ(Answer(path), outcome) << where << reasons;
}

}  // namespace

std::string SourcePath(const std::string& relative) {
  const char* source = std::getenv("TWINPATH_SOURCE_DIR");
  return absl::StrCat(source == nullptr ? TWINPATH_CASES_SOURCE : source, "/",
                      relative);
}

std::vector<std::string> CaseNames() {
  std::vector<std::string> names;
  const auto files = ListDirectory(CasesDir());
  if (!files.ok()) return {"missing"};
  for (const std::string& file : *files) {
    if (absl::EndsWith(file, ".txtpb")) {
      names.push_back(file.substr(0, file.size() - 6));
    }
  }
  return names;
}

test::Case ReadCase(const std::string& name) {
  test::Case the_case;
  const auto text =
      ReadFile(absl::StrCat(CasesDir(), "/", name, ".txtpb"), 1 << 20);
  if (!text.ok()) {
    ADD_FAILURE() << text.status();
    return the_case;
  }
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(*text, &the_case))
      << name;
  return the_case;
}

v1::ArtifactReport StoredReport(const test::Case& the_case) {
  v1::ArtifactReport report;
  for (const test::StoredFile& stored : the_case.stored()) {
    v1::FileReport& file = *report.add_files();
    file = MakeFile(stored.name(),
                    {stored.fatbins().begin(), stored.fatbins().end()});
    for (const std::string& word : Words(stored.is())) SetWord(word, file);
    for (const std::string& needed : stored.needed()) {
      file.mutable_elf()->add_needed(needed);
    }
    file.MergeFrom(stored.report());
  }
  return report;
}

v1::HostFacts HostOf(const test::Expected& expected) {
  v1::HostFacts facts = FakeHost(expected.on());
  facts.MergeFrom(expected.facts());
  return facts;
}

std::vector<v1::PathPrediction> PredictionFor(const Predictor& predictor,
                                              const test::Expected& expected) {
  const v1::HostFacts facts = HostOf(expected);
  const int gpu = static_cast<int>(expected.gpu());
  if (gpu >= facts.gpus_size()) {
    ADD_FAILURE() << expected.on() << " has no GPU " << gpu;
    return {};
  }
  PredictOptions options;
  options.needed_kernels.assign(expected.needed_kernels().begin(),
                                expected.needed_kernels().end());
  if (expected.whole_host()) {
    google::protobuf::RepeatedPtrField<v1::Prediction> all;
    for (const v1::Gpu* each : UsableGpus(facts)) {
      *all.Add() = predictor.Predict(facts, *each, TestTables(), options);
    }
    std::vector<v1::PathPrediction> paths;
    for (const v1::HostPath& path : CombineGpus(all)) {
      paths.push_back(path.prediction());
    }
    return paths;
  }
  const v1::Prediction prediction =
      predictor.Predict(facts, facts.gpus(gpu), TestTables(), options);
  EXPECT_EQ(prediction.gpu_uuid(), facts.gpus(gpu).uuid());
  if (expected.file().empty()) {
    return {prediction.paths().begin(), prediction.paths().end()};
  }
  std::string names;
  for (const v1::FilePrediction& file : prediction.files()) {
    if (file.name() == expected.file()) {
      return {file.paths().begin(), file.paths().end()};
    }
    absl::StrAppend(&names, " ", file.name());
  }
  ADD_FAILURE() << "no file " << expected.file() << " among" << names;
  return {};
}

void CheckAnswer(const std::vector<v1::PathPrediction>& paths,
                 const test::Expected& expected, const std::string& how) {
  ASSERT_EQ(paths.size(), 3u);
  const std::string where = absl::StrCat(
      how, ", ", expected.on(),
      expected.gpu() > 0 ? absl::StrCat(" gpu ", expected.gpu()) : "",
      expected.file().empty() ? "" : " ", expected.file());
  CheckPath(paths[0], expected.native(), where + " native");
  CheckPath(paths[1], expected.ptx_jit(), where + " ptx-jit");
  CheckPath(paths[2], expected.plain(), where + " plain");
  std::string fixes;
  std::string details;
  for (const v1::PathPrediction& path : paths) {
    for (const v1::Reason& reason : path.reasons()) {
      absl::StrAppend(&details, reason.detail(), "\n");
      if (path.path() == v1::PATH_PLAIN) {
        absl::StrAppend(&fixes, reason.fix(), "\n");
      }
    }
  }
  EXPECT_TRUE(absl::StrContains(fixes, expected.fix()))
      << where << ": \"" << expected.fix() << "\" is in no fix:\n"
      << fixes;
  EXPECT_TRUE(absl::StrContains(details, expected.says()))
      << where << ": \"" << expected.says() << "\" is in no detail:\n"
      << details;
}

void CheckResolved(v1::ArtifactReport report, const test::Resolved& resolved,
                   const std::string& how) {
  v1::HostFacts facts = FakeHost(resolved.on());
  facts.MergeFrom(resolved.facts());
  // A whole artifact: nothing lies beside its files.
  report.mutable_artifact_digest()->set_sha256(std::string(32, 'a'));
  const LoaderAnswer answer =
      LoaderModel(report).Resolve(facts, facts.gpus(0), TestTables());
  std::vector<std::string> libraries;
  for (const v1::ResolvedLibrary& library : answer.libraries) {
    libraries.push_back(absl::StrCat(
        library.soname(), " < ", library.needed_by(), ": ",
        library.source() == v1::LIBRARY_SOURCE_NONE      ? "nowhere"
        : library.source() == v1::LIBRARY_SOURCE_UNKNOWN ? "unknown"
        : library.found_by().empty()
            ? absl::StrCat("unlisted ", library.path())
            : absl::StrCat(library.found_by(), " ", library.path())));
  }
  std::vector<std::string> findings;
  for (const LoaderFinding& finding : answer.findings) {
    const std::string& name =
        report.files(static_cast<int>(finding.file)).name();
    if (finding.blocker) {
      findings.push_back(
          absl::StrCat(name, " ", finding.blocker->reason.code()));
    }
    for (const v1::Reason& remark : finding.remarks) {
      findings.push_back(absl::StrCat(name, " ", remark.code()));
    }
  }
  std::sort(libraries.begin(), libraries.end());
  EXPECT_EQ(absl::StrJoin(libraries, "\n"),
            absl::StrJoin(resolved.libraries(), "\n"))
      << how;
  EXPECT_EQ(absl::StrJoin(findings, "\n"),
            absl::StrJoin(resolved.findings(), "\n"))
      << how;
}

}  // namespace twinpath::compat
