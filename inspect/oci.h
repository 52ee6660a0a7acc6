// oci_images: an OCI image layout (oci-layout, index.json, blobs/) or
// what `docker save` and others write (manifest.json and what it names), as
// files by their paths in it, whatever they come from. Finds the images,
// verifies what is named by its digest, and says which files are in an image in
// the end.
//
// Layers are walked from the top to the lowest, so that a file which a later
// layer replaces or removes is never unpacked. Rules: OCI image-spec,
// image-layout.md, image-index.md, manifest.md, layer.md.
//
// How it meets the rest: carrier_oci.cc looks for the documents in a tar,
// collects the files of an image, and calls WalkOci with hooks that inspect
// members; twinpath-inspect does the same for a folder's opened
// files (InspectRequest.oci_layout). Not thread-safe; no state between calls.

#ifndef TWINPATH_INSPECT_OCI_H_
#define TWINPATH_INSPECT_OCI_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inspect/archive.h"
#include "inspect/byte_source.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// The files of a layout by their paths in it. The bytes are the caller's and
// must outlive the call.
using OciFiles = std::map<std::string, const ByteSource*>;

// Most bytes of one index or manifest, and of one configuration; most levels of
// nesting in them.
inline constexpr uint64_t kMaxOciJsonBytes = uint64_t{4} << 20;
inline constexpr uint64_t kMaxOciConfigBytes = uint64_t{1} << 20;
// Most images of a layout, layers of an image, and documents read of a layout.
inline constexpr size_t kMaxOciImages = 64;
inline constexpr size_t kMaxOciLayers = 1024;
inline constexpr size_t kMaxOciDocuments = 1024;
// Most names of files and folders that are remembered of an image.
inline constexpr size_t kMaxOciNames = 2'000'000;

// Whether a layout may hold a file at `path`, by the names that most writers
// use.
bool MayBeOciPath(absl::string_view path);

// Whether any writer may give a file of an image this path in a tar: that of
// MayBeOciPath, a document or a tar in the top folder or one below it. Tells
// packed tars that need not be looked at further.
bool MayBeSavedImagePath(absl::string_view path, bool directory);

// The paths of configurations and layers that a manifest.json names, as
// CleanOciPath makes them. Nothing if it is no such document: a list of
// entries with Config and Layers.
std::optional<std::set<std::string>> NamesOfManifest(absl::string_view json);

// Makes "usr/lib/x" of "./usr//lib/x" and "/usr/bin/../lib/x"; what leads out
// of the root stays in it.
std::string CleanOciPath(absl::string_view path);

// Files of a layout that are there and are not in its OciFiles: why, by path.
using OciUnopened = std::map<std::string, std::string>;

// What WalkOci tells, and what it is told.
struct OciHooks {
  // May be null. Must outlive the call.
  const OciUnopened* unopened = nullptr;
  // A problem of the carrier: TP232 or TP233.
  std::function<void(absl::string_view code, const std::string& detail)>
      problem;
  // An image begins. `label` tells it from the others of the layout, and is
  // empty where there are none. `config`: its configuration, JSON; empty where
  // there is none to be read.
  std::function<void(const std::string& label, absl::string_view config)> image;
  // A regular file of the layer that `layer` reads, at its turn. `path` is the
  // one in the image, with "PLATFORM:/" before it where the layout holds
  // several images. `visible`: it is there in the end, to be inspected;
  // otherwise to be counted only. `unpacked` is a counter for the hook's use, 0
  // at the start of a layer. An error ends the walk.
  std::function<absl::Status(ArchiveReader& layer, const ArchiveMember& member,
                             const std::string& path, bool visible,
                             uint64_t& unpacked)>
      member;
};

// Reads a layout and walks its images. Adds to facts.images, and to
// facts.layers, lowest first, image after image; nothing else of `facts` is
// touched. Odd content is a
// problem; returns errors of the hooks and of reading.
absl::Status WalkOci(const OciFiles& files, const OciHooks& hooks,
                     v1::CarrierFacts& facts);

// Which files a layout's images need, as far as those in `files` tell. Only
// documents are read. What is odd about them, WalkOci says.
struct OciNeeds {
  // Documents that are neither in `files` nor in `unopened`.
  std::vector<std::string> documents;
  // Layers, those of an image from the highest down, each once.
  std::vector<std::string> layers;
};
absl::StatusOr<OciNeeds> SurveyOci(const OciFiles& files,
                                   const OciUnopened& unopened);

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_OCI_H_
