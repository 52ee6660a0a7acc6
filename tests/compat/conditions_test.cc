#include "compat/conditions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/digest.h"
#include "base/status_matchers.h"
#include "compat/profile.h"
#include "tests/compat/fake_host.h"

namespace twinpath::compat {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::vector<std::string> Lines(const v1::HostFacts& facts) {
  const v1::Conditions conditions = ConditionsOf(facts);
  return {conditions.lines().begin(), conditions.lines().end()};
}

// The example of docs/formats/conditions.md, byte for byte.
TEST(Conditions, AreExactlyTheDocumentedBytes) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  facts.mutable_os()->set_id("ubuntu");
  facts.mutable_os()->set_version_id("24.04");
  facts.mutable_os()->set_kernel_release("6.8.0-60-generic");
  facts.mutable_driver()->set_libcuda_version("580.200.01");
  facts.mutable_driver()->mutable_libcuda_digest()->set_sha256(
      std::string(32, '\xAB'));
  facts.mutable_gpus(0)->set_mig_mode(v1::MIG_MODE_DISABLED);
  v1::Library& library = *facts.add_libraries();
  library.set_soname("libcudart.so.13");
  library.mutable_digest()->set_sha256(std::string(32, '\x01'));
  const std::vector<std::string> expected = {
      "cpu=x86-64",
      "driver.cuda=13.0",
      "driver.jit-library=ok",
      "driver.kernel-module=580.200.01",
      "driver.libcuda-digest="
      "abababababababababababababababababababababababababababababababab",
      "driver.libcuda=580.200.01",
      "driver.probe=ok",
      "gpu.000.capability=9.0",
      "gpu.000.mig=disabled",
      "gpu.000.name=GPU 9.0",
      "gpu.000.uuid=GPU-00000000-0000-0000-0000-000000000001",
      "gpus=1",
      "kernel=6.8.0-60-generic",
      "library.libcudart.so.13="
      "0101010101010101010101010101010101010101010101010101010101010101",
      "os=ubuntu 24.04",
      "platform=standard",
  };
  EXPECT_EQ(Lines(facts), expected);
  std::string bytes;
  for (const std::string& line : expected) bytes += line + "\n";
  EXPECT_EQ(ConditionsOf(facts).digest().sha256(), Sha256Of(bytes).Raw());
}

TEST(Conditions, ClassLeavesOutUuidsOnly) {
  v1::HostFacts a = FakeHost("9.0 R580");
  v1::HostFacts b = a;
  b.mutable_gpus(0)->set_uuid("GPU-other");
  b.set_host_name("another");
  b.set_machine_id("other");
  EXPECT_EQ(ClassOf(a), ClassOf(b));
  EXPECT_NE(ConditionsOf(a).digest().sha256(),
            ConditionsOf(b).digest().sha256());
  b.mutable_driver()->set_kernel_module_version("580.159.03");
  EXPECT_NE(ClassOf(a), ClassOf(b));
  EXPECT_EQ(ClassOf(a).size(), 64u);
}

// Of the host's libraries those count that a run finds; of one artifact's, all
// that it resolved.
TEST(Conditions, LibrariesOfRunsAndOfOneArtifact) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  const v1::Conditions before = ConditionsOf(facts);
  for (const auto place :
       {v1::LIBRARY_PLACE_TOOLKIT, v1::LIBRARY_PLACE_LIBRARY_PATH}) {
    v1::Library& library = *facts.add_libraries();
    library.set_soname("libcudart.so.13");
    library.set_path("/usr/local/cuda/lib64/libcudart.so.13");
    library.set_place(place);
  }
  facts.mutable_loader()->add_library_path()->set_path("/opt/x");
  EXPECT_EQ(ConditionsOf(facts).digest().sha256(), before.digest().sha256());

  google::protobuf::RepeatedPtrField<v1::ResolvedLibrary> resolved;
  const auto add = [&resolved](const std::string& name,
                               v1::LibrarySource source,
                               const std::string& path) {
    v1::ResolvedLibrary& library = *resolved.Add();
    library.set_soname(name);
    library.set_source(source);
    library.set_path(path);
  };
  add("libcudart.so.13", v1::LIBRARY_SOURCE_HOST, "/usr/lib/libcudart.so.13");
  add("libcufft.so.12", v1::LIBRARY_SOURCE_NONE, "");
  add("libnccl.so.2", v1::LIBRARY_SOURCE_UNKNOWN, "");
  EXPECT_EQ(DescribeChange(before, ConditionsOf(facts, resolved)),
            (std::vector<std::string>{
                "needs.libcudart.so.13: absent -> /usr/lib/libcudart.so.13",
                "needs.libcufft.so.12: absent -> none"}));
}

// A host that answers from a model is never of the class of a real one.
TEST(Conditions, SimulatedIsACondition) {
  v1::HostFacts real = *LoadProfile("h200");
  real.set_simulated(false);
  EXPECT_NE(ClassOf(real), ClassOf(*LoadProfile("h200")));
  EXPECT_THAT(Lines(*LoadProfile("h200")), Contains("simulated=h200"));
}

TEST(Conditions, UnknownIsSaid) {
  const std::vector<std::string> lines = Lines(v1::HostFacts());
  EXPECT_THAT(lines, Contains("cpu=unknown"));
  EXPECT_THAT(lines, Contains("driver.cuda=unknown"));
  EXPECT_THAT(lines, Contains("gpus=0"));
}

// Values come from the host: a line feed must not forge a line.
TEST(Conditions, ForeignValuesCannotForgeLines) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  facts.mutable_gpus(0)->set_name("GPU\ndriver.cuda=99.0\\");
  v1::Library& library = *facts.add_libraries();
  library.set_soname("lib=evil\n");
  library.set_path("/x");
  const std::vector<std::string> lines = Lines(facts);
  EXPECT_THAT(lines, Contains("gpu.000.name=GPU\\x0Adriver.cuda=99.0\\x5C"));
  EXPECT_THAT(lines, Contains("library.lib\\x3Devil\\x0A=/x"));
  EXPECT_THAT(lines, Contains("driver.cuda=13.0"));
}

TEST(Conditions, DescribesWhatChanged) {
  v1::HostFacts facts = FakeHost("9.0 R580");
  const v1::Conditions before = ConditionsOf(facts);
  EXPECT_THAT(DescribeChange(before, before), IsEmpty());
  facts.mutable_driver()->mutable_cuda_version()->set_minor(1);
  facts.clear_gpus();
  EXPECT_THAT(DescribeChange(before, ConditionsOf(facts)),
              ElementsAre("driver.cuda: 13.0 -> 13.1",
                          "gpu.000.capability: 9.0 -> absent",
                          "gpu.000.mig: unknown -> absent",
                          "gpu.000.name: GPU 9.0 -> absent",
                          StartsWith("gpu.000.uuid: "), "gpus: 1 -> 0"));
}

}  // namespace
}  // namespace twinpath::compat
