// Gives every image of CUDA libraries to this host's driver and compares each
// answer with the prediction.
//
//   gpu_images [--facts FILE] [--json FILE] [--seconds N] [--workers N]
//              [--ptx N] LIBRARY...
//
// Each image is loaded eagerly by cuModuleLoadDataEx in a child, with the JIT
// cache off, in four ways: its entry as it lies in the file, in a fatbin of its
// own, with CUDA_DISABLE_PTX_JIT=1 (native), with CUDA_FORCE_PTX_JIT=1
// (ptx-jit) and with neither (plain); and its decoded payload without a fatbin
// (plain). Each whole fatbin is loaded on the three paths too: the driver's
// choice. A child takes up to 400 images and has one module loaded at a time;
// one that dies is named, and the next child goes on behind it.
//
// Machine code, and PTX that is predicted not to compile, is tried whole. Of
// what is predicted to compile --ptx N (default 24) are tried of each library,
// path and way: every k-th in order of decoded size, the smallest first. What
// takes above 60 s, or is left at --seconds (default 380), is counted as not
// tried.
//
// Not compared: images nothing is predicted for (unknown), and pieces for a
// link that fail alone with 218, 300 or 500 (their other halves lie in
// other fatbins).
//
// Exit 0: all equal; 1: a difference, listed; 2: usage, or nothing could be
// tried; 3: no GPU.

#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/subprocess.h"
#include "compat/file_host_half.h"
#include "compat/host_check.h"
#include "compat/image_rules.h"
#include "compat/predict.h"
#include "compat/prepared.h"
#include "compat/tables.h"
#include "compat/target.h"
#include "inspect/inspect.h"
#include "runner/facts.h"
#include "tests/gpu/image_job.h"
#include "tests/gpu/row_outcome.h"

extern char** environ;

namespace twinpath::gpu {
namespace {

constexpr size_t kImagesOfAChild = 400;
constexpr size_t kCompilesOfAChild = 2;
constexpr absl::Duration kLongestCompile = absl::Seconds(60);
constexpr size_t kDifferencesShown = 60;
constexpr const char* kPathNames[] = {"native", "ptx-jit", "plain"};

enum class State { kWaiting, kAnswered, kSlow, kDied, kSampledOut };

// One image or fatbin, one way, one path.
struct Try {
  ImageJob job;
  size_t path = 0;
  std::string what;
  v1::Outcome outcome = v1::OUTCOME_UNKNOWN;
  uint32_t cuda_error = 0;
  bool relocatable = false;
  State state = State::kWaiting;
  int result = 0;
  std::string note;

  bool compiles() const { return outcome == v1::OUTCOME_JIT; }
  bool loads() const { return compiles() || outcome == v1::OUTCOME_NATIVE; }
  bool equal() const {
    return loads() ? result == 0 : result == static_cast<int>(cuda_error);
  }
  bool link_input() const {
    return relocatable && (result == 218 || result == 300 || result == 500);
  }
};

struct Library {
  std::string path;
  v1::ArtifactReport report;
  size_t images = 0;
  size_t fatbins = 0;
  std::deque<Try> tries;
};

struct Options {
  std::string facts;
  std::string json;
  absl::Duration seconds = absl::Seconds(380);
  int workers = 8;
  size_t ptx = 24;
  std::vector<std::string> libraries;
};

void Predicted(const v1::PathPrediction& path, Try& of) {
  of.outcome = path.outcome();
  of.cuda_error = path.reasons().empty() ? 0 : path.reasons(0).cuda_error();
}

void Predicted(const compat::internal::Decision& decision, Try& of) {
  of.outcome = decision.outcome;
  of.cuda_error = decision.cuda_error;
}

// All tries of a library, with what is predicted for each.
class Planner {
 public:
  Planner(Library& library, const v1::HostFacts& facts, const v1::Gpu& gpu,
          const compat::Tables& tables)
      : library_(library),
        tables_(tables),
        host_(compat::LookAtHost(facts, gpu, tables)) {
    compat::PredictOptions options;
    options.all_images = true;
    options.max_kernels = 0;
    prediction_ = compat::Predict(library.report, facts, gpu, tables, options);
    for (const auto& image : prediction_.files(0).images()) {
      by_image_[image.image()] = &image;
    }
  }

  void Plan() {
    const v1::FileReport& report = library_.report.files(0);
    const compat::internal::Prepared prepared(library_.report,
                                              compat::internal::Take::kAll);
    for (const auto& view : prepared.files()[0].fatbins) {
      const v1::Fatbin& fatbin = report.fatbins(static_cast<int>(view.index));
      if (view.damaged) continue;
      ++library_.fatbins;
      bool relocatable = false;
      std::vector<std::string> names;
      for (size_t i = 0; i < view.images.size(); ++i) {
        ++library_.images;
        relocatable |= view.images[i].relocatable();
        names.push_back(Name(view.images[i]));
        PlanImage(view, view.images[i], fatbin.images(static_cast<int>(i)));
      }
      if (!view.bare) PlanFatbin(view, fatbin, names, relocatable);
    }
  }

 private:
  static std::string Name(const compat::internal::ImageView& image) {
    return absl::StrCat(
        image.relocatable() ? "relocatable " : "",
        image.kind == v1::IMAGE_KIND_OTHER
            ? absl::StrCat("kind ", image.kind_number)
            : compat::TargetName(image.kind, image.target),
        image.ptx() ? absl::StrCat("@", image.ptx_isa.ToString()) : "");
  }

  Try& Add(ImageJob::Form form, uint64_t offset, size_t path,
           std::string what) {
    Try& added = library_.tries.emplace_back();
    added.job.id = static_cast<uint32_t>(library_.tries.size() - 1);
    added.job.form = form;
    added.job.offset = offset;
    added.path = path;
    added.what = std::move(what);
    return added;
  }

  void PlanImage(const compat::internal::FatbinView& view,
                 const compat::internal::ImageView& image,
                 const v1::Image& found) {
    const auto fill = [&](Try& of) {
      of.job.bytes = found.stored_bytes();
      of.job.expanded = found.expanded_bytes();
      of.job.compression = found.compression();
      of.relocatable = image.relocatable();
    };
    const std::string name = absl::StrCat(Name(image), " at ", found.offset());
    for (size_t path = 0; path < 3; ++path) {
      Try& entry = Add(
          view.bare ? ImageJob::Form::kBare : ImageJob::Form::kEntry,
          found.offset(), path, absl::StrCat(view.bare ? "bare " : "", name));
      fill(entry);
      const auto it = by_image_.find(image.index);
      if (it != by_image_.end()) {
        Predicted(it->second->paths(static_cast<int>(path)), entry);
      } else {
        // In a fatbin that does not count (without kernels, left over).
        Predicted(
            compat::internal::DecideImage(view, image, host_, tables_)[path],
            entry);
      }
    }
    if (view.bare || found.compression() == v1::COMPRESSION_OPAQUE ||
        (!image.sass() && !image.ptx())) {
      return;
    }
    Try& payload =
        Add(ImageJob::Form::kPayload, found.offset(), compat::internal::kPlain,
            absl::StrCat("payload of ", name));
    fill(payload);
    compat::internal::FatbinView bare;
    bare.bare = true;
    Predicted(compat::internal::DecideImage(bare, image, host_,
                                            tables_)[compat::internal::kPlain],
              payload);
  }

  void PlanFatbin(const compat::internal::FatbinView& view,
                  const v1::Fatbin& fatbin,
                  const std::vector<std::string>& names, bool relocatable) {
    const compat::internal::Decisions decisions =
        compat::internal::DecideFatbin(view, host_, tables_);
    for (size_t path = 0; path < 3; ++path) {
      Try& whole = Add(ImageJob::Form::kFatbin, fatbin.offset(), path,
                       absl::StrCat("fatbin at ", fatbin.offset(), " of ",
                                    absl::StrJoin(names, " ")));
      whole.job.bytes = fatbin.size_bytes();
      // Its size is that of what would be compiled.
      whole.job.expanded = fatbin.size_bytes();
      whole.relocatable = relocatable;
      Predicted(decisions[path], whole);
    }
  }

  Library& library_;
  const compat::Tables& tables_;
  const compat::HostView host_;
  v1::Prediction prediction_;
  std::map<uint32_t, const v1::ImagePrediction*> by_image_;
};

// Keeps every k-th of what is predicted to compile.
void Sample(Library& library, size_t most) {
  std::map<std::pair<size_t, ImageJob::Form>, std::vector<Try*>> groups;
  for (Try& each : library.tries) {
    if (each.compiles()) groups[{each.path, each.job.form}].push_back(&each);
  }
  for (auto& [key, group] : groups) {
    std::stable_sort(group.begin(), group.end(),
                     [](const Try* a, const Try* b) {
                       return a->job.expanded < b->job.expanded;
                     });
    std::vector<bool> kept(group.size(), group.size() <= most);
    for (size_t k = 0; k < most && group.size() > most; ++k) {
      kept[k * group.size() / most] = true;
    }
    for (size_t i = 0; i < group.size(); ++i) {
      if (!kept[i]) group[i]->state = State::kSampledOut;
    }
  }
}

struct Chunk {
  Library* library = nullptr;
  std::vector<Try*> tries;
};

// Cheap ones first, so that compiling cannot push them out.
std::deque<Chunk> Chunks(std::vector<std::unique_ptr<Library>>& libraries) {
  std::deque<Chunk> chunks;
  for (const bool compiles : {false, true}) {
    const size_t most = compiles ? kCompilesOfAChild : kImagesOfAChild;
    for (const auto& library : libraries) {
      std::array<Chunk, 3> open;
      for (Try& each : library->tries) {
        if (each.state != State::kWaiting || each.compiles() != compiles) {
          continue;
        }
        Chunk& chunk = open[each.path];
        chunk.library = library.get();
        chunk.tries.push_back(&each);
        if (chunk.tries.size() == most) {
          chunks.push_back(std::move(chunk));
          chunk = {};
        }
      }
      for (Chunk& chunk : open) {
        if (!chunk.tries.empty()) chunks.push_back(std::move(chunk));
      }
    }
  }
  return chunks;
}

std::vector<std::string> EnvironmentOf(size_t path, const std::string& gpu) {
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) {
    // The JIT switches, the cache's and the loading mode are ours to set.
    if (!absl::StartsWith(*each, "CUDA_")) environment.emplace_back(*each);
  }
  environment.push_back("CUDA_CACHE_DISABLE=1");
  environment.push_back("CUDA_MODULE_LOADING=EAGER");
  environment.push_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");
  environment.push_back(absl::StrCat("CUDA_VISIBLE_DEVICES=", gpu));
  if (path == compat::internal::kNative) {
    environment.push_back("CUDA_DISABLE_PTX_JIT=1");
  } else if (path == compat::internal::kPtxJit) {
    environment.push_back("CUDA_FORCE_PTX_JIT=1");
  }
  return environment;
}

class Runner {
 public:
  Runner(std::string child, std::string gpu, absl::Time deadline)
      : child_(std::move(child)), gpu_(std::move(gpu)), deadline_(deadline) {}

  // Runs all chunks. Returns what stopped everything; "" if nothing did.
  std::string Run(std::deque<Chunk> chunks, int workers) {
    {
      const MutexLock lock(mutex_);
      chunks_ = std::move(chunks);
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < workers; ++i) {
      threads.emplace_back([&] {
        while (true) {
          Chunk chunk;
          {
            const MutexLock lock(mutex_);
            // What others may still leave behind is little.
            if (chunks_.empty() || !stopped_.empty()) return;
            chunk = std::move(chunks_.front());
            chunks_.pop_front();
          }
          RunChunk(std::move(chunk));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const MutexLock lock(mutex_);
    return stopped_;
  }

 private:
  void RunChunk(Chunk chunk) {
    std::deque<Try*> left(chunk.tries.begin(), chunk.tries.end());
    while (!left.empty() && absl::Now() < deadline_) {
      ProcessOptions options;
      options.argv = {child_, chunk.library->path};
      options.environment = EnvironmentOf(left.front()->path, gpu_);
      for (const Try* each : left) options.input += each->job.Line();
      const bool compiles = left.front()->compiles();
      options.timeout = compiles ? kLongestCompile * left.size()
                                 : kLongestCompile + absl::Seconds(60);
      options.cancelled = [this] { return absl::Now() >= deadline_; };
      const absl::StatusOr<ProcessResult> ran = RunProcess(options);
      if (!ran.ok()) return Stop(std::string(ran.status().message()));
      const size_t before = left.size();
      for (const absl::string_view line :
           absl::StrSplit(ran->out.head, '\n', absl::SkipEmpty())) {
        const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
        uint32_t id = 0;
        int result = 0;
        if (words.size() != 2 || left.empty() ||
            !absl::SimpleAtoi(words[0], &id) || id != left.front()->job.id ||
            !absl::SimpleAtoi(words[1], &result)) {
          continue;
        }
        left.front()->state = State::kAnswered;
        left.front()->result = result;
        left.pop_front();
      }
      if (left.empty() || ran->ending == ProcessResult::Ending::kCancelled) {
        return;
      }
      if (left.size() == before && !ran->out.head.empty() &&
          absl::StrContains(ran->out.head, "init ")) {
        return Stop(absl::StrCat("the driver does not start: ", ran->out.head));
      }
      if (left.size() == before && ran->exit_code == 3) {
        return Stop(ran->err.head);
      }
      Try& culprit = *left.front();
      culprit.state = ran->ending == ProcessResult::Ending::kTimedOut ||
                              ran->ending == ProcessResult::Ending::kHung
                          ? State::kSlow
                          : State::kDied;
      culprit.note = ran->Describe();
      left.pop_front();
      // Where images kill their child one after another, others help.
      LeaveHalf(*chunk.library, left);
    }
  }

  void LeaveHalf(Library& library, std::deque<Try*>& left) {
    if (left.size() < 2) return;
    const auto middle =
        left.begin() + static_cast<std::ptrdiff_t>(left.size() / 2);
    Chunk rest;
    rest.library = &library;
    rest.tries.assign(middle, left.end());
    left.erase(middle, left.end());
    const MutexLock lock(mutex_);
    chunks_.push_front(std::move(rest));
  }

  void Stop(std::string why) {
    const MutexLock lock(mutex_);
    if (stopped_.empty()) stopped_ = std::move(why);
  }

  const std::string child_;
  const std::string gpu_;
  const absl::Time deadline_;
  Mutex mutex_;
  std::deque<Chunk> chunks_ ABSL_GUARDED_BY(mutex_);
  std::string stopped_ ABSL_GUARDED_BY(mutex_);
};

std::string Said(const Try& of) {
  if (of.state == State::kDied) return absl::StrCat("child died, ", of.note);
  if (of.result == -1) return "bytes not read";
  return of.result == 0 ? "loads" : absl::StrCat(of.result);
}

std::string Foretold(const Try& of) {
  if (of.loads()) return of.compiles() ? "compiles" : "native";
  return of.outcome == v1::OUTCOME_UNKNOWN ? "unknown"
                                           : absl::StrCat(of.cuda_error);
}

// Prints a library's row; appends its differences and deaths.
size_t Report(const Library& library, std::vector<std::string>& listed,
              std::vector<std::string>& json) {
  size_t tried = 0, native = 0, jit = 0, fails = 0, unknown = 0, links = 0;
  size_t sampled_out = 0, not_tried = 0, died = 0, different = 0;
  for (const Try& each : library.tries) {
    const auto list = [&](const char* kind) {
      listed.push_back(absl::StrCat("| ", BaseName(library.path), " | ", kind,
                                    " | ", each.what, " | ",
                                    kPathNames[each.path], " | ",
                                    Foretold(each), " | ", Said(each), " |"));
      json.push_back(
          absl::StrCat("  {\"library\": ", JsonQuoted(BaseName(library.path)),
                       ", \"kind\": ", JsonQuoted(kind),
                       ", \"image\": ", JsonQuoted(each.what),
                       ", \"path\": ", JsonQuoted(kPathNames[each.path]),
                       ", \"predicted\": ", JsonQuoted(Foretold(each)),
                       ", \"seen\": ", JsonQuoted(Said(each)), "}"));
    };
    if (each.state == State::kSampledOut) {
      ++sampled_out;
      continue;
    }
    if (each.state == State::kWaiting || each.state == State::kSlow) {
      ++not_tried;
      continue;
    }
    ++tried;
    if (each.state == State::kDied) {
      ++died;
      list("died");
    } else if (each.outcome == v1::OUTCOME_UNKNOWN) {
      ++unknown;
    } else if (each.equal()) {
      ++(each.compiles() ? jit : each.loads() ? native : fails);
    } else if (each.link_input()) {
      ++links;
    } else {
      ++different;
      list("different");
    }
  }
  std::printf(
      "| %s | %zu | %zu | %zu | %zu | %zu | %zu | %zu | %zu | %zu | %zu | %zu "
      "| %zu |\n",
      std::string(BaseName(library.path)).c_str(), library.images,
      library.fatbins, tried, native, jit, fails, unknown, links, sampled_out,
      not_tried, died, different);
  return different;
}

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!absl::StartsWith(word, "--")) {
      options.libraries.push_back(word);
      continue;
    }
    if (++i == argc) return false;
    int number = 0;
    if (word == "--facts") {
      options.facts = argv[i];
    } else if (word == "--json") {
      options.json = argv[i];
    } else if (!absl::SimpleAtoi(argv[i], &number) || number < 1) {
      return false;
    } else if (word == "--seconds") {
      options.seconds = absl::Seconds(number);
    } else if (word == "--workers") {
      options.workers = std::min(number, 64);
    } else if (word == "--ptx") {
      options.ptx = static_cast<size_t>(number);
    } else {
      return false;
    }
  }
  return !options.libraries.empty();
}

absl::StatusOr<v1::HostFacts> FactsOf(const Options& options) {
  if (options.facts.empty()) {
    runner::FactsOptions asked;
    asked.version = "gpu_images";
    asked.toolkits = false;
    asked.libraries = false;
    return runner::CollectFacts(asked);
  }
  auto text = ReadFile(options.facts, 16 << 20);
  if (!text.ok()) return text.status();
  v1::HostFacts facts;
  google::protobuf::util::JsonParseOptions lenient;
  lenient.ignore_unknown_fields = true;
  const auto status =
      google::protobuf::util::JsonStringToMessage(*text, &facts, lenient);
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.facts, " holds no host facts"));
  }
  return facts;
}

int Fail(absl::string_view what) {
  std::fprintf(stderr, "gpu_images: error: %s\n", std::string(what).c_str());
  return 2;
}

int Main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: gpu_images [--facts FILE] [--json FILE] [--seconds N] "
                 "[--workers N] [--ptx N] LIBRARY...\n");
    return 2;
  }
  const absl::Time start = absl::Now();
  const absl::StatusOr<v1::HostFacts> facts = FactsOf(options);
  if (!facts.ok()) return Fail(facts.status().message());
  if (facts->gpu_probe().state() != v1::PROBE_STATE_OK ||
      facts->gpus().empty()) {
    std::printf("no GPU: %s\n", facts->gpu_probe().error().c_str());
    return 3;
  }
  const auto tables = compat::Tables::Default();
  if (!tables.ok()) return Fail(tables.status().message());
  const auto child = FindCompanion("gpu_image_child");
  if (!child.ok()) return Fail(child.status().message());
  const v1::Gpu& gpu = facts->gpus(0);

  std::vector<std::unique_ptr<Library>> libraries;
  for (const std::string& path : options.libraries) {
    auto fd = OpenRegularFile(path);
    if (!fd.ok()) return Fail(fd.status().message());
    inspect::InspectOptions inspected;
    inspected.digest = false;
    auto report =
        inspect::InspectDescriptor(fd->get(), BaseName(path), inspected);
    if (!report.ok()) return Fail(report.status().message());
    Library& library = *libraries.emplace_back(std::make_unique<Library>());
    library.path = path;
    *library.report.add_files() = *std::move(report);
    Planner(library, *facts, gpu, **tables).Plan();
    Sample(library, options.ptx);
  }
  Runner runner(*child, gpu.uuid(), start + options.seconds);
  const std::string stopped = runner.Run(Chunks(libraries), options.workers);
  if (!stopped.empty()) return Fail(stopped);

  std::printf(
      "%s, compute capability %u.%u, driver %s, PTX ISA %u.%u; tables %s\n\n",
      gpu.name().c_str(), gpu.compute_capability().major(),
      gpu.compute_capability().minor(),
      facts->driver().kernel_module_version().c_str(),
      facts->driver().ptx_isa_ceiling().major(),
      facts->driver().ptx_isa_ceiling().minor(), (*tables)->version().c_str());
  std::printf(
      "| library | images | fatbins | loads tried | native equal | jit equal | "
      "fails equal | unknown | link inputs | sampled out | not tried | died | "
      "different |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  std::vector<std::string> listed;
  std::vector<std::string> json;
  size_t different = 0;
  for (const auto& library : libraries) {
    different += Report(*library, listed, json);
  }
  std::printf("\n%.0f s\n", absl::ToDoubleSeconds(absl::Now() - start));
  if (!listed.empty()) {
    std::printf(
        "\n| library | what | image | path | predicted | seen |\n"
        "|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < std::min(listed.size(), kDifferencesShown); ++i) {
      std::printf("%s\n", listed[i].c_str());
    }
    if (listed.size() > kDifferencesShown) {
      std::printf("\n%zu more\n", listed.size() - kDifferencesShown);
    }
  }
  if (!options.json.empty()) {
    const absl::Status status = WriteFileAtomic(
        options.json, absl::StrCat("[\n", absl::StrJoin(json, ",\n"), "\n]\n"),
        0644);
    if (!status.ok()) return Fail(status.message());
  }
  return different > 0 ? 1 : 0;
}

}  // namespace
}  // namespace twinpath::gpu

int main(int argc, char** argv) { return twinpath::gpu::Main(argc, argv); }
