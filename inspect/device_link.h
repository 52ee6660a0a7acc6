// What device link (nvlink) did to virtual architectures. Pure; thread-safe.

#ifndef TWINPATH_INSPECT_DEVICE_LINK_H_
#define TWINPATH_INSPECT_DEVICE_LINK_H_

#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Adds the finding TP234 for images that nvlink made for a target above their
// virtual architecture while the file's own link inputs say that at least one
// of them was compiled for a higher one: the lowest of the inputs counts for
// the whole image. One finding a file, naming the first image and their number.
void AddClampedImages(v1::FileReport& report);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_DEVICE_LINK_H_
