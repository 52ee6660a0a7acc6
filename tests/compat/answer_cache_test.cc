#include "compat/answer_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace twinpath::compat::internal {
namespace {

std::shared_ptr<const int> Number(int number) {
  return std::make_shared<const int>(number);
}

TEST(AnswerCache, FindsWhatWasKept) {
  AnswerCache<int> cache(10000);
  EXPECT_EQ(cache.Find("a"), nullptr);
  cache.Keep("a", Number(1), 10);
  cache.Keep("b", Number(2), 10);
  // The first answer stays.
  cache.Keep("a", Number(3), 10);
  EXPECT_EQ(*cache.Find("a"), 1);
  EXPECT_EQ(*cache.Find("b"), 2);
  EXPECT_EQ(cache.size(), 2u);
}

TEST(AnswerCache, DropsWhatWasAskedForLeastLately) {
  AnswerCache<int> cache(3500);
  for (int i = 0; i < 3; ++i) cache.Keep(absl::StrCat(i), Number(i), 1000);
  EXPECT_EQ(cache.size(), 3u);
  ASSERT_NE(cache.Find("0"), nullptr);
  cache.Keep("3", Number(3), 1000);
  EXPECT_EQ(cache.Find("1"), nullptr);
  EXPECT_NE(cache.Find("0"), nullptr);
  EXPECT_NE(cache.Find("3"), nullptr);
  EXPECT_LE(cache.bytes(), 3500u);
}

TEST(AnswerCache, KeepsNothingAboveItsBound) {
  AnswerCache<int> cache(1000);
  cache.Keep("small", Number(1), 100);
  cache.Keep("large", Number(2), 2000);
  EXPECT_EQ(cache.Find("large"), nullptr);
  EXPECT_NE(cache.Find("small"), nullptr);
}

// What was found stays valid when the cache drops it.
TEST(AnswerCache, ManyThreads) {
  AnswerCache<std::string> cache(20000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache] {
      for (int i = 0; i < 2000; ++i) {
        const std::string key = absl::StrCat("key ", i % 50);
        const std::shared_ptr<const std::string> found = cache.Find(key);
        if (found != nullptr) {
          EXPECT_EQ(*found, key);
        } else {
          cache.Keep(key, std::make_shared<const std::string>(key), 500);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(cache.bytes(), 20000u);
}

}  // namespace
}  // namespace twinpath::compat::internal
