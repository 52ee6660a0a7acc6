// Which file or library a kernel is of, by the artifact's own report and by the
// names vendors give theirs. Thread-safe.

#ifndef TWINPATH_COMPAT_KERNEL_OWNER_H_
#define TWINPATH_COMPAT_KERNEL_OWNER_H_

#include <string>

#include "compat/tables.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::compat {

class KernelOwners {
 public:
  // Either may be null; both must outlive this.
  KernelOwners(const v1::ArtifactReport* report, const Tables* tables)
      : report_(report), tables_(tables) {}

  // "of libfoo.so" by the report, "of cuBLAS" by its name, "of no file of the
  // artifact" where all kernels of the artifact were read; empty where nothing
  // is known.
  std::string Describe(const std::string& kernel) const;

  // Whether it is a kernel of NVIDIA's own libraries that no file of the
  // artifact holds.
  bool IsVendors(const std::string& kernel) const;

 private:
  // The file that holds it; `all_read`: whether the kernels of all files are
  // known.
  const v1::FileReport* FileOf(const std::string& kernel, bool& all_read) const;

  const v1::ArtifactReport* report_;
  const Tables* tables_;
};

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_KERNEL_OWNER_H_
