// The contract as it stands in proto/twinpath/v1, with its comments, and its
// listing line by line for comparison with what was released. Read from the
// descriptor set that protoc writes at build time.

#ifndef TWINPATH_TESTS_PROTO_CONTRACT_H_
#define TWINPATH_TESTS_PROTO_CONTRACT_H_

#include <google/protobuf/descriptor.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace twinpath {

// Owns the descriptors. Not thread-safe.
class Contract {
 public:
  // Reads the descriptor set (protoc --include_imports --include_source_info)
  // at `path`. NOT_FOUND or INVALID_ARGUMENT.
  static absl::StatusOr<std::unique_ptr<Contract>> Load(
      const std::string& path);

  // Our own files, sorted by name, with source locations.
  const std::vector<const google::protobuf::FileDescriptor*>& files() const {
    return files_;
  }

 private:
  google::protobuf::DescriptorPool pool_;
  std::vector<const google::protobuf::FileDescriptor*> files_;
};

// One line for each message field, enum value and method, sorted. A line holds
// everything a peer or a stored file depends on: full name, number, label,
// type, oneof.
std::vector<std::string> ListContract(const Contract& contract);

}  // namespace twinpath

#endif  // TWINPATH_TESTS_PROTO_CONTRACT_H_
