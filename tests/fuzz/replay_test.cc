// Runs every seed and every input that once broke a reader through the fuzz
// targets, whole, cut and with bytes changed. Findings of `tools/fuzz` go to
// regressions/<target>/ and stay fixed from then on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/fuzz/targets.h"

namespace twinpath::fuzz {
namespace {

constexpr uint64_t kMaxSeedBytes = 8 << 10;
constexpr uint64_t kMaxSeedsTotal = 300 << 10;

std::string Folder(absl::string_view kind, absl::string_view target) {
  const char* const root = std::getenv("TWINPATH_SOURCE_DIR");
  return JoinPath(
      JoinPath(JoinPath(root != nullptr ? root : ".", "tests/fuzz"), kind),
      target);
}

// Name and content, by name.
std::vector<std::pair<std::string, std::string>> Inputs(
    absl::string_view kind, absl::string_view target) {
  std::vector<std::pair<std::string, std::string>> inputs;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(Folder(kind, target), error)) {
    const absl::StatusOr<std::string> bytes =
        ReadFile(entry.path().string(), uint64_t{1} << 20);
    EXPECT_THAT(bytes, IsOk()) << entry.path();
    if (bytes.ok()) inputs.emplace_back(entry.path().filename(), *bytes);
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

class Replay : public ::testing::TestWithParam<Target> {};

TEST_P(Replay, Seeds) {
  const auto inputs = Inputs("seeds", GetParam().name);
  ASSERT_FALSE(inputs.empty()) << Folder("seeds", GetParam().name);
  for (const auto& [name, bytes] : inputs) {
    SCOPED_TRACE(name);
    EXPECT_LE(bytes.size(), kMaxSeedBytes);
    GetParam().run(bytes);
  }
}

TEST_P(Replay, Regressions) {
#ifdef __SANITIZE_THREAD__
  // Else the exponential name runs to its end, which takes years.
  if (GetParam().name == "demangle") {
    GTEST_SKIP() << "ThreadSanitizer holds signals back, so no alarm comes";
  }
#endif
  for (const auto& [name, bytes] : Inputs("regressions", GetParam().name)) {
    SCOPED_TRACE(name);
    GetParam().run(bytes);
  }
}

// The same everywhere and every time: a step that is no divisor, values that
// break sizes and signs.
TEST_P(Replay, SeedsCutAndChanged) {
  for (const auto& [name, bytes] : Inputs("seeds", GetParam().name)) {
    SCOPED_TRACE(name);
    const size_t step = std::max<size_t>(1, bytes.size() / 61);
    for (size_t at = 0; at < bytes.size(); at += step) {
      GetParam().run(absl::string_view(bytes).substr(0, at));
      for (const char value : {'\xff', '\x80', '\x01'}) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(changed[at] ^ value);
        GetParam().run(changed);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Replay, ::testing::ValuesIn(Targets()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(Seeds, AreSmallInAll) {
  uint64_t total = 0;
  for (const Target& target : Targets()) {
    for (const auto& [name, bytes] : Inputs("seeds", target.name)) {
      total += bytes.size();
    }
  }
  EXPECT_LE(total, kMaxSeedsTotal);
}

}  // namespace
}  // namespace twinpath::fuzz
