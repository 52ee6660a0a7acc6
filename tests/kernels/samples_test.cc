// The committed samples are what their list says, so that a test that fails on
// them fails for its own reason.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status_matchers.h"

namespace twinpath {
namespace {

TEST(Samples, AreWhatTheirListSays) {
  const char* source = std::getenv("TWINPATH_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  const std::string folder = JoinPath(source, "tests/data/samples");
  const auto sums = ReadFile(JoinPath(folder, "SHA256SUMS"), 64 << 10);
  ASSERT_THAT(sums, IsOk());
  int files = 0;
  for (const absl::string_view line :
       absl::StrSplit(*sums, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    ASSERT_EQ(words.size(), 2u);
    const auto digest = Sha256OfFile(JoinPath(folder, words[1]));
    ASSERT_THAT(digest, IsOk());
    EXPECT_EQ(digest->Hex(), words[0]) << words[1];
    ++files;
  }
  EXPECT_EQ(files, 6);
}

}  // namespace
}  // namespace twinpath
