#include "verdict/image_loads.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "compat/host_check.h"
#include "compat/image_rules.h"
#include "compat/prepared.h"
#include "compat/reason.h"
#include "compat/target.h"

namespace twinpath::verdict {
namespace {

constexpr uint32_t kOutOfMemory = 2;

// By file, fatbin (index + 1; 0: bare) and image.
using ImageKey = std::tuple<std::string, uint32_t, uint32_t>;
using Decisions = std::map<ImageKey, compat::internal::Decision>;

Decisions Decide(const v1::ArtifactReport& report, const v1::HostFacts& facts,
                 const v1::Gpu& gpu, const compat::Tables& tables) {
  const compat::HostView host = compat::LookAtHost(facts, gpu, tables);
  const compat::internal::Prepared prepared(report,
                                            compat::internal::Take::kAll);
  Decisions decisions;
  for (const compat::internal::FileView& file : prepared.files()) {
    uint32_t bare = 0;
    for (const compat::internal::FatbinView& fatbin : file.fatbins) {
      if (fatbin.damaged) continue;
      for (size_t i = 0; i < fatbin.images.size(); ++i) {
        const compat::internal::Decision decision =
            compat::internal::DecideImage(fatbin, fatbin.images[i], host,
                                          tables)[compat::internal::kPlain];
        const ImageKey key =
            fatbin.bare ? ImageKey{std::string(file.name()), 0, bare++}
                        : ImageKey{std::string(file.name()), fatbin.index + 1,
                                   static_cast<uint32_t>(i)};
        decisions.emplace(key, decision);
      }
    }
  }
  return decisions;
}

// What makes images alike.
using GroupKey =
    std::tuple<std::string, int, uint32_t, int, int, int, uint32_t>;

GroupKey KeyOf(const v1::ImageLoad& load) {
  return {load.file(),
          load.kind(),
          load.target().number(),
          load.target().suffix(),
          load.predicted(),
          load.state(),
          load.cuda_error()};
}

void AddGroups(v1::ImageLoadReport& loads) {
  std::map<GroupKey, v1::ImageLoadGroup> groups;
  for (const v1::ImageLoad& load : loads.images()) {
    v1::ImageLoadGroup& group = groups[KeyOf(load)];
    if (group.images() == 0) {
      group.set_file(load.file());
      group.set_kind(load.kind());
      if (load.has_target()) *group.mutable_target() = load.target();
      group.set_predicted(load.predicted());
      group.set_state(load.state());
      group.set_cuda_error(load.cuda_error());
    }
    group.set_images(group.images() + 1);
    group.set_functions(group.functions() + load.functions());
  }
  loads.clear_groups();
  for (auto& [key, group] : groups) *loads.add_groups() = std::move(group);
}

// Smaller goes first.
int Interest(const v1::ImageLoad& load) {
  if (Contradicts(load)) return 0;
  switch (load.state()) {
    case v1::LOAD_STATE_LOADED:
      return load.kernels().empty() ? 3 : 1;
    case v1::LOAD_STATE_REFUSED:
      return 2;
    default:
      return 1;
  }
}

void KeepInteresting(v1::ImageLoadReport& loads) {
  std::vector<v1::ImageLoad> kept[3];
  for (v1::ImageLoad& load : *loads.mutable_images()) {
    const int interest = Interest(load);
    if (interest < 3 && kept[interest].size() < kMostImagesListed) {
      kept[interest].push_back(std::move(load));
    }
  }
  loads.clear_images();
  for (std::vector<v1::ImageLoad>& some : kept) {
    for (v1::ImageLoad& load : some) {
      if (static_cast<size_t>(loads.images_size()) == kMostImagesListed) return;
      *loads.add_images() = std::move(load);
    }
  }
}

std::string WhatOf(v1::ImageKind kind, const v1::Target& target) {
  const bool relocatable = kind == v1::IMAGE_KIND_RELOCATABLE_SASS ||
                           kind == v1::IMAGE_KIND_RELOCATABLE_PTX;
  return absl::StrCat(relocatable ? "relocatable " : "",
                      compat::TargetName(kind, target));
}

std::string Images(uint64_t count) {
  return absl::StrCat(count, count == 1 ? " image" : " images");
}

std::string PlaceOf(const v1::ImageLoadGroup& group) {
  return absl::StrCat(Printable(group.file()), ": ",
                      WhatOf(group.kind(), group.target()));
}

void JudgeRefused(const v1::ImageLoadGroup& group,
                  std::map<std::string, uint64_t>& link_inputs,
                  VerdictBuilder& builder) {
  if (IsLinkInput(group.kind(), group.state(), group.cuda_error())) {
    link_inputs[group.file()] += group.images();
  } else if (group.cuda_error() == kOutOfMemory) {
    // What is not for this GPU need not have been decided.
    if (group.predicted() == v1::OUTCOME_FAILS) return;
    builder.Inconclusive(compat::MakeReason(
        "TP313",
        absl::StrCat(PlaceOf(group), ": ", Images(group.images()),
                     ": out of device memory, with one image at a time"),
        "", kOutOfMemory));
  } else if (PredictedToLoad(group.predicted())) {
    builder.Fail(compat::MakeReason(
        "TP335",
        absl::StrCat(PlaceOf(group), ": ", Images(group.images()),
                     " refused, CUDA error ", group.cuda_error()),
        "", group.cuda_error()));
  } else if (group.predicted() != v1::OUTCOME_FAILS) {
    builder.Inconclusive(compat::MakeReason(
        "TP336",
        absl::StrCat(PlaceOf(group), ": ", Images(group.images()),
                     " refused, CUDA error ", group.cuda_error(),
                     ", and nothing was predicted"),
        "", group.cuda_error()));
  }
}

// Images of one file.
struct FileLoads {
  uint64_t images = 0;
  uint64_t loaded = 0;
  uint64_t refused = 0;
};

// A file fails on a GPU where nothing in it loads, whatever others do.
void JudgeFiles(const std::map<std::string, FileLoads>& files,
                const std::map<std::string, uint64_t>& link_inputs,
                VerdictBuilder& builder) {
  if (files.size() < 2) return;
  for (const auto& [name, file] : files) {
    if (file.images == 0 || file.refused < file.images ||
        link_inputs.contains(name)) {
      continue;
    }
    builder.Fail(compat::MakeReason(
        "TP335", absl::StrCat(Printable(name), ": none of ",
                              Images(file.images), " loads on this GPU")));
  }
}

void JudgeUndecided(const v1::ImageLoadGroup& group, VerdictBuilder& builder) {
  const char* why = group.state() == v1::LOAD_STATE_DIED
                        ? "the process ended while it was loaded"
                    : group.state() == v1::LOAD_STATE_SLOW
                        ? "not done within its time"
                        : "not tried";
  // What is not for this GPU need not be tried.
  if (group.state() == v1::LOAD_STATE_NOT_TRIED &&
      group.predicted() == v1::OUTCOME_FAILS) {
    return;
  }
  builder.Inconclusive(compat::MakeReason(
      "TP336",
      absl::StrCat(PlaceOf(group), ": ", Images(group.images()), ": ", why)));
}

// The contradictions that are listed, alike ones together.
void JudgeContradictions(const v1::ImageLoadReport& loads, uint64_t grouped,
                         VerdictBuilder& builder) {
  std::map<std::string, uint64_t> listed;
  uint64_t total = 0;
  for (const v1::ImageLoad& load : loads.images()) {
    if (!Contradicts(load)) continue;
    ++total;
    ++listed[absl::StrCat(
        Printable(load.file()), ": ", WhatOf(load.kind(), load.target()),
        ": predicted ",
        PredictedToLoad(load.predicted())
            ? "to load"
            : absl::StrCat("CUDA error ", load.predicted_error()),
        ", seen ",
        load.state() == v1::LOAD_STATE_LOADED
            ? "loaded"
            : absl::StrCat("CUDA error ", load.cuda_error()))];
  }
  for (const auto& [what, count] : listed) {
    builder.Inconclusive(
        compat::MakeReason("TP430", absl::StrCat(what, ": ", Images(count))));
  }
  const uint64_t all = std::max(loads.contradicted(), grouped);
  if (all > total) {
    builder.Inconclusive(compat::MakeReason(
        "TP430",
        absl::StrCat(Images(all - total), " more were not as predicted")));
  }
}

void JudgeKernels(const v1::ImageLoadReport& loads, VerdictBuilder& builder) {
  for (const v1::ImageLoad& load : loads.images()) {
    for (const v1::LoadedKernel& kernel : load.kernels()) {
      builder.Warn(compat::MakeReason(
          "TP430", absl::StrCat(Printable(load.file()), ": ",
                                WhatOf(load.kind(), load.target()),
                                ": the driver has ", Printable(kernel.name()),
                                " as machine code ", kernel.binary_version(),
                                " from PTX ", kernel.ptx_version())));
      // One says it.
      return;
    }
  }
}

}  // namespace

bool PredictedToLoad(v1::Outcome predicted) {
  return predicted == v1::OUTCOME_NATIVE || predicted == v1::OUTCOME_JIT;
}

bool IsLinkInput(v1::ImageKind kind, v1::LoadState state, uint32_t cuda_error) {
  return (kind == v1::IMAGE_KIND_RELOCATABLE_SASS ||
          kind == v1::IMAGE_KIND_RELOCATABLE_PTX) &&
         state == v1::LOAD_STATE_REFUSED &&
         (cuda_error == 218 || cuda_error == 300 || cuda_error == 500);
}

bool Contradicts(const v1::ImageLoad& load) {
  const bool to_load = PredictedToLoad(load.predicted());
  if (!to_load && load.predicted() != v1::OUTCOME_FAILS) return false;
  if (load.state() == v1::LOAD_STATE_LOADED) return !to_load;
  if (load.state() != v1::LOAD_STATE_REFUSED ||
      load.cuda_error() == kOutOfMemory ||
      IsLinkInput(load.kind(), load.state(), load.cuda_error())) {
    return false;
  }
  return to_load || (load.predicted_error() != 0 &&
                     load.cuda_error() != load.predicted_error());
}

void AddImagePredictions(const v1::ArtifactReport& report,
                         const v1::HostFacts& facts, const v1::Gpu& gpu,
                         const compat::Tables& tables, bool keep_all,
                         v1::ImageLoadReport& loads) {
  const Decisions decisions = Decide(report, facts, gpu, tables);
  uint64_t contradicted = 0;
  for (v1::ImageLoad& load : *loads.mutable_images()) {
    const auto found = decisions.find(
        {load.file(), load.has_fatbin() ? load.fatbin() + 1 : 0, load.image()});
    load.set_predicted(v1::OUTCOME_UNKNOWN);
    if (found != decisions.end()) {
      load.set_predicted(found->second.outcome);
      load.set_predicted_error(found->second.cuda_error);
    }
    if (Contradicts(load)) ++contradicted;
  }
  loads.set_contradicted(contradicted);
  AddGroups(loads);
  if (!keep_all) KeepInteresting(loads);
}

void JudgeImageLoads(const v1::ImageLoadReport& loads,
                     absl::string_view gpu_uuid, VerdictBuilder& builder) {
  if (loads.gpu_uuid() != gpu_uuid) {
    builder.Inconclusive(compat::MakeReason(
        "TP418", "the images were not given to the GPU of the cell"));
  }
  for (const v1::Reason& problem : loads.problems()) {
    builder.Inconclusive(problem);
  }
  uint64_t loaded = 0;
  uint64_t refused = 0;
  uint64_t all = 0;
  uint64_t contradicted = 0;
  std::map<std::string, uint64_t> link_inputs;
  std::map<std::string, FileLoads> files;
  for (const v1::ImageLoadGroup& group : loads.groups()) {
    all += group.images();
    FileLoads& file = files[group.file()];
    file.images += group.images();
    switch (group.state()) {
      case v1::LOAD_STATE_LOADED:
        loaded += group.images();
        file.loaded += group.images();
        if (group.predicted() == v1::OUTCOME_FAILS) {
          contradicted += group.images();
        }
        break;
      case v1::LOAD_STATE_REFUSED:
        if (group.cuda_error() != kOutOfMemory) {
          refused += group.images();
          file.refused += group.images();
        }
        JudgeRefused(group, link_inputs, builder);
        break;
      default:
        JudgeUndecided(group, builder);
    }
  }
  for (const auto& [file, count] : link_inputs) {
    builder.Note(compat::MakeReason(
        "TP337", absl::StrCat(Printable(file), ": ", count,
                              " relocatable images that other pieces "
                              "complete")));
  }
  JudgeContradictions(loads, contradicted, builder);
  JudgeKernels(loads, builder);
  JudgeFiles(files, link_inputs, builder);
  if (loaded > 0) {
    builder.Proven();
  } else if (all == 0) {
    builder.Inconclusive(compat::MakeReason(
        "TP418",
        "no image was given to the driver: the files hold none, or "
        "the loader was not started"));
  } else if (refused == all && link_inputs.empty()) {
    builder.Fail(compat::MakeReason(
        "TP335", absl::StrCat("none of ", Images(all), " loads on this GPU")));
  } else {
    builder.Inconclusive(
        compat::MakeReason("TP418", "no image was seen to load"));
  }
}

}  // namespace twinpath::verdict
