#include "inspect/demangle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/inspect_fixture.h"

namespace twinpath::inspect {
namespace {

class DemangleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!CanDemangle()) {
      GTEST_SKIP() << "built without a static C++ runtime (libstdc++.a)";
    }
  }
};

TEST_F(DemangleTest, NamesAsInTheSource) {
  EXPECT_EQ(Demangle("_Z6kernelPi"), "kernel(int*)");
  // c++filt of binutils 2.40.
  EXPECT_EQ(Demangle("_ZN2at6native13vector_kernelIfLi4EEEvPT_i"),
            "void at::native::vector_kernel<float, 4>(float*, int)");
  EXPECT_EQ(Demangle("_Z5applyIZ4mainEUlvE_EvT_"),
            "void apply<main::{lambda()#1}>(main::{lambda()#1})");
}

TEST_F(DemangleTest, OthersAreEmpty) {
  EXPECT_EQ(Demangle(""), "");
  EXPECT_EQ(Demangle("_Z"), "");
  EXPECT_EQ(Demangle("extern_c"), "");
  EXPECT_EQ(Demangle("_Z6kernel"), "kernel");
  EXPECT_EQ(Demangle("_Z60kernel"), "");
  EXPECT_EQ(Demangle(absl::StrCat("_Z", std::string(1 << 20, 'N'))), "");
  EXPECT_EQ(Demangle(std::string(kMaxMangledBytes + 1, 'Z')), "");
}

// f(A<int,int>, A<A<int,int>,A<int,int>>, ...): each substitution names the one
// before twice, so n of them stand for 2^n names.
std::string Doubling(int n) {
  std::string name = "_Z1f1AIiiE";
  for (int i = 0; i < n; ++i) {
    const std::string last =
        absl::StrCat("S",
                     i < 10 ? std::string(1, static_cast<char>('0' + i))
                            : std::string(1, static_cast<char>('A' + i - 10)),
                     "_");
    absl::StrAppend(&name, "S_I", last, last, "E");
  }
  return name;
}

TEST_F(DemangleTest, PathologicalSubstitutionsEnd) {
  EXPECT_EQ(Demangle(Doubling(1)),
            "f(A<int, int>, A<A<int, int>, A<int, int> >)");
  EXPECT_FALSE(Demangle(Doubling(6)).empty());
  for (int n : {14, 20, 30, 35}) EXPECT_EQ(Demangle(Doubling(n)), "") << n;
}

TEST_F(DemangleTest, DeepNestingEnds) {
  for (absl::string_view unit : {"P", "N1a", "1AI", "F", "Dp", "XT_", "T_"}) {
    std::string name = "_Z1f";
    while (name.size() < kMaxMangledBytes - unit.size()) {
      name.append(unit.data(), unit.size());
    }
    EXPECT_LE(Demangle(name).size(), kMaxDemangledBytes);
  }
}

TEST_F(DemangleTest, AnyBytesEnd) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string name = "_Z";
    const size_t length = random() % 120;
    while (name.size() < length) {
      name.push_back("NSTIE_1a2bcPRKvijZLXDpstmnU0"[random() % 28]);
    }
    EXPECT_LE(Demangle(name).size(), kMaxDemangledBytes);
  }
}

// Nested operators of an expression, found by the fuzzer: see
// tests/fuzz/regressions/demangle.
TEST_F(DemangleTest, ExponentialParsingIsLeft) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer holds signals back, so no alarm comes";
#endif
  const absl::StatusOr<std::string> name =
      ReadFile(absl::StrCat(std::getenv("TWINPATH_SOURCE_DIR"),
                            "/tests/fuzz/regressions/demangle/exponential"),
               1 << 16);
  ASSERT_TRUE(name.ok()) << name.status();
  bool timed_out = false;
  EXPECT_EQ(Demangle(*name, &timed_out), "");
  EXPECT_TRUE(timed_out);
  EXPECT_EQ(Demangle("_Z6kernelPi", &timed_out), "kernel(int*)");
  EXPECT_FALSE(timed_out);
}

TEST_F(DemangleTest, OnlyOnRequest) {
  const std::string file = BuildFatbin(
      {SassEntry({.kernels = {{.name = "_Z6kernelPi"}, {.name = "plain"}}})});
  const v1::FileReport without = InspectBytes(file);
  EXPECT_EQ(without.fatbins(0).images(0).kernels(0).demangled(), "");
  const v1::FileReport with =
      InspectBytes(file, {.digest = false, .demangle = true});
  EXPECT_EQ(with.fatbins(0).images(0).kernels(0).demangled(), "kernel(int*)");
  EXPECT_EQ(with.fatbins(0).images(0).kernels(0).name(), "_Z6kernelPi");
  EXPECT_EQ(with.fatbins(0).images(0).kernels(1).demangled(), "");
}

}  // namespace
}  // namespace twinpath::inspect
