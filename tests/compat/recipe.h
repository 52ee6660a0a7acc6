// Builds the files of a case's recipe and has the real inspector read them.
// Files are kept by what they were made from (the recipe's text, the sources,
// the compiler), so that a second run of the tests builds nothing.

#ifndef TWINPATH_TESTS_COMPAT_RECIPE_H_
#define TWINPATH_TESTS_COMPAT_RECIPE_H_

#include <string>

#include "absl/status/statusor.h"
#include "case.pb.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

// The first program that the recipe needs and this machine lacks; empty: none.
std::string MissingProgram(const test::Recipe& recipe);

// Runs the recipe where it has not run before and returns what
// twinpath-inspect reports of the files, named as they lie in the folder.
// INTERNAL with the line and what it printed where a line fails.
absl::StatusOr<v1::ArtifactReport> BuildAndInspect(const test::Recipe& recipe);

}  // namespace twinpath::compat

#endif  // TWINPATH_TESTS_COMPAT_RECIPE_H_
