#include "runner/load_workers.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace twinpath::runner {
namespace {

// A line is an answer with a log and some kernels.
constexpr size_t kMostLineBytes = 4 << 20;

// A driver that came up once may fail to for a worker or two.
constexpr int kMostFailedStarts = 3;

struct Chunk {
  std::deque<LoadTask*> tasks;
};

std::string LinesOf(const LoadTask& task) {
  if (!task.link) return task.jobs[0].Line();
  std::string lines =
      absl::StrCat("link ", task.jobs[0].id, " ", task.jobs.size(), "\n");
  for (const LoadJob& job : task.jobs) lines += job.Line();
  return lines;
}

// One life of a worker: what it says as it says it, and how long it has been
// silent. Everything here happens in one thread.
class Life {
 public:
  Life(const LoadWorkers& options, std::deque<LoadTask*>& left,
       const std::function<void(LoadTask&)>& answered)
      : options_(options), left_(left), answered_(answered) {}

  absl::StatusOr<ProcessResult> Run(const std::string& file) {
    ProcessOptions process;
    process.argv = {options_.program, "--worker"};
    if (!file.empty()) process.argv.push_back(file);
    process.environment =
        options_.environments[left_.empty() ? 0 : left_.front()->environment];
    for (const LoadTask* task : left_) process.input += LinesOf(*task);
    process.head_bytes = 4096;
    process.on_output = [this](absl::string_view piece) { Take(piece); };
    // Each image has its own limit; this is beyond them all.
    process.timeout = absl::Hours(24);
    process.grace = absl::ZeroDuration();
    process.cancelled = [this] { return Over(); };
    since_ = absl::Now();
    return RunProcess(process);
  }

  const LoadHello& hello() const { return hello_; }
  bool said_hello() const { return said_hello_; }
  // Ended because an image, or the start, took too long.
  bool slow() const { return slow_; }
  // Ended because all time is over.
  bool stopped() const { return stopped_; }
  size_t answers() const { return answers_; }

 private:
  absl::Duration Limit() const {
    if (!said_hello_) return options_.start_limit;
    if (left_.empty()) return options_.load_limit;
    return left_.front()->compiles ? options_.compile_limit
                                   : options_.load_limit;
  }

  bool Over() {
    const absl::Time now = absl::Now();
    stopped_ = now >= options_.deadline ||
               (options_.cancelled && options_.cancelled());
    slow_ = !stopped_ && now - since_ >= Limit();
    return stopped_ || slow_;
  }

  void Take(absl::string_view piece) {
    text_.append(piece.data(), piece.size());
    size_t begin = 0;
    for (size_t end = text_.find('\n'); end != std::string::npos;
         end = text_.find('\n', begin)) {
      Line(absl::string_view(text_).substr(begin, end - begin));
      begin = end + 1;
    }
    text_.erase(0, begin);
    if (text_.size() > kMostLineBytes) text_.clear();
  }

  void Line(absl::string_view line) {
    if (!said_hello_) {
      absl::StatusOr<LoadHello> hello = LoadHello::Parse(line);
      if (!hello.ok()) return;
      hello_ = *std::move(hello);
      said_hello_ = true;
      since_ = absl::Now();
      return;
    }
    absl::StatusOr<LoadAnswer> answer = LoadAnswer::Parse(line);
    if (!answer.ok() || left_.empty() ||
        answer->id != left_.front()->jobs[0].id) {
      return;
    }
    LoadTask& task = *left_.front();
    left_.pop_front();
    ++answers_;
    task.answer = *std::move(answer);
    since_ = absl::Now();
    answered_(task);
  }

  const LoadWorkers& options_;
  std::deque<LoadTask*>& left_;
  const std::function<void(LoadTask&)>& answered_;
  std::string text_;
  LoadHello hello_;
  bool said_hello_ = false;
  bool slow_ = false;
  bool stopped_ = false;
  size_t answers_ = 0;
  absl::Time since_;
};

LoadHello Down(absl::string_view code, std::string text) {
  LoadHello hello;
  hello.code = std::string(code);
  hello.text = std::move(text);
  return hello;
}

// Why a worker that ended without a word did not come up.
LoadHello HelloOf(const Life& life, const absl::StatusOr<ProcessResult>& ran,
                  const LoadWorkers& options) {
  if (!ran.ok()) return Down("TP102", std::string(MessageOf(ran.status())));
  if (life.said_hello()) return life.hello();
  if (life.slow()) {
    return Down("TP103",
                absl::StrCat("the driver did not come up within ",
                             absl::FormatDuration(options.start_limit)));
  }
  if (life.stopped()) return Down("TP336", "there was no time");
  return Down(
      "TP102",
      absl::StrCat("the process ended while the driver came up: ",
                   ran->Describe(), ran->err.head.empty() ? "" : ": ",
                   Printable(absl::string_view(ran->err.head).substr(0, 300))));
}

class Pool {
 public:
  Pool(const LoadWorkers& options, std::deque<Chunk> chunks)
      : options_(options), chunks_(std::move(chunks)) {}

  LoadOutcome Run() {
    std::vector<std::thread> threads;
    const int workers = std::max(options_.workers, 1);
    for (int i = 0; i < workers; ++i) {
      threads.emplace_back([this] { Work(); });
    }
    for (std::thread& thread : threads) thread.join();
    const MutexLock lock(mutex_);
    return outcome_;
  }

 private:
  bool Stopping() const {
    return absl::Now() >= options_.deadline ||
           (options_.cancelled && options_.cancelled());
  }

  void Work() {
    uint64_t largest = 0;
    Chunk chunk;
    while (Next(chunk)) RunChunk(std::move(chunk), largest);
    const MutexLock lock(mutex_);
    outcome_.peak_device_bytes += largest;
  }

  bool Next(Chunk& chunk) {
    const MutexLock lock(mutex_);
    // What others may still leave behind is little.
    if (chunks_.empty() || failed_) return false;
    chunk = std::move(chunks_.front());
    chunks_.pop_front();
    return true;
  }

  void RunChunk(Chunk chunk, uint64_t& largest) {
    const std::function<void(LoadTask&)> answered = [&](LoadTask& task) {
      largest = std::max(largest, task.answer.device_bytes);
      Tell(task);
    };
    while (!chunk.tasks.empty() && !Stopping()) {
      Life life(options_, chunk.tasks, answered);
      const absl::StatusOr<ProcessResult> ran =
          life.Run(chunk.tasks.front()->file);
      const LoadHello hello = HelloOf(life, ran, options_);
      {
        const MutexLock lock(mutex_);
        if (!outcome_.hello.up) outcome_.hello = hello;
        if (!hello.up && !life.stopped()) {
          failed_ = !outcome_.hello.up || ++failed_starts_ > kMostFailedStarts;
          if (failed_) outcome_.hello = hello;
        }
        if (failed_) return;
      }
      if (!hello.up) {
        if (life.stopped()) return;
        continue;
      }
      if (chunk.tasks.empty() || life.stopped()) return;
      LoadTask& culprit = *chunk.tasks.front();
      chunk.tasks.pop_front();
      culprit.answer = {};
      culprit.answer.id = culprit.jobs[0].id;
      culprit.answer.linked = culprit.link;
      if (life.slow()) {
        culprit.answer.state = LoadAnswer::State::kSlow;
        culprit.answer.log = absl::StrCat(
            "not done within ",
            absl::FormatDuration(culprit.compiles ? options_.compile_limit
                                                  : options_.load_limit));
      } else {
        culprit.answer.state = LoadAnswer::State::kDied;
        culprit.answer.log = absl::StrCat(
            "the process ended while it was loaded: ", ran->Describe());
        const MutexLock lock(mutex_);
        ++outcome_.deaths;
      }
      Tell(culprit);
      // Where images kill their process one after another, others help.
      LeaveHalf(chunk);
    }
  }

  void LeaveHalf(Chunk& chunk) {
    if (chunk.tasks.size() < 2) return;
    const auto middle = chunk.tasks.begin() +
                        static_cast<std::ptrdiff_t>(chunk.tasks.size() / 2);
    Chunk rest;
    rest.tasks.assign(middle, chunk.tasks.end());
    chunk.tasks.erase(middle, chunk.tasks.end());
    const MutexLock lock(mutex_);
    chunks_.push_front(std::move(rest));
  }

  void Tell(const LoadTask& task) {
    if (!options_.answered) return;
    const MutexLock lock(mutex_);
    options_.answered(task);
  }

  const LoadWorkers& options_;
  mutable Mutex mutex_;
  std::deque<Chunk> chunks_ ABSL_GUARDED_BY(mutex_);
  LoadOutcome outcome_ ABSL_GUARDED_BY(mutex_);
  int failed_starts_ ABSL_GUARDED_BY(mutex_) = 0;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Cheap ones first, so that compiling cannot push them out.
std::deque<Chunk> Chunks(const LoadWorkers& options,
                         const std::vector<LoadTask*>& tasks) {
  std::deque<Chunk> chunks;
  for (const bool compiles : {false, true}) {
    std::vector<LoadTask*> chosen;
    for (LoadTask* task : tasks) {
      if (task->compiles == compiles &&
          task->answer.state == LoadAnswer::State::kWaiting) {
        chosen.push_back(task);
      }
    }
    if (compiles) {
      std::stable_sort(chosen.begin(), chosen.end(),
                       [](const LoadTask* a, const LoadTask* b) {
                         return a->Bytes() < b->Bytes();
                       });
    }
    // Every worker gets some, and none more than a life's worth.
    const size_t share =
        (chosen.size() + static_cast<size_t>(options.workers)) /
        static_cast<size_t>(std::max(options.workers, 1));
    const size_t most = std::clamp<size_t>(
        share, 1,
        compiles ? options.compiles_of_a_worker : options.loads_of_a_worker);
    std::map<std::pair<std::string, size_t>, Chunk> open;
    for (LoadTask* task : chosen) {
      Chunk& chunk = open[{task->file, task->environment}];
      chunk.tasks.push_back(task);
      if (chunk.tasks.size() == most) {
        chunks.push_back(std::move(chunk));
        chunk = {};
      }
    }
    for (auto& [key, chunk] : open) {
      if (!chunk.tasks.empty()) chunks.push_back(std::move(chunk));
    }
  }
  return chunks;
}

}  // namespace

uint64_t LoadTask::Bytes() const {
  uint64_t bytes = 0;
  for (const LoadJob& job : jobs) {
    bytes += std::max(job.bytes, job.expanded);
  }
  return bytes;
}

LoadHello AskDriver(const LoadWorkers& options) {
  std::deque<LoadTask*> none;
  const std::function<void(LoadTask&)> answered = [](LoadTask&) {};
  Life life(options, none, answered);
  const absl::StatusOr<ProcessResult> ran = life.Run("");
  return HelloOf(life, ran, options);
}

LoadOutcome RunLoadTasks(const LoadWorkers& options,
                         const std::vector<LoadTask*>& tasks) {
  for (LoadTask* task : tasks) {
    if (task->answer.state != LoadAnswer::State::kWaiting ||
        options.most_image_bytes == 0 ||
        task->Bytes() <= options.most_image_bytes) {
      continue;
    }
    task->answer.id = task->jobs[0].id;
    task->answer.linked = task->link;
    task->answer.state = LoadAnswer::State::kTooLarge;
    task->answer.log =
        absl::StrCat("its ", HumanBytes(task->Bytes()), " are above the ",
                     HumanBytes(options.most_image_bytes),
                     " of device memory that may be used");
    if (options.answered) options.answered(*task);
  }
  return Pool(options, Chunks(options, tasks)).Run();
}

}  // namespace twinpath::runner
