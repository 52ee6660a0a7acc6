#include "runner/load_worker.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/status.h"
#include "runner/child_protocol.h"
#include "runner/load_answer.h"
#include "runner/load_driver.h"
#include "runner/load_job.h"

namespace twinpath::runner {
namespace {

constexpr size_t kMostPieces = 100'000;

int Complain(absl::string_view what) {
  std::fprintf(stderr, "twinpath-load: error: %s\n", std::string(what).c_str());
  return kExitUsage;
}

LoadAnswer Unread(uint32_t id, const absl::Status& status) {
  LoadAnswer answer;
  answer.id = id;
  answer.state = LoadAnswer::State::kUnread;
  answer.log = std::string(MessageOf(status));
  return answer;
}

// The file, or why it cannot be read: that is an answer about each image.
using File = absl::StatusOr<UniqueFd>;

absl::StatusOr<std::string> BytesIn(const File& file, const LoadJob& job) {
  if (!file.ok()) return file.status();
  return BytesOf(file->get(), job);
}

LoadAnswer LoadOne(LoadDriver& driver, const File& file, const LoadJob& job) {
  const absl::StatusOr<std::string> bytes = BytesIn(file, job);
  if (!bytes.ok()) return Unread(job.id, bytes.status());
  return driver.Load(job, *bytes);
}

LoadAnswer LinkAll(LoadDriver& driver, const File& file, uint32_t id,
                   const std::vector<LoadJob>& jobs) {
  std::vector<LoadDriver::Piece> pieces;
  for (const LoadJob& job : jobs) {
    absl::StatusOr<std::string> bytes = BytesIn(file, job);
    if (!bytes.ok()) {
      LoadAnswer answer = Unread(id, bytes.status());
      answer.linked = true;
      return answer;
    }
    pieces.push_back({&job, *std::move(bytes)});
  }
  LoadAnswer answer = driver.Link(pieces);
  answer.id = id;
  return answer;
}

}  // namespace

int RunLoadWorker(const std::string& path) {
  // A fault of the driver ends this process and says which it was, whoever else
  // would like to handle it.
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    std::signal(fault, SIG_DFL);
  }
  // Drivers print as they please.
  const int out = ClaimStandardOutput();
  const File file = path.empty() ? File(UniqueFd()) : OpenRegularFile(path);
  LoadDriver driver;
  const LoadHello hello = driver.Start();
  if (!WriteAll(out, hello.Line()).ok()) return kExitInternal;
  if (!hello.up) std::_Exit(kExitFail);
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    LoadAnswer answer;
    if (words[0] == "link") {
      uint32_t id = 0;
      size_t count = 0;
      if (words.size() != 3 || !absl::SimpleAtoi(words[1], &id) ||
          !absl::SimpleAtoi(words[2], &count) || count == 0 ||
          count > kMostPieces) {
        return Complain(absl::StrCat("no link: ", line));
      }
      std::vector<LoadJob> jobs;
      while (jobs.size() < count && std::getline(std::cin, line)) {
        const absl::StatusOr<LoadJob> job = LoadJob::Parse(line);
        if (!job.ok()) return Complain(MessageOf(job.status()));
        jobs.push_back(*job);
      }
      answer = LinkAll(driver, file, id, jobs);
    } else {
      const absl::StatusOr<LoadJob> job = LoadJob::Parse(line);
      if (!job.ok()) return Complain(MessageOf(job.status()));
      answer = LoadOne(driver, file, *job);
    }
    if (!WriteAll(out, answer.Line()).ok()) return kExitInternal;
  }
  // The driver's own exit handlers have been seen to hang; all is said.
  std::_Exit(kExitPass);
}

}  // namespace twinpath::runner
