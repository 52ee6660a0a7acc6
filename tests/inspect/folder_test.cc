#include "inspect/folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "tests/inspect/elf_builder.h"
#include "tests/inspect/fatbin_builder.h"
#include "tests/inspect/oci_builder.h"

namespace twinpath::inspect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<TempDirectory> made = TempDirectory::Make();
    ASSERT_THAT(made, IsOk());
    folder_ = *std::move(made);
  }
  std::string Path(const std::string& name) const {
    return JoinPath(folder_->path(), name);
  }
  void Write(const std::string& name, const std::string& bytes = "x") {
    const std::string path = Path(name);
    ASSERT_THAT(MakeDirectories(DirName(path)), IsOk());
    ASSERT_THAT(WriteFileAtomic(path, bytes, 0644), IsOk());
  }
  void Link(const std::string& target, const std::string& name) {
    ASSERT_EQ(::symlink(target.c_str(), Path(name).c_str()), 0) << name;
  }
  FolderListing List(const FolderLimits& limits = {}) {
    absl::StatusOr<FolderListing> listing =
        ListFolder(folder_->path(), "in", limits);
    EXPECT_THAT(listing, IsOk());
    return listing.ok() ? *std::move(listing) : FolderListing();
  }
  static std::vector<std::string> Names(const FolderListing& listing) {
    std::vector<std::string> names;
    for (const InspectTarget& target : listing.targets) {
      names.push_back(target.name);
    }
    return names;
  }
  static std::vector<std::string> Notes(const FolderListing& listing) {
    std::vector<std::string> notes;
    for (const FolderNote& note : listing.notes) {
      notes.push_back(absl::StrCat(note.name, " ", note.what));
    }
    return notes;
  }

  std::optional<TempDirectory> folder_;
};

TEST_F(FolderTest, FilesBelowSorted) {
  Write("b/z.so");
  Write("b/a/y.so");
  Write("a.so");
  Write(".hidden");
  const FolderListing listing = List();
  EXPECT_THAT(Names(listing),
              ElementsAre("in/.hidden", "in/a.so", "in/b/a/y.so", "in/b/z.so"));
  EXPECT_EQ(listing.targets[1].path, Path("a.so"));
  EXPECT_THAT(listing.notes, IsEmpty());
  EXPECT_FALSE(listing.incomplete);
}

TEST_F(FolderTest, FileIsTakenOnceUnderItsOwnName) {
  Write("libx.so.1.2");
  Link("libx.so.1.2", "libx.so");
  Link(Path("libx.so"), "again.so");
  ASSERT_EQ(::link(Path("libx.so.1.2").c_str(), Path("z.so").c_str()), 0);
  EXPECT_THAT(Names(List()), ElementsAre("in/libx.so.1.2"));
}

TEST_F(FolderTest, LinksLeadOutAndLoopsEnd) {
  const absl::StatusOr<TempDirectory> other = TempDirectory::Make();
  ASSERT_THAT(other, IsOk());
  ASSERT_THAT(WriteFileAtomic(JoinPath(other->path(), "out.so"), "x"), IsOk());
  Write("d/x.so");
  Link("..", "d/up");
  Link(".", "self");
  Link(other->path(), "other");
  Link("loop2", "loop1");
  Link("loop1", "loop2");
  Link("nowhere", "dangling");
  const FolderListing listing = List();
  EXPECT_THAT(Names(listing), ElementsAre("in/d/x.so", "in/other/out.so"));
  EXPECT_THAT(Notes(listing), ElementsAre("in/dangling is a link to nothing",
                                          "in/loop1 is a link in a loop",
                                          "in/loop2 is a link in a loop"));
  EXPECT_FALSE(listing.incomplete);
}

TEST_F(FolderTest, PipesDevicesAndSocketsAreNamed) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  Link("/dev/zero", "zero");
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = Path("sock");
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.data(), path.size());
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
            0);
  const FolderListing listing = List();
  EXPECT_THAT(Names(listing), IsEmpty());
  EXPECT_THAT(Notes(listing),
              ElementsAre("in/pipe is a pipe", "in/sock is a socket",
                          "in/zero is a device"));
}

// What is named as a file has to be one; nothing may hang on it.
TEST_F(FolderTest, DeviceOrPipeAsFileIsRefused) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  for (const std::string& path :
       {std::string("/dev/zero"), Path("pipe"), folder_->path()}) {
    const absl::StatusOr<std::vector<v1::FileReport>> reports =
        InspectAllInChild(path, path, {});
    EXPECT_EQ(reports.status().code(), absl::StatusCode::kInvalidArgument)
        << path;
    EXPECT_THAT(std::string(reports.status().message()), HasSubstr(path));
  }
}

TEST_F(FolderTest, UnreadableFolderIsNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads every folder";
  Write("a/x.so");
  Write("b.so");
  ASSERT_EQ(::chmod(Path("a").c_str(), 0), 0);
  const FolderListing listing = List();
  ASSERT_EQ(::chmod(Path("a").c_str(), 0700), 0);
  EXPECT_THAT(Names(listing), ElementsAre("in/b.so"));
  ASSERT_THAT(listing.notes, SizeIs(1));
  EXPECT_THAT(listing.notes[0].what, HasSubstr("cannot be read"));
  EXPECT_TRUE(listing.incomplete);
}

TEST_F(FolderTest, CapsAreNamed) {
  for (int i = 0; i < 20; ++i) Write(absl::StrCat("f", i));
  const FolderListing few = List({.files = 5});
  EXPECT_LE(few.targets.size(), 5u);
  EXPECT_TRUE(few.incomplete);
  EXPECT_THAT(few.notes, SizeIs(1));

  std::string deep = "d";
  for (int i = 0; i < 10; ++i) deep += "/d";
  Write(deep + "/x.so");
  const FolderListing shallow = List({.depth = 5});
  EXPECT_THAT(Names(shallow), SizeIs(20));
  EXPECT_TRUE(shallow.incomplete);
  EXPECT_THAT(Names(List()), SizeIs(21));
}

TEST_F(FolderTest, NotesAreCountedBehindTheirCap) {
  for (int i = 0; i < 20; ++i) Link("nowhere", absl::StrCat("l", i));
  const FolderListing listing = List({.notes = 3});
  EXPECT_THAT(listing.notes, SizeIs(3));
  EXPECT_EQ(listing.more_notes, 17u);
}

TEST_F(FolderTest, ManyScripts) {
  for (int i = 0; i < 1'000; ++i) {
    const std::string name = absl::StrCat("d", i % 100, "/s", i, ".sh");
    if (i < 100) {
      ASSERT_THAT(MakeDirectories(DirName(Path(name))), IsOk());
    }
    UniqueFd fd(
        ::open(Path(name).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    ASSERT_TRUE(fd.valid());
  }
  EXPECT_THAT(List().targets, SizeIs(1'000));
}

TEST_F(FolderTest, NoFolder) {
  Write("x");
  EXPECT_EQ(ListFolder(Path("x"), "x").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ListFolder(Path("nowhere"), "x").status().code(),
            absl::StatusCode::kNotFound);
}

class OciFolderTest : public FolderTest {
 protected:
  void WriteLayout(const std::string& under) {
    const std::string library =
        BuildElf({.fatbins = {BuildFatbin({SassEntry({.sm = 90})})}});
    LayoutBuilder layout;
    layout.AddImage({.layers = {BuildArchive("pax", {{"usr/x.so", library}},
                                             {.filters = {"gzip"}})}});
    for (const auto& [path, bytes] : layout.files) {
      Write(JoinPath(under, path), bytes);
    }
  }
};

TEST_F(OciFolderTest, LayoutIsOneTarget) {
  WriteLayout("img");
  Write("x.so");
  const FolderListing listing = List();
  EXPECT_THAT(Names(listing), ElementsAre("in/img", "in/x.so"));
  EXPECT_TRUE(listing.targets[0].oci_layout);
  EXPECT_FALSE(listing.targets[1].oci_layout);
  uint64_t left_out = 0;
  const absl::StatusOr<std::vector<std::string>> files =
      ListOciLayout(Path("img"), 4, left_out);
  ASSERT_THAT(files, IsOk());
  EXPECT_THAT(*files, SizeIs(4));
  EXPECT_EQ((*files)[0], "index.json");
  EXPECT_EQ(left_out, 1u);
}

TEST_F(OciFolderTest, LayoutIsInspectedInAChild) {
  WriteLayout("img");
  std::vector<v1::FileReport> all;
  Write("y.so");
  ASSERT_THAT(InspectFiles(List().targets, {},
                           [&](const absl::Status& opened, size_t,
                               std::vector<v1::FileReport> reports) {
                             for (v1::FileReport& report : reports) {
                               all.push_back(std::move(report));
                             }
                             return opened;
                           }),
              IsOk());
  ASSERT_THAT(all, SizeIs(3));
  EXPECT_EQ(all[0].name(), "in/img");
  EXPECT_EQ(all[0].kind(), v1::FILE_KIND_OCI_IMAGE);
  EXPECT_EQ(all[0].carrier().layers_size(), 1);
  EXPECT_THAT(all[0].problems(), IsEmpty());
  EXPECT_EQ(all[1].name(), "in/img!/usr/x.so");
  EXPECT_EQ(all[1].fatbins_size(), 1);
  EXPECT_EQ(all[2].name(), "in/y.so");
}

TEST_F(FolderTest, ThinMembersThatAreElsewhere) {
  v1::FileReport archive;
  archive.mutable_carrier()->add_external_members("../obj/a.o");
  archive.mutable_carrier()->add_external_members("b.o");
  archive.mutable_carrier()->add_external_members("/else/c.o");
  EXPECT_THAT(ThinMembersElsewhere(archive, "/w/lib/x.a",
                                   {{.path = "/w/obj/a.o", .name = "a.o"}}),
              ElementsAre("b.o", "/else/c.o"));
}

}  // namespace
}  // namespace twinpath::inspect
