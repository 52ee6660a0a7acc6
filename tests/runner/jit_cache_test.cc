#include "runner/jit_cache.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace twinpath::runner {
namespace {

// As found on a host with driver 580.159.04 and CUDA 13.0.
TEST(JitCache, WriterIsReadFromTheHead) {
  const std::string header("\x01\0T~;H", 6);
  EXPECT_EQ(CacheWriterOf(absl::StrCat(
                header, "Apr 29 202617:12:06HOST64sm_90\n.version 9.0\n")),
            "Apr 29 2026 17:12:06");
  EXPECT_EQ(
      CacheWriterOf(absl::StrCat(header, "Aug 20 202514:13:52HOST64sm_90BC")),
      "Aug 20 2025 14:13:52");
  // One digit of the day, and strings that end in zero bytes.
  EXPECT_EQ(CacheWriterOf(std::string("Jan  2 2024\0"
                                      "01:02:03\0HOST64",
                                      27)),
            "Jan  2 2024 01:02:03");
}

TEST(JitCache, NoStampIsEmpty) {
  EXPECT_EQ(CacheWriterOf(""), "");
  EXPECT_EQ(CacheWriterOf("Apr "), "");
  EXPECT_EQ(CacheWriterOf("Apr 29 2026"), "");
  EXPECT_EQ(CacheWriterOf("Apr 29 202617:12:0"), "");
  EXPECT_EQ(CacheWriterOf("Apx 29 202617:12:06"), "");
  // Behind the bytes that are looked at.
  EXPECT_EQ(CacheWriterOf(absl::StrCat(std::string(kCacheHeadBytes, ' '),
                                       "Apr 29 202617:12:06")),
            "");
  // The first that is no stamp hides none.
  EXPECT_EQ(CacheWriterOf("Apr Apr 29 202617:12:06"), "Apr 29 2026 17:12:06");
}

TEST(JitCache, WritersAreCountedUpToACap) {
  v1::CacheEvidence evidence;
  CountCacheEntry("a", evidence);
  CountCacheEntry("", evidence);
  CountCacheEntry("a", evidence);
  ASSERT_EQ(evidence.writers_size(), 2);
  EXPECT_FALSE(evidence.writers_left_out());
  EXPECT_EQ(evidence.writers(0).entries(), 2u);
  EXPECT_EQ(evidence.writers(1).built(), "");
  for (int i = 0; i < 100; ++i) CountCacheEntry(absl::StrCat(i), evidence);
  EXPECT_EQ(evidence.writers_size(), kMaxCacheWriters);
  EXPECT_TRUE(evidence.writers_left_out());
}

}  // namespace
}  // namespace twinpath::runner
