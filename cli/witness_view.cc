#include "cli/witness_view.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/reason_view.h"

namespace twinpath::cli {
namespace {

std::string Name(const v1::Witness& witness) {
  return witness.version().empty()
             ? "cuobjdump"
             : absl::StrCat("cuobjdump ", witness.version());
}

std::string Line(absl::string_view text, const ViewOptions& options) {
  return absl::StrCat("  ", Paint("witness   ", Style::kDim, options.color),
                      text, "\n");
}

std::string Differences(const v1::Witness& witness,
                        const ViewOptions& options) {
  return RenderReasonList(
      {witness.differences().begin(), witness.differences().end()}, options);
}

}  // namespace

std::string RenderWitness(const v1::FileReport& report,
                          const ViewOptions& options) {
  if (!report.has_witness()) return "";
  const v1::Witness& witness = report.witness();
  if (!witness.problem().empty()) {
    return Line(absl::StrCat("no answer: ", Printable(witness.problem())),
                options);
  }
  uint64_t images = 0;
  for (const v1::WitnessCount& count : witness.counts()) {
    images += count.images();
  }
  std::string out =
      Line(absl::StrCat(Name(witness), " lists ", images,
                        images == 1 ? " image" : " images",
                        witness.differences().empty()
                            ? (witness.explained().empty()
                                   ? ", as read here"
                                   : ", which agrees with what was read here:")
                            : ", which contradicts what was read here:"),
           options);
  for (const std::string& rule : witness.explained()) {
    absl::StrAppend(&out, "            ", Printable(rule), "\n");
  }
  return out + Differences(witness, options);
}

std::string RenderWitnessTrouble(const v1::FileReport& report,
                                 const ViewOptions& options) {
  return report.has_witness() && (!report.witness().problem().empty() ||
                                  !report.witness().differences().empty())
             ? RenderWitness(report, options)
             : "";
}

}  // namespace twinpath::cli
