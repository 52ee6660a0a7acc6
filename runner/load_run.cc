#include "runner/load_run.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/child.h"
#include "runner/load_answer.h"
#include "runner/run_parts.h"

namespace twinpath::runner {
namespace {

constexpr absl::Duration kDefaultTime = absl::Minutes(15);
// The loader ends by itself before it is ended.
constexpr absl::Duration kLeastMargin = absl::Seconds(5);
constexpr absl::Duration kLeastTime = absl::Seconds(5);
constexpr absl::Duration kDefaultCompile = absl::Minutes(5);
// Device memory that one image may need, so that four workers stay below a
// quarter of the smallest GPUs in use (16 GiB).
constexpr uint64_t kMostImageBytes = uint64_t{1} << 30;
constexpr uint64_t kMostResultBytes = uint64_t{256} << 20;
constexpr size_t kMostFiles = 100'000;
// More share one driver without being faster.
constexpr unsigned kMostWorkers = 4;

void AddProblem(absl::string_view code, absl::string_view detail,
                uint32_t cuda_error, v1::ImageLoadReport& report) {
  v1::Reason& reason = *report.add_problems();
  reason.set_code(std::string(code));
  reason.set_detail(std::string(detail));
  reason.set_cuda_error(cuda_error);
}

// Regular files below `folder` by their names, sorted; links are not followed.
absl::StatusOr<std::vector<inspect::InspectTarget>> FilesIn(
    const std::string& folder) {
  std::vector<inspect::InspectTarget> files;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(folder, error);
  for (const std::filesystem::recursive_directory_iterator end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->symlink_status(ignored).type() !=
        std::filesystem::file_type::regular) {
      continue;
    }
    if (files.size() == kMostFiles) {
      return absl::ResourceExhaustedError("too many files");
    }
    inspect::InspectTarget& file = files.emplace_back();
    file.path = entry->path().string();
    file.name = file.path.substr(folder.size() + 1);
  }
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("reading the artifact's folder: ", error.message()));
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

// The files that the entry says it covers; all, where it names none of them.
std::vector<inspect::InspectTarget> Covered(
    const v1::Entry& entry, const std::vector<inspect::InspectTarget>& files) {
  std::vector<inspect::InspectTarget> covered;
  for (const inspect::InspectTarget& file : files) {
    if (std::find(entry.covers().begin(), entry.covers().end(), file.name) !=
        entry.covers().end()) {
      covered.push_back(file);
    }
  }
  return covered.empty() ? files : covered;
}

absl::StatusOr<std::vector<v1::FileReport>> Inspect(
    const std::vector<inspect::InspectTarget>& files) {
  inspect::InspectOptions options;
  // Where images lie and what they are; no payload is decoded for it.
  options.kernels = options.digest = options.details = options.members = false;
  std::vector<v1::FileReport> reports;
  TWINPATH_RETURN_IF_ERROR_CTX(
      inspect::InspectFiles(
          files, options,
          [&](const absl::Status& opened, size_t target,
              std::vector<v1::FileReport> found) -> absl::Status {
            if (!opened.ok()) return opened;
            if (found.empty()) return absl::OkStatus();
            reports.push_back(std::move(found[0]));
            reports.back().set_name(files[target].name);
            return absl::OkStatus();
          }),
      "reading the artifact");
  return reports;
}

int Workers(size_t images) {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const unsigned most = std::min(kMostWorkers, (cores + 1) / 2);
  return static_cast<int>(
      std::clamp<size_t>(images / 16, 1, std::max(1u, most)));
}

v1::LoadState StateOf(LoadAnswer::State state) {
  switch (state) {
    case LoadAnswer::State::kLoaded:
      return v1::LOAD_STATE_LOADED;
    case LoadAnswer::State::kRefused:
      return v1::LOAD_STATE_REFUSED;
    case LoadAnswer::State::kDied:
      return v1::LOAD_STATE_DIED;
    case LoadAnswer::State::kSlow:
      return v1::LOAD_STATE_SLOW;
    case LoadAnswer::State::kUnread:
    case LoadAnswer::State::kTooLarge:
    case LoadAnswer::State::kWaiting:
      break;
  }
  return v1::LOAD_STATE_NOT_TRIED;
}

void Fill(const LoadAnswer& answer, v1::ImageLoad& load) {
  load.set_state(StateOf(answer.state));
  load.set_linked(answer.linked);
  load.set_cuda_error(static_cast<uint32_t>(std::max(answer.cuda_error, 0)));
  load.set_log(answer.log);
  load.set_functions(answer.functions);
  SetDuration(answer.duration, load.mutable_duration());
  for (const LoadAnswer::Kernel& odd : answer.odd) {
    v1::LoadedKernel& kernel = *load.add_kernels();
    kernel.set_name(odd.name);
    kernel.set_ptx_version(odd.ptx_version);
    kernel.set_binary_version(odd.binary_version);
  }
}

// Where the sandbox shows the loader: where it lies, or a copy in the work
// folder (of a bundle unpacked below /tmp, say).
absl::StatusOr<std::string> ShownLoader(const std::string& work_directory) {
  TWINPATH_ASSIGN_OR_RETURN(const std::string program,
                            FindCompanion("twinpath-load"));
  if (HiddenBySandbox(program).empty()) return program;
  const std::string copy = JoinPath(work_directory, "twinpath-load");
  std::error_code error;
  std::filesystem::copy_file(program, copy, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("copying ", program,
                     " to where the sandbox shows it: ", error.message()));
  }
  return copy;
}

void Count(v1::ImageLoadReport& report) {
  uint64_t tried = 0;
  uint64_t loaded = 0;
  uint64_t left_out = 0;
  for (const v1::ImageLoad& load : report.images()) {
    if (load.state() == v1::LOAD_STATE_NOT_TRIED) {
      ++left_out;
    } else {
      ++tried;
      loaded += load.state() == v1::LOAD_STATE_LOADED ? 1 : 0;
    }
  }
  report.set_tried(tried);
  report.set_loaded(loaded);
  report.set_left_out(left_out);
}

// The file that twinpath-load wrote into a folder where it could do as it
// liked.
std::string ReadResult(const std::string& path) {
  const UniqueFd fd(
      open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info;
  if (!fd.valid() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return "";
  }
  absl::StatusOr<std::string> text = PreadUpTo(fd.get(), 0, kMostResultBytes);
  return text.ok() ? *std::move(text) : "";
}

// What keeps the result from being whole, as reasons.
void AddProblems(const v1::Observation& observation, bool ended,
                 const std::vector<v1::FileReport>& reports,
                 v1::ImageLoadReport& report) {
  if (observation.ending() == v1::ENDING_NOT_STARTED) {
    AddProblem(absl::StartsWith(observation.problem(), "TP") &&
                       observation.problem().size() > 5
                   ? absl::string_view(observation.problem()).substr(0, 5)
                   : "TP306",
               observation.problem(), 0, report);
  } else if (!ended) {
    AddProblem("TP336",
               absl::StrCat("the image loader did not come to its end: ",
                            EndingOf(observation)),
               0, report);
  }
  for (const v1::FileReport& file : reports) {
    if (file.has_carrier()) {
      AddProblem("TP336",
                 absl::StrCat(Printable(file.name()), ": a package (",
                              Printable(file.carrier().format()),
                              "); images inside it are not loaded: unpack it"),
                 0, report);
    }
    size_t damaged = 0;
    for (const v1::Fatbin& fatbin : file.fatbins()) {
      damaged += fatbin.damaged() ? 1 : 0;
    }
    if (damaged > 0) {
      AddProblem("TP336",
                 absl::StrCat(Printable(file.name()), ": ", damaged,
                              " damaged fatbins were not tried"),
                 0, report);
    }
  }
}

}  // namespace

absl::Duration ImagesTimeLimit(const v1::Entry& entry) {
  const absl::Duration stated = absl::Seconds(entry.timeout().seconds()) +
                                absl::Nanoseconds(entry.timeout().nanos());
  return stated > absl::ZeroDuration() ? stated : kDefaultTime;
}

std::vector<ListedImage> ImagesOf(const std::vector<v1::FileReport>& reports) {
  std::vector<ListedImage> images;
  for (const v1::FileReport& file : reports) {
    uint32_t bare = 0;
    for (const v1::Fatbin& fatbin : file.fatbins()) {
      if (fatbin.damaged()) continue;
      for (int i = 0; i < fatbin.images_size(); ++i) {
        ListedImage& image = images.emplace_back();
        image.file = &file;
        image.fatbin = &fatbin;
        image.image = &fatbin.images(i);
        image.number = fatbin.bare() ? bare++ : static_cast<uint32_t>(i);
      }
    }
  }
  return images;
}

v1::ImageLoadReport ReadLoadResult(absl::string_view text,
                                   const std::vector<ListedImage>& images) {
  v1::ImageLoadReport report;
  for (const ListedImage& listed : images) {
    v1::ImageLoad& load = *report.add_images();
    load.set_file(listed.file->name());
    if (!listed.fatbin->bare()) load.set_fatbin(listed.fatbin->index());
    load.set_image(listed.number);
    load.set_kind(listed.image->kind());
    if (listed.image->has_target()) {
      *load.mutable_target() = listed.image->target();
    }
    load.set_state(v1::LOAD_STATE_NOT_TRIED);
  }
  uint64_t kernels = 0;
  std::vector<bool> answered(images.size(), false);
  for (const absl::string_view line :
       absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (const auto answer = LoadAnswer::Parse(line); answer.ok()) {
      if (answer->id >= images.size() || answered[answer->id]) continue;
      answered[answer->id] = true;
      Fill(*answer, *report.mutable_images(static_cast<int>(answer->id)));
      kernels += answer->kernels;
    } else if (const auto hello = LoadHello::Parse(line); hello.ok()) {
      if (!hello->up) {
        AddProblem(hello->code, hello->text,
                   static_cast<uint32_t>(std::max(hello->cuda_error, 0)),
                   report);
      }
    } else if (const auto end = LoadEnd::Parse(line); end.ok()) {
      report.set_deaths(end->deaths);
      report.set_peak_device_bytes(end->peak_device_bytes);
    }
  }
  report.set_kernels(kernels);
  Count(report);
  return report;
}

v1::RunResponse RunImagesEntry(const v1::RunRequest& request,
                               const ProgramRunner& run) {
  v1::RunResponse response;
  const absl::Time start = absl::Now();
  const auto refuse = [&](absl::string_view problem) {
    *response.mutable_observation() =
        NotStarted(BeginObservation(request), problem);
    AddProblem("TP306", problem, 0, *response.mutable_image_loads());
    return response;
  };
  const absl::StatusOr<std::string> program =
      ShownLoader(request.work_directory());
  if (!program.ok()) return refuse(MessageOf(program.status()));
  const absl::StatusOr<std::vector<inspect::InspectTarget>> files =
      FilesIn(request.artifact_directory());
  if (!files.ok()) return refuse(MessageOf(files.status()));
  const absl::StatusOr<std::vector<v1::FileReport>> reports =
      Inspect(Covered(request.entry(), *files));
  if (!reports.ok()) return refuse(MessageOf(reports.status()));
  const std::vector<ListedImage> images = ImagesOf(*reports);
  if (images.size() > kMostImages) return refuse("too many images");

  const absl::Duration time =
      std::max(ImagesTimeLimit(request.entry()) - (absl::Now() - start),
               kLeastTime + kLeastMargin);
  LoadList list;
  list.time = time - std::max(kLeastMargin, time / 20);
  list.workers = Workers(images.size());
  list.memory_bytes = kMostImageBytes;
  const absl::Duration compile =
      absl::Seconds(request.entry().jit_timeout().seconds()) +
      absl::Nanoseconds(request.entry().jit_timeout().nanos());
  list.compile_limit = compile > absl::ZeroDuration()
                           ? std::max(compile, absl::Seconds(1))
                           : std::min(kDefaultCompile, list.time / 2);
  for (const v1::FileReport& report : *reports) {
    list.Add(JoinPath(request.artifact_directory(), report.name()), report);
  }
  const std::string list_path = JoinPath(request.work_directory(), "images");
  const std::string result_path = JoinPath(request.work_directory(), "loads");
  if (const absl::Status written = WriteFileAtomic(list_path, list.Text());
      !written.ok()) {
    return refuse(MessageOf(written));
  }

  // As a tool of the host: no path's switches, and files in the work folder.
  v1::RunRequest tool =
      ToolRequest(request.entry().name(), {*program, list_path, result_path},
                  request.artifact_directory(), request.work_directory(), time);
  tool.set_attempt_id(request.attempt_id());
  tool.set_path(request.path());
  *tool.mutable_gpu_uuids() = request.gpu_uuids();
  *tool.mutable_entry()->mutable_environment() = request.entry().environment();
  tool.mutable_entry()->set_memory_bytes(request.entry().memory_bytes());
  *tool.mutable_experiment_environment() = request.experiment_environment();
  tool.set_output_limit_bytes(request.output_limit_bytes());
  *response.mutable_observation() = run(tool);
  const std::string result = ReadResult(result_path);
  v1::ImageLoadReport& report = *response.mutable_image_loads();
  report = ReadLoadResult(result, images);
  // The last line, whole.
  const size_t last = result.rfind("\nend ");
  AddProblems(response.observation(),
              last != std::string::npos && result.back() == '\n', *reports,
              report);
  if (!request.gpu_uuids().empty()) report.set_gpu_uuid(request.gpu_uuids(0));
  SetDuration(absl::Now() - start, report.mutable_duration());
  return response;
}

}  // namespace twinpath::runner
