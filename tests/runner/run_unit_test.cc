// The run unit's protocol over a socket pair: who may ask, what is refused,
// what the unit then runs. The run itself is a fake; tests/nspawn has the real
// one.

#include "runner/run_unit.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_matchers.h"
#include "inspect/manifest.h"
#include "runner/unit_socket.h"
#include "trust/signed_release.h"

namespace twinpath::runner {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class RunUnit : public ::testing::Test {
 protected:
  RunUnit()
      : folder_(*TempDirectory::Make()), key_(*trust::PrivateKey::Generate()) {}

  void SetUp() override {
    for (const std::string name : {"keys", "artifact", "work"}) {
      ASSERT_THAT(MakeDirectories(Path(name), 0755), IsOk());
    }
    ASSERT_THAT(WriteFileAtomic(Path("keys/a.pem"), *key_.PublicPem(), 0644),
                IsOk());
    Put("bin/tool", std::string(3 << 20, 't'), 0755);
    Put("data", "data", 0644);
    ASSERT_EQ(symlink("bin/tool", Path("artifact/tool").c_str()), 0);
    auto artifact = inspect::ScanArtifact({Path("artifact")}, Path("artifact"));
    ASSERT_THAT(artifact, IsOk());
    *release_.mutable_artifact() = *std::move(artifact);
    v1::Entry& entry = *release_.add_entries();
    entry.set_name("one");
    entry.add_command("bin/tool");
    entry.add_command("--fast");
    options_.peer_user = "root";
    if (const passwd* self = getpwuid(getuid()); self != nullptr) {
      options_.peer_user = self->pw_name;
    }
    options_.trust.keys = Path("keys");
    options_.trust.labels = Path("labels");
    options_.trust.owner = getuid();
    options_.work_parent = Path("work");
    options_.run = [this](const v1::RunRequest& request) {
      asked_ = request;
      const std::string& files = request.artifact_directory();
      struct stat info {};
      EXPECT_EQ(stat(JoinPath(files, "bin/tool").c_str(), &info), 0);
      EXPECT_EQ(info.st_mode & 0777, 0755u);
      seen_ = ReadFile(JoinPath(files, "data"), 100).value_or("?");
      EXPECT_THAT(ReadFile(JoinPath(files, "tool"), 4 << 20), IsOk());
      v1::RunResponse response;
      response.mutable_observation()->set_ending(v1::ENDING_EXITED);
      response.mutable_observation()->set_exit_code(7);
      return response;
    };
    open_ = [this](const v1::ArtifactFile& file) {
      return OpenRegularFile(Path(absl::StrCat("artifact/", file.name())));
    };
  }

  std::string Path(const std::string& name) const {
    return JoinPath(folder_.path(), name);
  }
  void Put(const std::string& name, const std::string& text, uint32_t mode) {
    const std::string path = JoinPath(Path("artifact"), name);
    ASSERT_THAT(MakeDirectories(DirName(path), 0755), IsOk());
    ASSERT_THAT(WriteFileAtomic(path, text, mode), IsOk());
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  }
  v1::UnitRunRequest Request() {
    v1::UnitRunRequest request;
    request.set_attempt_id("a1");
    request.set_path(v1::PATH_NATIVE);
    request.set_entry("one");
    request.add_gpu_uuids("GPU-1");
    *request.mutable_release() = release_;
    *request.mutable_envelope() = *trust::SignRelease(release_, key_);
    return request;
  }
  // The client against a server of one connection, which `serve` is given.
  v1::Observation AskWho(const v1::UnitRunRequest& request,
                         const std::function<void(int)>& serve) {
    const std::string path = Path("sock");
    unlink(path.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address),
                   sizeof(address)),
              0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    std::thread server([&] {
      const UniqueFd connection(accept(listener.get(), nullptr, nullptr));
      serve(connection.get());
    });
    v1::Observation observation =
        RunInUnit(path, request, open_, absl::Minutes(1), nullptr)
            .observation();
    server.join();
    return observation;
  }
  v1::Observation Ask(const v1::UnitRunRequest& request) {
    return AskWho(request, [this](int connection) {
      served_ = ServeRun(connection, options_);
    });
  }
  void ExpectRefused(const v1::UnitRunRequest& request,
                     const std::string& why) {
    const v1::Observation seen = Ask(request);
    EXPECT_EQ(seen.ending(), v1::ENDING_NOT_STARTED);
    EXPECT_THAT(seen.problem(), HasSubstr(why));
    EXPECT_FALSE(asked_.has_entry()) << "it ran";
  }

  const TempDirectory folder_;
  const trust::PrivateKey key_;
  v1::Release release_;
  RunServerOptions options_;
  FileOpener open_;
  v1::RunRequest asked_;
  std::string seen_;
  absl::Status served_;
};

TEST_F(RunUnit, RunsTheSignedEntryOnItsOwnCopies) {
  const v1::Observation seen = Ask(Request());
  EXPECT_THAT(served_, IsOk());
  EXPECT_EQ(seen.ending(), v1::ENDING_EXITED) << seen.problem();
  EXPECT_EQ(seen.exit_code(), 7);
  EXPECT_EQ(asked_.attempt_id(), "a1");
  EXPECT_EQ(asked_.path(), v1::PATH_NATIVE);
  EXPECT_EQ(asked_.gpu_uuids(0), "GPU-1");
  EXPECT_EQ(asked_.entry().command(1), "--fast");
  EXPECT_EQ(seen_, "data");
  EXPECT_THAT(asked_.artifact_directory(), StartsWith(Path("work")));
  // Nothing of it stays.
  EXPECT_TRUE(ListDirectory(Path("work"))->empty());
}

TEST_F(RunUnit, ManyFilesComeInSeveralMessages) {
  for (int i = 0; i < 200; ++i) {
    Put(absl::StrCat("many/", i), absl::StrCat("file ", i), 0644);
  }
  *release_.mutable_artifact() =
      *inspect::ScanArtifact({Path("artifact")}, Path("artifact"));
  EXPECT_EQ(Ask(Request()).ending(), v1::ENDING_EXITED);
}

TEST_F(RunUnit, UnsignedIsRefused) {
  v1::UnitRunRequest request = Request();
  request.clear_envelope();
  ExpectRefused(request, "TP130 release-refused: it is not signed");
}

TEST_F(RunUnit, WithoutAKeyNothingRuns) {
  unlink(Path("keys/a.pem").c_str());
  ExpectRefused(Request(), "TP130 release-refused: no key is trusted");
}

TEST_F(RunUnit, WhatTheCallerChangesIsRefused) {
  v1::UnitRunRequest request = Request();
  request.mutable_release()->mutable_entries(0)->set_command(1, "--slow");
  ExpectRefused(request, "TP130");
  request = Request();
  request.set_entry("two");
  ExpectRefused(request, "has no entry");
  // The digest as signed, a file list that is another.
  request = Request();
  request.mutable_release()->mutable_artifact()->mutable_files(0)->set_mode(
      0777);
  ExpectRefused(request, "TP405");
}

TEST_F(RunUnit, AGpuThatIsNoneIsRefusedBeforeFilesAreAskedFor) {
  v1::UnitRunRequest request = Request();
  request.add_gpu_uuids(std::string("GPU-1\0LD_PRELOAD=/tmp/x.so", 26));
  int opened = 0;
  open_ = [&](const v1::ArtifactFile&) -> absl::StatusOr<UniqueFd> {
    ++opened;
    return absl::NotFoundError("gone");
  };
  ExpectRefused(request, "TP106 no-gpu");
  EXPECT_EQ(opened, 0);
}

TEST_F(RunUnit, AFileThatIsAnotherIsRefused) {
  v1::UnitRunRequest request = Request();
  Put("data", "DATA", 0644);
  ExpectRefused(request, "TP405 digest-differs: file data");
  Put("data", "data and more", 0644);
  ExpectRefused(request, "it has 13 bytes, not the 4 signed");
  Put("data", "dat", 0644);
  ExpectRefused(request, "it has 3 bytes, not the 4 signed");
}

// A file of another size is not read at all: this one would take minutes.
TEST_F(RunUnit, AFileOfAnotherSizeIsNotHashed) {
  open_ = [this](const v1::ArtifactFile&) -> absl::StatusOr<UniqueFd> {
    UniqueFd fd(open(Path("huge").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (ftruncate(fd.get(), off_t{1} << 40) != 0) {
      return absl::UnavailableError("no sparse file of a terabyte here");
    }
    return fd;
  };
  ExpectRefused(Request(), "it has 1099511627776 bytes, not the");
}

TEST_F(RunUnit, WhatIsNoFileIsRefused) {
  open_ = [](const v1::ArtifactFile&) -> absl::StatusOr<UniqueFd> {
    return UniqueFd(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  };
  ExpectRefused(Request(), "no regular file");
}

TEST_F(RunUnit, AnotherUserGetsNoAnswer) {
  if (getuid() == 0) GTEST_SKIP() << "root may always ask";
  options_.peer_user = "root";
  const v1::Observation seen = Ask(Request());
  EXPECT_EQ(seen.ending(), v1::ENDING_INTERRUPTED);
  EXPECT_EQ(served_.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_FALSE(asked_.has_entry());
}

TEST_F(RunUnit, WithoutASocketItIsRefused) {
  const v1::Observation seen =
      RunInUnit(Path("none"), Request(), open_, absl::Seconds(1), nullptr)
          .observation();
  EXPECT_EQ(seen.ending(), v1::ENDING_NOT_STARTED);
  EXPECT_THAT(seen.problem(), StartsWith("TP114 sandbox-unavailable"));
}

TEST_F(RunUnit, EachUnitRunsItsOwnKindOfEntry) {
  options_.containers = true;
  ExpectRefused(Request(), "TP114 sandbox-unavailable: twinpath-oci@.service");
  EXPECT_FALSE(asked_.has_entry());
}

// What ExecStopPost= says where the program in the unit could say nothing.
TEST_F(RunUnit, AUnitEndedBySystemdSaysWhy) {
  const auto ended = [&](const char* result, uint64_t taken = 0,
                         bool stop_timed_out = false) {
    return AskWho(Request(), [&](int connection) {
      EXPECT_THAT(ReportUnitEnd(connection, {result, stop_timed_out, taken}),
                  IsOk());
      // The kernel would throw away the answer if what was sent here were not
      // read, as systemd does not close before either.
      shutdown(connection, SHUT_WR);
      char bytes[4096];
      while (read(connection, bytes, sizeof(bytes)) > 0) {
      }
    });
  };
  v1::Observation seen = ended("timeout");
  EXPECT_EQ(seen.ending(), v1::ENDING_TIMED_OUT);
  EXPECT_THAT(seen.problem(), HasSubstr("RuntimeMaxSec"));
  EXPECT_EQ(seen.attempt_id(), Request().attempt_id());
  EXPECT_EQ(seen.path(), Request().path());
  // systemd says "timeout" of a stop that took too long, too.
  EXPECT_EQ(ended("timeout", 0, true).ending(), v1::ENDING_INTERRUPTED);
  seen = ended("oom-kill");
  EXPECT_EQ(seen.ending(), v1::ENDING_SIGNALED);
  EXPECT_THAT(seen.problem(), HasSubstr("memory limit"));
  // With OOMPolicy=continue systemd calls it a signal; the kernel counted it.
  seen = ended("signal", 1);
  EXPECT_EQ(seen.ending(), v1::ENDING_SIGNALED);
  EXPECT_THAT(seen.problem(), HasSubstr("memory limit"));
  EXPECT_EQ(ended("signal").ending(), v1::ENDING_INTERRUPTED);
  EXPECT_EQ(ended("success", 1).ending(), v1::ENDING_INTERRUPTED);
  EXPECT_EQ(ended("core-dump").ending(), v1::ENDING_INTERRUPTED);
}

TEST_F(RunUnit, ToldToEndItCopiesNothingMore) {
  options_.told_to_end = [&] {
    const auto runs = ListDirectory(Path("work"));
    // It has begun to copy.
    return runs.ok() && !runs->empty() &&
           access(
               Path(absl::StrCat("work/", runs->front(), "/artifact/bin/tool"))
                   .c_str(),
               F_OK) == 0;
  };
  const v1::Observation seen = Ask(Request());
  EXPECT_EQ(served_.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(seen.ending(), v1::ENDING_INTERRUPTED);
  EXPECT_FALSE(asked_.has_entry()) << "it ran";
  EXPECT_TRUE(ListDirectory(Path("work"))->empty());
}

TEST_F(RunUnit, ToldToEndItAnswersWithARunThatHadEnded) {
  bool told = false;
  options_.told_to_end = [&] { return told; };
  v1::Ending ending = v1::ENDING_EXITED;
  options_.run = [&](const v1::RunRequest&) {
    told = true;
    v1::RunResponse response;
    response.mutable_observation()->set_ending(ending);
    response.mutable_observation()->set_problem("of the run");
    return response;
  };
  for (const v1::Ending own :
       {v1::ENDING_EXITED, v1::ENDING_SIGNALED, v1::ENDING_TIMED_OUT}) {
    told = false;
    ending = own;
    EXPECT_EQ(Ask(Request()).ending(), own);
    EXPECT_THAT(served_, IsOk());
  }
  // Only systemd knows why.
  for (const v1::Ending other :
       {v1::ENDING_INTERRUPTED, v1::ENDING_NOT_STARTED}) {
    told = false;
    ending = other;
    const v1::Observation seen = Ask(Request());
    EXPECT_EQ(seen.ending(), v1::ENDING_INTERRUPTED);
    EXPECT_NE(seen.problem(), "of the run");
    EXPECT_EQ(served_.code(), absl::StatusCode::kCancelled);
  }
}

TEST_F(RunUnit, AUnitThatEndsIsAnInterruption) {
  open_ = [](const v1::ArtifactFile&) -> absl::StatusOr<UniqueFd> {
    return absl::NotFoundError("gone");
  };
  const v1::Observation seen = Ask(Request());
  EXPECT_EQ(seen.ending(), v1::ENDING_INTERRUPTED);
  EXPECT_THAT(seen.problem(), HasSubstr("gone"));
}

// What goes over the socket byte by byte.
class UnitSocket : public ::testing::Test {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    a_ = UniqueFd(pair[0]);
    b_ = UniqueFd(pair[1]);
  }
  absl::Status Read(v1::FilesWanted& message, size_t most = 100) {
    return ReadMessage(b_.get(), Patience::For(absl::Minutes(1)), most,
                       message);
  }
  UniqueFd a_;
  UniqueFd b_;
};

TEST_F(UnitSocket, AMessageLongerThanAllowedIsNotRead) {
  ASSERT_THAT(WriteAll(a_.get(), std::string("\xff\xff\xff\xff", 4)), IsOk());
  v1::FilesWanted message;
  EXPECT_EQ(Read(message).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(UnitSocket, AnEndInTheMiddleIsNoMessage) {
  ASSERT_THAT(WriteAll(a_.get(), std::string("\0\0\0\x09xx", 6)), IsOk());
  a_.Close();
  v1::FilesWanted message;
  EXPECT_EQ(Read(message).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(PeerIsGone(b_.get()));
}

TEST_F(UnitSocket, NonsenseIsNoMessage) {
  ASSERT_THAT(WriteAll(a_.get(), std::string("\0\0\0\x02\xff\xff", 6)), IsOk());
  v1::FilesWanted message;
  EXPECT_EQ(Read(message).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(UnitSocket, DescriptorsThatWereNotAskedForAreRefused) {
  const int numbers[] = {0, 1, 2};
  ASSERT_THAT(
      SendDescriptors(a_.get(), Patience::For(absl::Minutes(1)), numbers),
      IsOk());
  EXPECT_FALSE(
      ReceiveDescriptors(b_.get(), 2, Patience::For(absl::Minutes(1))).ok());
  // With a message they are dropped by the kernel.
  ASSERT_THAT(
      SendDescriptors(a_.get(), Patience::For(absl::Minutes(1)), numbers),
      IsOk());
  ASSERT_THAT(WriteAll(a_.get(), std::string("\0\0\0", 3)), IsOk());
  const int next = dup(0);
  close(next);
  v1::FilesWanted message;
  EXPECT_EQ(Read(message, 10).code(), absl::StatusCode::kResourceExhausted);
  const int again = dup(0);
  EXPECT_EQ(next, again);
  close(again);
}

// The other end reads nothing: more is sent than a socket takes.
TEST_F(UnitSocket, SendingEnds) {
  v1::RunRequest message;
  message.set_artifact_directory(std::string(16 << 20, 'x'));
  EXPECT_EQ(
      WriteMessage(a_.get(), Patience::For(absl::Milliseconds(200)), message)
          .code(),
      absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(WriteMessage(a_.get(),
                         Patience::For(absl::Minutes(1), [] { return true; }),
                         message)
                .code(),
            absl::StatusCode::kCancelled);
  const int numbers[] = {0};
  EXPECT_EQ(
      SendDescriptors(a_.get(), Patience::For(absl::Milliseconds(200)), numbers)
          .code(),
      absl::StatusCode::kDeadlineExceeded);
  b_.Close();
  EXPECT_EQ(
      WriteMessage(a_.get(), Patience::For(absl::Minutes(1)), message).code(),
      absl::StatusCode::kUnavailable);
}

TEST_F(UnitSocket, WaitingEnds) {
  v1::FilesWanted message;
  EXPECT_EQ(
      ReadMessage(b_.get(), Patience::For(absl::ZeroDuration()), 10, message)
          .code(),
      absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReadMessage(b_.get(),
                        Patience::For(absl::Minutes(1), [] { return true; }),
                        10, message)
                .code(),
            absl::StatusCode::kCancelled);
  EXPECT_FALSE(PeerIsGone(b_.get()));
}

}  // namespace
}  // namespace twinpath::runner
