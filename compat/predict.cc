#include "compat/predict.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/text.h"
#include "base/unread.h"
#include "compat/answer_cache.h"
#include "compat/environment.h"
#include "compat/file_prediction.h"
#include "compat/host_answer.h"
#include "compat/host_check.h"
#include "compat/host_effects.h"
#include "compat/image_environment.h"
#include "compat/image_rules.h"
#include "compat/prepared.h"
#include "compat/reason.h"

namespace twinpath::compat {
namespace {

using internal::FileView;
using internal::kPaths;

// A host program that compiles at run time and brings no code of its own does
// not make files unknown that do.
bool OnlyRunTimeCompiler(const v1::PathPrediction& path) {
  return path.outcome() == v1::OUTCOME_UNKNOWN && path.reasons_size() > 0 &&
         path.reasons(0).code() == "TP214";
}

v1::Reason Named(v1::Reason reason, absl::string_view file, bool name_it) {
  if (name_it) {
    reason.set_detail(absl::StrCat(file, ": ", reason.detail()));
  }
  return reason;
}

bool Loads(const v1::PathPrediction& path) {
  return path.outcome() == v1::OUTCOME_NATIVE ||
         path.outcome() == v1::OUTCOME_JIT;
}

// A file for another CPU.
bool IsForOtherCpu(const v1::PathPrediction& path) {
  return path.outcome() == v1::OUTCOME_FAILS && path.reasons_size() > 0 &&
         path.reasons(0).code() == "TP208";
}

// A failure that shows only once a kernel of the file is launched: no image for
// it. Other failures (CPU, runtime, a needed kernel) are certain.
bool FailsAtLaunch(const v1::PathPrediction& path) {
  return path.outcome() == v1::OUTCOME_FAILS && path.reasons_size() > 0 &&
         path.reasons(0).code() != "TP227" &&
         path.reasons(0).code() != "TP230" &&
         path.reasons(0).cuda_error() >= 200;
}

// One of NVIDIA's libraries that lacks PTX: its forced run ends in an error of
// its own, which says nothing of the files that are the artifact's own.
bool CannotFollow(const v1::FilePrediction& file, size_t path) {
  const v1::PathPrediction& own = file.paths(static_cast<int>(path));
  return path == internal::kPtxJit && own.outcome() == v1::OUTCOME_FAILS &&
         std::any_of(own.reasons().begin(), own.reasons().end(),
                     [](const auto& r) { return r.code() == "TP222"; });
}

// Puts files together to a whole: the worst member speaks and is named; the
// others' errors and warnings follow. `fatbins`: how many count in each file.
// `first_decides`: the first one is the program, without which nothing starts.
v1::PathPrediction Whole(const std::vector<v1::FilePrediction>& files,
                         const std::vector<size_t>& fatbins, bool first_decides,
                         size_t path) {
  v1::PathPrediction whole;
  whole.set_path(kPaths[path]);
  const int at = static_cast<int>(path);
  // Whether some file brings code for this CPU; a file that could not be read,
  // or is for the other CPU, does not make one that compiles at run time known.
  bool any_code = false;
  for (size_t i = 0; i < files.size(); ++i) {
    any_code |= fatbins[i] > 0 && !IsForOtherCpu(files[i].paths(at)) &&
                !OnlyRunTimeCompiler(files[i].paths(at));
  }
  // An artifact may serve hosts of both CPUs; where some of its device code is
  // for this one, the files for the other one are not looked at here.
  const bool any_here =
      std::any_of(files.begin(), files.end(), [&](const auto& file) {
        const v1::Outcome outcome = file.paths(at).outcome();
        return outcome != v1::OUTCOME_NO_DEVICE_CODE &&
               !IsForOtherCpu(file.paths(at));
      });
  const bool any_own =
      std::any_of(files.begin(), files.end(), [&](const auto& file) {
        const v1::PathPrediction& own = file.paths(at);
        return Badness(own.outcome()) > 0 && !CannotFollow(file, path) &&
               !IsForOtherCpu(own) && !OnlyRunTimeCompiler(own);
      });
  const v1::FilePrediction* worst = nullptr;
  const auto weight = [&](const v1::FilePrediction& file) {
    const bool decides = first_decides && &file == &files.front();
    if (any_code && OnlyRunTimeCompiler(file.paths(at))) return 0;
    if (any_own && CannotFollow(file, path)) return 0;
    if (any_here && !decides && IsForOtherCpu(file.paths(at))) return 0;
    return Badness(file.paths(at).outcome());
  };
  for (const v1::FilePrediction& file : files) {
    whole.set_gaps(whole.gaps() + file.paths(at).gaps());
    if (worst == nullptr || weight(file) > weight(*worst)) worst = &file;
  }
  if (worst == nullptr) {
    whole.set_outcome(v1::OUTCOME_NO_DEVICE_CODE);
    *whole.add_reasons() = MakeReason("TP223", "the artifact holds no file");
    return whole;
  }
  const bool name_it = files.size() > 1;
  const bool any_loads =
      std::any_of(files.begin(), files.end(),
                  [&](const auto& file) { return Loads(file.paths(at)); });
  for (size_t i = 0; i < files.size() && any_loads; ++i) {
    // Part of the whole runs, so all of a member that does not is a gap.
    if (FailsAtLaunch(files[i].paths(at))) {
      whole.set_gaps(whole.gaps() + static_cast<uint32_t>(fatbins[i]));
    }
  }
  whole.set_outcome(worst->paths(at).outcome());
  whole.set_settled_by(worst->paths(at).settled_by());
  for (const v1::Reason& reason : worst->paths(at).reasons()) {
    *whole.add_reasons() = Named(reason, worst->name(), name_it);
  }
  for (const v1::FilePrediction& file : files) {
    if (&file == worst) continue;
    const bool left_behind = any_own && CannotFollow(file, path);
    for (const v1::Reason& reason : file.paths(at).reasons()) {
      if (left_behind && reason.code() != "TP222") continue;
      if (left_behind) {
        *whole.add_reasons() = MakeReason(
            "TP222",
            absl::StrCat(file.name(), " cannot follow: ", reason.detail(),
                         "; the artifact's own images are judged "
                         "without it"));
        continue;
      }
      const v1::Severity severity = SeverityOf(reason);
      // Worth naming though notes: a library that cannot follow forced JIT;
      // native code beside code that is compiled, and the reverse.
      const absl::string_view other =
          whole.outcome() == v1::OUTCOME_JIT ? "TP200" : "TP235";
      const bool mixed = path == internal::kPlain && reason.code() == other;
      if (severity == v1::SEVERITY_NOTE && reason.code() != "TP222" && !mixed) {
        continue;
      }
      *whole.add_reasons() = Named(reason, file.name(), name_it);
    }
  }
  return whole;
}

// NVIDIA's libraries that the files need and that are not among them come from
// the host: what they do under forced compilation is not known here.
void AddVendorLibraries(const std::vector<const FileView*>& files,
                        v1::PathPrediction& path) {
  absl::flat_hash_set<absl::string_view> here;
  for (const FileView* file : files) {
    here.insert(BaseName(file->name()));
    here.insert(file->report->elf().soname());
  }
  std::set<std::string> outside;
  for (const FileView* file : files) {
    for (const std::string& needed : file->report->elf().needed()) {
      if (internal::IsVendorLibrary(needed) && !here.contains(needed)) {
        outside.insert(Printable(needed));
      }
    }
  }
  if (outside.empty()) return;
  *path.add_reasons() = MakeReason(
      "TP222", absl::StrCat(absl::StrJoin(outside, ", "),
                            " of the host is not among the files; whether it "
                            "follows forced compilation is not known"));
}

// Needed kernels that no file holds.
void AddMissingKernels(const std::vector<const FileView*>& files,
                       const std::vector<std::string>& needed,
                       const absl::flat_hash_set<std::string>& found,
                       v1::PathPrediction& path) {
  for (const std::string& kernel : needed) {
    if (found.contains(kernel)) continue;
    bool complete = true;
    for (const FileView* file : files) {
      complete &= file->kernels_complete &&
                  FirstUnread(file->report->problems()) == nullptr;
    }
    v1::Reason reason =
        MakeReason("TP227", absl::StrCat("no file holds kernel ", kernel), "",
                   complete ? 500 : 0);
    const v1::Outcome outcome =
        complete ? v1::OUTCOME_FAILS : v1::OUTCOME_UNKNOWN;
    if (Badness(outcome) <= Badness(path.outcome())) {
      *path.add_reasons() = std::move(reason);
      continue;
    }
    path.set_outcome(outcome);
    if (!complete) path.set_settled_by("twinpath inspect with kernels");
    path.mutable_reasons()->Add(std::move(reason));
    path.mutable_reasons()->SwapElements(0, path.reasons_size() - 1);
  }
}

// All that PredictFiles finds; what differs between hosts with equal HostViews
// is added afterwards.
struct Answer {
  std::vector<v1::FilePrediction> files;
  std::vector<v1::PathPrediction> paths;
  // Of an entry: its files' places in the report, the program first if
  // `program_first`.
  std::vector<size_t> members;
  bool program_first = false;

  size_t Bytes() const {
    size_t bytes = sizeof(Answer) + members.size() * sizeof(size_t);
    for (const auto& file : files) bytes += file.SpaceUsedLong();
    for (const auto& path : paths) bytes += path.SpaceUsedLong();
    return bytes;
  }
};

// Hosts as some files see them, by their place in the report.
using OwnHosts = std::map<size_t, HostView>;

// Processes that find a forward-compatibility libcuda of the artifact before
// the driver's have its CUDA version. A library that also a program without one
// may load is judged by the driver.
OwnHosts HostsOfBundledDrivers(const v1::ArtifactReport& report,
                               const LoaderModel& loader,
                               const v1::HostFacts& facts, const v1::Gpu& gpu,
                               const Tables& tables) {
  OwnHosts hosts;
  if (!loader.BringsDriver()) return hosts;
  const LoaderAnswer answer = loader.Resolve(facts, gpu, tables, std::nullopt,
                                             /*inherits=*/false);
  const auto is_program = [&report](size_t file) {
    return report.files(static_cast<int>(file)).kind() ==
           v1::FILE_KIND_ELF_EXECUTABLE;
  };
  size_t programs = 0;
  for (int i = 0; i < report.files_size(); ++i) {
    programs += is_program(static_cast<size_t>(i)) ? 1 : 0;
  }
  for (const LoaderFinding& finding : answer.findings) {
    if (finding.driver && is_program(finding.file)) --programs;
  }
  for (const LoaderFinding& finding : answer.findings) {
    if (!finding.driver) continue;
    const HostView host =
        LookAtHost(WithDriver(facts, *finding.driver), gpu, tables);
    hosts.insert_or_assign(finding.file, host);
    if (programs > 0) continue;
    for (const size_t member : loader.Closure(finding.file)) {
      hosts.try_emplace(member, host);
    }
  }
  return hosts;
}

Answer PredictFiles(const std::vector<const FileView*>& files,
                    bool first_decides, const HostView& host,
                    const Tables& tables, const PredictOptions& options,
                    const OwnHosts& own = {}) {
  Answer answer;
  absl::flat_hash_set<std::string> found;
  std::vector<size_t> fatbins;
  for (const FileView* const& file : files) {
    const auto it = own.find(static_cast<size_t>(&file - files.data()));
    fatbins.push_back(file->fatbins.size());
    answer.files.push_back(internal::PredictFile(
        *file, it == own.end() ? host : it->second, tables, options, found));
  }
  for (size_t path = 0; path < kPaths.size(); ++path) {
    v1::PathPrediction whole =
        Whole(answer.files, fatbins, first_decides, path);
    AddMissingKernels(files, options.needed_kernels, found, whole);
    if (path == internal::kPtxJit && Loads(whole)) {
      AddVendorLibraries(files, whole);
    }
    answer.paths.push_back(std::move(whole));
  }
  return answer;
}

// Writes values so that no two different lists of them read alike.
class KeyWriter {
 public:
  void Add(absl::string_view text) {
    absl::StrAppend(&key_, text.size(), ":", text);
  }
  void Add(uint64_t number) { absl::StrAppend(&key_, number, ","); }
  void Add(TwoPart version) {
    Add(uint64_t{version.major});
    Add(uint64_t{version.minor});
  }
  std::string Take() { return std::move(key_); }

 private:
  std::string key_;
};

// All of a host that an answer depends on. A field added to HostView does not
// compile here until it is listed: an answer must not be given to a host that
// differs in it.
void AddHost(const HostView& host, KeyWriter& key) {
  const auto& [device, gpu_name, cpu, cuda, driver, ptx_ceiling, ceiling_exact,
               ceiling_measured, jit_library, reads_zstd, blocker] = host;
  key.Add(uint64_t{device});
  key.Add(gpu_name);
  key.Add(static_cast<uint64_t>(cpu));
  key.Add(cuda.value_or(TwoPart{}));
  key.Add(uint64_t{driver ? driver->parts.size() + 1 : 0});
  if (driver) {
    for (const uint32_t part : driver->parts) key.Add(uint64_t{part});
  }
  key.Add(ptx_ceiling);
  key.Add(uint64_t{ceiling_exact});
  key.Add(uint64_t{ceiling_measured});
  key.Add(static_cast<uint64_t>(jit_library));
  key.Add(uint64_t{reads_zstd});
  key.Add(uint64_t{blocker.has_value()});
  if (blocker) {
    key.Add(static_cast<uint64_t>(blocker->outcome));
    key.Add(blocker->reason.SerializeAsString());
    key.Add(blocker->settled_by);
  }
}

void AddOptions(const PredictOptions& options, KeyWriter& key) {
  // What programs inherit is added to each host's answer afterwards.
  const auto& [all_kernels, all_images, needed_kernels, max_kernels,
               inherit_environment] = options;
  static_cast<void>(inherit_environment);
  key.Add(uint64_t{all_kernels});
  key.Add(uint64_t{all_images});
  key.Add(uint64_t{max_kernels});
  key.Add(uint64_t{needed_kernels.size()});
  for (const std::string& kernel : needed_kernels) key.Add(kernel);
}

bool IsProgram(const v1::FileReport& report) {
  return report.kind() == v1::FILE_KIND_ELF_EXECUTABLE ||
         report.kind() == v1::FILE_KIND_ELF_SHARED;
}

// Whether `word` names the file: its name in the artifact, with or without
// "./".
bool Names(absl::string_view word, const FileView& file) {
  absl::ConsumePrefix(&word, "./");
  return word == file.name();
}

// Kernels the entry names that some file of the artifact holds. Others come
// from libraries outside it, of which nothing is known here.
std::set<std::string> NeededKernels(const std::vector<FileView>& files,
                                    const v1::Entry& entry) {
  absl::flat_hash_set<absl::string_view> words(entry.must_launch().begin(),
                                               entry.must_launch().end());
  words.insert(entry.covers().begin(), entry.covers().end());
  std::set<std::string> needed;
  if (words.empty()) return needed;
  for (const absl::string_view word : words) {
    for (const FileView& file : files) {
      if (file.FindKernel(word)) {
        needed.insert(std::string(word));
        break;
      }
    }
  }
  return needed;
}

struct EntryFiles {
  std::vector<const FileView*> files;
  // The first of them is the program.
  bool program_first = false;
};

// The program of an image's entry: the first that its PATH leads to.
const FileView* ProgramInImage(const std::vector<FileView>& all,
                               const v1::Entry& entry,
                               const ImagePlace& image) {
  if (entry.command_size() == 0) return nullptr;
  for (const std::string& name : image.ProgramNames(entry.command(0))) {
    for (const FileView& file : all) {
      if (file.name() == name) return &file;
    }
  }
  return nullptr;
}

// The program and what it needs inside the artifact; every file where the
// program is not one of them. With an image: inside that image.
EntryFiles FilesOfEntry(const std::vector<FileView>& all,
                        const v1::Entry& entry,
                        const std::set<std::string>& needed_kernels,
                        const LoaderModel& loader,
                        const std::optional<ImagePlace>& image) {
  const auto counts = [&image](const FileView& file) {
    return !image || image->Holds(*file.report);
  };
  std::vector<const FileView*> everything;
  const FileView* program =
      image ? ProgramInImage(all, entry, *image) : nullptr;
  for (const FileView& file : all) {
    if (!counts(file)) continue;
    everything.push_back(&file);
    if (!image && entry.command_size() > 0 && Names(entry.command(0), file)) {
      program = &file;
    }
  }
  if (program == nullptr || !IsProgram(*program->report)) {
    return {std::move(everything), false};
  }

  absl::flat_hash_map<std::string, const FileView*> by_soname;
  const auto add_soname = [&by_soname](const FileView& file) {
    by_soname.try_emplace(std::string(BaseName(file.name())), &file);
    if (!file.report->elf().soname().empty()) {
      by_soname.try_emplace(file.report->elf().soname(), &file);
    }
  };
  // The loader takes no library for another CPU where there is one for its own.
  const auto same_cpu = [program](const FileView& file) {
    return file.report->elf().cpu_architecture() ==
           program->report->elf().cpu_architecture();
  };
  for (const FileView* file : everything) {
    if (same_cpu(*file)) add_soname(*file);
  }
  for (const FileView* file : everything) {
    if (!same_cpu(*file)) add_soname(*file);
  }

  std::vector<const FileView*> chosen;
  std::set<const FileView*> seen;
  const auto add = [&](const FileView* file) {
    if (seen.insert(file).second) chosen.push_back(file);
  };
  add(program);
  for (const FileView& file : all) {
    for (const std::string& word : entry.covers()) {
      if (Names(word, file)) add(&file);
    }
  }
  // A library that holds a needed kernel may be opened at run time.
  for (const FileView* file : everything) {
    for (const std::string& kernel : needed_kernels) {
      if (file->FindKernel(kernel)) {
        add(file);
        break;
      }
    }
  }
  // Of several copies of a name the loader takes one.
  for (const size_t file :
       loader.Closure(static_cast<size_t>(program - &all.front()))) {
    add(&all[file]);
  }
  for (size_t i = 0; i < chosen.size(); ++i) {
    for (const std::string& needed : chosen[i]->report->elf().needed()) {
      const auto it = by_soname.find(needed);
      if (it == by_soname.end()) continue;
      const bool loaded =
          std::any_of(chosen.begin(), chosen.end(), [&](const auto* file) {
            return file->report->elf().soname() == needed ||
                   BaseName(file->name()) == needed;
          });
      if (!loaded) add(it->second);
    }
  }
  return {std::move(chosen), true};
}

// What of an entry does not depend on the host.
struct EntryPlan {
  std::vector<const FileView*> files;
  bool program_first = false;
  PredictOptions options;

  size_t Bytes() const {
    size_t bytes = sizeof(EntryPlan) + files.size() * sizeof(files[0]);
    for (const std::string& kernel : options.needed_kernels) {
      bytes += kernel.size() + sizeof(kernel);
    }
    return bytes;
  }
};

EntryPlan PlanOf(const std::vector<FileView>& all, const v1::Entry& entry,
                 const LoaderModel& loader,
                 const std::optional<ImagePlace>& image) {
  const std::set<std::string> needed = NeededKernels(all, entry);
  EntryFiles chosen = FilesOfEntry(all, entry, needed, loader, image);
  EntryPlan plan;
  plan.files = std::move(chosen.files);
  plan.program_first = chosen.program_first;
  plan.options.max_kernels = 0;
  plan.options.needed_kernels.assign(needed.begin(), needed.end());
  return plan;
}

// What is in an image that is not in the artifact shows when it runs.
std::vector<v1::PathPrediction> PredictUnseenImage(const v1::Entry& entry) {
  std::vector<v1::PathPrediction> paths;
  for (const v1::Path path : kPaths) {
    v1::PathPrediction& prediction = paths.emplace_back();
    prediction.set_path(path);
    prediction.set_outcome(v1::OUTCOME_UNKNOWN);
    *prediction.add_reasons() = MakeReason(
        "TP232",
        absl::StrCat("the oci_image ", entry.oci_image(),
                     " is not among the artifact's files, so nothing of it "
                     "could be read"),
        "Put the image into the artifact: an OCI layout or a saved image.");
    prediction.set_settled_by("twinpath inspect IMAGE.tar");
  }
  return paths;
}

// What the image's variables and its libcuda make of its containers here.
void AddImageReasons(
    const v1::ArtifactReport& report, const ImagePlace& image,
    const v1::HostFacts& facts, const v1::Gpu& gpu, const Tables& tables,
    google::protobuf::RepeatedPtrField<v1::PathPrediction>& paths) {
  std::vector<const v1::FileReport*> files;
  for (const v1::FileReport& file : report.files()) {
    if (image.Holds(file)) files.push_back(&file);
  }
  const std::vector<v1::Reason> reasons =
      JudgeImage(*image.image, files, facts, gpu, tables);
  for (v1::PathPrediction& path : paths) {
    for (const v1::Reason& reason : reasons) *path.add_reasons() = reason;
  }
}

// What a Predictor keeps at most: answers of hosts, and plans of entries.
constexpr size_t kAnswerBytes = size_t{32} << 20;
constexpr size_t kPlanBytes = size_t{4} << 20;

}  // namespace

struct Predictor::Caches {
  internal::AnswerCache<Answer> answers{kAnswerBytes};
  internal::AnswerCache<EntryPlan> plans{kPlanBytes};
};

Predictor::Predictor(const v1::ArtifactReport& report)
    : prepared_(std::make_unique<internal::Prepared>(report)),
      effects_(std::make_unique<HostEffects>(report)),
      caches_(std::make_unique<Caches>()) {}

Predictor::~Predictor() = default;

v1::Prediction Predictor::PredictCode(const v1::HostFacts& facts,
                                      const v1::Gpu& gpu, const Tables& tables,
                                      const PredictOptions& options) const {
  const HostView host = LookAtHost(facts, gpu, tables);
  KeyWriter key;
  key.Add(tables.version());
  AddHost(host, key);
  AddOptions(options, key);
  const OwnHosts own = HostsOfBundledDrivers(
      effects_->report(), effects_->loader(), facts, gpu, tables);
  for (const auto& [file, seen] : own) {
    key.Add(uint64_t{file});
    AddHost(seen, key);
  }
  std::string written = key.Take();
  std::shared_ptr<const Answer> answer = caches_->answers.Find(written);
  if (answer == nullptr) {
    std::vector<const FileView*> files;
    for (const FileView& file : prepared_->files()) files.push_back(&file);
    answer = std::make_shared<const Answer>(
        PredictFiles(files, false, host, tables, options, own));
    caches_->answers.Keep(std::move(written), answer, answer->Bytes());
  }
  v1::Prediction prediction;
  prediction.set_gpu_uuid(gpu.uuid());
  prediction.set_gpu_name(gpu.name());
  *prediction.mutable_compute_capability() = gpu.compute_capability();
  prediction.set_model_version(tables.version());
  prediction.mutable_paths()->Add(answer->paths.begin(), answer->paths.end());
  prediction.mutable_files()->Add(answer->files.begin(), answer->files.end());
  return prediction;
}

v1::Prediction Predictor::Predict(const v1::HostFacts& facts,
                                  const v1::Gpu& gpu, const Tables& tables,
                                  const PredictOptions& options) const {
  v1::Prediction prediction = PredictCode(facts, gpu, tables, options);
  EffectScope scope;
  scope.inherits = options.inherit_environment;
  // LD_LIBRARY_PATH may put another libcuda in front of the driver's.
  if (scope.inherits) {
    if (const auto inherited = WithInheritedDriver(facts, gpu, tables)) {
      const v1::Prediction other =
          PredictCode(*inherited, gpu, tables, options);
      const int plain = static_cast<int>(internal::kPlain);
      *prediction.mutable_paths(plain) = other.paths(plain);
      for (int i = 0; i < prediction.files_size(); ++i) {
        *prediction.mutable_files(i)->mutable_paths(plain) =
            other.files(i).paths(plain);
      }
      NameForwardCompat(inherited->driver(), *prediction.mutable_paths(plain));
    }
  }
  effects_->Apply(facts, gpu, tables, scope, prediction.mutable_paths(),
                  prediction.mutable_files(), prediction.mutable_libraries());
  for (const v1::FileReport& file : effects_->report().files()) {
    for (const v1::OciImageFacts& image : file.carrier().images()) {
      const std::optional<ImagePlace> place =
          FindImage(effects_->report(),
                    image.digest().empty() ? image.id() : image.digest());
      if (!place) continue;
      AddImageReasons(effects_->report(), *place, facts, gpu, tables,
                      *prediction.mutable_paths());
    }
  }
  return prediction;
}

std::vector<v1::PathPrediction> Predictor::PredictEntry(
    const v1::Entry& entry, const v1::HostFacts& facts, const v1::Gpu& gpu,
    const Tables& tables) const {
  std::optional<ImagePlace> image;
  if (entry.kind() == v1::ENTRY_KIND_OCI) {
    image = FindImage(effects_->report(), entry.oci_image());
    if (!image) return PredictUnseenImage(entry);
  }
  HostView host = LookAtHost(facts, gpu, tables);
  const std::string of_entry = entry.SerializeAsString();
  if (effects_->loader().BringsDriver()) {
    const EntryPlan plan =
        PlanOf(prepared_->files(), entry, effects_->loader(), image);
    if (plan.program_first) {
      const OwnHosts own = HostsOfBundledDrivers(
          effects_->report(), effects_->loader(), facts, gpu, tables);
      const auto it = own.find(
          static_cast<size_t>(plan.files.front() - prepared_->files().data()));
      if (it != own.end()) host = it->second;
    }
  }
  KeyWriter key;
  key.Add("entry");
  key.Add(of_entry);
  key.Add(tables.version());
  AddHost(host, key);
  std::string written = key.Take();
  std::shared_ptr<const Answer> answer = caches_->answers.Find(written);
  if (answer == nullptr) {
    std::shared_ptr<const EntryPlan> plan = caches_->plans.Find(of_entry);
    if (plan == nullptr) {
      plan = std::make_shared<const EntryPlan>(
          PlanOf(prepared_->files(), entry, effects_->loader(), image));
      caches_->plans.Keep(of_entry, plan, plan->Bytes());
    }
    Answer found = PredictFiles(plan->files, plan->program_first, host, tables,
                                plan->options);
    found.files.clear();
    found.program_first = plan->program_first;
    for (const FileView* file : plan->files) {
      found.members.push_back(
          static_cast<size_t>(file - prepared_->files().data()));
    }
    answer = std::make_shared<const Answer>(std::move(found));
    caches_->answers.Keep(std::move(written), answer, answer->Bytes());
  }
  google::protobuf::RepeatedPtrField<v1::PathPrediction> paths(
      answer->paths.begin(), answer->paths.end());
  // Entries run as Twinpath runs them: clean of the host's variables.
  EffectScope scope;
  scope.inherits = false;
  scope.files = answer->members;
  if (answer->program_first) scope.started = answer->members.front();
  effects_->Apply(facts, gpu, tables, scope, &paths, nullptr, nullptr);
  if (image) {
    AddImageReasons(effects_->report(), *image, facts, gpu, tables, paths);
  }
  return {paths.begin(), paths.end()};
}

v1::Prediction Predict(const v1::ArtifactReport& report,
                       const v1::HostFacts& facts, const v1::Gpu& gpu,
                       const Tables& tables, const PredictOptions& options) {
  return Predictor(report).Predict(facts, gpu, tables, options);
}

std::vector<v1::PathPrediction> PredictEntry(const v1::ArtifactReport& report,
                                             const v1::Entry& entry,
                                             const v1::HostFacts& facts,
                                             const v1::Gpu& gpu,
                                             const Tables& tables) {
  return Predictor(report).PredictEntry(entry, facts, gpu, tables);
}

}  // namespace twinpath::compat
