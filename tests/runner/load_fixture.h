// Common to the tests of the image loader: the program twinpath-load with a
// driver that is none (fake_cuda/settings.h), and files of PTX to give to it.

#ifndef TWINPATH_TESTS_RUNNER_LOAD_FIXTURE_H_
#define TWINPATH_TESTS_RUNNER_LOAD_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "runner/load_images.h"

namespace twinpath::runner {

inline std::string TestVariable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "." : value;
}

class LoadFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TempDirectory::Make();
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
    const auto program = FindCompanion("twinpath-load");
    ASSERT_THAT(program, IsOk());
    options_.program = *program;
    options_.start_limit = options_.load_limit = absl::Minutes(2);
    list_.files = {JoinPath(folder_->path(), "file")};
    list_.workers = 2;
    list_.compile_limit = absl::Minutes(2);
    Drive("gpu=9.0");
  }

  // Which driver there is, and what it does.
  void Drive(const std::string& words, const std::string& variant = "full",
             const std::string& visible = "") {
    std::vector<std::string> environment = {
        absl::StrCat("LD_LIBRARY_PATH=", Driver(variant)),
        absl::StrCat("TWINPATH_FAKE_CUDA=", words)};
    if (!visible.empty()) {
      environment.push_back(absl::StrCat("CUDA_VISIBLE_DEVICES=", visible));
    }
    options_.environments = {environment};
  }
  static std::string Driver(const std::string& variant) {
    return JoinPath(TestVariable("TWINPATH_BIN_DIR"),
                    absl::StrCat("fake_drivers/", variant));
  }

  static std::string Ptx(int target, const std::string& body) {
    return absl::StrCat(".version 8.0\n.target sm_", target,
                        "\n.address_size 64\n", body);
  }
  static std::string Kernel(int target, const std::string& name = "k") {
    return Ptx(target, absl::StrCat(".visible .entry ", name, "() { ret; }\n"));
  }

  // Another image in the file, in a fatbin of its own.
  LoadImage& Add(const std::string& text, int target) {
    LoadImage& image = list_.images.emplace_back();
    image.fatbin = image.job.id =
        static_cast<uint32_t>(list_.images.size() - 1);
    image.job.form = LoadJob::Form::kBare;
    image.job.offset = bytes_.size();
    image.job.bytes = image.job.expanded = text.size();
    image.job.ptx = true;
    image.job.number = static_cast<uint32_t>(target);
    bytes_ += text;
    return image;
  }

  LoadOutcome Load() {
    EXPECT_THAT(WriteFileAtomic(list_.files[0], bytes_, 0644), IsOk());
    answers_.assign(list_.images.size(), LoadAnswer());
    return LoadImages(list_, options_, [this](const LoadAnswer& answer) {
      EXPECT_EQ(answers_[answer.id].state, LoadAnswer::State::kWaiting);
      answers_[answer.id] = answer;
    });
  }

  std::optional<TempDirectory> folder_;
  LoadWorkers options_;
  LoadList list_;
  std::string bytes_;
  std::deque<LoadAnswer> answers_;
};

}  // namespace twinpath::runner

#endif  // TWINPATH_TESTS_RUNNER_LOAD_FIXTURE_H_
