#include "coordinator/sweep_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "base/status_matchers.h"

namespace twinpath::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::Artifact OneFile() {
  v1::Artifact artifact;
  artifact.add_files()->set_name("app");
  return artifact;
}

// A spec of one entry that `change` has made.
absl::Status Check(const std::function<void(v1::Entry&)>& change) {
  v1::SweepSpec spec;
  v1::Entry& entry = *spec.mutable_release()->add_entries();
  entry.set_name("e");
  entry.add_command("app");
  change(entry);
  return CheckSweepSpec(spec, OneFile(), absl::FromUnixSeconds(0));
}

TEST(CheckSweepSpec, EntriesOfEveryKind) {
  EXPECT_THAT(Check([](v1::Entry&) {}), IsOk());
  for (const v1::EntryKind kind :
       {v1::ENTRY_KIND_IMAGES, v1::ENTRY_KIND_TOOLCHAIN}) {
    EXPECT_THAT(Check([kind](v1::Entry& e) {
                  e.set_kind(kind);
                  e.clear_command();
                }),
                IsOk());
  }
  // Its program is one of the image, which nobody looks into here.
  EXPECT_THAT(Check([](v1::Entry& e) {
                e.set_kind(v1::ENTRY_KIND_OCI);
                e.set_oci_image("sha256:" + std::string(64, '0'));
                e.set_command(0, "python3");
              }),
              IsOk());
}

TEST(CheckSweepSpec, RulesOfEntries) {
  const auto refused = [](const std::function<void(v1::Entry&)>& change,
                          const std::string& why) {
    EXPECT_THAT(Check(change),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("entry 'e'"), HasSubstr(why))));
  };
  refused([](v1::Entry& e) { e.clear_command(); }, "has no command");
  refused([](v1::Entry& e) { e.set_command(0, ""); }, "has no command");
  refused([](v1::Entry& e) { e.set_command(0, "ap"); }, "did you mean");
  refused([](v1::Entry& e) { e.set_kind(v1::ENTRY_KIND_IMAGES); },
          "no program of its own");
  refused([](v1::Entry& e) { e.set_kind(v1::ENTRY_KIND_OCI); }, "oci_image");
  refused([](v1::Entry& e) { e.add_expected_files()->set_name("/etc/passwd"); },
          "working folder");
  refused(
      [](v1::Entry& e) {
        v1::ExpectedFile& file = *e.add_expected_files();
        file.set_name("out");
        file.mutable_content()->set_pattern("(");
      },
      "pattern");
  refused(
      [](v1::Entry& e) {
        e.mutable_compare()->mutable_tolerance()->set_relative(-1);
      },
      "tolerance");
  refused([](v1::Entry& e) { e.mutable_reference(); }, "32 bytes");
}

}  // namespace
}  // namespace twinpath::coordinator
