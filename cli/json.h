// Protobuf messages as JSON and back: what `--format json` prints, what
// `twinpath record` writes and facts files hold.

#ifndef TWINPATH_CLI_JSON_H_
#define TWINPATH_CLI_JSON_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace twinpath::cli {

// Returns indented JSON that ends with a line feed. Fields without presence are
// always printed. INTERNAL if the message cannot be printed.
absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message);

// Parses JSON into `message`, which is cleared first. Unknown fields are an
// error. INVALID_ARGUMENT names `what`.
absl::Status FromJson(absl::string_view json, absl::string_view what,
                      google::protobuf::Message* message);

// Reads a JSON file of at most 64 MiB into `message`.
absl::Status LoadJson(const std::string& path,
                      google::protobuf::Message* message);

}  // namespace twinpath::cli

#endif  // TWINPATH_CLI_JSON_H_
