// Puts the device code that was found in a file into its report, and keeps
// which payloads are to be read.

#ifndef TWINPATH_INSPECT_COLLECT_H_
#define TWINPATH_INSPECT_COLLECT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "inspect/bare.h"
#include "inspect/byte_source.h"
#include "inspect/elf_view.h"
#include "inspect/fatbin.h"
#include "inspect/inspect.h"
#include "inspect/offload.h"
#include "inspect/payload.h"
#include "inspect/report_budget.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// What an architecture's name says, "sm_90a"; 0 if it is none.
struct ParsedTarget {
  uint32_t number = 0;
  v1::TargetSuffix suffix = v1::TARGET_SUFFIX_NONE;
};

// Of one file. All references must outlive it. Not thread-safe.
class CodeCollector {
 public:
  CodeCollector(const ByteSource& source, const InspectOptions& options,
                ReportBudget& budget, v1::FileReport& report)
      : source_(source), options_(options), budget_(budget), report_(report) {}

  // Each returns false when the report is full. `elf` may be null.
  bool AddFatbin(const FatbinWalk& walk, const ElfView* elf);
  // A target of 0 is not known yet. `foreign`: no code for NVIDIA's GPUs.
  bool AddBareImage(const BareImage& bare, const ElfView* elf,
                    ParsedTarget target = {}, bool foreign = false);

  // The entries of an offload bundle, each by its own kind. Read errors.
  absl::Status AddBundle(const OffloadBundle& bundle, const ElfView* elf);

  // An image of `size` bytes at the file's beginning.
  void AddFirst(uint16_t kind, uint64_t size);

  // Whether all that was found is in the report.
  bool complete() const { return complete_; }
  void set_incomplete() { complete_ = false; }

  // Those of images that are to be read.
  const std::vector<Payload>& payloads() const { return payloads_; }

 private:
  // Starts a fatbin's message; nullptr when the report is full.
  v1::Fatbin* StartFatbin(uint64_t offset, absl::string_view label,
                          uint64_t cost);
  absl::Status AddBundleEntry(const OffloadEntry& entry, const ElfView* elf);

  const ByteSource& source_;
  const InspectOptions& options_;
  ReportBudget& budget_;
  v1::FileReport& report_;
  std::vector<Payload> payloads_;
  uint32_t image_count_ = 0;
  bool complete_ = true;
  // A fatbin of the section for final code has been seen.
  bool seen_final_ = false;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_COLLECT_H_
