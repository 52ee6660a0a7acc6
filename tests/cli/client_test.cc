#include "cli/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/status_matchers.h"

namespace twinpath::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CoordinatorAddress, FlagBeforeEnvironmentBeforeDefault) {
  unsetenv("TWINPATH_COORDINATOR");
  EXPECT_EQ(CoordinatorAddress(""), "127.0.0.1:7711");
  setenv("TWINPATH_COORDINATOR", "127.0.0.1:9", 1);
  EXPECT_EQ(CoordinatorAddress(""), "127.0.0.1:9");
  EXPECT_EQ(CoordinatorAddress("localhost:8"), "localhost:8");
  unsetenv("TWINPATH_COORDINATOR");
}

TEST(CheckLoopback, OnlyThisMachine) {
  for (const char* address : {"127.0.0.1:7711", "127.8.8.8:1", "localhost:7711",
                              "[::1]:7711", "unix:/run/x.sock"}) {
    EXPECT_THAT(CheckLoopback(address), IsOk()) << address;
  }
  for (const char* address :
       {"10.0.0.1:7711", "coordinator:7711", "0.0.0.0:7711", "[2001:db8::1]:1",
        // Names that only begin like an address.
        "127.example.com:7711", "127.0.0.1.example:1"}) {
    EXPECT_THAT(CheckLoopback(address),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("only addresses of this machine")))
        << address;
  }
  for (const char* address : {"", "127.0.0.1", "localhost:", ":7711"}) {
    EXPECT_THAT(
        CheckLoopback(address),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("HOST:PORT")))
        << address;
  }
}

TEST(Client, NobodyListensIsUnavailableAndNamesTheAddress) {
  // Port 1 (tcpmux) is not served on any machine that runs these tests.
  const auto client = Client::Make("127.0.0.1:1");
  ASSERT_THAT(client, IsOk());
  EXPECT_THAT(
      (*client)->ListHosts({}),
      StatusIs(absl::StatusCode::kUnavailable,
               AllOf(HasSubstr("listing hosts"), HasSubstr("127.0.0.1:1"))));
}

}  // namespace
}  // namespace twinpath::cli
