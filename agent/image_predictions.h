// What is predicted for each image of a lease's artifact, put beside what the
// driver did with it (entries of kind IMAGES). The files are read in the
// inspector's child.

#ifndef TWINPATH_AGENT_IMAGE_PREDICTIONS_H_
#define TWINPATH_AGENT_IMAGE_PREDICTIONS_H_

#include <string>

#include "twinpath/v1/artifact.pb.h"
#include "twinpath/v1/facts.pb.h"
#include "twinpath/v1/observation.pb.h"

namespace twinpath::agent {

// Predicts, groups and shortens `loads` (verdict/image_loads.h). Where the
// files or the tables cannot be read, nothing is predicted and a problem of the
// report says why.
void PredictImageLoads(const v1::Artifact& artifact, const std::string& folder,
                       const v1::HostFacts& facts, v1::ImageLoadReport& loads);

}  // namespace twinpath::agent

#endif  // TWINPATH_AGENT_IMAGE_PREDICTIONS_H_
