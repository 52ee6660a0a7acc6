// The layers of an oci_image, from the top to the lowest: which of their files
// are there in the end, with whiteouts and hard links across layers honoured
// (oci_view.h has the view). For oci.cc.

#ifndef TWINPATH_INSPECT_OCI_LAYERS_H_
#define TWINPATH_INSPECT_OCI_LAYERS_H_

#include <vector>

#include "absl/status/status.h"
#include "inspect/oci.h"
#include "inspect/oci_layout.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Calls hooks.member for the files of an image. `layers`: one a layer, lowest
// first; the counts are filled in. Errors as WalkOci.
absl::Status WalkOciLayers(OciBlobs& blobs, const OciImage& image,
                           const OciHooks& hooks,
                           std::vector<v1::OciLayer>& layers);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_OCI_LAYERS_H_
