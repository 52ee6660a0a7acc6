#include "compat/kernel_owner.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace twinpath::compat {

const v1::FileReport* KernelOwners::FileOf(const std::string& kernel,
                                           bool& all_read) const {
  all_read = report_ != nullptr && report_->files_size() > 0;
  if (report_ == nullptr) return nullptr;
  for (const v1::FileReport& file : report_->files()) {
    all_read = all_read && file.kernels_read();
    for (const v1::Fatbin& fatbin : file.fatbins()) {
      for (const v1::Image& image : fatbin.images()) {
        for (const v1::Kernel& own : image.kernels()) {
          if (own.name() == kernel) return &file;
        }
      }
    }
  }
  return nullptr;
}

std::string KernelOwners::Describe(const std::string& kernel) const {
  bool all_read = false;
  const v1::FileReport* file = FileOf(kernel, all_read);
  if (file != nullptr) return absl::StrCat("of ", Printable(file->name()));
  const KernelOwnerRow* row =
      tables_ == nullptr ? nullptr : tables_->OwnerOfKernel(kernel);
  if (row != nullptr) return absl::StrCat("of ", row->owner);
  return all_read ? "of no file of the artifact" : "";
}

bool KernelOwners::IsVendors(const std::string& kernel) const {
  if (kernel.empty() || tables_ == nullptr) return false;
  bool all_read = false;
  if (FileOf(kernel, all_read) != nullptr) return false;
  const KernelOwnerRow* row = tables_->OwnerOfKernel(kernel);
  return row != nullptr && row->vendor;
}

}  // namespace twinpath::compat
