#include "inspect/carrier.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "inspect/ar.h"
#include "inspect/archive.h"
#include "inspect/file_kind.h"
#include "inspect/oci.h"
#include "inspect/promise.h"
#include "inspect/report_budget.h"

namespace twinpath::inspect {
namespace {

constexpr int kMaxProblems = 200;
// Memory of a member's report without what is counted elsewhere; generous.
constexpr uint64_t kReportCost = 512;
constexpr char kSeparator[] = "!/";
constexpr char kDebMark[] = "debian-binary";
constexpr char kOciFormat[] = "oci_image";

// Starts of files that hold no device code and are many or large in packages.
constexpr absl::string_view kPictures[] = {
    "\x89PNG\r\n", "\xff\xd8\xff", "GIF8", "%PDF-", "OTTO", "wOFF", "wOF2"};

// Whether the member with these first bytes holds nothing to look at.
bool NothingToSee(const ContentKind& content, absl::string_view head,
                  bool whole) {
  if (head.empty()) return true;
  // A script may have a payload behind it.
  if (content.kind == v1::FILE_KIND_TEXT) {
    return whole || !absl::StartsWith(head, "#!");
  }
  if (content.kind != v1::FILE_KIND_OTHER) return false;
  return std::any_of(
      std::begin(kPictures), std::end(kPictures),
      [head](absl::string_view mark) { return absl::StartsWith(head, mark); });
}

// Whether a member's report says anything.
bool WorthReporting(const v1::FileReport& report) {
  return (report.kind() != v1::FILE_KIND_TEXT &&
          report.kind() != v1::FILE_KIND_OTHER) ||
         report.has_elf() || report.fatbins_size() > 0 ||
         report.problems_size() > 0;
}

// The name of what a compressed file holds: "x.so" for "dir/x.so.gz".
std::string NameInside(absl::string_view name) {
  const size_t cut = name.rfind(kSeparator);
  if (cut != absl::string_view::npos) name.remove_prefix(cut + 2);
  absl::string_view base = BaseName(name);
  for (const absl::string_view ending :
       {".gz", ".xz", ".zst", ".bz2", ".lz4", ".zstd"}) {
    if (base.size() > ending.size() && absl::EndsWith(base, ending)) {
      return std::string(base.substr(0, base.size() - ending.size()));
    }
  }
  return "content";
}

// One file with everything in it.
class Walk {
 public:
  Walk(uint64_t stored_bytes, const InspectOptions& options, Scratch& scratch,
       const OnReport& on_report, const CarrierLimits& limits)
      : stored_bytes_(stored_bytes),
        options_(options),
        scratch_(scratch),
        on_report_(on_report),
        limits_(limits),
        budget_(kMaxReportBytes) {}

  absl::Status Run(const ByteSource& source, absl::string_view name) {
    return One(source, std::string(name), nullptr);
  }

  // `left_out`: files of the layout that are not in `files`.
  absl::Status RunLayout(const OciFiles& files, absl::string_view name,
                         uint64_t left_out) {
    Level level(nullptr, std::string(name), kOciFormat);
    level.report.set_kind(v1::FILE_KIND_OCI_IMAGE);
    if (left_out > 0) {
      level.Problem("TP232",
                    absl::StrCat("the folder holds ", left_out,
                                 " more files than are opened at once"));
    }
    const absl::Status read = Images(files, level);
    if (!read.ok() && stopped_.empty()) return read;
    if (!stopped_.empty()) level.Problem("TP232", stopped_);
    level.report.set_size_bytes(stored_bytes_);
    level.report.set_kernels_read(options_.kernels);
    level.judge.Finish(level.report);
    return on_report_(std::move(level.report));
  }

 private:
  // A carrier that is being read.
  struct Level {
    Level(Level* outer, std::string name, absl::string_view format)
        : outer(outer),
          depth(outer == nullptr ? 1 : outer->depth + 1),
          judge(name, format) {
      report.set_name(std::move(name));
      if (outer != nullptr) report.set_member_of(outer->report.name());
      report.set_kind(v1::FILE_KIND_ARCHIVE);
      report.mutable_carrier()->set_format(std::string(format));
    }
    v1::CarrierFacts& facts() { return *report.mutable_carrier(); }
    void Problem(absl::string_view code, absl::string_view detail) {
      if (report.problems_size() > kMaxProblems) return;
      v1::Reason& reason = *report.add_problems();
      reason.set_code(std::string(code));
      reason.set_detail(report.problems_size() > kMaxProblems
                            ? "more problems with its members are left out"
                            : std::string(detail));
    }

    Level* outer;
    int depth;
    PackageJudge judge;
    // Judges the image that is being read, one after the other.
    std::unique_ptr<PackageJudge> image_judge;
    v1::FileReport report;
  };

  // A member, from whichever reader.
  struct Member {
    // Printable, for messages.
    std::string Label() const { return Printable(path); }
    std::string path;
    // As the judge knows it.
    std::string metadata_path;
    uint64_t size = 0;
  };

  // Inspects a file; `outer` is the carrier it lies in, null for the first.
  absl::Status One(const ByteSource& source, std::string name, Level* outer) {
    TWINPATH_ASSIGN_OR_RETURN(const std::string head,
                              ReadUpTo(source, 0, kHeadBytes));
    const ContentKind content = KindOfContent(head);
    const bool carrier =
        options_.members && content.reader != CarrierReader::kNone;
    const int depth = outer == nullptr ? 0 : outer->depth;
    std::string refused;
    if (carrier && depth >= limits_.nesting) {
      refused = absl::StrCat("carriers inside each other are opened down to ",
                             limits_.nesting, " levels");
      outer->Problem("TP232", absl::StrCat(refused, ", and ", Printable(name),
                                           " lies deeper"));
    } else if (carrier) {
      absl::StatusOr<bool> opened = content.reader == CarrierReader::kAr
                                        ? Ar(source, name, outer)
                                        : Archive(source, name, outer);
      if (!opened.ok()) return opened.status();
      if (*opened) return absl::OkStatus();
    }
    v1::FileReport report;
    InspectOptions options = options_;
    // Most members turn out to have nothing to say.
    if (outer != nullptr) options.digest = false;
    TWINPATH_RETURN_IF_ERROR(InspectSource(source, options, budget_, report));
    if (outer != nullptr) {
      if (!WorthReporting(report)) {
        outer->facts().set_passed_over(outer->facts().passed_over() + 1);
        return absl::OkStatus();
      }
      report.set_member_of(outer->report.name());
    }
    report.set_name(std::move(name));
    return Emit(source, std::move(report), outer);
  }

  // Hands a report over. `source`: its bytes. `always`: whatever the report has
  // taken so far.
  absl::Status Emit(const ByteSource& source, v1::FileReport report,
                    Level* outer, bool always = false) {
    if (options_.digest && !report.has_digest()) {
      TWINPATH_ASSIGN_OR_RETURN(const Sha256 digest, Sha256OfSource(source));
      report.mutable_digest()->set_sha256(digest.Raw());
    }
    if (outer != nullptr) {
      if (!always && !budget_.Take(kReportCost + report.name().size() +
                                   report.member_of().size())) {
        return Stop(absl::StrCat("the report has reached its cap at ",
                                 Printable(report.name())));
      }
      outer->facts().set_reported(outer->facts().reported() + 1);
    }
    for (Level* level = outer; level != nullptr; level = level->outer) {
      (level->image_judge ? *level->image_judge : level->judge).Member(report);
    }
    return on_report_(std::move(report));
  }

  // Ends the reading of all carriers; what was read stays. The status only
  // carries the end outwards to the carriers, which name `why`.
  absl::Status Stop(std::string why) {
    if (stopped_.empty()) stopped_ = std::move(why);
    return absl::ResourceExhaustedError(stopped_);
  }

  // Counts a member. An error is the end of the walk.
  absl::Status CountMember(Level& level, const Member& member) {
    level.facts().set_members(level.facts().members() + 1);
    if (++members_ > limits_.members) {
      return Stop(absl::StrCat("the cap of ", limits_.members,
                               " members is reached at ", member.Label()));
    }
    return absl::OkStatus();
  }

  // Counts unpacked bytes of a member of `level` that was read from `reader`.
  absl::Status CountBytes(Level& level, const Member& member, uint64_t bytes,
                          const ArchiveReader& reader, uint64_t& unpacked) {
    level.facts().set_expanded_bytes(level.facts().expanded_bytes() + bytes);
    unpacked += bytes;
    total_ += bytes;
    if (total_ > limits_.total_bytes) {
      return Stop(absl::StrCat("the cap of ", HumanBytes(limits_.total_bytes),
                               " unpacked bytes is reached at ",
                               member.Label()));
    }
    if (Bomb(unpacked, reader.stored_bytes_read()) ||
        Bomb(total_, stored_bytes_)) {
      return Stop(absl::StrCat(member.Label(), " unpacks to more than ",
                               limits_.ratio,
                               " times its stored size: a bomb"));
    }
    return absl::OkStatus();
  }
  bool Bomb(uint64_t unpacked, uint64_t stored) const {
    if (unpacked <= limits_.ratio_slack) return false;
    return (unpacked - limits_.ratio_slack) / limits_.ratio > stored;
  }

  // Inspects an ar archive or Debian package. Returns false if it is none.
  absl::StatusOr<bool> Ar(const ByteSource& source, const std::string& name,
                          Level* outer) {
    absl::StatusOr<ArReader> opened = ArReader::Open(source);
    if (absl::IsInvalidArgument(opened.status())) return false;
    TWINPATH_RETURN_IF_ERROR(opened.status());
    ArReader& reader = *opened;
    const bool deb = !reader.thin() && StartsAsDeb(source);
    Level level(outer, name, deb ? "deb" : reader.thin() ? "thin ar" : "ar");
    const auto read = [&]() -> absl::Status {
      ArMember member;
      while (true) {
        const absl::StatusOr<bool> more = reader.Next(&member);
        if (absl::IsDataLoss(more.status())) {
          level.Problem("TP233", more.status().message());
          return absl::OkStatus();
        }
        TWINPATH_RETURN_IF_ERROR(more.status());
        if (!*more) return absl::OkStatus();
        const Member known = {.path = member.path,
                              .metadata_path = member.path,
                              .size = member.size};
        if (member.external) {
          if (!budget_.Take(kReportCost + member.path.size())) {
            return Stop(absl::StrCat("the report has reached its cap at ",
                                     known.Label()));
          }
          level.facts().add_external_members(member.path);
          continue;
        }
        const PartSource part(source, member.offset, member.size);
        if (level.judge.Wants(member.path)) {
          TWINPATH_ASSIGN_OR_RETURN(const std::string text,
                                    ReadUpTo(part, 0, kMaxMetadataBytes));
          level.judge.Metadata(member.path, text);
        }
        if (deb) {
          TWINPATH_RETURN_IF_ERROR(DebPart(part, member.path, level));
          continue;
        }
        TWINPATH_RETURN_IF_ERROR(CountMember(level, known));
        level.facts().set_expanded_bytes(level.facts().expanded_bytes() +
                                         member.size);
        TWINPATH_RETURN_IF_ERROR(
            One(part, absl::StrCat(name, kSeparator, member.path), &level));
      }
    };
    TWINPATH_RETURN_IF_ERROR(Close(source, level, read()));
    return true;
  }

  static bool StartsAsDeb(const ByteSource& source) {
    absl::StatusOr<ArReader> reader = ArReader::Open(source);
    ArMember first;
    return reader.ok() && reader->Next(&first).value_or(false) &&
           first.path == kDebMark;
  }

  // A part of a Debian package: its data are the package's members, its control
  // files metadata.
  absl::Status DebPart(const ByteSource& source, const std::string& path,
                       Level& level) {
    const bool data = absl::StartsWith(path, "data.tar");
    if (!data && !absl::StartsWith(path, "control.tar")) {
      return absl::OkStatus();
    }
    absl::StatusOr<std::unique_ptr<ArchiveReader>> reader =
        ArchiveReader::Open(source);
    if (!reader.ok()) {
      level.Problem(
          absl::IsDataLoss(reader.status()) ? "TP233" : "TP232",
          absl::StrCat(Printable(path), ": ", reader.status().message()));
      return absl::OkStatus();
    }
    if (data) {
      for (const std::string& filter : (*reader)->filters()) {
        level.facts().add_filters(filter);
      }
    }
    return Members(**reader, path, data, level);
  }

  // Inspects what libarchive opens. Returns false if it does not.
  absl::StatusOr<bool> Archive(const ByteSource& source,
                               const std::string& name, Level* outer) {
    absl::StatusOr<std::unique_ptr<ArchiveReader>> opened =
        ArchiveReader::Open(source);
    if (absl::IsInvalidArgument(opened.status())) return false;
    std::string format = "archive";
    std::vector<std::string> filters;
    if (opened.ok()) {
      format = (*opened)->format();
      filters = (*opened)->filters();
      if (format == "tar") {
        TWINPATH_ASSIGN_OR_RETURN(const bool image, Oci(source, name, outer));
        if (image) return true;
      }
      if (format.empty()) {
        format = filters.back();
        filters.pop_back();
      }
    }
    Level level(outer, name, format);
    for (const std::string& filter : filters) level.facts().add_filters(filter);
    absl::Status read;
    if (opened.ok()) {
      read = Members(**opened, "", true, level);
    } else {
      level.Problem(absl::IsDataLoss(opened.status()) ? "TP233" : "TP232",
                    opened.status().message());
    }
    TWINPATH_RETURN_IF_ERROR(Close(source, level, read));
    return true;
  }

  // Files that were read into the scratch space, given up in reverse.
  struct Spooled {
    Spooled() = default;
    Spooled(const Spooled&) = delete;
    Spooled& operator=(const Spooled&) = delete;
    ~Spooled() {
      while (!sources.empty()) sources.pop_back();
    }
    std::vector<std::unique_ptr<ByteSource>> sources;
  };

  // Inspects a tar that is a saved oci_image. Returns false if it is
  // another tar, which its first name tells in nearly all cases.
  absl::StatusOr<bool> Oci(const ByteSource& source, const std::string& name,
                           Level* outer) {
    TWINPATH_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveReader> reader,
                              ArchiveReader::Open(source));
    Level level(outer, name, kOciFormat);
    level.report.set_kind(v1::FILE_KIND_OCI_IMAGE);
    for (const std::string& filter : reader->filters()) {
      level.facts().add_filters(filter);
    }
    Spooled spooled;
    OciFiles files;
    std::vector<std::string> paths;
    std::vector<std::pair<std::string, std::string>> links;
    absl::Status read;
    uint64_t unpacked = 0;
    ArchiveMember member;
    while (read.ok()) {
      const absl::StatusOr<bool> more = reader->Next(&member);
      if (!more.ok()) {
        level.Problem("TP233", more.status().message());
        break;
      }
      if (!*more) break;
      std::string path = CleanOciPath(member.path);
      if (path.empty()) continue;
      if (!MayBeOciPath(path)) return false;
      if (!member.link_target.empty()) {
        // Older docker save: layers that are there twice.
        links.emplace_back(
            path,
            CleanOciPath(member.hard_link ? member.link_target
                                          : absl::StrCat(DirName(path), "/",
                                                         member.link_target)));
      } else if (member.regular) {
        paths.push_back(path);
        read =
            Collect(*reader, std::move(path), unpacked, level, spooled, files);
      }
    }
    if (!LooksLikeOci(paths)) return false;
    for (const auto& [link, target] : links) {
      if (const auto file = files.find(target); file != files.end()) {
        files.emplace(link, file->second);
      }
    }
    if (read.ok()) read = Images(files, level);
    TWINPATH_RETURN_IF_ERROR(Close(source, level, read));
    return true;
  }

  // Puts a member into the scratch space. `counted` is an error where a cap of
  // the whole walk ended it; the result's own error concerns this member only.
  absl::StatusOr<std::unique_ptr<ByteSource>> Unpack(ArchiveReader& reader,
                                                     const Member& member,
                                                     uint64_t& unpacked,
                                                     Level& level,
                                                     absl::Status& counted) {
    uint64_t size = 0;
    return scratch_.Push([&](const Scratch::Sink& sink) {
      return reader.Read([&](absl::string_view piece) {
        size += piece.size();
        counted = CountBytes(level, member, piece.size(), reader, unpacked);
        TWINPATH_RETURN_IF_ERROR(counted);
        if (size > limits_.member_bytes) {
          return absl::ResourceExhaustedError(absl::StrCat(
              "it is above the cap of ", HumanBytes(limits_.member_bytes),
              " for one member"));
        }
        return sink(piece);
      });
    });
  }

  // Adds a file of a layout to `files`.
  absl::Status Collect(ArchiveReader& reader, std::string path,
                       uint64_t& unpacked, Level& level, Spooled& spooled,
                       OciFiles& files) {
    const Member member = {.path = path, .metadata_path = path, .size = 0};
    const absl::StatusOr<std::string> head = reader.Head(1);
    std::unique_ptr<ByteSource> bytes = head.ok() ? reader.InPlace() : nullptr;
    if (bytes == nullptr) {
      absl::Status counted;
      absl::StatusOr<std::unique_ptr<ByteSource>> pushed =
          Unpack(reader, member, unpacked, level, counted);
      TWINPATH_RETURN_IF_ERROR(counted);
      if (!pushed.ok()) {
        level.Problem("TP232", absl::StrCat(member.Label(), " is not read: ",
                                            pushed.status().message()));
        return absl::OkStatus();
      }
      bytes = *std::move(pushed);
    }
    files[std::move(path)] = bytes.get();
    spooled.sources.push_back(std::move(bytes));
    return absl::OkStatus();
  }

  // Inspects what is in the images of a layout in the end.
  absl::Status Images(const OciFiles& files, Level& level) {
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
    hooks.problem = [&](absl::string_view code, const std::string& detail) {
      level.Problem(code, detail);
    };
    hooks.image = [&](const std::string& next, absl::string_view config) {
      finish();
      label = next;
      level.image_judge = std::make_unique<PackageJudge>(
          label.empty()
              ? level.report.name()
              : absl::StrCat(level.report.name(), kSeparator, label, ":"),
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

  // Adds what another image of the same layout promises.
  static void AddPromise(const v1::PackagePromise& from,
                         v1::PackagePromise& to) {
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

  // Goes through an archive; `part`: the part of the carrier that it is, if not
  // all. `inspect`: its members are the level's; otherwise they are only looked
  // at as metadata.
  absl::Status Members(ArchiveReader& reader, const std::string& part,
                       bool inspect, Level& level) {
    uint64_t unpacked = 0;
    ArchiveMember found;
    while (true) {
      const absl::StatusOr<bool> more = reader.Next(&found);
      if (!more.ok()) {
        level.Problem("TP233",
                      absl::StrCat(Printable(part), part.empty() ? "" : ": ",
                                   more.status().message()));
        return absl::OkStatus();
      }
      if (!*more) return absl::OkStatus();
      if (!found.regular) continue;
      Member member;
      member.path = std::string(absl::StripPrefix(found.path, "./"));
      if (reader.format().empty()) {
        member.path = NameInside(level.report.name());
      }
      member.metadata_path = part.empty()
                                 ? found.path
                                 : absl::StrCat(part, kSeparator, found.path);
      member.size = found.size;
      if (inspect) TWINPATH_RETURN_IF_ERROR(CountMember(level, member));
      if (found.encrypted) {
        level.Problem("TP232", absl::StrCat(member.Label(),
                                            " is encrypted: it is not read"));
        continue;
      }
      TWINPATH_RETURN_IF_ERROR(
          ReadMember(reader, member, inspect, unpacked, level));
    }
  }

  // Gets past a member of an archive that is packed as a whole, or past the
  // rest of it: it has to be unpacked for that, which counts. Damage shows at
  // the next member.
  absl::Status Drain(ArchiveReader& reader, const Member& member,
                     uint64_t& unpacked, Level& level) {
    absl::Status counted;
    (void)reader.Read([&](absl::string_view piece) {
      counted = CountBytes(level, member, piece.size(), reader, unpacked);
      return counted;
    });
    return counted;
  }

  absl::Status ReadMember(ArchiveReader& reader, const Member& member,
                          bool inspect, uint64_t& unpacked, Level& level) {
    const absl::StatusOr<std::string> head = reader.Head(kHeadBytes);
    if (!head.ok()) {
      level.Problem("TP232", absl::StrCat(member.Label(), " cannot be read: ",
                                          head.status().message()));
      return absl::OkStatus();
    }
    if (level.judge.Wants(member.metadata_path)) {
      const absl::StatusOr<std::string> text = reader.Head(kMaxMetadataBytes);
      if (text.ok()) level.judge.Metadata(member.metadata_path, *text);
    }
    const ContentKind content = KindOfContent(*head);
    const bool whole = head->size() < kHeadBytes;
    if (!inspect || NothingToSee(content, *head, whole)) {
      if (inspect) {
        level.facts().set_passed_over(level.facts().passed_over() + 1);
      }
      if (reader.filters().empty()) {
        return CountBytes(level, member, head->size(), reader, unpacked);
      }
      return Drain(reader, member, unpacked, level);
    }
    std::string name =
        absl::StrCat(level.report.name(), kSeparator, member.path);
    if (const std::unique_ptr<ByteSource> part = reader.InPlace()) {
      level.facts().set_expanded_bytes(level.facts().expanded_bytes() +
                                       part->size());
      return One(*part, std::move(name), &level);
    }
    absl::Status counted;
    absl::StatusOr<std::unique_ptr<ByteSource>> bytes =
        Unpack(reader, member, unpacked, level, counted);
    TWINPATH_RETURN_IF_ERROR(counted);
    if (!bytes.ok()) {
      level.Problem("TP232", absl::StrCat(member.Label(), " is not inspected: ",
                                          bytes.status().message()));
      return reader.filters().empty() ? absl::OkStatus()
                                      : Drain(reader, member, unpacked, level);
    }
    return One(**bytes, std::move(name), &level);
  }

  // Settles a carrier whose members were read with outcome `read`.
  absl::Status Close(const ByteSource& source, Level& level,
                     const absl::Status& read) {
    const bool stopped = !stopped_.empty();
    if (!read.ok() && !stopped) return read;
    if (stopped) level.Problem("TP232", stopped_);
    v1::FileReport& report = level.report;
    report.set_size_bytes(source.size());
    report.set_kernels_read(options_.kernels);
    level.judge.Finish(report);
    Level* const outer = level.outer;
    if (outer == nullptr) return Emit(source, std::move(report), nullptr);
    // Its members name it.
    const bool always = level.facts().reported() > 0;
    if (level.facts().reported() == 0 && report.problems_size() == 0 &&
        level.facts().external_members_size() == 0) {
      outer->facts().set_passed_over(outer->facts().passed_over() + 1);
      return absl::OkStatus();
    }
    TWINPATH_RETURN_IF_ERROR(Emit(source, std::move(report), outer, always));
    return stopped ? absl::ResourceExhaustedError(stopped_) : absl::OkStatus();
  }

  const uint64_t stored_bytes_;
  const InspectOptions& options_;
  Scratch& scratch_;
  const OnReport& on_report_;
  const CarrierLimits& limits_;
  ReportBudget budget_;
  uint64_t members_ = 0;
  uint64_t total_ = 0;
  // Why the walk ended before its end.
  std::string stopped_;
};

}  // namespace

absl::Status InspectFile(const ByteSource& source, absl::string_view name,
                         const InspectOptions& options, Scratch& scratch,
                         const OnReport& on_report,
                         const CarrierLimits& limits) {
  return Walk(source.size(), options, scratch, on_report, limits)
      .Run(source, name);
}

absl::Status InspectOciLayout(const OciFiles& files, uint64_t left_out,
                              absl::string_view name,
                              const InspectOptions& options, Scratch& scratch,
                              const OnReport& on_report,
                              const CarrierLimits& limits) {
  uint64_t stored = 0;
  for (const auto& [path, source] : files) stored += source->size();
  return Walk(stored, options, scratch, on_report, limits)
      .RunLayout(files, name, left_out);
}

}  // namespace twinpath::inspect
