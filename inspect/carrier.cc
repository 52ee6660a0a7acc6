#include "inspect/carrier.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
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
#include "inspect/carrier_walk.h"
#include "inspect/file_kind.h"
#include "inspect/packed.h"

namespace twinpath::inspect {
namespace {

constexpr int kMaxProblems = 200;
// Memory of a member's report without what is counted elsewhere; generous.
constexpr uint64_t kReportCost = 512;
constexpr char kDebMark[] = "debian-binary";

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
  const size_t cut = name.rfind(kMemberSeparator);
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

// The problem that a failure of reading is.
absl::string_view CodeOf(const absl::Status& status) {
  return absl::IsDataLoss(status) ? "TP233" : "TP232";
}

bool StartsAsDeb(const ByteSource& source) {
  absl::StatusOr<ArReader> reader = ArReader::Open(source);
  ArMember first;
  return reader.ok() && reader->Next(&first).value_or(false) &&
         first.path == kDebMark;
}

}  // namespace

CarrierWalk::Level::Level(Level* outer, std::string name,
                          absl::string_view format)
    : outer(outer),
      depth(outer == nullptr ? 1 : outer->depth + 1),
      judge(name, format) {
  report.set_name(std::move(name));
  if (outer != nullptr) report.set_member_of(outer->report.name());
  report.set_kind(v1::FILE_KIND_ARCHIVE);
  report.mutable_carrier()->set_format(std::string(format));
}

void CarrierWalk::Level::Problem(absl::string_view code,
                                 absl::string_view detail) {
  if (report.problems_size() > kMaxProblems) return;
  v1::Reason& reason = *report.add_problems();
  reason.set_code(std::string(code));
  reason.set_detail(report.problems_size() > kMaxProblems
                        ? "more problems with its members are left out"
                        : std::string(detail));
}

void CarrierWalk::Level::Remarks(ArchiveReader& reader,
                                 absl::string_view part) {
  for (const ArchiveRemark& remark : reader.TakeRemarks()) {
    Problem(remark.code, absl::StrCat(Printable(part), part.empty() ? "" : ": ",
                                      remark.detail));
  }
}

absl::Status CarrierWalk::One(const ByteSource& source, std::string name,
                              Level* outer) {
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
  } else if (options_.members && depth < limits_.nesting) {
    TWINPATH_ASSIGN_OR_RETURN(const bool opened,
                              WithZip(source, head, name, outer));
    if (opened) return absl::OkStatus();
  }
  v1::FileReport report;
  InspectOptions options = options_;
  // Most members turn out to have nothing to say.
  if (outer != nullptr) options.digest = false;
  static const auto& none = *new FatbinSink;
  TWINPATH_RETURN_IF_ERROR(InspectSource(source, options, budget_, report,
                                         outer == nullptr ? early_ : none));
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

absl::Status CarrierWalk::Emit(const ByteSource& source, v1::FileReport report,
                               Level* outer, bool always) {
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

absl::Status CarrierWalk::Stop(std::string why) {
  if (stopped_.empty()) stopped_ = std::move(why);
  return absl::ResourceExhaustedError(stopped_);
}

absl::Status CarrierWalk::CountMember(Level& level, const Member& member) {
  level.facts().set_members(level.facts().members() + 1);
  if (++members_ > limits_.members) {
    return Stop(absl::StrCat("the cap of ", limits_.members,
                             " members is reached at ", member.Label()));
  }
  return absl::OkStatus();
}

absl::Status CarrierWalk::CountBytes(Level& level, const Member& member,
                                     uint64_t bytes,
                                     const ArchiveReader& reader,
                                     uint64_t& unpacked) {
  level.facts().set_expanded_bytes(level.facts().expanded_bytes() + bytes);
  unpacked += bytes;
  total_ += bytes;
  if (total_ > limits_.total_bytes) {
    return Stop(absl::StrCat("the cap of ", HumanBytes(limits_.total_bytes),
                             " unpacked bytes is reached at ", member.Label()));
  }
  if (Bomb(unpacked, reader.stored_bytes_read()) ||
      Bomb(total_, stored_bytes_)) {
    return Stop(absl::StrCat(member.Label(), " unpacks to more than ",
                             limits_.ratio, " times its stored size: a bomb"));
  }
  return absl::OkStatus();
}

bool CarrierWalk::Bomb(uint64_t unpacked, uint64_t stored) const {
  if (unpacked <= limits_.ratio_slack) return false;
  return (unpacked - limits_.ratio_slack) / limits_.ratio > stored;
}

absl::StatusOr<bool> CarrierWalk::Ar(const ByteSource& source,
                                     const std::string& name, Level* outer) {
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
          One(part, absl::StrCat(name, kMemberSeparator, member.path), &level));
    }
  };
  TWINPATH_RETURN_IF_ERROR(Close(source, level, read()));
  return true;
}

absl::Status CarrierWalk::DebPart(const ByteSource& source,
                                  const std::string& path, Level& level) {
  const bool data = absl::StartsWith(path, "data.tar");
  if (!data && !absl::StartsWith(path, "control.tar")) {
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<ArchiveReader>> reader =
      ArchiveReader::Open(source);
  if (!reader.ok()) {
    level.Problem(
        CodeOf(reader.status()),
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

absl::StatusOr<bool> CarrierWalk::WithZip(const ByteSource& source,
                                          absl::string_view head,
                                          const std::string& name,
                                          Level* outer) {
  TWINPATH_ASSIGN_OR_RETURN(const std::optional<uint64_t> end,
                            FindAppendedZip(source, head));
  if (!end) return false;
  const absl::StatusOr<std::unique_ptr<ArchiveReader>> reader =
      ArchiveReader::OpenAppendedZip(source);
  if (!reader.ok()) return false;
  Level level(outer, name, (*reader)->format());
  // The program is what the file is; the zip makes it a carrier. What stands
  // between them is the program's.
  {
    v1::FileReport own;
    InspectOptions options = options_;
    options.digest = false;
    static const auto& none = *new FatbinSink;
    TWINPATH_RETURN_IF_ERROR(InspectSource(PartSource(source, 0, *end), options,
                                           budget_, own, none));
    // A script is nothing by itself.
    if (own.has_elf() || WorthReporting(own)) {
      own.set_name(level.report.name());
      own.set_member_of(level.report.member_of());
      own.mutable_carrier()->Swap(level.report.mutable_carrier());
      level.report = std::move(own);
    }
  }
  TWINPATH_RETURN_IF_ERROR(
      Close(source, level, Members(**reader, "", true, level)));
  return true;
}

absl::StatusOr<bool> CarrierWalk::Archive(const ByteSource& source,
                                          const std::string& name,
                                          Level* outer) {
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
    level.Problem(CodeOf(opened.status()), opened.status().message());
  }
  TWINPATH_RETURN_IF_ERROR(Close(source, level, read));
  return true;
}

absl::StatusOr<std::unique_ptr<ByteSource>> CarrierWalk::Unpack(
    ArchiveReader& reader, const Member& member, uint64_t& unpacked,
    Level& level, absl::Status& counted) {
  uint64_t size = 0;
  return scratch_.Push([&](const Scratch::Sink& sink) {
    return reader.Read([&](absl::string_view piece) {
      size += piece.size();
      counted = CountBytes(level, member, piece.size(), reader, unpacked);
      TWINPATH_RETURN_IF_ERROR(counted);
      if (size > limits_.member_bytes) {
        return absl::ResourceExhaustedError(
            absl::StrCat("it is above the cap of ",
                         HumanBytes(limits_.member_bytes), " for one member"));
      }
      return sink(piece);
    });
  });
}

absl::Status CarrierWalk::Members(ArchiveReader& reader,
                                  const std::string& part, bool inspect,
                                  Level& level) {
  uint64_t unpacked = 0;
  // Whether a member of a name has a report; by a hash of the name.
  absl::flat_hash_map<size_t, bool> seen;
  ArchiveMember found;
  while (true) {
    const absl::StatusOr<bool> more = reader.Next(&found);
    level.Remarks(reader, part);
    if (!more.ok()) {
      level.Problem(
          absl::IsResourceExhausted(more.status()) ? "TP232" : "TP233",
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
    member.metadata_path =
        part.empty() ? found.path
                     : absl::StrCat(part, kMemberSeparator, found.path);
    member.size = found.size;
    if (inspect) TWINPATH_RETURN_IF_ERROR(CountMember(level, member));
    if (found.encrypted) {
      level.Problem("TP232", absl::StrCat(member.Label(),
                                          " is encrypted: it is not read"));
      continue;
    }
    const uint64_t reported = level.facts().reported();
    TWINPATH_RETURN_IF_ERROR(
        ReadMember(reader, member, inspect, unpacked, level));
    if (!inspect) continue;
    const bool says = level.facts().reported() > reported;
    const auto [before, first] =
        seen.try_emplace(absl::HashOf(member.path), says);
    if (!first && (says || before->second)) {
      level.Problem("TP215",
                    absl::StrCat(member.Label(),
                                 " is in it twice: each is inspected, and "
                                 "unpacking leaves the later one"));
    }
  }
}

absl::Status CarrierWalk::Drain(ArchiveReader& reader, const Member& member,
                                uint64_t& unpacked, Level& level, bool known) {
  absl::Status counted;
  const absl::Status read = reader.Read([&](absl::string_view piece) {
    counted = CountBytes(level, member, piece.size(), reader, unpacked);
    return counted;
  });
  if (counted.ok() && !read.ok() && !known) {
    level.Problem(CodeOf(read),
                  absl::StrCat(member.Label(), ": ", read.message()));
  }
  return counted;
}

absl::Status CarrierWalk::ReadMember(ArchiveReader& reader,
                                     const Member& member, bool inspect,
                                     uint64_t& unpacked, Level& level) {
  const absl::StatusOr<std::string> head = reader.Head(kHeadBytes);
  if (!head.ok()) {
    level.Problem(CodeOf(head.status()),
                  absl::StrCat(member.Label(),
                               " cannot be read: ", head.status().message()));
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
      absl::StrCat(level.report.name(), kMemberSeparator, member.path);
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
    level.Problem(CodeOf(bytes.status()),
                  absl::StrCat(member.Label(), " is not inspected: ",
                               bytes.status().message()));
    return reader.filters().empty() ? absl::OkStatus()
                                    : Drain(reader, member, unpacked, level,
                                            /*known=*/true);
  }
  return One(**bytes, std::move(name), &level);
}

absl::Status CarrierWalk::Close(const ByteSource& source, Level& level,
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
  if (!report.has_elf() && level.facts().reported() == 0 &&
      report.problems_size() == 0 &&
      level.facts().external_members_size() == 0) {
    outer->facts().set_passed_over(outer->facts().passed_over() + 1);
    return absl::OkStatus();
  }
  TWINPATH_RETURN_IF_ERROR(Emit(source, std::move(report), outer, always));
  return stopped ? absl::ResourceExhaustedError(stopped_) : absl::OkStatus();
}

absl::Status InspectFile(const ByteSource& source, absl::string_view name,
                         const InspectOptions& options, Scratch& scratch,
                         const OnReport& on_report, const CarrierLimits& limits,
                         const FatbinSink& early) {
  return CarrierWalk(source.size(), options, scratch, on_report, limits, early)
      .Run(source, name);
}

absl::Status InspectOciLayout(const OciFiles& files,
                              const OciUnopened& unopened,
                              absl::string_view name,
                              const InspectOptions& options, Scratch& scratch,
                              const OnReport& on_report,
                              const CarrierLimits& limits) {
  uint64_t stored = 0;
  for (const auto& [path, source] : files) stored += source->size();
  return CarrierWalk(stored, options, scratch, on_report, limits, nullptr)
      .RunLayout(files, unopened, name);
}

}  // namespace twinpath::inspect
