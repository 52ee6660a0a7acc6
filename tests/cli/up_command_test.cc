// twinpath up as its user runs it.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "tests/cli/command_test.h"

namespace twinpath::cli {
namespace {

using ::testing::HasSubstr;

using UpCommand = CommandTest;

TEST_F(UpCommand, APortInUseIsOneLine) {
  const UniqueFd other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(other.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(other.get(), 1), 0);
  ASSERT_EQ(
      getsockname(other.get(), reinterpret_cast<sockaddr*>(&address), &size),
      0);
  const std::string where = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  const Said said =
      Run({"up", "--listen", where, "--state", Path("state"), "--no-host"});
  EXPECT_EQ(said.code, kExitUsage);
  EXPECT_THAT(said.err,
              HasSubstr(absl::StrCat("error: cannot listen on ", where,
                                     ": another program does\n")));
  EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 2) << said.err;
}

}  // namespace
}  // namespace twinpath::cli
