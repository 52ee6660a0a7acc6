// Which files of an artifact take part in an entry, and what it needs of them.

#ifndef TWINPATH_COMPAT_ENTRY_PLAN_H_
#define TWINPATH_COMPAT_ENTRY_PLAN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "compat/image_environment.h"
#include "compat/loader.h"
#include "compat/predict.h"
#include "compat/prepared.h"
#include "twinpath/v1/release.pb.h"

namespace twinpath::compat::internal {

// What of an entry does not depend on the host.
struct EntryPlan {
  std::vector<const FileView*> files;
  bool program_first = false;
  PredictOptions options;

  size_t Bytes() const {
    size_t bytes = sizeof(EntryPlan) + files.size() * sizeof(void*);
    for (const std::string& kernel : options.needed_kernels) {
      bytes += kernel.size() + sizeof(std::string);
    }
    return bytes;
  }
};

// The program with what it needs inside the artifact, what the entry covers and
// libraries that hold a kernel it names; every file where the program is not
// one of them. With an image: inside that image.
EntryPlan PlanOf(const std::vector<FileView>& all, const v1::Entry& entry,
                 const LoaderModel& loader,
                 const std::optional<ImagePlace>& image);

}  // namespace twinpath::compat::internal

#endif  // TWINPATH_COMPAT_ENTRY_PLAN_H_
