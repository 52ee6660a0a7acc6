// One file with everything in it: the walk behind InspectFile and
// InspectOciLayout (carrier.h), and for them only. carrier.cc has the walk
// through archives and its caps, carrier_oci.cc that through oci_images. One
// object a file; not thread-safe.

#ifndef TWINPATH_INSPECT_CARRIER_WALK_H_
#define TWINPATH_INSPECT_CARRIER_WALK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/text.h"
#include "inspect/archive.h"
#include "inspect/byte_source.h"
#include "inspect/carrier.h"
#include "inspect/inspect.h"
#include "inspect/oci.h"
#include "inspect/promise.h"
#include "inspect/report_budget.h"
#include "inspect/scratch.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Between a carrier's name and that of a member.
inline constexpr char kMemberSeparator[] = "!/";
inline constexpr char kOciFormat[] = "oci_image";

class CarrierWalk {
 public:
  // The references must outlive the walk.
  CarrierWalk(uint64_t stored_bytes, const InspectOptions& options,
              Scratch& scratch, const OnReport& on_report,
              const CarrierLimits& limits, FatbinSink early)
      : stored_bytes_(stored_bytes),
        options_(options),
        scratch_(scratch),
        on_report_(on_report),
        limits_(limits),
        early_(std::move(early)),
        budget_(kMaxReportBytes) {}

  absl::Status Run(const ByteSource& source, absl::string_view name) {
    return One(source, std::string(name), nullptr);
  }

  // `unopened`: files of the layout that are not in `files`.
  absl::Status RunLayout(const OciFiles& files, const OciUnopened& unopened,
                         absl::string_view name);

 private:
  // A carrier that is being read.
  struct Level {
    Level(Level* outer, std::string name, absl::string_view format);
    v1::CarrierFacts& facts() { return *report.mutable_carrier(); }
    void Problem(absl::string_view code, absl::string_view detail);
    // What a reader found about its archive; `part` as in Members.
    void Remarks(ArchiveReader& reader, absl::string_view part = "");

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

  // Inspects a file; `outer` is the carrier it lies in, null for the first.
  absl::Status One(const ByteSource& source, std::string name, Level* outer);

  // Hands a report over. `source`: its bytes. `always`: whatever the report has
  // taken so far.
  absl::Status Emit(const ByteSource& source, v1::FileReport report,
                    Level* outer, bool always = false);

  // Ends the reading of all carriers; what was read stays. The status only
  // carries the end outwards to the carriers, which name `why`.
  absl::Status Stop(std::string why);

  // Counts a member. An error is the end of the walk.
  absl::Status CountMember(Level& level, const Member& member);

  // Counts unpacked bytes of a member of `level` that was read from `reader`.
  absl::Status CountBytes(Level& level, const Member& member, uint64_t bytes,
                          const ArchiveReader& reader, uint64_t& unpacked);
  bool Bomb(uint64_t unpacked, uint64_t stored) const;

  // Inspects an ar archive or Debian package. Returns false if it is none.
  absl::StatusOr<bool> Ar(const ByteSource& source, const std::string& name,
                          Level* outer);

  // A part of a Debian package: its data are the package's members, its control
  // files metadata.
  absl::Status DebPart(const ByteSource& source, const std::string& path,
                       Level& level);

  // Inspects a program or script with a zip behind it, which is a carrier too.
  // Returns false if it is none.
  absl::StatusOr<bool> WithZip(const ByteSource& source, absl::string_view head,
                               const std::string& name, Level* outer);

  // Inspects what libarchive opens. Returns false if it does not.
  absl::StatusOr<bool> Archive(const ByteSource& source,
                               const std::string& name, Level* outer);

  // Whether a tar is a saved oci_image, by its documents. Returns the paths
  // that its manifest.json names, where it is one; nothing where it is not.
  // One that is packed is given up at the first name that none has.
  std::optional<std::set<std::string>> FindImage(
      const ByteSource& source) const;

  // Inspects a tar that is a saved oci_image. Returns false if it is
  // another tar.
  absl::StatusOr<bool> Oci(const ByteSource& source, const std::string& name,
                           Level* outer);

  // Puts a member into the scratch space. `counted` is an error where a cap of
  // the whole walk ended it; the result's own error concerns this member only.
  absl::StatusOr<std::unique_ptr<ByteSource>> Unpack(ArchiveReader& reader,
                                                     const Member& member,
                                                     uint64_t& unpacked,
                                                     Level& level,
                                                     absl::Status& counted);

  // Adds a file of a layout to `files`.
  absl::Status Collect(ArchiveReader& reader, std::string path,
                       uint64_t& unpacked, Level& level, Spooled& spooled,
                       OciFiles& files);

  // Inspects what is in the images of a layout in the end.
  // `unopened` may be null.
  absl::Status Images(const OciFiles& files, const OciUnopened* unopened,
                      Level& level);

  // Goes through an archive; `part`: the part of the carrier that it is, if not
  // all. `inspect`: its members are the level's; otherwise they are only looked
  // at as metadata.
  absl::Status Members(ArchiveReader& reader, const std::string& part,
                       bool inspect, Level& level);

  // Gets past a member of an archive that is packed as a whole, or past the
  // rest of it: it has to be unpacked for that, which counts. `known`: that it
  // cannot be read has been said.
  absl::Status Drain(ArchiveReader& reader, const Member& member,
                     uint64_t& unpacked, Level& level, bool known = false);

  absl::Status ReadMember(ArchiveReader& reader, const Member& member,
                          bool inspect, uint64_t& unpacked, Level& level);

  // Settles a carrier whose members were read with outcome `read`.
  absl::Status Close(const ByteSource& source, Level& level,
                     const absl::Status& read);

  const uint64_t stored_bytes_;
  const InspectOptions& options_;
  Scratch& scratch_;
  const OnReport& on_report_;
  const CarrierLimits& limits_;
  const FatbinSink early_;
  ReportBudget budget_;
  uint64_t members_ = 0;
  uint64_t total_ = 0;
  // Why the walk ended before its end.
  std::string stopped_;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_CARRIER_WALK_H_
