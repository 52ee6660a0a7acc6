// Lines between the processes of the image loader: what is written is read, and
// nothing else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_matchers.h"
#include "runner/load_answer.h"
#include "runner/load_job.h"
#include "runner/load_list.h"

namespace twinpath::runner {
namespace {

TEST(LoadLines, AnAnswerComesBackAsItWas) {
  LoadAnswer answer;
  answer.id = 7;
  answer.state = LoadAnswer::State::kRefused;
  answer.cuda_error = 218;
  answer.linked = true;
  answer.functions = 3;
  answer.kernels = 2;
  answer.duration = absl::Microseconds(1234);
  answer.device_bytes = 99;
  answer.log = std::string("two\nlines, and\0 a zero\xff", 23);
  answer.odd = {{"a kernel\n", 80, 90}, {"", 1, 2}};
  const auto read = LoadAnswer::Parse(answer.Line());
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->Line(), answer.Line());
  EXPECT_EQ(read->log, answer.log);
  ASSERT_EQ(read->odd.size(), 2u);
  EXPECT_EQ(read->odd[0].name, "a kernel\n");
  EXPECT_EQ(read->odd[0].binary_version, 90u);
}

TEST(LoadLines, ALongLogIsCut) {
  LoadAnswer answer;
  answer.state = LoadAnswer::State::kLoaded;
  answer.log = std::string(1 << 20, 'x');
  const auto read = LoadAnswer::Parse(answer.Line());
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->log.size(), kMostLogBytes);
}

TEST(LoadLines, WhatIsNoAnswerIsRefused) {
  for (const char* line :
       {"", "image", "image 1 1 0 0 0 0 0 0", "image 1 0 0 0 0 0 0 0 -",
        "image 1 8 0 0 0 0 0 0 -", "image -1 1 0 0 0 0 0 0 -",
        "image 1 1 0 2 0 0 0 0 -", "image 1 1 0 0 0 0 -5 0 -",
        "image 1 1 0 0 0 0 0 0 - 1", "image 1 1 0 0 0 0 0 0 - 1 2 -  ",
        "image 1 1 0 0 0 0 0 0 !!!", "noise on standard output",
        // A refusal has a number, and nothing else has.
        "image 1 2 0 0 0 0 0 0 -", "image 1 1 209 0 0 0 0 0 -"}) {
    EXPECT_FALSE(LoadAnswer::Parse(line).ok()) << line;
  }
}

TEST(LoadLines, Hello) {
  LoadHello up;
  up.up = true;
  up.device = 121;
  up.device_bytes = 1 << 30;
  auto read = LoadHello::Parse(up.Line());
  ASSERT_THAT(read, IsOk());
  EXPECT_TRUE(read->up);
  EXPECT_EQ(read->device, 121u);
  LoadHello down;
  down.code = "TP102";
  down.cuda_error = 803;
  down.text = "cuInit: why";
  read = LoadHello::Parse(down.Line());
  ASSERT_THAT(read, IsOk());
  EXPECT_FALSE(read->up);
  EXPECT_EQ(read->text, "cuInit: why");
  for (const char* line : {"up", "up x 1", "down TP1 1 -", "noise"}) {
    EXPECT_FALSE(LoadHello::Parse(line).ok()) << line;
  }
}

TEST(LoadLines, AListComesBackAsItWas) {
  v1::FileReport report;
  v1::Fatbin& fatbin = *report.add_fatbins();
  fatbin.set_index(3);
  v1::Image& image = *fatbin.add_images();
  image.set_kind(v1::IMAGE_KIND_RELOCATABLE_PTX);
  image.mutable_target()->set_number(90);
  image.mutable_target()->set_suffix(v1::TARGET_SUFFIX_ARCH);
  image.set_offset(100);
  image.set_stored_bytes(20);
  image.set_expanded_bytes(30);
  image.set_compression(v1::COMPRESSION_ZSTD);
  v1::Fatbin& damaged = *report.add_fatbins();
  damaged.set_damaged(true);
  damaged.add_images();
  LoadList list;
  list.Add("/a folder/with\nodd name", report);
  ASSERT_EQ(list.images.size(), 1u);
  const auto read = LoadList::Parse(list.Text());
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->Text(), list.Text());
  EXPECT_EQ(read->files[0], "/a folder/with\nodd name");
  EXPECT_TRUE(read->images[0].job.ptx);
  EXPECT_TRUE(read->images[0].relocatable);
  EXPECT_EQ(read->images[0].fatbin, 3u);
}

TEST(LoadLines, WhatIsNoListIsRefused) {
  for (const char* text :
       {"image 0 0 0 1 0 1 0 1 1 1 0 90\n", "options 0 1 0 1\n",
        "options 1 65 0 1\n", "file !!\n", "x\n",
        "file Zg\nimage 0 0 0 1 5 1 0 1 1 1 0 90\n"}) {
    EXPECT_FALSE(LoadList::Parse(text).ok()) << text;
  }
}

// Appendix on compute capabilities of the CUDA Programming Guide.
TEST(LoadLines, WhichImagesAreForADevice) {
  const auto fits = [](uint32_t number, v1::TargetSuffix suffix, bool ptx,
                       uint32_t device) {
    LoadImage image;
    image.job.number = number;
    image.job.ptx = ptx;
    image.suffix = suffix;
    return image.Fits(device);
  };
  constexpr auto kNone = v1::TARGET_SUFFIX_NONE;
  constexpr auto kArch = v1::TARGET_SUFFIX_ARCH;
  constexpr auto kFamily = v1::TARGET_SUFFIX_FAMILY;
  EXPECT_TRUE(fits(80, kNone, false, 86));
  EXPECT_FALSE(fits(86, kNone, false, 80));
  EXPECT_FALSE(fits(80, kNone, false, 90));
  EXPECT_TRUE(fits(80, kNone, true, 121));
  EXPECT_FALSE(fits(100, kNone, true, 90));
  EXPECT_TRUE(fits(90, kArch, false, 90));
  EXPECT_FALSE(fits(100, kArch, true, 103));
  EXPECT_TRUE(fits(120, kFamily, false, 121));
  EXPECT_FALSE(fits(100, kFamily, true, 121));
}

}  // namespace
}  // namespace twinpath::runner
