// The wire and storage contract: nothing released may change its meaning, and
// everything says what it is.

#include "tests/proto/contract.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/status_matchers.h"

namespace twinpath {
namespace {

namespace pb = google::protobuf;

std::string SourceFolder() {
  const char* folder = std::getenv("TWINPATH_SOURCE_DIR");
  return folder == nullptr ? "." : folder;
}

class ContractTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("TWINPATH_CONTRACT");
    ASSERT_NE(path, nullptr) << "set by ctest: the descriptor set's path";
    auto contract = Contract::Load(path);
    ASSERT_THAT(contract, IsOk());
    contract_ = std::move(*contract);
    ASSERT_GE(contract_->files().size(), 10u);
  }

  std::unique_ptr<Contract> contract_;
};

// "HTTPServer" -> "HTTP_SERVER", "PathRule" -> "PATH_RULE".
std::string UpperSnake(const std::string& name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    if (i > 0 && absl::ascii_isupper(name[i]) &&
        !absl::ascii_isupper(name[i - 1])) {
      out.push_back('_');
    }
    out.push_back(absl::ascii_toupper(name[i]));
  }
  return out;
}

template <typename Descriptor>
void ExpectComment(const Descriptor& descriptor) {
  pb::SourceLocation location;
  ASSERT_TRUE(descriptor.GetSourceLocation(&location))
      << descriptor.full_name();
  EXPECT_FALSE(absl::StripAsciiWhitespace(location.leading_comments).empty())
      << descriptor.full_name() << " has no comment";
}

void Lint(const pb::EnumDescriptor& type) {
  ExpectComment(type);
  EXPECT_EQ(type.value(0)->number(), 0) << type.full_name();
  const std::string prefix = UpperSnake(type.name());
  EXPECT_EQ(type.value(0)->name(), prefix + "_UNSPECIFIED");
  for (int i = 0; i < type.value_count(); ++i) {
    ExpectComment(*type.value(i));
    EXPECT_TRUE(absl::StartsWith(type.value(i)->name(), prefix + "_"))
        << type.value(i)->full_name();
  }
}

void Lint(const pb::Descriptor& type) {
  ExpectComment(type);
  for (int i = 0; i < type.field_count(); ++i) ExpectComment(*type.field(i));
  for (int i = 0; i < type.enum_type_count(); ++i) Lint(*type.enum_type(i));
  for (int i = 0; i < type.nested_type_count(); ++i) {
    if (!type.nested_type(i)->options().map_entry()) {
      Lint(*type.nested_type(i));
    }
  }
}

TEST_F(ContractTest, EverythingIsCommented) {
  for (const pb::FileDescriptor* file : contract_->files()) {
    EXPECT_EQ(file->package(), "twinpath.v1") << file->name();
    EXPECT_EQ(file->syntax(), pb::FileDescriptor::SYNTAX_PROTO3)
        << file->name();
    for (int i = 0; i < file->message_type_count(); ++i) {
      Lint(*file->message_type(i));
    }
    for (int i = 0; i < file->enum_type_count(); ++i) {
      Lint(*file->enum_type(i));
    }
    for (int i = 0; i < file->service_count(); ++i) {
      ExpectComment(*file->service(i));
      for (int m = 0; m < file->service(i)->method_count(); ++m) {
        ExpectComment(*file->service(i)->method(m));
      }
    }
  }
}

TEST_F(ContractTest, EveryFileSaysWhatItIsFor) {
  for (const pb::FileDescriptor* file : contract_->files()) {
    std::ifstream in(SourceFolder() + "/proto/" + file->name());
    std::string line;
    ASSERT_TRUE(std::getline(in, line)) << file->name();
    EXPECT_TRUE(absl::StartsWith(line, "// ")) << file->name();
  }
}

// Reserved numbers and names stay unused: protoc sees to that. What protoc does
// not see is a number that was released and is gone or means something else.
TEST_F(ContractTest, NothingReleasedIsGoneOrChanged) {
  std::ifstream in(SourceFolder() + "/proto/released/v1.txt");
  ASSERT_TRUE(in.good()) << "proto/released/v1.txt is missing";
  const std::vector<std::string> lines = ListContract(*contract_);
  const std::set<std::string> now(lines.begin(), lines.end());
  size_t released = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    ++released;
    EXPECT_TRUE(now.contains(line))
        << "released, and gone or changed: " << line
        << "\nGive a new meaning a new number, and keep the old field.";
  }
  EXPECT_GT(released, 100u);
}

TEST_F(ContractTest, ListingIsSortedAndHasNoDoubles) {
  const std::vector<std::string> lines = ListContract(*contract_);
  EXPECT_TRUE(std::is_sorted(lines.begin(), lines.end()));
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()).size(),
            lines.size());
  EXPECT_THAT(lines, ::testing::Contains(
                         "field twinpath.v1.Cell 18 class_digest optional "
                         "twinpath.v1.Digest"));
  EXPECT_THAT(lines, ::testing::Contains(
                         "field twinpath.v1.ExpectedOutput 1 exact optional "
                         "bytes oneof rule"));
  EXPECT_THAT(lines, ::testing::Contains(
                         "method twinpath.v1.AgentService.Connect stream "
                         "twinpath.v1.AgentMessage -> stream "
                         "twinpath.v1.CoordinatorMessage"));
}

TEST_F(ContractTest, NoFileIsLeftOut) {
  std::set<std::string> listed;
  for (const pb::FileDescriptor* file : contract_->files()) {
    listed.insert(file->name());
  }
  std::set<std::string> there;
  for (const auto& entry : std::filesystem::directory_iterator(
           SourceFolder() + "/proto/twinpath/v1")) {
    if (entry.path().extension() == ".proto") {
      there.insert("twinpath/v1/" + entry.path().filename().string());
    }
  }
  EXPECT_EQ(listed, there);
}

TEST(Contract, RefusesWhatIsNoDescriptorSet) {
  EXPECT_THAT(Contract::Load("/nowhere/contract.binpb"),
              StatusIs(absl::StatusCode::kNotFound));
  const std::string path = ::testing::TempDir() + "/no_descriptor_set";
  std::ofstream(path) << "\xff\xff\xff";
  EXPECT_THAT(Contract::Load(path),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace twinpath
