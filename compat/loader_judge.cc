#include "compat/loader_judge.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/text.h"
#include "compat/forward_compat.h"
#include "compat/library_name.h"
#include "compat/reason.h"

namespace twinpath::compat {
namespace {

// A link stub has some tens of kilobytes, the driver's libcuda 20 MB and more.
constexpr uint64_t kMaxStubBytes = 1 << 20;

// A list for a person; files that ask for thousands of names end it early.
std::string Listed(const std::vector<std::string>& parts,
                   absl::string_view separator) {
  constexpr size_t kMost = 16;
  if (parts.size() <= kMost) return absl::StrJoin(parts, separator);
  return absl::StrCat(
      absl::StrJoin(parts.begin(), parts.begin() + kMost, separator), separator,
      parts.size() - kMost, " more");
}

// Puts together what one process finds on one host.
class Judge {
 public:
  Judge(const LoaderIndex& index, const LoaderHost& host,
        const LoaderRoot& root, bool started,
        std::map<size_t, LoaderFinding>& findings, LoaderLibraries& libraries)
      : index_(index),
        host_(host),
        root_(root),
        started_(started),
        findings_(findings),
        libraries_(libraries) {}

  void Run() {
    for (const LoaderNeed& need : root_.needs) {
      if (IsDriverLibrary(need.soname)) {
        Driver(need);
        continue;
      }
      const Found found = Resolve(need);
      Record(need, found);
      if (found.source == v1::LIBRARY_SOURCE_NONE) {
        missing_.push_back(Missing(need));
      } else if (found.source == v1::LIBRARY_SOURCE_ARTIFACT_UNLISTED) {
        unlisted_.push_back(
            absl::StrCat(Printable(need.soname), " at ",
                         Printable(index_.file(*need.unlisted).name())));
      }
      if (!found.shadows.empty()) {
        Finding().remarks.push_back(MakeReason(
            "TP127", absl::StrCat(Printable(need.soname), " is taken from ",
                                  Printable(found.path), ", not from ",
                                  Printable(found.shadows))));
      }
      const LibraryName name = ParseLibraryName(need.soname);
      majors_[name.stem][name.major] = need.by;
    }
    Majors();
    Summarise();
  }

 private:
  struct Found {
    v1::LibrarySource source = v1::LIBRARY_SOURCE_UNKNOWN;
    std::string path;
    std::string by;
    // The artifact's copy that would be taken without LD_LIBRARY_PATH.
    std::string shadows;
  };

  LoaderFinding& Finding() {
    LoaderFinding& finding = findings_[root_.file];
    finding.file = root_.file;
    return finding;
  }

  Found InArtifact(size_t file, absl::string_view by) const {
    return {v1::LIBRARY_SOURCE_ARTIFACT, index_.file(file).name(),
            std::string(by), ""};
  }

  static Found OnHost(std::string path, absl::string_view by) {
    return {v1::LIBRARY_SOURCE_HOST, std::move(path), std::string(by), ""};
  }

  // One of the two search paths of the objects; nothing: go on. `unknown` is
  // set where a folder of the host that is not known is searched.
  std::optional<Found> Search(const LoaderNeed& need, bool runpath,
                              bool& unknown) const {
    const absl::string_view by = runpath ? "RUNPATH" : "RPATH";
    for (const LoaderPlace& place : need.places) {
      if (place.runpath != runpath) continue;
      if (place.file) return InArtifact(*place.file, by);
      std::string path = host_.FindIn(*place.host_folder, need.soname);
      if (!path.empty()) return OnHost(std::move(path), by);
      unknown |= !host_.Knows(*place.host_folder);
    }
    return std::nullopt;
  }

  Found Resolve(const LoaderNeed& need) const {
    bool unknown = need.unseen_folder;
    if (auto found = Search(need, /*runpath=*/false, unknown)) return *found;
    // An image brings its own root; the host's variables do not reach into it.
    if (!need.own_root) {
      std::string path = host_.FindByLibraryPath(need.soname);
      if (!path.empty()) {
        Found found = OnHost(std::move(path), "LD_LIBRARY_PATH");
        bool ignored = false;
        const auto own = Search(need, /*runpath=*/true, ignored);
        if (own && own->source == v1::LIBRARY_SOURCE_ARTIFACT) {
          found.shadows = own->path;
        }
        return found;
      }
    }
    if (auto found = Search(need, /*runpath=*/true, unknown)) return *found;
    if (need.in_default) return InArtifact(*need.in_default, "cache");
    if (need.own_root) return {};
    std::string path = host_.FindInCache(need.soname);
    if (!path.empty()) return OnHost(std::move(path), "cache");
    const bool sure = !unknown && host_.CompleteFor(need.soname);
    if (need.unlisted) {
      if (!sure) return {};
      return {v1::LIBRARY_SOURCE_ARTIFACT_UNLISTED,
              index_.file(*need.unlisted).name(), "", ""};
    }
    if (!sure) return {};
    return {v1::LIBRARY_SOURCE_NONE, "", "", ""};
  }

  void Record(const LoaderNeed& need, const Found& found) {
    v1::ResolvedLibrary library;
    library.set_soname(need.soname);
    library.set_needed_by(index_.file(need.by).name());
    library.set_source(found.source);
    library.set_path(found.path);
    library.set_found_by(found.by);
    libraries_.Add(std::move(library));
  }

  // "libcudart.so.12 (needed by lib/libx.so; the host has libcudart.so.13)".
  std::string Missing(const LoaderNeed& need) const {
    std::vector<std::string> parts;
    if (need.by != root_.file) {
      parts.push_back(
          absl::StrCat("needed by ", Printable(index_.file(need.by).name())));
    }
    if (need.other_cpu) {
      parts.push_back(absl::StrCat(
          Printable(index_.file(*need.other_cpu).name()), " is for ",
          CpuName(index_.file(*need.other_cpu).elf().cpu_architecture())));
    }
    const std::string unused = host_.FindByUnusedLibraryPath(need.soname);
    if (!unused.empty()) {
      parts.push_back(
          absl::StrCat("only LD_LIBRARY_PATH, which runs start "
                       "without, leads to ",
                       Printable(unused)));
    }
    const std::string others = host_.Others(need.soname);
    if (!others.empty()) {
      parts.push_back(absl::StrCat("the host has ", Printable(others)));
    }
    return absl::StrCat(
        Printable(need.soname),
        parts.empty() ? ""
                      : absl::StrCat(" (", absl::StrJoin(parts, "; "), ")"));
  }

  void Summarise() {
    std::vector<std::string> fatal = missing_;
    if (root_.program && started_) {
      for (const std::string& text : unlisted_) {
        fatal.push_back(absl::StrCat(text, ", where no search path leads"));
      }
      unlisted_.clear();
    }
    if (root_.program && !fatal.empty() && !Finding().blocker) {
      Finding().blocker =
          Blocker{v1::OUTCOME_FAILS,
                  MakeReason("TP231", absl::StrCat(Listed(fatal, ", "),
                                                   ": the loader stops with "
                                                   "exit code 127")),
                  ""};
    } else if (!fatal.empty()) {
      Finding().remarks.push_back(MakeReason("TP246", Listed(fatal, ", ")));
    }
    // Libraries find each other by what the process has loaded.
    if (root_.program && !unlisted_.empty()) {
      Finding().remarks.push_back(MakeReason("TP248", Listed(unlisted_, ", ")));
    }
  }

  void Majors() {
    for (const auto& [stem, by_major] : majors_) {
      if (by_major.size() < 2) continue;
      std::vector<std::string> parts;
      for (const auto& [major, by] : by_major) {
        parts.push_back(absl::StrCat(stem, ".so.", major, " (needed by ",
                                     Printable(index_.file(by).name()), ")"));
      }
      Finding().remarks.push_back(MakeReason("TP247", Listed(parts, " and ")));
    }
  }

  // The driver's library belongs to the host; what matters is a copy in the
  // artifact that is found before it.
  void Driver(const LoaderNeed& need) {
    bool ignored = false;
    auto found = Search(need, /*runpath=*/false, ignored);
    const bool by_path =
        !need.own_root && !host_.FindByLibraryPath(need.soname).empty();
    if (!found && !by_path) found = Search(need, /*runpath=*/true, ignored);
    // A renamed copy is asked for by a name the host does not have.
    if (!found && need.soname != kDriverLibrary) {
      const auto copy = need.in_default ? need.in_default : need.unlisted;
      if (copy) found = InArtifact(*copy, "");
    }
    if (!found || found->source != v1::LIBRARY_SOURCE_ARTIFACT) return;
    Record(need, *found);
    for (const size_t copy : index_.Copies(need.soname)) {
      if (index_.file(copy).name() == found->path) {
        Bundled(index_.file(copy));
        return;
      }
    }
  }

  // Runs what this is about.
  std::string RunRoot() const {
    return absl::StrCat("twinpath check ",
                        Printable(index_.file(root_.file).name()));
  }

  void Bundled(const v1::FileReport& file) {
    if (Finding().blocker) return;
    const std::string name = Printable(file.name());
    const bool stub =
        absl::StrContains(absl::StrCat("/", file.name()), "/stubs/") ||
        (file.size_bytes() > 0 && file.size_bytes() < kMaxStubBytes);
    if (stub) {
      Finding().blocker =
          Blocker{v1::OUTCOME_FAILS,
                  MakeReason("TP242",
                             absl::StrCat(name,
                                          " is a link stub and is found before "
                                          "the host's driver"),
                             "", 34),
                  ""};
      return;
    }
    absl::string_view version = BaseName(file.name());
    absl::ConsumePrefix(&version, "libcuda.so.");
    const auto parsed = DriverVersion::Parse(version);
    const bool dotted = parsed && parsed->parts.size() >= 2;
    if (file.elf().has_forward_compat()) {
      const CompatDecision decision = DecideForwardCompat(
          file.elf().forward_compat(), dotted ? version : "", host_.facts,
          host_.gpu, host_.tables);
      v1::Reason reason = decision.reason;
      reason.set_detail(absl::StrCat(name, ": ", reason.detail()));
      switch (decision.answer) {
        case CompatAnswer::kRefused:
          Finding().blocker = Blocker{v1::OUTCOME_FAILS, std::move(reason), ""};
          break;
        case CompatAnswer::kUndecided:
          Finding().blocker =
              Blocker{v1::OUTCOME_UNKNOWN, std::move(reason), RunRoot()};
          break;
        case CompatAnswer::kWorks: {
          Finding().remarks.push_back(std::move(reason));
          v1::ForwardCompatLibrary& driver = Finding().driver.emplace();
          driver.set_path(file.name());
          if (dotted) driver.set_libcuda_version(std::string(version));
          *driver.mutable_note() = file.elf().forward_compat();
          break;
        }
      }
      return;
    }
    const std::string& host = host_.facts.driver().kernel_module_version();
    if (dotted && version == host) {
      Finding().remarks.push_back(MakeReason(
          "TP242", absl::StrCat(name,
                                " is of this host's driver version, and "
                                "of no other's")));
      return;
    }
    if (dotted && DriverVersion::Parse(host)) {
      Finding().blocker =
          Blocker{v1::OUTCOME_FAILS,
                  MakeReason("TP242",
                             absl::StrCat(name,
                                          " is found before the host's "
                                          "driver, which is ",
                                          Printable(host)),
                             "", 803),
                  ""};
      return;
    }
    Finding().blocker =
        Blocker{v1::OUTCOME_UNKNOWN,
                MakeReason("TP242", absl::StrCat(name,
                                                 " is found before the host's "
                                                 "driver; its version is not "
                                                 "known")),
                RunRoot()};
  }

  const LoaderIndex& index_;
  const LoaderHost& host_;
  const LoaderRoot& root_;
  const bool started_;
  std::map<size_t, LoaderFinding>& findings_;
  LoaderLibraries& libraries_;
  std::vector<std::string> missing_;
  std::vector<std::string> unlisted_;
  std::map<std::string, std::map<uint32_t, size_t>> majors_;
};

}  // namespace

void LoaderLibraries::Add(v1::ResolvedLibrary library) {
  const std::string key =
      absl::StrCat(library.soname().size(), ":", library.soname(),
                   static_cast<int>(library.source()), library.path());
  if (seen_.insert(key).second) libraries_.push_back(std::move(library));
}

void JudgeLoading(const LoaderIndex& index, const LoaderHost& host,
                  const LoaderRoot& root, bool started,
                  std::map<size_t, LoaderFinding>& findings,
                  LoaderLibraries& libraries) {
  Judge(index, host, root, started, findings, libraries).Run();
}

}  // namespace twinpath::compat
