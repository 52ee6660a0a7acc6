#include "cli/json.h"

#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"

namespace twinpath::cli {
namespace {

constexpr uint64_t kMaxJsonBytes = 64u << 20;

}  // namespace

absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) {
    return absl::InternalError(absl::StrCat(
        "printing as JSON: ",
        absl::string_view(status.message().data(), status.message().size())));
  }
  return json;
}

absl::Status FromJson(absl::string_view json, absl::string_view what,
                      google::protobuf::Message* message) {
  message->Clear();
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = false;
  const auto status = google::protobuf::util::JsonStringToMessage(
      std::string(json), message, options);
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, ": not a ", message->GetDescriptor()->name(), " as JSON: ",
        absl::string_view(status.message().data(), status.message().size())));
  }
  return absl::OkStatus();
}

absl::Status LoadJson(const std::string& path,
                      google::protobuf::Message* message) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string text,
                            ReadFile(path, kMaxJsonBytes));
  return FromJson(text, path, message);
}

}  // namespace twinpath::cli
