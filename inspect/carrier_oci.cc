#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/archive.h"
#include "inspect/carrier_walk.h"
#include "inspect/oci.h"
#include "inspect/oci_layout.h"
#include "inspect/promise.h"

namespace twinpath::inspect {
namespace {

// Adds what another image of the same layout promises.
void AddPromise(const v1::PackagePromise& from, v1::PackagePromise& to) {
  const auto lacks = [](const auto& list, const auto& value) {
    return std::find(list.begin(), list.end(), value) == list.end();
  };
  const bool first = to.kind().empty();
  to.set_kind(kOciFormat);
  for (const int cpu : from.cpu_architectures()) {
    if (lacks(to.cpu_architectures(), cpu)) {
      to.add_cpu_architectures(static_cast<v1::CpuArchitecture>(cpu));
    }
  }
  for (const std::string& words : from.evidence()) {
    if (lacks(to.evidence(), words)) to.add_evidence(words);
  }
  // Stated only where all images agree.
  if (first && from.has_cuda_major()) {
    to.set_cuda_major(from.cuda_major());
  } else if (!first && (from.has_cuda_major() != to.has_cuda_major() ||
                        from.cuda_major() != to.cuda_major())) {
    to.clear_cuda_major();
  }
}

}  // namespace

absl::Status CarrierWalk::RunLayout(const OciFiles& files,
                                    const OciUnopened& unopened,
                                    absl::string_view name) {
  Level level(nullptr, std::string(name), kOciFormat);
  level.report.set_kind(v1::FILE_KIND_OCI_IMAGE);
  const absl::Status read = Images(files, &unopened, level);
  if (!read.ok() && stopped_.empty()) return read;
  if (!stopped_.empty()) level.Problem("TP232", stopped_);
  level.report.set_size_bytes(stored_bytes_);
  level.report.set_kernels_read(options_.kernels);
  level.judge.Finish(level.report);
  return on_report_(std::move(level.report));
}

std::optional<std::set<std::string>> CarrierWalk::FindImage(
    const ByteSource& source) const {
  const absl::StatusOr<std::unique_ptr<ArchiveReader>> opened =
      ArchiveReader::Open(source);
  if (!opened.ok()) return std::nullopt;
  ArchiveReader& reader = **opened;
  const bool packed = !reader.filters().empty();
  std::optional<std::set<std::string>> named;
  bool usual = true;
  bool index = false;
  bool layout = false;
  bool manifest = false;
  uint64_t unpacked = 0;
  ArchiveMember member;
  while (reader.Next(&member).value_or(false)) {
    const std::string path = CleanOciPath(member.path);
    if (path.empty()) continue;
    usual = usual && MayBeOciPath(path);
    if (packed && !MayBeSavedImagePath(path, member.directory)) {
      return std::nullopt;
    }
    if (!member.regular) continue;
    index |= path == kOciIndex;
    layout |= path == kOciLayoutFile;
    if (path == kDockerManifest) {
      manifest = true;
      const absl::StatusOr<std::string> text =
          reader.Head(kMaxOciJsonBytes + 1);
      if (text.ok() && text->size() <= kMaxOciJsonBytes) {
        named = NamesOfManifest(*text);
      }
    }
    if (!packed) continue;
    const absl::Status read = reader.Read([&](absl::string_view piece) {
      unpacked += piece.size();
      return unpacked > limits_.total_bytes ||
                     Bomb(unpacked, reader.stored_bytes_read())
                 ? absl::CancelledError("a bomb")
                 : absl::OkStatus();
    });
    // What reads the members says so.
    if (absl::IsCancelled(read)) return std::nullopt;
  }
  if (named) return named;
  if ((index && layout) || (usual && (index || manifest))) {
    return std::set<std::string>();
  }
  return std::nullopt;
}

absl::StatusOr<bool> CarrierWalk::Oci(const ByteSource& source,
                                      const std::string& name, Level* outer) {
  const std::optional<std::set<std::string>> named = FindImage(source);
  if (!named) return false;
  TWINPATH_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveReader> reader,
                            ArchiveReader::Open(source));
  Level level(outer, name, kOciFormat);
  level.report.set_kind(v1::FILE_KIND_OCI_IMAGE);
  for (const std::string& filter : reader->filters()) {
    level.facts().add_filters(filter);
  }
  Spooled spooled;
  OciFiles files;
  uint64_t others = 0;
  std::string first_other;
  std::vector<std::pair<std::string, std::string>> links;
  absl::Status read;
  uint64_t unpacked = 0;
  ArchiveMember member;
  while (read.ok()) {
    const absl::StatusOr<bool> more = reader->Next(&member);
    level.Remarks(*reader);
    if (!more.ok()) {
      level.Problem(
          absl::IsResourceExhausted(more.status()) ? "TP232" : "TP233",
          more.status().message());
      break;
    }
    if (!*more) break;
    std::string path = CleanOciPath(member.path);
    if (path.empty()) continue;
    if (!MayBeOciPath(path) && !named->contains(path)) {
      if (member.regular && ++others == 1) first_other = Printable(path);
      continue;
    }
    if (!member.link_target.empty()) {
      // Older docker save: layers that are there twice.
      links.emplace_back(
          path,
          CleanOciPath(member.hard_link ? member.link_target
                                        : absl::StrCat(DirName(path), "/",
                                                       member.link_target)));
    } else if (member.regular) {
      read = Collect(*reader, std::move(path), unpacked, level, spooled, files);
    }
  }
  if (others > 0) {
    level.Problem("TP232",
                  absl::StrCat(others,
                               " files beside the image are "
                               "no part of it, and not "
                               "inspected: ",
                               first_other, others > 1 ? " and more" : ""));
  }
  for (const auto& [link, target] : links) {
    if (const auto file = files.find(target); file != files.end()) {
      files.emplace(link, file->second);
    }
  }
  if (read.ok()) read = Images(files, nullptr, level);
  TWINPATH_RETURN_IF_ERROR(Close(source, level, read));
  return true;
}

absl::Status CarrierWalk::Collect(ArchiveReader& reader, std::string path,
                                  uint64_t& unpacked, Level& level,
                                  Spooled& spooled, OciFiles& files) {
  const Member member = {.path = path, .metadata_path = path, .size = 0};
  const absl::StatusOr<std::string> head = reader.Head(1);
  std::unique_ptr<ByteSource> bytes = head.ok() ? reader.InPlace() : nullptr;
  if (bytes == nullptr) {
    absl::Status counted;
    absl::StatusOr<std::unique_ptr<ByteSource>> pushed =
        Unpack(reader, member, unpacked, level, counted);
    TWINPATH_RETURN_IF_ERROR(counted);
    if (!pushed.ok()) {
      level.Problem(absl::IsDataLoss(pushed.status()) ? "TP233" : "TP232",
                    absl::StrCat(member.Label(),
                                 " is not read: ", pushed.status().message()));
      return absl::OkStatus();
    }
    bytes = *std::move(pushed);
  }
  files[std::move(path)] = bytes.get();
  spooled.sources.push_back(std::move(bytes));
  return absl::OkStatus();
}

absl::Status CarrierWalk::Images(const OciFiles& files,
                                 const OciUnopened* unopened, Level& level) {
  std::string label;
  const auto finish = [&] {
    if (!level.image_judge) return;
    v1::FileReport own;
    level.image_judge->Finish(own);
    level.image_judge.reset();
    AddPromise(own.carrier().promise(), *level.facts().mutable_promise());
    for (const v1::Reason& reason : own.problems()) {
      level.Problem(
          reason.code(),
          absl::StrCat(label, label.empty() ? "" : ": ", reason.detail()));
    }
  };
  OciHooks hooks;
  hooks.unopened = unopened;
  hooks.problem = [&](absl::string_view code, const std::string& detail) {
    level.Problem(code, detail);
  };
  hooks.image = [&](const std::string& next, absl::string_view config) {
    finish();
    label = next;
    level.image_judge = std::make_unique<PackageJudge>(
        label.empty()
            ? level.report.name()
            : absl::StrCat(level.report.name(), kMemberSeparator, label, ":"),
        kOciFormat);
    if (!config.empty()) level.image_judge->Metadata("config", config);
  };
  hooks.member = [&](ArchiveReader& reader, const ArchiveMember& found,
                     const std::string& path, bool visible,
                     uint64_t& unpacked) -> absl::Status {
    const Member member = {
        .path = path, .metadata_path = path, .size = found.size};
    TWINPATH_RETURN_IF_ERROR(CountMember(level, member));
    if (visible) return ReadMember(reader, member, true, unpacked, level);
    return reader.filters().empty() ? absl::OkStatus()
                                    : Drain(reader, member, unpacked, level);
  };
  const absl::Status walked = WalkOci(files, hooks, level.facts());
  finish();
  return walked;
}

}  // namespace twinpath::inspect
