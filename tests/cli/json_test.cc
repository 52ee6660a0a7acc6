#include "cli/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/file.h"
#include "base/status_matchers.h"
#include "twinpath/v1/artifact.pb.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Json, PrintsEveryFieldAndBytesAsBase64) {
  v1::ArtifactFile file;
  file.set_name("a\xff");
  const absl::StatusOr<std::string> json = ToJson(file);
  ASSERT_THAT(json, IsOk());
  EXPECT_THAT(*json, AllOf(HasSubstr("\"name\": \"Yf8=\""),
                           HasSubstr("\"size_bytes\": \"0\""),
                           HasSubstr("\"type\": \"FILE_TYPE_UNSPECIFIED\"")));
}

TEST(Json, RoundTripsThroughAFile) {
  v1::HostFacts facts;
  facts.set_host_name("spark-01");
  facts.add_gpus()->set_memory_bytes(uint64_t{1} << 40);
  const absl::StatusOr<TempDirectory> folder = TempDirectory::Make();
  ASSERT_THAT(folder, IsOk());
  const std::string path = JoinPath(folder->path(), "facts.json");
  const absl::StatusOr<std::string> json = ToJson(facts);
  ASSERT_THAT(json, IsOk());
  ASSERT_THAT(WriteFileAtomic(path, *json), IsOk());
  v1::HostFacts back;
  ASSERT_THAT(LoadJson(path, &back), IsOk());
  EXPECT_EQ(back.SerializeAsString(), facts.SerializeAsString());
}

TEST(Json, AnotherMessageIsRefusedByName) {
  v1::HostFacts facts;
  EXPECT_THAT(FromJson("{\"hostname\": \"x\"}", "facts.json", &facts),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("facts.json"), HasSubstr("HostFacts"))));
  EXPECT_THAT(FromJson("{", "facts.json", &facts),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace twinpath::cli
