// What `twinpath inspect` prints for people: files, what packages and folders
// hold, lists of images and kernels, what was expected of them.

#ifndef TWINPATH_CLI_INSPECT_PRINTER_H_
#define TWINPATH_CLI_INSPECT_PRINTER_H_

#include <string>
#include <vector>

#include "cli/collection.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/coverage_view.h"
#include "cli/expect.h"
#include "cli/inputs.h"
#include "cli/inspect_plan.h"
#include "cli/view_options.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::cli {

// What is known of one argument of the call.
struct InspectGroup {
  InspectGroup(const InputGroup& i, const InspectPlan& plan)
      : input(i),
        files(plan.filter.targets),
        expected(plan.expected),
        each(plan.each),
        coverage(plan.filter.targets, plan.tables) {}
  const InputGroup& input;
  Collection files;
  ExpectedTargets expected;
  ExpectedTargets each;
  // What the GPUs of --target can use.
  CoverageTotals coverage;
  // Problems TP238 of single files.
  std::vector<v1::Reason> lacking;
};

// Problems TP238 of the argument: what it lacks of what is expected.
std::vector<v1::Reason> Unexpected(const InspectGroup& group);

// Refers to what it is made of. Not thread-safe.
class InspectPrinter {
 public:
  InspectPrinter(const InspectOptionsCli& options, const InspectPlan& plan,
                 Console& console)
      : options_(options),
        plan_(plan),
        console_(console),
        view_{console.width(), console.color()} {}

  // One file of its own and its members.
  void PrintFile(const InspectGroup& group,
                 const std::vector<v1::FileReport>& reports);
  // Summary and lists that were asked for of a file in a collection.
  void PrintMember(const v1::FileReport& report);
  void PrintFolder(const InspectGroup& group);
  // Also with JSON, where what is lacking is said beside it.
  void PrintExpected(const InspectGroup& group);
  // How the files were read: with --details, and where a layer is missing.
  void PrintConfinement(const v1::Confinement& confinement);

  // Whether any list had a row.
  bool any_listed() const { return any_listed_; }

 private:
  // Images and kernels that were asked for.
  std::string Lists(const v1::FileReport& report);
  void Separate();

  const InspectOptionsCli& options_;
  const InspectPlan& plan_;
  Console& console_;
  ViewOptions view_;
  bool printed_ = false;
  bool any_listed_ = false;
};

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_INSPECT_PRINTER_H_
