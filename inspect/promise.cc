#include "inspect/promise.h"

#include <string>

#include "absl/strings/match.h"

namespace twinpath::inspect {

class PackageJudge::State {
 public:
  explicit State(absl::string_view name) : name(name) {}
  std::string name;
};

PackageJudge::PackageJudge(absl::string_view carrier_name, absl::string_view)
    : state_(std::make_unique<State>(carrier_name)) {}
PackageJudge::~PackageJudge() = default;

bool PackageJudge::Wants(absl::string_view member_path) const {
  return absl::EndsWith(member_path, ".dist-info/WHEEL");
}

void PackageJudge::Metadata(absl::string_view, absl::string_view) {}
void PackageJudge::Member(const v1::FileReport&) {}

void PackageJudge::Finish(v1::FileReport& carrier) {
  if (absl::EndsWith(state_->name, ".whl")) {
    carrier.mutable_carrier()->set_format("wheel");
  }
}

}  // namespace twinpath::inspect
