// A host's libraries as its dynamic loader finds them. For loader.h. Immutable
// after construction; thread-safe.

#ifndef TWINPATH_COMPAT_LOADER_HOST_H_
#define TWINPATH_COMPAT_LOADER_HOST_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "compat/tables.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::compat {

class LoaderHost {
 public:
  // Keeps references to all three. `inherits`: processes have the host's
  // LD_LIBRARY_PATH, as users' programs do and Twinpath's runs do not.
  LoaderHost(const v1::HostFacts& facts, const v1::Gpu& gpu,
             const Tables& tables, bool inherits);

  // The path of a library in a folder, by LD_LIBRARY_PATH, and by the cache of
  // ldconfig or the default folders. Empty: none that the facts list.
  std::string FindIn(const std::string& folder, absl::string_view soname) const;
  std::string FindByLibraryPath(absl::string_view soname) const;
  std::string FindInCache(absl::string_view soname) const;

  // The path of a library that LD_LIBRARY_PATH leads to where processes do not
  // have it, for messages.
  std::string FindByUnusedLibraryPath(absl::string_view soname) const;

  // Whether the facts say what is in a folder.
  bool Knows(const std::string& folder) const;
  // Whether the facts list every library with the stem of `soname`.
  bool CompleteFor(absl::string_view soname) const;

  // Other majors of a library that the loader would find, for messages.
  std::string Others(absl::string_view soname) const;

  const v1::HostFacts& facts;
  const v1::Gpu& gpu;
  const Tables& tables;

 private:
  const std::vector<const v1::Library*>& Named(absl::string_view soname) const;

  absl::flat_hash_map<absl::string_view, std::vector<const v1::Library*>>
      by_name_;
  absl::flat_hash_set<std::string> folders_;
  std::string FindInLibraryPath(absl::string_view soname) const;

  const bool inherits_;
  std::vector<std::string> library_path_;
  absl::flat_hash_set<absl::string_view> complete_;
};

}  // namespace twinpath::compat

#endif  // TWINPATH_COMPAT_LOADER_HOST_H_
