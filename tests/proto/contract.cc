#include "tests/proto/contract.h"

#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace twinpath {
namespace {

namespace pb = google::protobuf;

std::string TypeOf(const pb::FieldDescriptor& field) {
  if (field.type() == pb::FieldDescriptor::TYPE_MESSAGE) {
    return field.message_type()->full_name();
  }
  if (field.type() == pb::FieldDescriptor::TYPE_ENUM) {
    return field.enum_type()->full_name();
  }
  return field.type_name();
}

void List(const pb::EnumDescriptor& type, std::vector<std::string>& lines) {
  for (int i = 0; i < type.value_count(); ++i) {
    lines.push_back(absl::StrCat("enum ", type.full_name(), " ",
                                 type.value(i)->number(), " ",
                                 type.value(i)->name()));
  }
}

void List(const pb::Descriptor& type, std::vector<std::string>& lines) {
  lines.push_back(absl::StrCat("message ", type.full_name()));
  for (int i = 0; i < type.field_count(); ++i) {
    const pb::FieldDescriptor& field = *type.field(i);
    std::string line = absl::StrCat("field ", type.full_name(), " ",
                                    field.number(), " ", field.name(),
                                    field.is_repeated()    ? " repeated "
                                    : field.has_presence() ? " optional "
                                                           : " single ",
                                    TypeOf(field));
    if (field.real_containing_oneof() != nullptr) {
      absl::StrAppend(&line, " oneof ", field.real_containing_oneof()->name());
    }
    lines.push_back(std::move(line));
  }
  for (int i = 0; i < type.enum_type_count(); ++i) {
    List(*type.enum_type(i), lines);
  }
  for (int i = 0; i < type.nested_type_count(); ++i) {
    List(*type.nested_type(i), lines);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Contract>> Contract::Load(
    const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
  pb::FileDescriptorSet set;
  if (!set.ParseFromIstream(&in)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is no descriptor set"));
  }
  auto contract = std::make_unique<Contract>();
  // protoc writes imports before the files that need them.
  for (const pb::FileDescriptorProto& proto : set.file()) {
    const pb::FileDescriptor* file = contract->pool_.BuildFile(proto);
    if (file == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", proto.name(), " cannot be built"));
    }
    if (absl::StartsWith(file->name(), "twinpath/")) {
      contract->files_.push_back(file);
    }
  }
  std::sort(contract->files_.begin(), contract->files_.end(),
            [](const auto* a, const auto* b) { return a->name() < b->name(); });
  return contract;
}

std::vector<std::string> ListContract(const Contract& contract) {
  std::vector<std::string> lines;
  for (const pb::FileDescriptor* file : contract.files()) {
    for (int i = 0; i < file->message_type_count(); ++i) {
      List(*file->message_type(i), lines);
    }
    for (int i = 0; i < file->enum_type_count(); ++i) {
      List(*file->enum_type(i), lines);
    }
    for (int i = 0; i < file->service_count(); ++i) {
      const pb::ServiceDescriptor& service = *file->service(i);
      for (int m = 0; m < service.method_count(); ++m) {
        const pb::MethodDescriptor& method = *service.method(m);
        lines.push_back(
            absl::StrCat("method ", method.full_name(),
                         method.client_streaming() ? " stream " : " ",
                         method.input_type()->full_name(),
                         method.server_streaming() ? " -> stream " : " -> ",
                         method.output_type()->full_name()));
      }
    }
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace twinpath
