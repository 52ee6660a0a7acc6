#include "runner/load_images.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace twinpath::runner {
namespace {

using State = LoadAnswer::State;

constexpr int kOutOfMemory = 2;
constexpr size_t kMostTogetherBytes = 1000;
// Larger links take minutes, and one that large has not been met.
constexpr uint64_t kMostLinkBytes = uint64_t{2} << 30;

class Session {
 public:
  Session(const LoadList& list, LoadWorkers options,
          const std::function<void(const LoadAnswer&)>& answered)
      : list_(list), options_(std::move(options)), tell_(answered) {
    options_.workers = list.workers;
    options_.most_image_bytes = list.memory_bytes;
    options_.compile_limit = list.compile_limit;
  }

  LoadOutcome Run() {
    outcome_.hello = AskDriver(options_);
    if (!outcome_.hello.up) return outcome_;
    device_ = outcome_.hello.device;
    LoadAlone(/*relocatable=*/false);
    Link();
    return outcome_;
  }

 private:
  // Links are for machine code and PTX that this device could take.
  bool Links(const LoadImage& image) const {
    return image.relocatable && image.Fits(device_);
  }

  LoadTask Alone(const LoadImage& image) const {
    LoadTask task;
    task.file = list_.files[image.file];
    task.jobs = {image.job};
    task.compiles = image.job.ptx && image.Fits(device_);
    return task;
  }

  void Tell(const LoadAnswer& answer) {
    if (done_.insert(answer.id).second) tell_(answer);
  }

  void Count(const LoadOutcome& outcome) {
    // Without tasks there is no code.
    if (!outcome.hello.up && !outcome.hello.code.empty()) {
      outcome_.hello = outcome.hello;
    }
    outcome_.deaths += outcome.deaths;
    outcome_.peak_device_bytes =
        std::max(outcome_.peak_device_bytes, outcome.peak_device_bytes);
  }

  // Runs tasks; out of memory is no answer about an image, as long as others
  // were loaded beside it.
  void Run(std::deque<LoadTask>& tasks, bool tell) {
    const auto run = [&](int workers) {
      LoadWorkers options = options_;
      options.workers = workers;
      options.answered = [&](const LoadTask& task) {
        const bool again = workers > 1 &&
                           task.answer.state == State::kRefused &&
                           task.answer.cuda_error == kOutOfMemory;
        if (tell && !again) Tell(task.answer);
      };
      std::vector<LoadTask*> all;
      for (LoadTask& task : tasks) all.push_back(&task);
      Count(RunLoadTasks(options, all));
    };
    run(list_.workers);
    if (list_.workers == 1) return;
    bool any = false;
    for (LoadTask& task : tasks) {
      if (task.answer.state == State::kRefused &&
          task.answer.cuda_error == kOutOfMemory) {
        task.answer = {};
        any = true;
      }
    }
    if (any) run(1);
  }

  // `relocatable`: those that would be linked, for drivers without a linker.
  void LoadAlone(bool relocatable) {
    std::deque<LoadTask> tasks;
    for (const LoadImage& image : list_.images) {
      if (Links(image) == relocatable && done_.count(image.job.id) == 0) {
        tasks.push_back(Alone(image));
      }
    }
    Run(tasks, /*tell=*/true);
  }

  // One try of a link: its pieces, and those that its success proves.
  struct Set {
    uint32_t file = 0;
    std::vector<uint32_t> pieces;
    std::vector<uint32_t> proves;
  };

  // Whether `a` is nearer to the device than `b`, of one fatbin and kind.
  bool Better(const LoadImage& a, const LoadImage& b) const {
    return std::make_tuple(a.job.number, a.suffix == v1::TARGET_SUFFIX_ARCH,
                           a.suffix == v1::TARGET_SUFFIX_FAMILY) >
           std::make_tuple(b.job.number, b.suffix == v1::TARGET_SUFFIX_ARCH,
                           b.suffix == v1::TARGET_SUFFIX_FAMILY);
  }

  // Of each fatbin of a file, by kind (PTX or not) and target. Bare images are
  // fatbins of their own in the report.
  using Target = std::pair<uint32_t, v1::TargetSuffix>;
  struct FileSets {
    // Best piece of each fatbin, machine code and PTX.
    std::map<uint32_t, uint32_t> best[2];
    std::map<Target, std::map<uint32_t, uint32_t>> by_target[2];
  };

  std::map<uint32_t, FileSets> Sets() const {
    std::map<uint32_t, FileSets> files;
    for (const LoadImage& image : list_.images) {
      if (!Links(image)) continue;
      FileSets& sets = files[image.file];
      const size_t kind = image.job.ptx ? 1 : 0;
      auto [it, first] =
          sets.best[kind].try_emplace(image.fatbin, image.job.id);
      if (!first && Better(image, list_.images[it->second])) {
        it->second = image.job.id;
      }
      sets.by_target[kind][{image.job.number, image.suffix}].try_emplace(
          image.fatbin, image.job.id);
    }
    return files;
  }

  // The sets of a round, only those that prove something yet unproven.
  std::vector<Set> Round(bool mixed) const {
    std::vector<Set> round;
    for (const auto& [file, sets] : Sets()) {
      for (const size_t kind : {0u, 1u}) {
        for (const auto& [target, own] : sets.by_target[kind]) {
          std::map<uint32_t, uint32_t> chosen = own;
          chosen.insert(sets.best[kind].begin(), sets.best[kind].end());
          const size_t before = chosen.size();
          if (mixed) {
            const auto& other = sets.best[1 - kind];
            chosen.insert(other.begin(), other.end());
            if (chosen.size() == before) continue;
          }
          Set set;
          set.file = file;
          for (const auto& [fatbin, id] : chosen) set.pieces.push_back(id);
          for (const auto& [fatbin, id] : own) {
            if (done_.count(id) == 0) set.proves.push_back(id);
          }
          if (!set.proves.empty()) round.push_back(std::move(set));
        }
      }
    }
    return round;
  }

  std::vector<Set> Singles() const {
    std::vector<Set> round;
    for (const LoadImage& image : list_.images) {
      if (!Links(image) || done_.count(image.job.id) > 0) continue;
      Set& set = round.emplace_back();
      set.file = image.file;
      set.pieces = set.proves = {image.job.id};
    }
    return round;
  }

  LoadTask TaskOf(const Set& set) const {
    LoadTask task;
    task.file = list_.files[set.file];
    task.link = task.compiles = true;
    for (const uint32_t id : set.pieces) {
      LoadJob job = list_.images[id].job;
      // The linker takes no entry of a fatbin.
      if (job.form == LoadJob::Form::kEntry) {
        job.form = LoadJob::Form::kPayload;
      }
      task.jobs.push_back(job);
    }
    return task;
  }

  // Links the sets; what succeeds is told. `last`: failures are told, too.
  // Returns false where the driver has no linker.
  bool TryLinks(const std::vector<Set>& sets, bool last) {
    std::deque<LoadTask> tasks;
    std::vector<const Set*> tried;
    for (const Set& set : sets) {
      LoadTask task = TaskOf(set);
      if (!last && (set.pieces.size() == 1 || task.Bytes() > kMostLinkBytes)) {
        continue;
      }
      tasks.push_back(std::move(task));
      tried.push_back(&set);
    }
    Run(tasks, /*tell=*/false);
    for (size_t i = 0; i < tasks.size(); ++i) {
      const LoadAnswer& answer = tasks[i].answer;
      if (answer.state == State::kWaiting) continue;
      if (answer.state == State::kUnread && !HasLinker(answer)) return false;
      if (answer.state != State::kLoaded && !last) {
        for (const uint32_t id : tried[i]->proves) {
          together_[id] = absl::StrCat(
              "linked with ", tried[i]->pieces.size() - 1, " others: ",
              absl::string_view(answer.log).substr(0, kMostTogetherBytes));
        }
        continue;
      }
      LoadAnswer each = answer;
      for (const uint32_t id : tried[i]->proves) {
        each.id = id;
        if (each.state != State::kLoaded && together_.count(id) > 0) {
          each.log = absl::StrCat(
              absl::string_view(answer.log).substr(0, kMostTogetherBytes), "\n",
              together_[id]);
        }
        Tell(each);
        // The functions are those of the whole, once.
        each.functions = each.kernels = 0;
        each.device_bytes = 0;
        each.duration = absl::ZeroDuration();
        each.odd.clear();
      }
    }
    return true;
  }

  static bool HasLinker(const LoadAnswer& answer) {
    return answer.log.rfind("libcuda.so.1 has no linker", 0) != 0;
  }

  void Link() {
    if (!TryLinks(Round(/*mixed=*/false), false) ||
        !TryLinks(Round(/*mixed=*/true), false) || !TryLinks(Singles(), true)) {
      LoadAlone(/*relocatable=*/true);
    }
  }

  const LoadList& list_;
  LoadWorkers options_;
  const std::function<void(const LoadAnswer&)>& tell_;
  uint32_t device_ = 0;
  std::set<uint32_t> done_;
  // What the links of several pieces said, by image.
  std::map<uint32_t, std::string> together_;
  LoadOutcome outcome_;
};

}  // namespace

LoadOutcome LoadImages(const LoadList& list, LoadWorkers options,
                       const std::function<void(const LoadAnswer&)>& answered) {
  return Session(list, std::move(options), answered).Run();
}

}  // namespace twinpath::runner
