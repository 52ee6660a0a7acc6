// What was read of small packed cubins: libraries hold thousands of the device
// link's that are equal byte for byte.

#ifndef TWINPATH_INSPECT_PREFIX_CACHE_H_
#define TWINPATH_INSPECT_PREFIX_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "inspect/cubin.h"
#include "twinpath/v1/report.pb.h"

namespace twinpath::inspect {

// Bounded: at most kMostEntries payloads of kMostBytes. Not thread-safe.
class PrefixCache {
 public:
  static constexpr size_t kMostBytes = 2048;
  static constexpr size_t kMostEntries = 512;

  // What Put got with the same arguments; nullptr if there is none.
  const Cubin* Find(v1::Compression compression, uint64_t expanded,
                    absl::string_view stored) const {
    if (stored.size() > kMostBytes) return nullptr;
    const auto found = entries_.find(stored);
    return found != entries_.end() &&
                   found->second.compression == compression &&
                   found->second.expanded == expanded
               ? &found->second.cubin
               : nullptr;
  }
  void Put(v1::Compression compression, uint64_t expanded,
           absl::string_view stored, Cubin cubin) {
    if (stored.size() > kMostBytes || entries_.size() == kMostEntries) return;
    entries_.try_emplace(std::string(stored),
                         Entry{compression, expanded, std::move(cubin)});
  }

 private:
  struct Entry {
    v1::Compression compression;
    uint64_t expanded;
    Cubin cubin;
  };
  absl::flat_hash_map<std::string, Entry> entries_;
};

}  // namespace twinpath::inspect

#endif  // TWINPATH_INSPECT_PREFIX_CACHE_H_
