// What a package says about itself against what lies in it: the CPU and CUDA
// release in its name and metadata, the CPU and CUDA libraries of its members.
// Rules and sources: docs/reasons/TP236.md and following.
//
// One judge a carrier, fed in any order while the carrier is read. Memory is
// bounded: members are counted, the first of each kind is remembered. Pure; not
// thread-safe.

#ifndef TWINPATH_INSPECT_PROMISE_H_
#define TWINPATH_INSPECT_PROMISE_H_

#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Most bytes of one metadata file that are looked at.
inline constexpr uint64_t kMaxMetadataBytes = uint64_t{1} << 20;

class PackageJudge {
 public:
  // `carrier_name` is the name of the carrier's report ("dir/x.whl",
  // "all.zip!/x.whl"). `format` is what it was opened as: "zip", "tar", "ar",
  // "oci_image", ... Only packages and archives of several files are judged; a
  // judge of another format never says anything.
  PackageJudge(absl::string_view carrier_name, absl::string_view format);
  ~PackageJudge();
  PackageJudge(const PackageJudge&) = delete;
  PackageJudge& operator=(const PackageJudge&) = delete;

  // Whether `member_path`, the path inside the carrier, holds metadata that
  // Metadata has to see. For a deb the paths are "debian-binary" and, through
  // its inner archive, "control.tar.xz!/./control".
  bool Wants(absl::string_view member_path) const;

  // The bytes of a member that Wants said yes to, cut at kMaxMetadataBytes. For
  // "oci_image" any path: the image's configuration (JSON), once a platform.
  void Metadata(absl::string_view path, absl::string_view bytes);

  // The report of a member, at any depth: members of a deb's inner archives are
  // the deb's. Those of packages inside the carrier are told by their names and
  // left to the judges of these.
  void Member(const v1::FileReport& member);

  // To be called once, after all members, when the carrier's own problems
  // (caps reached) are in it. Sets carrier.carrier.format to "wheel" or "deb"
  // where it is one, carrier.carrier.promise where anything is promised, and
  // adds the problems found: TP236, TP237, TP238, TP239, TP241, TP242.
  void Finish(v1::FileReport& carrier);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_PROMISE_H_
