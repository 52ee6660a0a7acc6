#include "compat/predict.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "compat/answer_cache.h"
#include "compat/answer_key.h"
#include "compat/entry_plan.h"
#include "compat/environment.h"
#include "compat/file_prediction.h"
#include "compat/host_answer.h"
#include "compat/host_check.h"
#include "compat/host_effects.h"
#include "compat/image_environment.h"
#include "compat/image_rules.h"
#include "compat/prepared.h"
#include "compat/reason.h"
#include "compat/whole_prediction.h"

namespace twinpath::compat {
namespace {

using internal::EntryPlan;
using internal::FileView;
using internal::KeyWriter;
using internal::kPaths;
using internal::PlanOf;

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
        internal::Whole(answer.files, fatbins, first_decides, path);
    internal::AddMissingKernels(files, options.needed_kernels, found, whole);
    internal::AddVendorLibraries(files, whole);
    answer.paths.push_back(std::move(whole));
  }
  return answer;
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
