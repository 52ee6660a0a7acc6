// Case files (case.proto) read from tests/compat/cases, and what a case states
// turned into what the libraries take.

#ifndef TWINPATH_TESTS_COMPAT_CASE_FILE_H_
#define TWINPATH_TESTS_COMPAT_CASE_FILE_H_

#include <string>
#include <vector>

#include "case.pb.h"
#include "compat/predict.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

// A file or folder of the source tree; also where the environment does not say,
// as when ctest asks for the tests' names.
std::string SourcePath(const std::string& relative);

// Names of all cases, without ".txtpb", sorted. {"missing"} where there is no
// folder, so that a test says so.
std::vector<std::string> CaseNames();

// Reads a case. Adds a test failure and returns an empty one when it cannot.
test::Case ReadCase(const std::string& name);

// The report that the stored files make.
v1::ArtifactReport StoredReport(const test::Case& the_case);

// Facts of the host an answer is expected on.
v1::HostFacts HostOf(const test::Expected& expected);

// The three paths an answer is about: of the artifact, or of expected.file().
std::vector<v1::PathPrediction> PredictionFor(const Predictor& predictor,
                                              const test::Expected& expected);

// Adds a test failure for everything in which the predictions are not the
// answer expected. `how` tells stored and built apart.
void CheckAnswer(const std::vector<v1::PathPrediction>& paths,
                 const test::Expected& expected, const std::string& how);

// Adds a test failure where the loader takes other libraries than expected.
void CheckResolved(v1::ArtifactReport report, const test::Resolved& resolved,
                   const std::string& how);

}  // namespace twinpath::compat

#endif  // TWINPATH_TESTS_COMPAT_CASE_FILE_H_
