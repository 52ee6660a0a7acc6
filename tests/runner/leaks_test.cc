#include "runner/leaks.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/status_matchers.h"

namespace twinpath::runner {
namespace {

TEST(Leaks, ZeroAndEmptyAreOff) {
  EXPECT_TRUE(IsLeak("CUDA_FORCE_PTX_JIT", "1"));
  EXPECT_FALSE(IsLeak("CUDA_FORCE_PTX_JIT", "0"));
  EXPECT_FALSE(IsLeak("CUDA_DISABLE_JIT", ""));
  EXPECT_TRUE(IsLeak("CUDA_CACHE_PATH", "/x"));
  EXPECT_TRUE(IsLeak("CUDA_VISIBLE_DEVICES", ""));
  EXPECT_TRUE(IsLeak("CUDA_VISIBLE_DEVICES", "0"));
  EXPECT_TRUE(IsLeak("CUDA_DEVICE_ORDER", "PCI_BUS_ID"));
  EXPECT_FALSE(IsLeak("CUDA_MODULE_LOADING", "EAGER"));
}

TEST(Leaks, LibraryPathsThroughStubsOrCompatFolders) {
  EXPECT_TRUE(IsLeak("LD_LIBRARY_PATH", "/a:/usr/local/cuda/lib64/stubs"));
  EXPECT_TRUE(IsLeak("LD_LIBRARY_PATH", "/usr/local/cuda/compat"));
  EXPECT_TRUE(IsLeak("LD_LIBRARY_PATH", "/usr/local/cuda/compat_orin"));
  EXPECT_FALSE(IsLeak("LD_LIBRARY_PATH", "/usr/local/cuda/lib64"));
  EXPECT_TRUE(IsLeak("LD_LIBRARY_PATH", "/a;/usr/local/cuda/compat/"));
  EXPECT_FALSE(IsLeak("LD_LIBRARY_PATH", "/opt/compatible/lib:/compat-x"));
  EXPECT_TRUE(IsLeak("LD_PRELOAD", "/x.so"));
}

TEST(Leaks, OfTheProcess) {
  const auto leaks = LeaksOfEnvironment(
      {"HOME=/root", "CUDA_DISABLE_PTX_JIT=1", "CUDA_FORCE_PTX_JIT=0", "odd"});
  ASSERT_EQ(leaks.size(), 1u);
  EXPECT_EQ(leaks[0].variable(), "CUDA_DISABLE_PTX_JIT");
  EXPECT_EQ(leaks[0].value(), "1");
  EXPECT_EQ(leaks[0].origin(), "process");
  EXPECT_EQ(leaks[0].line(), 0u);
}

TEST(Leaks, OfShellFilesWithTheirLine) {
  const auto leaks = LeaksOfText(
      "# export CUDA_FORCE_PTX_JIT=1\n"
      "\n"
      "export CUDA_FORCE_PTX_JIT=\"1\" OTHER=2\n"
      "CUDA_CACHE_DISABLE='1'; export CUDA_CACHE_DISABLE # note\n"
      "if true; then export \\\n  LD_PRELOAD=/opt/x.so; fi\n",
      "/etc/profile", false);
  ASSERT_EQ(leaks.size(), 3u);
  EXPECT_EQ(leaks[0].variable(), "CUDA_FORCE_PTX_JIT");
  EXPECT_EQ(leaks[0].line(), 3u);
  EXPECT_EQ(leaks[1].variable(), "CUDA_CACHE_DISABLE");
  EXPECT_EQ(leaks[1].line(), 4u);
  EXPECT_EQ(leaks[2].variable(), "LD_PRELOAD");
  EXPECT_EQ(leaks[2].value(), "/opt/x.so");
  EXPECT_EQ(leaks[2].line(), 5u);
}

// pam_env.conf names the variable in front: "NAME DEFAULT=value OVERRIDE=...".
TEST(Leaks, OfPamEnv) {
  const auto root = TempDirectory::Make();
  ASSERT_THAT(root, IsOk());
  const std::string folder = JoinPath(root->path(), "etc/security");
  ASSERT_THAT(MakeDirectories(folder), IsOk());
  ASSERT_THAT(WriteFileAtomic(JoinPath(folder, "pam_env.conf"),
                              "# CUDA_DISABLE_JIT DEFAULT=1\n"
                              "CUDA_FORCE_PTX_JIT\tDEFAULT=1\n"
                              "CUDA_FORCE_JIT DEFAULT=0 OVERRIDE=\"1\"\n"
                              "PATH DEFAULT=/bin\n",
                              0644),
              IsOk());
  const auto leaks = LeaksOfFiles(root->path());
  ASSERT_EQ(leaks.size(), 2u);
  EXPECT_EQ(leaks[0].variable(), "CUDA_FORCE_PTX_JIT");
  EXPECT_EQ(leaks[0].value(), "1");
  EXPECT_EQ(leaks[0].line(), 2u);
  EXPECT_EQ(leaks[0].origin(), "/etc/security/pam_env.conf");
  EXPECT_EQ(leaks[1].variable(), "CUDA_FORCE_JIT");
}

TEST(Leaks, OfUnits) {
  const auto leaks = LeaksOfText(
      "[Service]\n"
      "ExecStart=/bin/x CUDA_FORCE_JIT=1\n"
      ";Environment=CUDA_FORCE_JIT=1\n"
      "Environment=\"CUDA_CACHE_PATH=/var/cache/a b\" A=1\n"
      "Environment=CUDA_DISABLE_JIT=0 CUDA_FORCE_JIT=1\n",
      "/etc/systemd/system/x.service", true);
  ASSERT_EQ(leaks.size(), 2u);
  EXPECT_EQ(leaks[0].variable(), "CUDA_CACHE_PATH");
  EXPECT_EQ(leaks[0].value(), "/var/cache/a b");
  EXPECT_EQ(leaks[0].line(), 4u);
  EXPECT_EQ(leaks[1].variable(), "CUDA_FORCE_JIT");
  EXPECT_EQ(leaks[1].line(), 5u);
}

TEST(Leaks, OfAHostsFiles) {
  auto root = TempDirectory::Make();
  ASSERT_THAT(root, IsOk());
  const auto put = [&](const std::string& path, const std::string& text) {
    const std::string whole = root->path() + path;
    ASSERT_THAT(MakeDirectories(DirName(whole)), IsOk());
    ASSERT_THAT(WriteFileAtomic(whole, text), IsOk());
  };
  put("/etc/environment", "CUDA_FORCE_PTX_JIT=1\n");
  put("/etc/profile.d/cuda.sh", "export CUDA_CACHE_DISABLE=1\n");
  put("/etc/profile.d/ignored.txt", "export CUDA_CACHE_DISABLE=1\n");
  put("/etc/systemd/system/a.service.d/env.conf",
      "[Service]\nEnvironment=CUDA_DISABLE_PTX_JIT=1\n");
  put("/etc/systemd/system.conf", "DefaultEnvironment=LD_AUDIT=/a.so\n");
  const auto leaks = LeaksOfFiles(root->path());
  ASSERT_EQ(leaks.size(), 4u);
  EXPECT_EQ(leaks[0].origin(), "/etc/environment");
  EXPECT_EQ(leaks[1].origin(), "/etc/profile.d/cuda.sh");
  EXPECT_EQ(leaks[2].origin(), "/etc/systemd/system.conf");
  EXPECT_EQ(leaks[3].origin(), "/etc/systemd/system/a.service.d/env.conf");
  EXPECT_EQ(leaks[3].line(), 2u);
}

}  // namespace
}  // namespace twinpath::runner
