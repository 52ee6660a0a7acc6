// What the host code registers, and what follows from it for each fatbin.

#ifndef TWINPATH_INSPECT_REGISTRATION_H_
#define TWINPATH_INSPECT_REGISTRATION_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "inspect/byte_source.h"
#include "inspect/elf_view.h"
#include "inspect/report_budget.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Of one file. Without Read it is one in which wrappers do not exist.
class Registration {
 public:
  // Puts the wrappers of the file into its report, which has all fatbins.
  // `complete`: none was left out. What goes wrong is a problem of the report.
  absl::Status Read(const ByteSource& source, const ElfView& elf, bool complete,
                    ReportBudget& budget, v1::FileReport& report);

  // Sets what a fatbin's images and the wrappers say about it together. Its
  // images are read. Thread-safe for different fatbins.
  void Settle(v1::Fatbin& fatbin) const;

 private:
  v1::Registration Of(const v1::Fatbin& fatbin) const;

  absl::flat_hash_set<uint64_t> registered_;
  bool applies_ = false;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_REGISTRATION_H_
