// The gRPC services over a Coordinator. Each is a thin caller of its classes;
// the coordinator outlives them.

#ifndef TWINPATH_COORDINATOR_SERVICES_H_
#define TWINPATH_COORDINATOR_SERVICES_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <memory>

#include "coordinator/coordinator.h"

namespace twinpath::coordinator {

// Enrolment and sessions of agents.
std::unique_ptr<grpc::Service> MakeAgentService(Coordinator& coordinator);
// Blobs by digest.
std::unique_ptr<grpc::Service> MakeBlobService(Coordinator& coordinator);
// Artifacts, fleet, sweeps: what people and the command line ask.
std::unique_ptr<grpc::Service> MakeArtifactService(Coordinator& coordinator);
std::unique_ptr<grpc::Service> MakeFleetService(Coordinator& coordinator);
std::unique_ptr<grpc::Service> MakeSweepService(Coordinator& coordinator);

}  // namespace twinpath::coordinator

#endif  // TWINPATH_COORDINATOR_SERVICES_H_
