// The command that keeps references, and what `check` is told about results.

#include <string>

#include "cli/app_builder.h"

namespace twinpath::cli {

void Builder::CheckResults(CLI::App* sub) {
  CheckResultOptions& results = o_.check.results;
  sub->add_option("--expect-numbers", results.expect_numbers,
                  "File whose words and numbers standard output must have, "
                  "numbers within the tolerance");
  sub->add_option("--compare", results.compare,
                  "How runs are compared: exact (default), numbers, off")
      ->check(CLI::IsMember({"exact", "numbers", "off"}));
  sub->add_option("--absolute", results.absolute,
                  "Tolerance: numbers may be so far apart, such as 1e-6");
  sub->add_option("--relative", results.relative,
                  "Tolerance: and this part of the expected number more");
  sub->add_flag("--nan-equals-nan", results.nan_equals_nan,
                "Tolerance: a NaN equals a NaN");
  AddRepeated(sub, "--output-file", results.files,
              "File the program leaves in its working folder; it must be "
              "there and is compared");
  sub->add_option("--reference", results.reference,
                  "Compare with the results in this file");
  sub->add_option("--save-reference", results.save_reference,
                  "Write standard output and files of the native run here");
}

void Builder::Reference() {
  CLI::App* sub = Command(
      app_, "reference",
      "Keeps results of a run, for later runs to be compared with\n"
      "\n"
      "  twinpath check --save-reference small.ref.json build/app -- --small\n"
      "  twinpath reference record --from SWEEP --entry small -o "
      "small.ref.json\n"
      "  twinpath check --reference small.ref.json build/app -- --small\n"
      "\n"
      "In a sweep file: reference: small.ref.json. Numbers are compared "
      "within\n"
      "a tolerance where the entry says compare: {numbers: {...}}.");
  sub->require_subcommand(1);
  CLI::App* record = Command(*sub, "record", "Writes a reference file");
  record
      ->add_option("--from", o_.reference.from,
                   "A sweep, or a file of check or sweep show with --format "
                   "json")
      ->required();
  record->add_option("-o,--out", o_.reference.out, "Where it goes")->required();
  record->add_option("--entry", o_.reference.entry,
                     "Entry (default: the only one)");
  record->add_option("--host", o_.reference.host,
                     "Host (default: the first; all must agree)");
  record
      ->add_option("--path", o_.reference.path,
                   "native, plain or ptx-jit (default: the first of these that "
                   "ran well)")
      ->check(CLI::IsMember({"native", "plain", "ptx-jit"}));
  record->callback([this] {
    run_ = [this](Console& c) {
      o_.reference.coordinator = o_.coordinator;
      return RunReferenceRecord(o_.reference, c);
    };
  });
  CLI::App* show = Command(*sub, "show", "What a reference file holds");
  show->add_option("FILE", o_.reference_file, "Reference file")->required();
  show->callback([this] {
    run_ = [this](Console& c) {
      return RunReferenceShow(o_.reference_file, c);
    };
  });
}

}  // namespace twinpath::cli
