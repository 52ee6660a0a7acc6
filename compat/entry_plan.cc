#include "compat/entry_plan.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/file.h"

namespace twinpath::compat::internal {
namespace {

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

}  // namespace

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

}  // namespace twinpath::compat::internal
