// oci_images: requirements (NVIDIA Container Toolkit, "Constraints"; the
// expressions are those of nvidia/cuda images), switches, and entries predicted
// by the files of their image.

#include "compat/image_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compat/predict.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kDigest[] =
    "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

TEST(Requirement, BlanksAreAlternativesAndCommasHoldTogether) {
  const RequirementFacts host = {"12.4", "550.54.15", "9.0", ""};
  EXPECT_EQ(EvaluateRequirement("cuda>=12.4", host), Holds::kYes);
  EXPECT_EQ(EvaluateRequirement("cuda>=12.8", host), Holds::kNo);
  EXPECT_EQ(EvaluateRequirement("cuda>=12.8 driver>=550", host), Holds::kYes);
  EXPECT_EQ(EvaluateRequirement("driver>=535,driver<551", host), Holds::kYes);
  EXPECT_EQ(EvaluateRequirement("driver>=535,driver<536", host), Holds::kNo);
  EXPECT_EQ(EvaluateRequirement("arch>=8.0", host), Holds::kYes);
  EXPECT_EQ(EvaluateRequirement("arch=12.0", host), Holds::kNo);
  EXPECT_EQ(EvaluateRequirement("cuda!=12.4", host), Holds::kNo);
}

TEST(Requirement, VersionsAreNumbersNotText) {
  const RequirementFacts host = {"12.10", "570.9", "", ""};
  EXPECT_EQ(EvaluateRequirement("cuda>=12.8", host), Holds::kYes);
  EXPECT_EQ(EvaluateRequirement("driver>=570.86", host), Holds::kNo);
}

TEST(Requirement, WhatIsNotKnownDecidesOnlyWhereItMust) {
  // nvidia/cuda:12.8.0-base.
  const std::string image =
      "cuda>=12.8 brand=unknown,driver>=470,driver<471 "
      "brand=grid,driver>=470,driver<471 brand=tesla,driver>=470,driver<471";
  EXPECT_EQ(EvaluateRequirement(image, {"13.0", "580.95.05", "9.0", ""}),
            Holds::kYes);
  // No brand helps a driver that no alternative has.
  EXPECT_EQ(EvaluateRequirement(image, {"12.4", "550.54.15", "9.0", ""}),
            Holds::kNo);
  EXPECT_EQ(EvaluateRequirement(image, {"11.4", "470.256.02", "8.0", ""}),
            Holds::kUnknown);
  EXPECT_EQ(EvaluateRequirement(image, {"11.4", "470.256.02", "8.0", "tesla"}),
            Holds::kYes);
  EXPECT_EQ(EvaluateRequirement("cuda>=12.8", {"", "", "", ""}),
            Holds::kUnknown);
  EXPECT_EQ(EvaluateRequirement("cuda>=twelve", {"12.4", "", "", ""}),
            Holds::kUnknown);
  EXPECT_EQ(EvaluateRequirement("", {"12.4", "", "", ""}), Holds::kUnknown);
}

std::vector<std::string> Judge(const std::vector<std::string>& environment,
                               const std::string& host = "9.0 R550") {
  v1::OciImageFacts image;
  for (const std::string& variable : environment) {
    image.add_environment(variable);
  }
  const v1::HostFacts facts = FakeHost(host);
  std::vector<std::string> found;
  for (const v1::Reason& reason :
       JudgeImage(image, {}, facts, facts.gpus(0), TestTables())) {
    found.push_back(reason.code() + " " + reason.detail());
  }
  return found;
}

TEST(ImageEnvironment, SaysWhatStandsOut) {
  EXPECT_THAT(Judge({}), IsEmpty());
  EXPECT_THAT(Judge({"NVIDIA_VISIBLE_DEVICES=all",
                     "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
                     "NVIDIA_REQUIRE_CUDA=cuda>=12.4", "CUDA_FORCE_PTX_JIT=0",
                     "PATH=/bin"}),
              IsEmpty());
  EXPECT_THAT(Judge({"CUDA_FORCE_PTX_JIT=1"}),
              ElementsAre(HasSubstr("TP339 CUDA_FORCE_PTX_JIT=1")));
  EXPECT_THAT(Judge({"NVIDIA_REQUIRE_CUDA=cuda>=12.8"}),
              ElementsAre(HasSubstr("TP325")));
  EXPECT_THAT(
      Judge({"NVIDIA_REQUIRE_CUDA=cuda>=12.8", "NVIDIA_DISABLE_REQUIRE=1"}),
      IsEmpty());
  EXPECT_THAT(Judge({"NVIDIA_VISIBLE_DEVICES=void"}),
              ElementsAre(HasSubstr("NVIDIA_VISIBLE_DEVICES=void")));
  EXPECT_THAT(Judge({"NVIDIA_DRIVER_CAPABILITIES=utility,video"}),
              ElementsAre(HasSubstr("without compute")));
}

TEST(ImageEnvironment, ALibcudaInTheImage) {
  v1::OciImageFacts image;
  v1::FileReport file;
  file.set_name("i.tar!/usr/local/cuda/compat/libcuda.so.590.44.01");
  file.set_member_of("i.tar");
  v1::ForwardCompatNote& note = *file.mutable_elf()->mutable_forward_compat();
  note.mutable_cuda_version()->set_major(13);
  note.mutable_cuda_version()->set_minor(1);
  for (const uint32_t branch : {535, 550, 570, 580}) {
    note.add_driver_branches(branch);
  }
  const auto judge = [&](const std::string& host, const std::string& gpu) {
    v1::HostFacts facts = FakeHost(host);
    facts.mutable_gpus(0)->set_name(gpu);
    std::vector<std::string> codes;
    for (const v1::Reason& reason :
         JudgeImage(image, {&file}, facts, facts.gpus(0), TestTables())) {
      codes.push_back(reason.code());
    }
    return codes;
  };
  // The toolkit's hook takes it where it works, and leaves it where it does
  // not.
  EXPECT_THAT(judge("9.0 R550", "NVIDIA H100 PCIe"), ElementsAre("TP120"));
  EXPECT_THAT(judge("12.0 R570", "NVIDIA GeForce RTX 5090"), IsEmpty());
  // LD_LIBRARY_PATH puts it in front without looking.
  image.add_environment("LD_LIBRARY_PATH=/x:/usr/local/cuda/compat");
  EXPECT_THAT(judge("12.0 R570", "NVIDIA GeForce RTX 5090"),
              ElementsAre("TP121"));
}

// A member of the image "i.tar".
v1::FileReport Member(const std::string& path,
                      const std::vector<std::string>& fatbins) {
  v1::FileReport file = MakeFile("i.tar!/" + path, fatbins);
  file.set_member_of("i.tar");
  return file;
}

v1::ArtifactReport Image(const std::string& label = "") {
  v1::FileReport carrier;
  carrier.set_name("i.tar");
  carrier.set_kind(v1::FILE_KIND_OCI_IMAGE);
  carrier.mutable_carrier()->set_format("oci_image");
  v1::OciImageFacts& image = *carrier.mutable_carrier()->add_images();
  image.set_digest(kDigest);
  image.set_id("sha256:id");
  image.set_label(label);
  image.add_environment("PATH=/opt/bin:/usr/bin");
  image.set_working_directory("/srv/app");
  return MakeArtifactOf({carrier});
}

TEST(OciEntry, FindsTheImageByDigestOrId) {
  const v1::ArtifactReport report = Image("linux-amd64");
  const auto place = FindImage(report, kDigest);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->prefix, "i.tar!/linux-amd64:/");
  EXPECT_TRUE(FindImage(report, "sha256:id").has_value());
  EXPECT_FALSE(FindImage(report, "sha256:other").has_value());
  EXPECT_FALSE(FindImage(report, "").has_value());
  EXPECT_THAT(place->ProgramNames("app"),
              ElementsAre("i.tar!/linux-amd64:/opt/bin/app",
                          "i.tar!/linux-amd64:/usr/bin/app"));
  EXPECT_THAT(place->ProgramNames("/a/../b/./app"),
              ElementsAre("i.tar!/linux-amd64:/b/app"));
  EXPECT_THAT(place->ProgramNames("bin/app"),
              ElementsAre("i.tar!/linux-amd64:/srv/app/bin/app"));
  EXPECT_THAT(place->ProgramNames(""), IsEmpty());
}

TEST(OciEntry, IsPredictedByTheProgramItsImageLeadsTo) {
  v1::ArtifactReport report = Image();
  // Two programs of one name; PATH decides. A file beside the image of that
  // name does not count.
  *report.add_files() = Member("usr/bin/app", {"sm_80"});
  *report.add_files() = Member("opt/bin/app", {"sm_90"});
  *report.add_files() = MakeFile("app", {"sm_70"});
  for (v1::FileReport& file : *report.mutable_files()) {
    if (file.kind() != v1::FILE_KIND_OCI_IMAGE) {
      file.set_kind(v1::FILE_KIND_ELF_EXECUTABLE);
    }
  }
  v1::Entry entry;
  entry.set_name("run");
  entry.set_kind(v1::ENTRY_KIND_OCI);
  entry.set_oci_image(kDigest);
  entry.add_command("app");
  const v1::HostFacts facts = FakeHost("9.0 R580");
  const auto predict = [&] {
    return PredictEntry(report, entry, facts, facts.gpus(0), TestTables());
  };
  EXPECT_EQ(Answer(predict()[0]), "native");
  entry.set_command(0, "/usr/bin/app");
  EXPECT_EQ(Answer(predict()[0]), "fails 209");
  entry.set_oci_image("sha256:id");
  EXPECT_EQ(Answer(predict()[0]), "fails 209");
  // What is not in the artifact is not known.
  entry.set_oci_image("sha256:elsewhere");
  const std::vector<v1::PathPrediction> unseen = predict();
  ASSERT_EQ(unseen.size(), 3u);
  EXPECT_EQ(Answer(unseen[0]), "unknown");
  EXPECT_TRUE(HasReason(unseen[0], "TP232"));
}

TEST(OciEntry, SaysWhatTheImagesVariablesDo) {
  v1::ArtifactReport report = Image();
  report.mutable_files(0)
      ->mutable_carrier()
      ->mutable_images(0)
      ->add_environment("CUDA_DISABLE_PTX_JIT=1");
  *report.add_files() = Member("opt/bin/app", {"sm_90"});
  const v1::HostFacts facts = FakeHost("9.0 R580");
  v1::Entry entry;
  entry.set_kind(v1::ENTRY_KIND_OCI);
  entry.set_oci_image(kDigest);
  entry.add_command("app");
  for (const v1::PathPrediction& path :
       PredictEntry(report, entry, facts, facts.gpus(0), TestTables())) {
    EXPECT_TRUE(HasReason(path, "TP339"));
  }
  EXPECT_TRUE(HasReason(
      Predict(report, facts, facts.gpus(0), TestTables()).paths(2), "TP339"));
}

}  // namespace
}  // namespace twinpath::compat
