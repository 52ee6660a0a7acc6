// Properties every prediction has, on artifacts made by seed and hosts of all
// GPUs of the tables with all driver branches. A failing artifact is made
// smaller before it is shown.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compat/predict.h"
#include "compat/target.h"
#include "tests/compat/fake_host.h"
#include "tests/compat/generator.h"
#include "tests/compat/report_builder.h"

namespace twinpath::compat {
namespace {

using Fatbins = std::vector<std::string>;

constexpr int kNative = 0;
constexpr int kPtxJit = 1;

const v1::HostFacts& Facts(const HostWords& host) {
  static std::map<std::string, v1::HostFacts>& known =
      *new std::map<std::string, v1::HostFacts>;
  const auto [it, inserted] = known.try_emplace(host.Text());
  if (inserted) it->second = FakeHost(host.Text());
  return it->second;
}

v1::Prediction On(const HostWords& host, const v1::ArtifactReport& report,
                  const PredictOptions& options = {}) {
  const v1::HostFacts& facts = Facts(host);
  return Predict(report, facts, facts.gpus(0), TestTables(), options);
}

v1::Prediction On(const HostWords& host, const Fatbins& fatbins) {
  return On(host, MakeArtifact(fatbins));
}

bool Green(const v1::PathPrediction& path) {
  return path.outcome() == v1::OUTCOME_NATIVE ||
         path.outcome() == v1::OUTCOME_JIT;
}

bool Fails(const v1::PathPrediction& path) {
  return path.outcome() == v1::OUTCOME_FAILS;
}

std::pair<std::string, std::vector<std::string>> Halves(
    const std::string& fatbin) {
  const std::vector<std::string> halves =
      absl::StrSplit(fatbin, absl::MaxSplits(": ", 1));
  return {halves[0], absl::StrSplit(halves[1], ' ')};
}

std::string Join(const std::string& kernels,
                 const std::vector<std::string>& images) {
  return absl::StrCat(kernels, ": ", absl::StrJoin(images, " "));
}

// Whether kernels are read of some image: of LTO-IR and unknown kinds none are.
bool HoldsKernels(const std::string& fatbin) {
  for (const std::string& image : Halves(fatbin).second) {
    if (!absl::StartsWith(image, "lto_") && !absl::StartsWith(image, "other")) {
      return true;
    }
  }
  return false;
}

// Takes fatbins and images away as long as `wrong` stays true.
Fatbins Shrink(Fatbins fatbins,
               const std::function<bool(const Fatbins&)>& wrong) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t i = 0; i < fatbins.size() && fatbins.size() > 1; ++i) {
      Fatbins fewer = fatbins;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (!wrong(fewer)) continue;
      fatbins = std::move(fewer);
      smaller = true;
      break;
    }
    for (size_t i = 0; i < fatbins.size() && !smaller; ++i) {
      const auto [kernels, images] = Halves(fatbins[i]);
      for (size_t k = 0; k < images.size() && images.size() > 1; ++k) {
        std::vector<std::string> fewer = images;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(k));
        Fatbins with = fatbins;
        with[i] = Join(kernels, fewer);
        if (!wrong(with)) continue;
        fatbins = std::move(with);
        smaller = true;
        break;
      }
    }
  }
  return fatbins;
}

std::string Text(const Fatbins& fatbins) {
  return absl::StrCat("{\"", absl::StrJoin(fatbins, "\", \""), "\"}");
}

// FNV-1a: the same everywhere, unlike std::hash.
uint64_t SeedOf(const std::string& text) {
  uint64_t seed = 0xcbf29ce484222325u;
  for (const char letter : text) {
    seed = (seed ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  }
  return seed;
}

// What `check` says against artifact and host; "": nothing.
using Check = std::function<std::string(const HostWords&, const Fatbins&)>;

void ForAll(uint64_t seed, int artifacts, int hosts_each, uint32_t most_fatbins,
            const Check& check) {
  Generator generator(seed);
  const std::vector<HostWords> hosts = AllHosts();
  for (int i = 0; i < artifacts; ++i) {
    const Fatbins fatbins = generator.Fatbins(most_fatbins);
    for (int h = 0; h < hosts_each; ++h) {
      const HostWords host = generator.Of(hosts);
      if (check(host, fatbins).empty()) continue;
      const Fatbins small = Shrink(fatbins, [&](const Fatbins& fewer) {
        return !check(host, fewer).empty();
      });
      ADD_FAILURE() << host.Text() << " " << Text(small) << ": "
                    << check(host, small) << " (seed " << seed << ")";
      return;
    }
  }
}

// The artifact with one more image in fatbin `at`, at a place that
// `of_artifact` chooses.
Fatbins WithImage(Fatbins fatbins, size_t at, const std::string& added,
                  Generator& of_artifact) {
  auto [kernels, images] = Halves(fatbins[at]);
  images.insert(images.begin() +
                    of_artifact.Below(static_cast<uint32_t>(images.size()) + 1),
                added);
  fatbins[at] = Join(kernels, images);
  return fatbins;
}

// Adding an image never turns a green path red, but where the driver then takes
// just this image and it does not load: after its choice the driver tries
// nothing else. An image that the GPU cannot take at all changes no outcome.
TEST(Property, AddingAnImage) {
  ForAll(1, 1200, 8, 3, [](const HostWords& host, const Fatbins& fatbins) {
    const v1::Prediction before = On(host, fatbins);
    // The same images for the same artifact, so that shrinking is stable.
    Generator of_artifact(SeedOf(Text(fatbins)));
    const std::string added = of_artifact.Image();
    const size_t at = of_artifact.Below(static_cast<uint32_t>(fatbins.size()));
    const Fatbins more = WithImage(fatbins, at, added, of_artifact);
    const v1::Prediction after = On(host, more);
    const v1::Prediction alone =
        On(host, Fatbins{Join(Halves(fatbins[at]).first, {added})});
    for (int path = 0; path < 3; ++path) {
      const v1::PathPrediction& of_alone = alone.paths(path);
      if (Green(before.paths(path)) && !Green(after.paths(path)) &&
          Green(of_alone)) {
        return absl::StrCat("path ", path, " with ", added, ": ",
                            Answers(before), " became ", Answers(after));
      }
      const bool not_taken =
          Fails(of_alone) && of_alone.reasons(0).cuda_error() == 209;
      if (not_taken &&
          before.paths(path).outcome() != after.paths(path).outcome()) {
        return absl::StrCat("path ", path, " with ", added,
                            ", which the GPU cannot take: ", Answers(before),
                            " became ", Answers(after));
      }
    }
    return std::string();
  });
}

// PTX never changes what the native path does; only the error may then say that
// PTX would do (223 for 209).
TEST(Property, AddingPtxLeavesNativeAlone) {
  ForAll(2, 1200, 8, 3, [](const HostWords& host, const Fatbins& fatbins) {
    Generator of_artifact(SeedOf(Text(fatbins)));
    const std::string added = of_artifact.Ptx();
    const size_t at = of_artifact.Below(static_cast<uint32_t>(fatbins.size()));
    const Fatbins more = WithImage(fatbins, at, added, of_artifact);
    const v1::Prediction before = On(host, fatbins);
    const v1::Prediction after = On(host, more);
    const bool same_gaps =
        !HoldsKernels(fatbins[at]) ||
        before.paths(kNative).gaps() == after.paths(kNative).gaps();
    if (before.paths(kNative).outcome() == after.paths(kNative).outcome() &&
        same_gaps) {
      return std::string();
    }
    return absl::StrCat("with ", added, ": ", Answers(before), " became ",
                        Answers(after));
  });
}

// A newer driver of the same CUDA major takes nothing away. The rules that say
// otherwise: a branch that no longer drives the GPU (TP117), and Tile IR, of
// which a driver from CUDA 13.1 on may have the compiler (TP255: no longer
// known to fail).
TEST(Property, NewerDriverOfTheSameMajor) {
  const std::vector<DriverRow>& drivers = TestTables().drivers();
  std::set<std::string> exceptions;
  ForAll(3, 500, 1, 3, [&](const HostWords& any, const Fatbins& fatbins) {
    v1::Prediction before;
    for (size_t i = 0; i < drivers.size(); ++i) {
      const v1::Prediction now = On({any.gpu, drivers[i].branch}, fatbins);
      if (i > 0 && drivers[i].cuda.major == drivers[i - 1].cuda.major) {
        for (int path = 0; path < 3; ++path) {
          if (!Green(before.paths(path)) || Green(now.paths(path))) continue;
          bool named = false;
          for (const char* rule : {"TP117", "TP255"}) {
            if (HasReason(now.paths(path), rule)) {
              named = true;
              exceptions.insert(rule);
            }
          }
          if (named) continue;
          return absl::StrCat("path ", path, " from R", drivers[i - 1].branch,
                              " to R", drivers[i].branch, ": ", Answers(before),
                              " became ", Answers(now));
        }
      }
      before = now;
    }
    return std::string();
  });
  EXPECT_TRUE(exceptions.count("TP117")) << "the dropped GPUs were never met";
}

// Nothing depends on the order of fatbins, nor on that of images but for the
// driver's own ties: of equal machine code the first, of equal PTX the last.
TEST(Property, OrderDoesNotMatter) {
  ForAll(4, 1200, 6, 4, [](const HostWords& host, const Fatbins& fatbins) {
    Fatbins turned(fatbins.rbegin(), fatbins.rend());
    for (std::string& fatbin : turned) {
      auto [kernels, images] = Halves(fatbin);
      std::set<std::string> targets;
      bool tie = false;
      for (const std::string& image : images) {
        const absl::string_view kind =
            absl::StrContains(image, "compute") ? "ptx " : "code ";
        const std::string name = std::string(image).substr(image.find('_') + 1);
        const std::string number(
            absl::string_view(name).substr(0, name.find_first_of("af@/")));
        tie |= !absl::StartsWith(image, "other") &&
               !targets.insert(absl::StrCat(kind, number)).second;
      }
      if (!tie) std::reverse(images.begin(), images.end());
      fatbin = Join(kernels, images);
    }
    const v1::Prediction before = On(host, fatbins);
    const v1::Prediction after = On(host, turned);
    std::string wrong;
    for (int path = 0; path < 3; ++path) {
      if (before.paths(path).gaps() != after.paths(path).gaps()) {
        absl::StrAppend(&wrong, "gaps of path ", path, "; ");
      }
    }
    if (Answers(before) != Answers(after)) {
      absl::StrAppend(&wrong, Answers(before), " became ", Answers(after));
    }
    return wrong;
  });
}

// Of several files the worst speaks, whichever comes first. (Of equally bad
// ones the first is named.)
TEST(Property, TheWorstFileSpeaks) {
  const auto badness = [](v1::Outcome outcome) {
    return outcome == v1::OUTCOME_FAILS     ? 4
           : outcome == v1::OUTCOME_UNKNOWN ? 3
           : outcome == v1::OUTCOME_JIT     ? 2
           : outcome == v1::OUTCOME_NATIVE  ? 1
                                            : 0;
  };
  Generator generator(5);
  const std::vector<HostWords> hosts = AllHosts();
  for (int i = 0; i < 600; ++i) {
    const HostWords host = generator.Of(hosts);
    const v1::FileReport a = MakeFile("a", generator.Fatbins(3));
    const v1::FileReport b = MakeFile("b", generator.Fatbins(3));
    const v1::Prediction both = On(host, MakeArtifactOf({a, b}));
    const v1::Prediction turned = On(host, MakeArtifactOf({b, a}));
    for (int path = 0; path < 3; ++path) {
      int worst = 0;
      for (const auto& file : both.files()) {
        worst = std::max(worst, badness(file.paths(path).outcome()));
      }
      EXPECT_EQ(badness(both.paths(path).outcome()), worst) << host.Text();
      EXPECT_EQ(both.paths(path).outcome(), turned.paths(path).outcome());
      EXPECT_EQ(both.paths(path).gaps(), turned.paths(path).gaps());
    }
  }
}

// The driver's choice, said another way than the model says it: a list of who
// is taken before whom. nullptr: nothing is.
const std::string* Chosen(const std::vector<std::string>& images,
                          const HostWords& host, int path) {
  const uint32_t device = host.gpu;
  const bool may_compile_tile_ir = host.branch >= 590;

  const auto rank = [&](const std::string& image) -> int {
    absl::string_view word = image;
    if (absl::StartsWith(word, "other")) {
      if (word == "other16") {
        // Matched as machine code for the builder's target 9.0.
        if (path == kPtxJit) return 0;
        const Fit fit = SassFits(MakeTarget(90), device, TestTables());
        return fit == Fit::kNo || fit == Fit::kSuffixExcludes ? 0 : 60;
      }
      if (word == "other128" || word == "other32") {
        if (path == kPtxJit) return 0;
        if (word == "other128" && !may_compile_tile_ir) return 3;
        return (path == kNative ? 52 : 5) + (word == "other128" ? 2 : 0);
      }
      return path == kNative ? 58 : 10;
    }
    if (absl::StartsWith(word, "lto_")) return 0;
    const std::vector<std::string> parts =
        absl::StrSplit(word.substr(word.find(':') + 1), absl::ByAnyChar("@/"));
    const v1::Target target = ParseTarget(parts[0]).value();
    if (absl::StrContains(word, "compute")) {
      const Fit fit = PtxFits(target, device, TestTables());
      // Without JIT, PTX that fits is named in the error.
      if (fit == Fit::kYes) return 50;
      return fit == Fit::kUnknown && path != kNative ? 40 : 0;
    }
    if (path == kPtxJit) return 0;
    switch (SassFits(target, device, TestTables())) {
      case Fit::kYes:
        return 90;
      case Fit::kTegraUnpromised:
        return 80;
      case Fit::kUnknown:
        return 70;
      default:
        return 0;
    }
  };
  const auto number = [](const std::string& image) {
    const size_t at = image.find('_');
    return at == std::string::npos ? 0 : std::atoi(image.c_str() + at + 1);
  };
  const std::string* best = nullptr;
  for (const std::string& image : images) {
    if (rank(image) == 0) continue;
    const bool ptx = absl::StrContains(image, "compute");
    if (best == nullptr || rank(image) > rank(*best) ||
        (rank(image) == rank(*best) &&
         (number(image) > number(*best) ||
          (ptx && number(image) == number(*best))))) {
      best = &image;
    }
  }
  return best;
}

// A fatbin does what the image that the driver takes does alone; 209 where it
// takes none.
TEST(Property, AFatbinDoesWhatItsChosenImageDoes) {
  ForAll(6, 4000, 6, 1, [](const HostWords& host, const Fatbins& fatbins) {
    const auto [kernels, images] = Halves(fatbins[0]);
    const v1::Prediction all = On(host, fatbins);
    // A host that is out of the question says nothing about images.
    if (HasReason(all.paths(0), "TP117")) return std::string();
    for (int path = 0; path < 3; ++path) {
      const std::string* const chosen = Chosen(images, host, path);
      const std::string expected =
          chosen == nullptr
              ? "fails 209"
              : Answer(On(host, Fatbins{Join(kernels, {*chosen})}).paths(path));
      if (Answer(all.paths(path)) != expected) {
        return absl::StrCat("path ", path, ": ", Answer(all.paths(path)),
                            ", and ", chosen == nullptr ? "none" : *chosen,
                            " alone ", expected);
      }
    }
    return std::string();
  });
}

// A file is what its fatbins are together: red if none loads, unknown if more
// are unknown than load, else green; its gaps are the fatbins that do not load
// and whose kernels no other loads.
TEST(Property, AFileIsWhatItsFatbinsAre) {
  ForAll(7, 1500, 4, 5, [](const HostWords& host, const Fatbins& fatbins) {
    const v1::Prediction all = On(host, fatbins);
    if (HasReason(all.paths(0), "TP117")) return std::string();
    std::vector<v1::Prediction> alone;
    for (const std::string& fatbin : fatbins) {
      alone.push_back(On(host, Fatbins{fatbin}));
    }
    for (int path = 0; path < 3; ++path) {
      size_t native = 0, jit = 0, unknown = 0;
      std::set<std::string> covered;
      for (size_t i = 0; i < fatbins.size(); ++i) {
        const v1::PathPrediction& of = alone[i].paths(path);
        native += of.outcome() == v1::OUTCOME_NATIVE;
        jit += of.outcome() == v1::OUTCOME_JIT;
        unknown += of.outcome() == v1::OUTCOME_UNKNOWN;
        if (!Green(of)) continue;
        for (const absl::string_view kernel :
             absl::StrSplit(Halves(fatbins[i]).first, ',')) {
          covered.insert(std::string(kernel));
        }
      }
      size_t gaps = 0;
      for (size_t i = 0; i < fatbins.size(); ++i) {
        if (Green(alone[i].paths(path))) continue;
        if (!HoldsKernels(fatbins[i])) {
          // Nothing can be said to cover kernels that were not read.
          ++gaps;
          continue;
        }
        for (const absl::string_view kernel :
             absl::StrSplit(Halves(fatbins[i]).first, ',')) {
          if (covered.count(std::string(kernel)) == 0) {
            ++gaps;
            break;
          }
        }
      }
      const v1::PathPrediction& whole = all.paths(path);
      const bool green = native + jit > 0 && unknown <= native + jit;
      const std::string counts =
          absl::StrCat("path ", path, " is ", Answer(whole), " with ",
                       whole.gaps(), " gaps; native ", native, " jit ", jit,
                       " unknown ", unknown, " gaps ", gaps);
      if (Green(whole) != green) return counts;
      if (green && whole.gaps() != gaps) return counts;
      if (green && jit == 0 && whole.outcome() != v1::OUTCOME_NATIVE) {
        return counts;
      }
      if (green && native == 0 && whole.outcome() != v1::OUTCOME_JIT) {
        return counts;
      }
      if (!green && (whole.outcome() == v1::OUTCOME_UNKNOWN) != (unknown > 0)) {
        return counts;
      }
    }
    return std::string();
  });
}

std::string Bare(const v1::PathPrediction& path, const std::string& where) {
  if (path.outcome() == v1::OUTCOME_UNKNOWN && path.settled_by().empty()) {
    return absl::StrCat(where, ": unknown, with nothing that would settle it");
  }
  if (Fails(path) &&
      (path.reasons().empty() || path.reasons(0).cuda_error() == 0)) {
    return absl::StrCat(where, ": fails without an error");
  }
  return "";
}

// Every unknown names the command that settles it, every failure its error; on
// files, kernels and images too.
TEST(Property, UnknownIsSettledBySomething) {
  PredictOptions options;
  options.all_kernels = true;
  options.all_images = true;
  ForAll(8, 600, 6, 4, [&](const HostWords& host, const Fatbins& fatbins) {
    const v1::Prediction all = On(host, MakeArtifact(fatbins), options);
    std::string wrong;
    for (const auto& path : all.paths()) wrong += Bare(path, "whole");
    for (const v1::FilePrediction& file : all.files()) {
      for (const auto& path : file.paths()) wrong += Bare(path, "file");
      for (const auto& kernel : file.kernels()) {
        for (const auto& path : kernel.paths()) wrong += Bare(path, "kernel");
      }
      for (const auto& image : file.images()) {
        for (const auto& path : image.paths()) wrong += Bare(path, "image");
      }
    }
    return wrong;
  });
}

// Images of one fatbin, asked for singly, are what each alone would be.
TEST(Property, ListedImagesAreWhatTheyAreAlone) {
  PredictOptions options;
  options.all_images = true;
  ForAll(9, 1000, 4, 1, [&](const HostWords& host, const Fatbins& fatbins) {
    const auto [kernels, images] = Halves(fatbins[0]);
    const v1::Prediction all = On(host, MakeArtifact(fatbins), options);
    if (HasReason(all.paths(0), "TP117")) return std::string();
    for (size_t i = 0; i < images.size(); ++i) {
      const v1::Prediction alone =
          On(host, Fatbins{Join(kernels, {images[i]})});
      for (int path = 0; path < 3; ++path) {
        const auto& listed =
            all.files(0).images(static_cast<int>(i)).paths(path);
        if (Answer(listed) != Answer(alone.paths(path))) {
          return absl::StrCat(images[i], " path ", path, ": listed ",
                              Answer(listed), ", alone ",
                              Answer(alone.paths(path)));
        }
      }
    }
    return std::string();
  });
}

}  // namespace
}  // namespace twinpath::compat
