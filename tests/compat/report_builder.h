// Reports for tests, in a line.
//
//   MakeFile("app", {"sm_90 compute_90", "kb: sm_80 compute_80@9.3"})
//
// Each string is a fatbin: optional kernel names before ':' (default k0, k1,
// ... by position; "-" for a fatbin without kernels, "?" for kernels not read),
// then images. "@9.3": PTX ISA (default 9.0). "/zstd": compressed. "rel:sm_90":
// relocatable. "sm_90[a,b]": kernels of this
// image alone. "other16": an unknown kind. Words that are no
// image tell of the fatbin: "left-over", "self-loaded", "loose" (in a file
// without wrappers), "bare", "damaged".

#ifndef TWINPATH_TESTS_COMPAT_REPORT_BUILDER_H_
#define TWINPATH_TESTS_COMPAT_REPORT_BUILDER_H_

#include <string>
#include <vector>

#include "twinpath/v1/prediction.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

// A shared library for x86-64 with registered fatbins.
v1::FileReport MakeFile(const std::string& name,
                        const std::vector<std::string>& fatbins);

// A loose file: one bare image, no host half. Kind by the image.
v1::FileReport MakeBareFile(const std::string& name, const std::string& image);

v1::ArtifactReport MakeArtifactOf(std::vector<v1::FileReport> files);
v1::ArtifactReport MakeArtifact(const std::vector<std::string>& fatbins);

// "native", "jit", "fails 209", "unknown", "no-device-code" of a path.
std::string Answer(const v1::PathPrediction& path);
// The three of a prediction: "native | fails 209 | native".
std::string Answers(const v1::Prediction& prediction);

// Whether a reason code is among the reasons.
bool HasReason(const v1::PathPrediction& path, const std::string& code);

// The first reason in words, "TP201 ...: ..."; empty: none.
std::string FirstReason(const v1::PathPrediction& path);

}  // namespace twinpath::compat

#endif  // TWINPATH_TESTS_COMPAT_REPORT_BUILDER_H_
