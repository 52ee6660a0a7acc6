// What an ELF file says about its host half.

#ifndef TWINPATH_INSPECT_HOST_FACTS_H_
#define TWINPATH_INSPECT_HOST_FACTS_H_

#include "absl/status/status.h"
#include "inspect/byte_source.h"
#include "inspect/dynamic.h"
#include "inspect/elf_view.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Sets `report.elf` and the report's kind, adds run-time compilers and what is
// damaged. Read errors.
absl::Status AddHostFacts(const ByteSource& source, const ElfView& elf,
                          const DynamicTable& dynamic, v1::FileReport& report);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_HOST_FACTS_H_
